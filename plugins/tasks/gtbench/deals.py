"""The samples: pairs of episodes with the same chance events and opening, seats swapped.

A pair's seed is made from the data seed, the split, the game and the pair's number, so pair 7 of
Kuhn poker deals the same cards whatever else is played. Deterministic games start with a few
random moves instead, which decide the split too: no opening of the test split occurs in training.

>>> from harness_plugins.tasks.gtbench.presets import resolve
>>> first, second = samples(resolve({"games": ["kuhn_poker"], "pairs": 1}), "test")
>>> first.id, second.id, first.data["seed"] == second.data["seed"]
('kuhn_poker-0000-first', 'kuhn_poker-0000-second', True)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from harness.seeds import Streams, derive
from harness.types import HarnessError, Json, Sample

from .games import skin
from .position import Position
from .presets import Plan

SPLITS = ("train", "validation", "test")
SHARES = (6, 7, 10)
"""Openings by split, cumulated tenths."""
SEATS = ("first", "second")
FRESH = 40
"""Draws in which an opening that another pair has is avoided; then it may come again."""


def samples(plan: Plan, split: str) -> Iterator[Sample]:
    """All samples of a split (or ``all``): pair by pair over all games, so that any prefix holds
    the games in proportion and pairs stay together."""
    if split != "all" and split not in SPLITS:
        raise HarnessError(f"gtbench has no split {split!r}; choose from {', '.join(SPLITS)}, all")
    ordinal = 0
    for name in SPLITS if split == "all" else (split,):
        seen: set[str] = set()
        for pair in range(plan.pairs):
            for key in plan.games:
                for sample in _pair(plan, name, key, pair, seen):
                    yield _numbered(sample, ordinal)
                    ordinal += 1


def _pair(plan: Plan, split: str, key: str, pair: int, seen: set[str]) -> Iterator[Sample]:
    seed = derive("gtbench", plan.data_seed, split, key, pair)
    opening = _opening(plan, split, key, seed, seen)
    mark = "" if split == "test" else f"{split}-"
    for variant in plan.variants:
        tail = "" if variant == "plain" else f"-{variant}"
        for seat, place in enumerate(SEATS):
            yield Sample(
                id=f"{mark}{key}-{pair:04d}-{place}{tail}",
                split=split,
                data={
                    "game": key,
                    "pair": pair,
                    "seed": seed,
                    "model_seat": seat,
                    "opening": opening,
                    "variant": variant,
                },
                group=key if variant == "plain" else f"{key}/{variant}",
                cluster=f"{mark}{key}-{pair:04d}",
                canonical=f"{key}/{' '.join(opening) if opening else seed}",
            )


def _opening(plan: Plan, split: str, key: str, seed: int, seen: set[str]) -> list[str]:
    """Random legal moves to start with; empty for games with chance events."""
    most = skin(key, "plain").game.opening_plies
    plies = most if plan.openings is None else plan.openings if most else 0
    if not plies:
        return []
    for draw in range(10_000):
        opening = random_moves(key, plies, Streams(derive(seed, "opening", draw)))
        if opening is None:
            continue
        name = f"{key}/{' '.join(opening)}"
        if split_of(name) == split and (draw >= FRESH or name not in seen):
            seen.add(name)
            return opening
    raise HarnessError(f"{key}: no opening of {plies} moves was found; use a smaller openings=")


def random_moves(key: str, plies: int, streams: Streams) -> list[str] | None:
    """Random legal moves; None if they end the game."""
    plain = skin(key, "plain")
    position = plain.game.start(0)
    moves = []
    for ply in range(plies):
        seat = position.seats()[0]
        legal = position.legal(seat)
        action = legal[streams.below(len(legal), ply)]
        moves.append(plain.say(action))
        position.play({seat: action})
        if position.over:
            return None
    return moves


def split_of(name: str) -> str:
    """The split that an opening belongs to, by its name alone."""
    tenth = derive("gtbench split", name) % 10
    return next(split for split, end in zip(SPLITS, SHARES, strict=True) if tenth < end)


def verify(samples: Iterable[Sample]) -> Iterator[str]:
    """Play every opening again, and check that pairs are pairs; each problem in one line."""
    pairs: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        pairs.setdefault((sample.cluster, sample.data["variant"]), []).append(sample)
        try:
            position = opened(sample.data["game"], sample.data)
        except HarnessError as error:
            yield f"{sample.id}: {error}"
            continue
        if position.over:
            yield f"{sample.id}: the game is over after its opening"
        if sample.data["opening"] and split_of(sample.canonical) != sample.split:
            yield f"{sample.id}: the opening belongs to another split"
    for (cluster, variant), members in pairs.items():
        shared = {(s.data["seed"], tuple(s.data["opening"])) for s in members}
        if sorted(s.data["model_seat"] for s in members) != [0, 1] or len(shared) != 1:
            yield f"{cluster} ({variant}): not a pair with one deal and both seats"


def opened(key: str, data: Mapping[str, Json]) -> Position:
    """The position of a sample after its opening moves (which are stored in plain names)."""
    plain = skin(key, "plain")
    position = plain.game.start(data["seed"])
    for move in data["opening"]:
        plain.act(position, position.seats()[0], move)
    return position


def _numbered(sample: Sample, ordinal: int) -> Sample:
    return replace(sample, ordinal=ordinal)
