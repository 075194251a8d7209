"""The prompts: a game told in one of six formats, a question about it, and the form of the reply.

Every prompt says who the players are and what they can do, whose payoff comes first, who is asked
(where one player is), and how to answer. There is no second source of prompts.

>>> data = {"kind": "best_response", "row": [[3, 0], [1, 2]], "col": [[1, 1], [0, 4]],
...         "row_labels": ["Up", "Down"], "col_labels": ["X", "Y"], "format": "compact",
...         "context": "market", "responder": "row", "sigma": ["0.2500", "0.7500"]}
>>> print(messages(data)[1].content)
Two firms launch rival products in one market.
Firm 1 chooses Up or Down, and Firm 2 chooses X or Y, at the same time.
Payoffs as (Firm 1, Firm 2), so Firm 1's payoff comes first:
Up against X (3, 1), against Y (0, 1)
Down against X (1, 0), against Y (2, 4)
<BLANKLINE>
You are Firm 1: the first number of each pair is your payoff. Firm 2 plays X with probability \
0.2500 and Y with probability 0.7500.
What is your expected payoff from each of your actions, and which of them is a best response? If \
several tie for best, name them all.
<BLANKLINE>
End your reply in this form:
ANSWER:
Best response: <your best action>
Expected payoffs: [<payoff of Up>, <payoff of Down>]
Best response value: <the highest expected payoff>
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from harness.types import HarnessError, Json, Message

SYSTEM = (
    "You solve two-player games exactly. Work it out step by step, then close with a section that"
    " begins with ANSWER: and has the form that the question asks for."
)


class Scenario(NamedTuple):
    """A story: the roles as they stand in a sentence, and a sentence that sets the scene."""

    row: str
    col: str
    scene: str


SCENARIOS: Mapping[str, Scenario] = {
    "abstract": Scenario("the row player", "the column player", "Two players meet in a game."),
    "auction": Scenario("Bidder 1", "Bidder 2", "Two bidders compete for the same lot."),
    "defence": Scenario(
        "the attacker", "the defender", "An attacker plans a raid that a defender wants to stop."
    ),
    "market": Scenario("Firm 1", "Firm 2", "Two firms launch rival products in one market."),
    "negotiation": Scenario(
        "the buyer", "the seller", "A buyer and a seller prepare for their only meeting."
    ),
    "network": Scenario(
        "Router 1", "Router 2", "Two routers send their traffic through shared links."
    ),
    "politics": Scenario(
        "the incumbent", "the challenger", "An incumbent and a challenger plan their campaigns."
    ),
    "resources": Scenario(
        "Agent 1", "Agent 2", "Two agents draw on the same limited stock of resources."
    ),
}
"""The stories, by the ``context`` of a sample."""

ROLES: Mapping[str, tuple[str, str]] = {
    name: tuple(role.removeprefix("the ").capitalize() for role in scenario[:2])  # type: ignore[misc]
    for name, scenario in SCENARIOS.items()
}
"""context -> (role of the row player, role of the column player), as names without an article."""


class Telling(NamedTuple):
    """What a sample's texts are put together from."""

    data: Mapping[str, Json]
    row: str
    col: str
    rows: Sequence[str]
    cols: Sequence[str]

    @classmethod
    def of(cls, data: Mapping[str, Json]) -> Telling:
        """The telling of a sample. Raises HarnessError for a context that does not exist."""
        scenario = SCENARIOS.get(data["context"])
        if scenario is None:
            known = ", ".join(SCENARIOS)
            raise HarnessError(f"no context {data['context']!r}; choose one of {known}")
        return cls(data, scenario.row, scenario.col, data["row_labels"], data["col_labels"])

    def player(self, player: str) -> tuple[str, Sequence[str]]:
        """Role and actions of ``row`` or ``column``."""
        return (self.row, self.rows) if player == "row" else (self.col, self.cols)

    def cells(self) -> list[list[str]]:
        """The cells as ``(3, -1)``."""
        return [
            [f"({a}, {b})" for a, b in zip(*lines, strict=True)]
            for lines in zip(self.data["row"], self.data["col"], strict=True)
        ]

    def setting(self) -> str:
        """Who chooses what, in one sentence."""
        return (
            f"{start(self.row)} chooses {either(self.rows)}, and {self.col} chooses"
            f" {either(self.cols)}, at the same time."
        )

    def legend(self) -> str:
        """Whose payoff is which number."""
        return f"payoffs as ({self.row}, {self.col}), so {self.row}'s payoff comes first"


def messages(data: Mapping[str, Json], secret: str = "") -> list[Message]:
    """The prompt of a sample: a system and a user message; ``secret`` is what a teacher is told
    between the question and the form of the answer.

    Raises HarnessError for a kind, format or context that does not exist.
    """
    for key, known in (("kind", _QUESTIONS), ("format", _FORMATS)):
        if data[key] not in known:
            raise HarnessError(f"no {key} {data[key]!r}; choose one of {', '.join(known)}")
    telling = Telling.of(data)
    question, form = _QUESTIONS[data["kind"]](telling)
    game = _FORMATS[data["format"]](telling)
    told = f"{game}\n\n{question}" + (f"\n\n{secret}" if secret else "")
    user = f"{told}\n\nEnd your reply in this form:\nANSWER:\n{form}"
    return [Message("system", SYSTEM), Message("user", user)]


def start(phrase: str) -> str:
    """The phrase at the start of a sentence."""
    return phrase[0].upper() + phrase[1:]


def either(names: Sequence[str]) -> str:
    """``A or B``; ``A, B or C``."""
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def both(names: Sequence[str]) -> str:
    """``A and B``; ``A, B and C``."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


# Formats


def _abstract(telling: Telling) -> str:
    m, n = len(telling.rows), len(telling.cols)
    return (
        f"A {m} x {n} game is played once. {telling.setting()}\n"
        f"Rows are the actions of {telling.row}, columns those of {telling.col}."
        f" Each cell has the {telling.legend()}.\n\n{_table(telling)}"
    )


def _story(telling: Telling) -> str:
    scene = SCENARIOS[telling.data["context"]].scene
    return (
        f"{scene} Neither side can see what the other one does: {_lower(telling)} The table shows"
        f" what every pair of choices is worth to them, with {telling.row} in the rows and"
        f" {telling.col} in the columns. It gives the {telling.legend()}.\n\n{_table(telling)}"
    )


def _lower(telling: Telling) -> str:
    sentence = telling.setting()
    return sentence if telling.row[0].isupper() else sentence[0].lower() + sentence[1:]


def _compact(telling: Telling) -> str:
    lines = [
        f"{label} " + ", ".join(
            f"against {other} {cell}" for other, cell in zip(telling.cols, cells, strict=True)
        )
        for label, cells in zip(telling.rows, telling.cells(), strict=True)
    ]  # fmt: skip
    scene = SCENARIOS[telling.data["context"]].scene
    return f"{scene}\n{telling.setting()}\n{start(telling.legend())}:\n" + "\n".join(lines)


def _math(telling: Telling) -> str:
    def matrix(name: str, rows: Sequence[Sequence[Json]]) -> str:
        return f"{name} = [{', '.join('[' + ', '.join(map(str, row)) + ']' for row in rows)}]"

    return (
        "Let G = (N, S1, S2, u1, u2) be a game in which both players choose at the same time.\n"
        f"N = {{1, 2}}, where player 1 is {telling.row} and player 2 is {telling.col}.\n"
        f"S1 = {{{', '.join(telling.rows)}}}, S2 = {{{', '.join(telling.cols)}}}.\n"
        f"{start(telling.row)}'s payoff u1 comes first, then {telling.col}'s payoff u2. In both,"
        " row i belongs to the i-th action in S1 and column j to the j-th action in S2.\n"
        f"{matrix('u1', telling.data['row'])}\n{matrix('u2', telling.data['col'])}"
    )


def _json(telling: Telling) -> str:
    row, col = ROLES[telling.data["context"]]
    outcomes = ",\n".join(
        f'    "{label}": {{'
        + ", ".join(f'"{a}": [{cell[1:-1]}]' for a, cell in zip(telling.cols, cells, strict=True))
        + "}"
        for label, cells in zip(telling.rows, telling.cells(), strict=True)
    )  # fmt: skip
    return (
        f"The object below describes a game in which {telling.row} and {telling.col} choose at the"
        f" same time. Its outcomes are listed by the action of {telling.row}, then by that of"
        f" {telling.col}; each one holds the {telling.legend()}.\n"
        "{\n"
        f'  "actions": {{"{row}": [{_quoted(telling.rows)}],'
        f' "{col}": [{_quoted(telling.cols)}]}},\n'
        f'  "outcomes": {{\n{outcomes}\n  }}\n'
        "}"
    )


def _markdown(telling: Telling) -> str:
    lines = [
        f"| {' | '.join(line)} |"
        for line in (
            ("", *telling.cols),
            ("---",) * (len(telling.cols) + 1),
            *((label, *row) for label, row in zip(telling.rows, telling.cells(), strict=True)),
        )
    ]
    return (
        f"### {start(telling.row)} against {telling.col}\n\n{telling.setting()} **Rows** belong to"
        f" {telling.row}, **columns** to {telling.col}. Cells show the {telling.legend()}.\n\n"
    ) + "\n".join(lines)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _table(telling: Telling) -> str:
    """A table in plain text, columns aligned."""
    cells = [["", *telling.cols]]
    cells += [[label, *row] for label, row in zip(telling.rows, telling.cells(), strict=True)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


# Questions, each with the form of its answer


def _nash(telling: Telling) -> tuple[str, str]:
    return (
        "Find all Nash equilibria, pure and mixed. If mixed equilibria form a continuum, one point"
        " of it is enough. Give probabilities as fractions, in the order"
        f" {', '.join(telling.rows)} and {', '.join(telling.cols)}.",
        f"{_pure_form(telling)}\n"
        f"Mixed NE: ([<{telling.row}'s probabilities>], [<{telling.col}'s probabilities>]), ..."
        " or none",
    )


def _pure_equilibria(telling: Telling) -> tuple[str, str]:
    return "Find all Nash equilibria in pure strategies.", _pure_form(telling)


def _pure_form(telling: Telling) -> str:
    return f"Pure NE: (<{telling.row}'s action>, <{telling.col}'s action>), ... or none"


def _you(telling: Telling) -> tuple[str, str, Sequence[str], Sequence[str]]:
    """The sentence that says who is asked; the other's role; own and the other's actions."""
    responder = telling.data["responder"]
    me, mine = telling.player(responder)
    other, theirs = telling.player("column" if responder == "row" else "row")
    place = 1 if responder == "row" else 2
    if telling.data["format"] == "math":
        own = f"u{place} is your payoff"
    else:
        own = f"the {('first', 'second')[place - 1]} number of each pair is your payoff"
    return f"You are {me}: {own}.", other, mine, theirs


def _best_response(telling: Telling) -> tuple[str, str]:
    you, other, mine, theirs = _you(telling)
    odds = [f"{a} with probability {p}" for a, p in zip(theirs, telling.data["sigma"], strict=True)]
    return (
        f"{you} {start(other)} plays {both(odds)}.\nWhat is your expected payoff from each of your"
        " actions, and which of them is a best response? If several tie for best, name them all.",
        "Best response: <your best action>\n"
        f"Expected payoffs: [{', '.join(f'<payoff of {action}>' for action in mine)}]\n"
        "Best response value: <the highest expected payoff>",
    )


def _best_response_pure(telling: Telling) -> tuple[str, str]:
    you, other, _, theirs = _you(telling)
    return (
        f"{you} {start(other)} is sure to play {theirs[telling.data['opponent_action']]}.\nWhich of"
        " your actions is a best response, and what does it pay you? If several tie for best, name"
        " them all.",
        "Best response: <your best action>\nBest response value: <your payoff from it>",
    )


def _payoff(telling: Telling) -> tuple[str, str]:
    i, j = telling.data["cell"]
    player, _ = telling.player(telling.data["player"])
    return (
        f"Suppose that {telling.row} plays {telling.rows[i]} and {telling.col} plays"
        f" {telling.cols[j]}. What is the payoff of {player}?",
        "Payoff: <the number>",
    )


def _dominance(telling: Telling) -> tuple[str, str]:
    player, actions = telling.player(telling.data["player"])
    return (
        f"Take {player}, who chooses {either(actions)}. Which of these actions are strictly"
        " dominated by another single one of them? Is one of them strictly dominant, that is,"
        " strictly better than each of the others against everything the opponent can do?",
        "Dominated: <the actions, or none>\nDominant: <the action, or none>",
    )


_FORMATS: Mapping[str, Callable[[Telling], str]] = {
    "abstract": _abstract,
    "story": _story,
    "compact": _compact,
    "math": _math,
    "json": _json,
    "markdown": _markdown,
}
FORMATS = tuple(_FORMATS)
"""The formats in which a game can be told."""

_QUESTIONS: Mapping[str, Callable[[Telling], tuple[str, str]]] = {
    "nash": _nash,
    "best_response": _best_response,
    "best_response_pure": _best_response_pure,
    "payoff": _payoff,
    "dominance": _dominance,
    "pure_equilibria": _pure_equilibria,
}
KINDS = tuple(_QUESTIONS)
"""The kinds of questions."""
