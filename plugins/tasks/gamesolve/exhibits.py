"""What a reader of a transcript sees of a game: the matrix with its equilibria, and the claims.

    exhibits(sample.data, sample.truth, move.parsed)

>>> data = {"kind": "nash", "row": [[2, 0], [0, 1]], "col": [[1, 0], [0, 2]], "format": "abstract",
...         "row_labels": ["A", "B"], "col_labels": ["X", "Y"], "context": "abstract"}
>>> matrix(data).rows, [tuple(mark) for mark in matrix(data).marks]
((('A', '2*, 1*', '0, 0'), ('B', '0, 0', '1*, 2*')), [(0, 1, 'key'), (1, 2, 'key')])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from harness.exhibits import BAD, GOOD, KEY, Exhibit, Mark, Table
from harness.types import Json

from .games import Game, Number
from .profiles import Arena, weights
from .text import Telling, start
from .truth import NASH_KINDS, RESPONSE_KINDS, opponent_strategy, responses


def exhibits(data: Mapping[str, Json], truth: Mapping[str, Json], answer: Json) -> list[Exhibit]:
    """The matrix; then equilibria and claims, or the payoffs of each action, or what was asked."""
    said = answer if isinstance(answer, Mapping) else {}
    if data["kind"] in NASH_KINDS:
        found: list[Exhibit] = [matrix(data), equilibria(data, truth)]
        return [*found, claims(data, said)] if said else found
    if data["kind"] in RESPONSE_KINDS:
        return [matrix(data), payoffs(data, said)]
    return [matrix(data), asked(data, truth, said)]


def matrix(data: Mapping[str, Json]) -> Table:
    """Both payoffs in each cell; a star on every best reply, pure equilibria marked."""
    telling, game = Telling.of(data), Game.from_data(data)
    m, n = game.shape
    best_row = [max(game.row[i][j] for i in range(m)) for j in range(n)]
    best_col = [max(line) for line in game.col]
    rows, marks = [], []
    for i in range(m):
        cells = []
        for j in range(n):
            stars = (game.row[i][j] == best_row[j], game.col[i][j] == best_col[i])
            pair = zip((data["row"][i][j], data["col"][i][j]), stars, strict=True)
            cells.append(", ".join(f"{value}{'*' if star else ''}" for value, star in pair))
            if all(stars):
                marks.append(Mark(i, j + 1, KEY))
        rows.append((telling.rows[i], *cells))
    note = (
        f"First {telling.row}, in the rows, then {telling.col}. *: a best reply to the other's "
        f"action. Outlined: pure equilibria ({len(marks)})."
    )
    return Table("Payoffs", ("", *telling.cols), tuple(rows), tuple(marks), note)


def equilibria(data: Mapping[str, Json], truth: Mapping[str, Json]) -> Table:
    """All extreme equilibria with what they pay."""
    telling = Telling.of(data)
    rows = [
        (
            str(number),
            _mixture(found["row"], telling.rows),
            _mixture(found["col"], telling.cols),
            ", ".join(found["payoffs"]),
        )
        for number, found in enumerate(truth["equilibria"], start=1)
    ]
    note = f"Class {truth['class']}."
    if truth["continuum"]:
        note += (
            " There are infinitely many: everything between the extreme ones of "
            + _families(truth["subsets"])
            + "."
        )
    titles = ("", start(telling.row), start(telling.col), "payoffs")
    return Table("Equilibria", titles, tuple(rows), note=note)


def claims(data: Mapping[str, Json], said: Mapping[str, Json]) -> Table:
    """Each profile that the reply claims, and whether it is an equilibrium."""
    telling, arena = Telling.of(data), Arena.of(data)
    m, n = arena.shape
    rows = []
    for i, j in said.get("pure") or ():
        inside = 0 <= i < m and 0 <= j < n
        profile = f"({telling.rows[i]}, {telling.cols[j]})" if inside else f"({i}, {j})"
        rows.append((profile, inside and arena.pure(i, j)))
    for claim in said.get("mixed") or ():
        x, y = weights(claim["row"], m), weights(claim["col"], n)
        profile = f"([{', '.join(claim['row'])}], [{', '.join(claim['col'])}])"
        rows.append((profile, x is not None and y is not None and arena.holds(x, y)))
    rows += [("(no profile of this game)", False)] * int(said.get("invalid") or 0)
    texts = tuple((text, "equilibrium" if right else "none") for text, right in rows)
    marks = tuple(Mark(k, 1, GOOD if right else BAD) for k, (_, right) in enumerate(rows))
    note = "" if rows else "The reply claims that there is none."
    return Table("Claims", ("claimed", "verdict"), texts, marks, note)


def payoffs(data: Mapping[str, Json], said: Mapping[str, Json]) -> Table:
    """The expected payoff of each action of the one who is asked, beside what was said."""
    telling = Telling.of(data)
    role, names = telling.player(data["responder"])
    other = "column" if data["responder"] == "row" else "row"
    against, actions = telling.player(other)
    pays = responses(data)
    best = max(pays)
    claimed = set(said.get("actions") or ())
    written = said.get("payoffs") or ()
    rows, marks = [], []
    for i, (name, pay) in enumerate(zip(names, pays, strict=True)):
        rows.append(
            (
                name,
                _number(pay),
                "best" if pay == best else "",
                written[i] if len(written) == len(pays) else "",
                "best" if i in claimed else "",
            )
        )
        if pay == best:
            marks.append(Mark(i, 2, KEY))
        if i in claimed:
            marks.append(Mark(i, 4, GOOD if pay == best else BAD))
    strategy = data.get("sigma") or opponent_strategy(data, len(actions))
    shown = _mixture([str(p) for p in strategy], actions)
    note = f"{start(against)} plays {shown}."
    if said.get("value") is not None:
        note += f" Said of the value: {said['value']}; it is {_number(best)}."
    titles = (start(role), "expected payoff", "best response", "said: payoff", "said: best")
    return Table("Best response", titles, tuple(rows), tuple(marks), note)


def asked(data: Mapping[str, Json], truth: Mapping[str, Json], said: Mapping[str, Json]) -> Table:
    """What is asked of a skill, beside what was said."""
    telling = Telling.of(data)
    role, names = telling.player(data["player"])
    if data["kind"] == "payoff":
        i, j = data["cell"]
        title = f"What {role} gets at ({telling.rows[i]}, {telling.cols[j]})"
        rows = [("payoff", truth["value"], str(said.get("value", "")))]
    else:
        title = f"Dominance among the actions of {role}"
        rows = [
            ("strictly dominated", *(_named(x, names) for x in _both(truth, said, "dominated"))),
            ("strictly dominant", *(_named(x, names) for x in _both(truth, said, "dominant"))),
        ]
    return Table(title, ("", "truth", "said"), tuple(rows))


def _both(truth: Mapping[str, Json], said: Mapping[str, Json], key: str) -> tuple[Json, Json]:
    return truth[key], said.get(key)


def _named(found: Json, names: Sequence[str]) -> str:
    places = [found] if isinstance(found, int) else found or []
    return ", ".join(names[i] if 0 <= i < len(names) else str(i) for i in places) or "none"


def _mixture(strategy: Sequence[str], names: Sequence[str]) -> str:
    """A strategy by the actions that it plays.

    >>> _mixture(["2/3", "0", "1/3"], ["A", "B", "C"])
    '2/3 A + 1/3 C'
    """
    used = [(p, name) for p, name in zip(strategy, names, strict=True) if Fraction(p)]
    if len(used) == 1:
        return used[0][1]
    return " + ".join(f"{p} {name}" for p, name in used)


def _families(subsets: Sequence[Mapping[str, Json]]) -> str:
    wide = [s for s in subsets if len(s["rows"]) > 1 or len(s["cols"]) > 1]
    return f"{len(wide)} maximal Nash subset{'' if len(wide) == 1 else 's'}"


def _number(value: Number) -> str:
    """Exact where that is short, with a decimal beside it.

    >>> _number(Fraction(-1429, 625)), _number(3)
    ('-2.2864', '3')
    """
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact)
    text = f"{float(exact):.4f}".rstrip("0")
    return text if Fraction(text) == exact else f"{exact} (about {text})"
