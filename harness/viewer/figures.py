"""The tables that are figured out of whole runs: the leaderboard, and two runs compared.

    board(["runs"], "overall")["rows"]

For large runs a process of its own does it: that takes some hundred megabytes for a million
records, and would keep the server from answering others.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

import orjson

from ..board.places import Place, StoredRun
from ..types import HarnessError, Json

LARGE: Final = 200_000
"""Records from which a process of its own is used."""


def board(places: Iterable[str], runs: Iterable[StoredRun], columns: str) -> dict[str, Json]:
    """The leaderboard as `harness leaderboard --json` has it, and the names of column presets.

    :param places: where the runs lie, as they were given.
    :param runs: the runs themselves, to see how large they are.
    :raises HarnessError: for columns that no run has.
    """
    from ..board.arenas import PRESETS, split_columns
    from ..board.formats import as_json
    from ..leaderboard import Options, make_board

    if sum(run.finished for run in runs) >= LARGE:
        found = _child("leaderboard", f"--columns={columns}", "--json", "--", *places)
    else:
        made = make_board(places, Options(columns=tuple(split_columns(columns))))
        found = orjson.loads(as_json(made))
    return {**found, "presets": list(PRESETS)}


def compared(first: StoredRun, second: StoredRun, metric: str, flips: int) -> dict[str, Json]:
    """Two runs as `harness compare --json` has them. Raises HarnessError like `compare`."""
    from ..board.formats import plain
    from ..compare import compare

    here = type(first.place) is type(second.place) is Place
    if here and first.finished + second.finished >= LARGE:
        paths = (first.place.path, second.place.path)
        return _child("compare", f"--metric={metric}", f"--flips={flips}", "--json", "--", *paths)
    found: dict[str, Json] = plain(asdict(compare(first, second, metric, flips)))
    return found


def _child(*words: str) -> dict[str, Json]:
    """What a verb prints as JSON. Raises HarnessError with what it says of bad input."""
    command = [sys.executable, "-m", "harness", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode not in (0, 1) or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["it was killed"]
        raise HarnessError(said[-1].removeprefix("harness: "))
    found: dict[str, Json] = orjson.loads(done.stdout)
    return found
