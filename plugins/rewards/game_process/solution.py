"""A solution against what its question needs: the facts it establishes, and what is false in it.

>>> from harness_plugins.tasks.gamesolve.targets import target
>>> data = {"kind": "best_response_pure", "row": [[3, 0], [1, 2]], "col": [[1, 1], [0, 4]],
...         "row_labels": ["Up", "Down"], "col_labels": ["X", "Y"], "format": "compact",
...         "context": "market", "responder": "row", "opponent_action": 1}
>>> view = View.of(data)
>>> found = read("If Firm 2 plays Y, Firm 1 gets 0 from Up and 2 from Down.\\n"
...              "The most is 2, from Down.", view)
>>> covered(view, found.findings), dict(found.findings.false)
({'best_response': 1.0}, {})
>>> list(read("Against Y, Firm 1 gets 0 from Up and 1 from Down: best Down.", view).findings.false)
[('parse', 'against y, firm 1 gets 0 from up and 1 from down: best down')]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from .best import best_replies, checks, most
from .claims import (
    ARITHMETIC,
    BEST_RESPONSE,
    DOMINANCE,
    ELIMINATION,
    EQUILIBRIUM,
    PARSE,
    Claim,
    Fact,
    Findings,
    Notes,
)
from .dominance import dominations, strikes
from .equilibria import cells, failures, indifferent, profiles, read_payoffs, supports
from .sums import chains, equations, expected
from .view import View
from .words import Sentence, sentences, steps

Reader = Callable[[Sentence, View, Notes], Iterator[Claim]]

READERS: Final[tuple[Reader, ...]] = (
    dominations, strikes, best_replies, most, checks, failures, cells, read_payoffs, profiles,
    supports,
    indifferent,
)  # fmt: skip
"""What is looked for in a sentence."""


class Reading(NamedTuple):
    """What was found in a solution, and the share of quoted payoffs that are right (None where
    none is quoted)."""

    findings: Findings
    quoted: float | None


def read(reply: str, view: View) -> Reading:
    """Read the steps of a reply: linear in its length, for what is read of it."""
    everything = (tuple(range(view.size(0))), tuple(range(view.size(1))))
    notes, findings = Notes(everything), Findings()
    for line in steps(reply).split("\n"):
        if not line.strip():
            continue
        whole = list(expected(line, view, notes))
        findings.add(line.strip(), _plain(line), whole)
        if not whole and "=" in line:
            found = list(equations(line, view, notes))
            findings.add(line.strip(), _plain(line), found)
        for s in sentences(line, view.names):
            if not whole and "=" in s.text:
                findings.add(s.text, s.identity, chains(s.text, view, notes))
            for reader in READERS:
                findings.add(s.text, s.identity, reader(s, view, notes))
    total = notes.right + notes.wrong
    return Reading(findings, notes.right / total if total else None)


def _plain(line: str) -> str:
    return " ".join(line.casefold().split()).rstrip(".;:, ")


def needed(view: View) -> Mapping[str, frozenset[Fact]]:
    """The facts that a solution of the question needs, by kind of step; kinds that it does not
    need are left out."""
    found = {kind: frozenset(facts) for kind, facts in _NEEDS[view.kind](view).items()}
    return {kind: facts for kind, facts in found.items() if facts}


def covered(view: View, findings: Findings) -> dict[str, float]:
    """The share of the needed facts of each kind that a solution establishes."""
    return {
        kind: sum(map(_holds(view, findings), facts)) / len(facts)
        for kind, facts in needed(view).items()
    }


def established(view: View, findings: Findings) -> int:
    """How many of the needed facts a solution establishes."""
    holds = _holds(view, findings)
    return sum(holds(fact) for facts in needed(view).values() for fact in facts)


def _holds(view: View, findings: Findings) -> Callable[[Fact], bool]:
    """Whether a fact is there, with what it rests on."""
    facts = findings.facts
    # Whoever marks the best replies in the whole game need not strike out anything first.
    table = all(
        ("best", player, other) in facts
        for player in (0, 1)
        for other in range(view.size(1 - player))
    )
    profiles = [fact for fact in facts if fact[0] == "mixed"]

    def strategies(fact: Fact) -> list[Fact]:
        return [p for p in profiles if p[1] == fact[1]]

    def holds(fact: Fact) -> bool:
        name, *rest = fact
        if name in ("dominated", "strike", "none") and view.kind == "nash":
            return fact in facts or table
        if name == "pure":
            i, j = rest
            return fact in facts and {("best", 0, j), ("best", 1, i)} <= facts.keys()
        if name == "no pure":
            columns = (("best", p, o) for p in (0, 1) for o in view.alive[1 - p])
            return fact in facts and all(column in facts for column in columns)
        if name == "most":
            actions = range(view.size(view.me))
            return fact in facts and all(("expected", a) in facts for a in actions)
        if name == "mixed":
            return any(
                {("check", 1, p[2]), ("check", 0, p[3])} <= facts.keys() for p in strategies(fact)
            )
        return fact in facts

    return holds


# What each kind of question needs


def _pure(view: View) -> dict[str, list[Fact]]:
    best: list[Fact] = [("best", p, o) for p in (0, 1) for o in view.alive[1 - p]]
    pure: list[Fact] = [("pure", i, j) for i, j in view.truth["pure"]]
    return {BEST_RESPONSE: best, EQUILIBRIUM: pure or [("no pure",)]}


def _pure_equilibria(view: View) -> dict[str, list[Fact]]:
    found = _pure(view)
    everything = [("best", p, o) for p in (0, 1) for o in range(view.size(1 - p))]
    return {**found, BEST_RESPONSE: list(everything)}


def _nash(view: View) -> dict[str, list[Fact]]:
    found = _pure(view)
    gone = [(p, a) for p in (0, 1) for a in range(view.size(p)) if a not in view.alive[p]]
    found[DOMINANCE] = [("dominated", p, a) for p, a in gone] or [("none",)]
    found[ELIMINATION] = [("strike", p, a) for p, a in gone]
    found[ELIMINATION] += [("support", *pair) for pair in view.failing]
    found[ARITHMETIC] = []
    for k, (_, subset) in enumerate(view.open_subsets):
        found[EQUILIBRIUM].append(("mixed", k))
        if len(subset["rows"]) == len(subset["cols"]) == 1:
            for player, strategy in ((0, subset["rows"][0]), (1, subset["cols"][0])):
                if "1" not in strategy:
                    found[ARITHMETIC].append(("solved", player, tuple(strategy)))
                found[BEST_RESPONSE].append(("check", 1 - player, tuple(strategy)))
    return found


def _best_response(view: View) -> dict[str, list[Fact]]:
    actions = range(view.size(view.me))
    return {ARITHMETIC: [("expected", a) for a in actions], BEST_RESPONSE: [("most",)]}


def _best_response_pure(view: View) -> dict[str, list[Fact]]:
    return {BEST_RESPONSE: [("best", view.me, view.data["opponent_action"])]}


def _payoff(view: View) -> dict[str, list[Fact]]:
    return {PARSE: [("cell", *view.data["cell"]), ("place", view.me)]}


def _dominance(view: View) -> dict[str, list[Fact]]:
    losers = set(view.truth["dominated"])
    facts: list[Fact] = [
        ("dominated", view.me, a) if a in losers else ("undominated", view.me, a)
        for a in range(view.size(view.me))
    ]
    return {DOMINANCE: [*facts, ("dominant",)]}


_NEEDS: Final[Mapping[str, Callable[[View], dict[str, list[Fact]]]]] = {
    "nash": _nash,
    "pure_equilibria": _pure_equilibria,
    "best_response": _best_response,
    "best_response_pure": _best_response_pure,
    "payoff": _payoff,
    "dominance": _dominance,
}
