"""Options of the task, checked and resolved; ``preset`` names a whole protocol.

>>> resolve({"preset": "reference-6x20"}).pairs
10
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.types import Decoding, HarnessError, Json

from .adapters import LISTED, ONE_PLAYER, REFERENCE, TWO_PLAYER, adapter
from .episode import Conduct

MOST_OPENINGS = 2
"""Random opening moves, at most: no listed game can end within them."""


class Preset(NamedTuple):
    """A protocol: environments, pairs of each, tries after a failed one, decoding."""

    games: tuple[str, ...]
    pairs: int
    retries: int
    decoding: Decoding


def sound(names: Sequence[str], repair: bool = True) -> tuple[str, ...]:
    """Those of the environments whose results may enter an average."""
    return tuple(name for name in names if not adapter(name).reason_left_out(repair))


PRESETS: Mapping[str, Preset] = {
    "standard": Preset(sound(LISTED), 20, 1, Decoding(max_tokens=512)),
    "reference-6x20": Preset(REFERENCE, 10, 1, Decoding(temperature=0.3, max_tokens=512)),
}
"""The reference study plays 20 episodes of each of six, its seats alternating but never sharing a
seed; here they are 10 pairs. Its opponent is the untrained model: name it with ``--opponent``."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "all": LISTED,
    "two-player": TWO_PLAYER,
    "one-player": ONE_PLAYER,
    "reference": REFERENCE,
}
"""Names for sets of environments, for the option ``games``."""


class Plan(NamedTuple):
    """The options, resolved."""

    games: tuple[str, ...]
    pairs: int
    data_seed: int
    conduct: Conduct
    decoding: Decoding


def resolve(options: Mapping[str, Json]) -> Plan:
    """The plan that options describe. Raises HarnessError for values that make no sense."""
    name = options.get("preset") or "standard"
    if name not in PRESETS:
        raise HarnessError(f"preset={name!r} is unknown; choose from {', '.join(PRESETS)}")
    base = PRESETS[str(name)]
    retries = _whole(options, "retries", -1, -1)
    openings = _whole(options, "openings", 0, 0)
    if openings > MOST_OPENINGS:
        raise HarnessError(f"openings={openings} is too many; use at most {MOST_OPENINGS}")
    forced = options.get("forced") or "play"
    if forced not in ("play", "ask"):
        raise HarnessError(f"forced={forced!r} is unknown; choose from play, ask")
    return Plan(
        games=_games(options.get("games"), base.games),
        pairs=_whole(options, "pairs", 0, 0) or base.pairs,
        data_seed=_whole(options, "data_seed", 0, 0),
        conduct=Conduct(
            retries=base.retries if retries < 0 else retries,
            show_legal=bool(options.get("legal", True)),
            play_forced=forced == "play",
            openings=openings,
            repair=bool(options.get("repair", True)),
            steps=_whole(options, "steps", 400, 1),
            seconds=float(_whole(options, "seconds", 60, 1)),
        ),
        decoding=base.decoding,
    )


def _games(chosen: Json, default: tuple[str, ...]) -> tuple[str, ...]:
    if not chosen:
        return default
    words = chosen.strip().strip("[]").split(",") if isinstance(chosen, str) else list(chosen)
    asked = [word for word in (str(word).strip(" \"'") for word in words) if word]
    names = [name for word in asked for name in _named(word)]
    if not names:
        raise HarnessError("games names no environment; leave it out for all that are sound")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise HarnessError(f"games: {twice} is named twice; name each environment once")
    for name in names:
        if not adapter(name).listed or name not in LISTED:
            from .library import make

            make(name)
    return tuple(names)


def _named(word: str) -> tuple[str, ...]:
    """The environments that a word of ``games`` stands for. A near miss of a set is an error."""
    if word in GROUPS:
        return GROUPS[word]
    near = difflib.get_close_matches(word.lower().replace("_", "-"), GROUPS, 1, 0.8)
    if near:
        raise HarnessError(f"games: {word!r} is unknown; do you mean {near[0]}?")
    return (word,)


def _whole(options: Mapping[str, Json], name: str, default: int, least: int) -> int:
    value = options.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise HarnessError(f"{name}={value!r} must be a whole number of at least {least}")
    return value
