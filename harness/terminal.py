r"""Text of others on the terminal: it must not steer it.

>>> visible("a\x1b[31mb\u202ec")
'a?[31mb?c'
"""

from __future__ import annotations


def visible(text: str) -> str:
    """One line without control characters: each of them becomes ``?``."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def lines(text: str) -> str:
    """The same, with line ends kept."""
    return "\n".join(map(visible, text.split("\n")))
