"""An episode move by move: the position after each move, as its record holds it.

    steps(sample, outcome)

Where seats see different things, both views stand side by side: the reader sees all cards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.exhibits import Step, Steps
from harness.types import Json, Outcome, Sample

from .deals import opened
from .game import Skin
from .games import skin
from .position import Position

HOW: Mapping[str, str] = {
    "asked": "",
    "forced": "the only legal move, played without asking",
    "random": "drawn at random in place of the forfeited move",
}


def steps(sample: Sample, outcome: Outcome) -> Steps:
    """The episode of a match, from the position after its opening to its end."""
    data, course = sample.data, outcome.data
    look = skin(data["game"], data["variant"])
    position = opened(data["game"], data)
    first = _seats(data["model_seat"])
    opening = ", ".join(data["opening"])
    begin = Step("start", _board(position, look), f"opening: {opening}" if opening else "")
    shown = [begin, *_played(position, look, course["line"], first)]
    returns = ", ".join(f"{first[seat]} {value:g}" for seat, value in enumerate(outcome.returns))
    gone = ", ".join(first[seat] for seat in course["forfeits"])
    note = f"Returns: {returns}." + (f" Forfeited: {gone}." if gone else "")
    return Steps(look.words.get("name", data["game"]), tuple(shown), note)


def _seats(model: int) -> tuple[str, str]:
    names = [f"seat {seat} (opponent)" for seat in (0, 1)]
    names[model] = f"seat {model} (model)"
    return names[0], names[1]


def _played(
    position: Position, look: Skin, line: list[list[Json]], names: tuple[str, str]
) -> Iterator[Step]:
    """One step a decision; seats that move at once wait for each other."""
    waiting: dict[int, int] = {}
    for number, (seat, move, attempts, how) in enumerate(line, start=1):
        note = HOW.get(how, how)
        if attempts > 1:
            note = f"{attempts} attempts"
        label = f"{number}. {names[seat].partition(' (')[0]}: {move or 'gives up'}"
        if move is not None and not position.over:
            waiting[seat] = look.legal(position, seat)[move]
            if set(waiting) == set(position.seats()):
                position.play(waiting)
                waiting = {}
        yield Step(label, _board(position, look), f"{names[seat]}{', ' if note else ''}{note}")


def _board(position: Position, look: Skin) -> str:
    """What the seats see; the same for both where nothing is hidden."""
    if position.over and look.game.key == "negotiation":
        return ""
    views = [look.game.view(position, seat, look) for seat in (0, 1)]
    if not look.game.hidden or views[0] == views[1]:
        return views[0]
    return "\n\n".join(f"Seat {seat}:\n{view}" for seat, view in enumerate(views))
