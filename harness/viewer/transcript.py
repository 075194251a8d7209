"""A record as a transcript: who was asked what, what was said, what it was read as, what it paid.

transcript(record)["moves"][0]["visible"]
"""

from __future__ import annotations

from typing import Final

from ..parsing import visible
from ..types import Json, Move, Record, Reply

CLASSES: Final = {
    "ok": "an answer was committed to",
    "unparsed": "no answer could be read",
    "illegal": "a move was read that the rules forbid",
    "truncated": "the token limit came before an answer",
    "empty": "nothing was said, outside of reasoning",
    "refused": "the model declined",
    "engine_error": "not the model's fault: the engine failed",
    "provider_error": "not the model's fault: the provider failed",
}
"""The classes of the ledger in words."""


def transcript(record: Record) -> dict[str, Json]:
    """The record as JSON for a page. Prompts that a move shares with the one before it in the same
    seat are not repeated: ``messages`` holds what is new, ``kept`` how many came before."""
    outcome, score = record.outcome, record.score
    last: dict[int, tuple[object, ...]] = {}
    moves = []
    for move in outcome.moves:
        moves.append(_move(move, last.get(move.seat, ())))
        last[move.seat] = move.messages
    return {
        **{name: getattr(record, name) for name in ("index", "sample", "split", "seed", "repeat")},
        **{name: getattr(record, name) for name in ("group", "cluster", "canonical")},
        "class": outcome.cls,
        "meaning": CLASSES.get(outcome.cls, ""),
        "value": score.value,
        "parts": dict(score.parts),
        "raw": dict(score.raw),
        "per_seat": list(score.per_seat),
        "returns": list(outcome.returns),
        "data": dict(outcome.data),
        "moves": moves,
    }


def _move(move: Move, before: tuple[object, ...]) -> dict[str, Json]:
    reply = move.reply
    thought, shown = reasoning_of(reply)
    kept = 0
    while kept < min(len(before), len(move.messages)) and before[kept] == move.messages[kept]:
        kept += 1
    return {
        "seat": move.seat,
        "number": move.number,
        "attempt": move.attempt,
        "class": move.cls,
        "meaning": CLASSES.get(move.cls, ""),
        "parsed": move.parsed,
        "visible": shown,
        "reasoning": thought,
        "drafts": [draft.text for draft in reply.drafts],
        "finish_reason": reply.finish_reason,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "kept": kept,
        "messages": [{"role": m.role, "content": m.content} for m in move.messages[kept:]],
    }


def reasoning_of(reply: Reply) -> tuple[str, str]:
    """The reasoning of a reply, and what is left: from its own field, or from tags in the text.

    >>> reasoning_of(Reply("<think>maybe 3</think>4"))
    ('<think>maybe 3</think>', '4')
    """
    shown, text = visible(reply.text), reply.text.strip()
    if reply.reasoning or text == shown:
        return reply.reasoning, shown
    whole = text.endswith(shown) and shown
    return (text.removesuffix(shown).strip() if whole else text), shown
