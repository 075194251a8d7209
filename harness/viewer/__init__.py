"""The viewer: runs, leaderboard, transcripts and comparisons in a browser.

    harness view runs                     # a server on this machine
    harness view runs --static site       # the same as files

`catalogue` finds the runs, `sources` read records without loading them all, `queries` filter and
search them, `pages` make what the browser asks for, `server` and `static` hand it out.
"""
