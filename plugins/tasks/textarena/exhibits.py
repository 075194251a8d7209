"""An episode move by move: the environment is played again from the record's moves.

    steps(sample, outcome, conduct)

What each step shows is the environment's own board, or what the adapter tells the seat that moved.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.exhibits import Step, Steps
from harness.types import HarnessError, Json, Outcome, Sample

from .adapters import adapter
from .episode import Conduct, opened
from .session import Session

HOW: Mapping[str, str] = {
    "asked": "",
    "forced": "played without asking",
    "opening": "drawn at random",
    "talk": "says",
}


def steps(sample: Sample, outcome: Outcome, conduct: Conduct) -> Steps:
    """The episode from its start to its end; without boards where the library is missing or its
    version plays otherwise."""
    data = sample.data
    line = outcome.data["line"]
    note = f"{outcome.data['ended']}. {outcome.data['reason']}".strip()
    if not adapter(data["env"]).listed:
        return Steps(data["env"], _bare(line, data["model_seat"]), note)
    try:
        return Steps(data["env"], _played(sample, line, conduct), note)
    except (HarnessError, RuntimeError) as error:
        return Steps(data["env"], _bare(line, data["model_seat"]), f"{note} No boards: {error}")


def _played(sample: Sample, line: list[list[Json]], conduct: Conduct) -> tuple[Step, ...]:
    session = opened(sample, conduct)
    labels = _bare(line, sample.data["model_seat"])
    found = [Step("start", _board(session, 0))]
    for (seat, move, _, how), label in zip(line, labels, strict=True):
        if session.done:
            break
        if how == "talk":
            session.step(move or "(says nothing)", talk=True)
        elif move is not None:
            session.step(move)
        found.append(Step(label.label, _board(session, seat), label.note))
    return tuple(found)


def _bare(line: list[list[Json]], model: int) -> tuple[Step, ...]:
    """The moves alone."""
    return tuple(
        Step(
            f"{number}. seat {seat}: {move or ('(nothing)' if how == 'talk' else 'gives up')}",
            "",
            _note(seat == model, attempts, how),
        )
        for number, (seat, move, attempts, how) in enumerate(line, start=1)
    )


def _note(own: bool, attempts: int, how: str) -> str:
    parts = ["model" if own else "opponent", HOW.get(how, how)]
    parts.append(f"{attempts} attempts" if attempts > 1 else "")
    return ", ".join(part for part in parts if part)


def _board(session: Session, seat: int) -> str:
    """The last board of the environment to a seat, and what the adapter adds."""
    boards = [event.text for event in session.events[seat] if event.kind == "GAME_BOARD"]
    parts = boards[-1:] if session.adapter.board else []
    if not session.done and (own := session.adapter.view(session.env, seat)):
        parts = [*parts, own]
    return "\n\n".join(parts)
