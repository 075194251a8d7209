"""The values that travel between tasks, players, models, rewards and the run folder.

All are small, frozen and hold nothing but JSON inside, so every one of them can be written to a
journal, read back and scored again. Numbers that must stay exact travel as strings ("2/3").

>>> reply = Reply(text="ANSWER: 3", finish_reason="stop")
>>> move = Move(seat=0, reply=reply, parsed=3, cls=OK)
>>> Outcome(moves=(move,), cls=OK).moves[-1].parsed
3
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict with string keys."""

# Outcome ledger (one class for each move, and for each record by its deciding fault).
OK: Final = "ok"
UNPARSED: Final = "unparsed"
ILLEGAL: Final = "illegal"
TRUNCATED: Final = "truncated"
EMPTY: Final = "empty"
REFUSED: Final = "refused"
ENGINE_ERROR: Final = "engine_error"
PROVIDER_ERROR: Final = "provider_error"

CLASSES: Final = (
    OK,
    UNPARSED,
    ILLEGAL,
    TRUNCATED,
    EMPTY,
    REFUSED,
    ENGINE_ERROR,
    PROVIDER_ERROR,
)
"""All classes, in the order in which tables show them."""

MODEL_FAULTS: Final = frozenset({UNPARSED, ILLEGAL, TRUNCATED, EMPTY, REFUSED})
"""Faults of the model: they stay in every denominator."""

INFRASTRUCTURE_FAULTS: Final = frozenset({ENGINE_ERROR, PROVIDER_ERROR})
"""Faults of the engine or the provider: retried, counted, and they make a run incomplete."""


class HarnessError(Exception):
    """Something the user can mend; the message says what is wrong and what to do (exit code 2)."""


class EngineLostError(HarnessError):
    """A back end's engine died. With replicas another one takes over its requests."""


class ProviderError(Exception):
    """A model's provider failed (a connection, a rate limit, a crash); the request is retried."""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One item of a task.

    ``data`` is what the prompt is made of and ``truth`` what the answer is judged by; a player that
    is a model sees neither. ``group`` names the stratum (``--limit`` keeps the proportions of
    groups), ``cluster`` the unit that statistics resample (a pair, a deal; default: the id),
    ``canonical`` the identity that leak checks compare (default: the id), ``ordinal`` the place in
    the order of the split.
    """

    id: str
    split: str
    data: Mapping[str, Json]
    truth: Mapping[str, Json] = field(default_factory=dict)
    group: str = ""
    cluster: str = ""
    canonical: str = ""
    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class Decoding:
    """How replies are sampled. Every field is sent explicitly to every back end.

    ``temperature`` 0 is greedy; ``top_k`` 0 is off; ``max_tokens`` counts new tokens; ``stop`` are
    texts that end a reply and are not part of it.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """What the engine hands a player. A model's player passes on the messages and nothing else.

    ``legal`` are the canonical texts of the legal moves (None: free text), ``truth`` and ``state``
    are for reference players (oracle, search); ``number`` counts the turns of the rollout from 0
    and ``attempt`` the tries of this turn from 0.
    """

    seat: int
    messages: tuple[Message, ...]
    legal: tuple[str, ...] | None = None
    truth: Json = None
    state: Any = None
    number: int = 0
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a model. ``seed`` depends on run seed, sample, repeat, turn and attempt only."""

    messages: tuple[Message, ...]
    decoding: Decoding
    seed: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What a player said: the raw text and how it came about.

    ``finish_reason`` is ``stop`` or ``length`` (the token limit was hit before an end of text).
    ``ids``, ``prompt_ids`` and ``logprobs`` are present where the back end knows them. ``drafts``
    are the replies that a test-time method chose this one from; the token counts are then theirs.
    """

    text: str
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning: str = ""
    prompt_ids: tuple[int, ...] | None = None
    ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    drafts: tuple[Reply, ...] = ()


@dataclass(frozen=True, slots=True)
class Parsed:
    """The verdict of a parser on one reply: the committed answer (JSON) or None, and its class."""

    value: Json = None
    cls: str = UNPARSED
    note: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """One reply in a rollout: who, what was asked, what was said, what it was read as."""

    seat: int
    reply: Reply
    parsed: Json = None
    cls: str = OK
    messages: tuple[Message, ...] = ()
    number: int = 0
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a rollout ended: its moves in order, the return of each seat, and its class.

    ``returns`` is empty for tasks that have none (one-turn questions); ``data`` is free JSON of the
    task (a final board, say). ``cls`` is the deciding fault, or ``ok``.
    """

    moves: tuple[Move, ...]
    cls: str = OK
    returns: tuple[float, ...] = ()
    data: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Score:
    """What a reward pays: ``value`` in [0, 1], its named parts, raw figures of any range, and the
    value per seat where a rollout has several."""

    value: float
    parts: Mapping[str, float] = field(default_factory=dict)
    raw: Mapping[str, Json] = field(default_factory=dict)
    per_seat: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One finished rollout with its score. Its key is (task, sample, seed, repeat).

    ``index`` is the place in the run: samples in order, then seeds, then repeats.
    """

    index: int
    task: str
    sample: str
    split: str
    seed: int
    repeat: int
    group: str
    cluster: str
    canonical: str
    outcome: Outcome
    score: Score


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a run.

    ``low`` and ``high`` bound its 95 % interval (None: too few clusters, or exact); ``n`` counts
    records and ``clusters`` the independent units; ``group`` names the part of the data ("" is
    all); ``note`` says what a reader must know (a formula, a warning).
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    clusters: int = 0
    group: str = ""
    note: str = ""
