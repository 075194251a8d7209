"""Presets: the protocols that ``preset`` names. Every other option overrides its part.

>>> PRESETS["reference-8x20"].pairs
10
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from harness.types import Decoding, HarnessError, Json

from .agents import STRIDE
from .game import VARIANTS
from .games import DEFAULT_GAMES, GAMES, game

AGENTS = ("prompt", "cot", "sc-cot", "tot")
VOTING = frozenset({"sc-cot", "tot"})


@dataclass(frozen=True, slots=True)
class Conduct:
    """How episodes are held: tries after a failed one, whether legal moves are listed, whether a
    single legal move is played without asking, whether play goes on after a forfeit."""

    retries: int = 2
    show_legal: bool = True
    play_forced: bool = True
    substitute: bool = False


class Preset(NamedTuple):
    """A protocol: games, pairs a game, tries after a failed one, random opening moves, decoding."""

    games: tuple[str, ...]
    pairs: int
    retries: int
    openings: int | None
    decoding: Decoding


EIGHT = (
    "tictactoe",
    "connect4",
    "kuhn_poker",
    "nim",
    "pig",
    "prisoners_dilemma",
    "liars_dice",
    "first_sealed_auction",
)
_REFERENCE = Decoding(temperature=0.2, max_tokens=1024)

PRESETS: Mapping[str, Preset] = {
    "standard": Preset(DEFAULT_GAMES, 20, 2, None, Decoding(max_tokens=512)),
    "reference-8x20": Preset(EIGHT, 10, 0, 0, _REFERENCE),
    "reference-10x20": Preset(DEFAULT_GAMES, 10, 0, 0, _REFERENCE),
}
"""The reference protocol plays 20 matches a game, 10 in each seat: 10 pairs, without retries."""

VOTING_TEMPERATURE = 0.7
"""Temperature of agents that vote: greedy samples would all be the same."""


class Plan(NamedTuple):
    """The options, checked and resolved."""

    games: tuple[str, ...]
    pairs: int
    variants: tuple[str, ...]
    openings: int | None
    data_seed: int
    agent: str
    samples: int
    conduct: Conduct
    decoding: Decoding


def resolve(options: Mapping[str, Json]) -> Plan:
    """The plan that options describe. Raises HarnessError for values that make no sense."""
    preset = _choice(options, "preset", "standard", tuple(PRESETS))
    base = PRESETS[preset]
    named = options.get("games") or base.games
    keys = tuple(_key(name) for name in ([named] if isinstance(named, str) else named))
    if len(set(keys)) < len(keys):
        raise HarnessError("games: the same game is named twice; name each game once")
    variant = _choice(options, "variant", "plain", (*VARIANTS, "both"))
    agent = _choice(options, "agent", "prompt", AGENTS)
    openings = _whole(options, "openings", -1, -1)
    retries = _whole(options, "retries", -1, -1)
    samples = _whole(options, "samples", 0, 0)
    if 4 * samples > STRIDE:
        raise HarnessError(f"samples={samples} is too many; use at most {STRIDE // 4}")
    decoding = base.decoding
    if agent in VOTING and decoding.temperature == 0.0:
        decoding = Decoding(temperature=VOTING_TEMPERATURE, max_tokens=decoding.max_tokens)
    return Plan(
        games=keys,
        pairs=_whole(options, "pairs", 0, 0) or base.pairs,
        variants=VARIANTS if variant == "both" else (variant,),
        openings=base.openings if openings < 0 else openings,
        data_seed=_whole(options, "data_seed", 0, 0),
        agent=agent,
        samples=samples or (5 if agent == "sc-cot" else 3),
        conduct=Conduct(
            retries=base.retries if retries < 0 else retries,
            show_legal=bool(options.get("legal", True)),
            play_forced=_choice(options, "forced", "play", ("play", "ask")) == "play",
            substitute=bool(options.get("substitute", False)),
        ),
        decoding=decoding,
    )


def _key(name: str) -> str:
    """A game's key, whatever case and whether it is written with - or _."""
    plain = str(name).strip().lower().replace("-", "_")
    return game(next((key for key in GAMES if key.replace("-", "_") == plain), str(name))).key


def _choice(options: Mapping[str, Json], name: str, default: str, known: tuple[str, ...]) -> str:
    value = options.get(name) or default
    if value not in known:
        raise HarnessError(f"{name}={value!r} is unknown; choose from {', '.join(known)}")
    return str(value)


def _whole(options: Mapping[str, Json], name: str, default: int, least: int) -> int:
    value = options.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise HarnessError(f"{name}={value!r} must be a whole number of at least {least}")
    return value
