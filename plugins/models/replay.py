"""Replay: the replies of an earlier run, given again to the same questions.

    harness run --task gamesolve --model smollm2 --out runs
    harness run --task gamesolve --model replay:runs/gamesolve--smollm2--3f9c0a1b2c --reward other

A reply is found by rollout (sample, seed, repeat), seat, turn and attempt, so any part of the
earlier run can be replayed, in any order and at any concurrency.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness import hookimpl
from harness.player import Player, Seat
from harness.seeds import derive
from harness.types import HarnessError, Json, Reply, Turn

from .scripted import ScriptedModel


class Place(NamedTuple):
    """Where a reply was given: the rollout's seed stands for sample, seed and repeat."""

    rollout: int
    seat: int
    number: int
    attempt: int


class StoredPlayer(Player):
    """Gives the stored replies of one seat of one rollout."""

    def __init__(self, replies: Mapping[Place, Sequence[Reply]], seat: Seat, run: str) -> None:
        self.replies = replies
        self.seat = seat
        self.run = run
        self.given: Counter[Place] = Counter()

    async def act(self, turn: Turn) -> Reply:
        """The stored reply. Raises HarnessError where the run has none."""
        place = Place(self.seat.seed, self.seat.seat, turn.number, turn.attempt)
        try:
            reply = self.replies[place][self.given[place]]
        except (KeyError, IndexError):
            raise HarnessError(
                f"{self.run} holds no reply to turn {turn.number} of seat {turn.seat} of "
                f"{self.seat.sample.id}; replay with the task, options, seeds and split of that "
                "run (and no more repeats or drafts than it has)"
            ) from None
        self.given[place] += 1
        return reply


class ReplayModel(ScriptedModel):
    """All replies of a run folder, in memory (without token ids)."""

    def __init__(self, run: str, options: Mapping[str, Json]) -> None:
        super().__init__(f"replay:{run}", options)
        self.run = run
        self.replies: dict[Place, list[Reply]] = {}
        digest = hashlib.blake2b(digest_size=6)
        from harness.store import read_manifest, read_records

        manifest = read_manifest(Path(run).expanduser())
        spec = manifest["spec"]
        self.label = str(manifest["model_name"])
        self.given = {name: spec[name] for name in ("decoding", "system", "fewshot")}
        self.origin = {name: manifest[name] for name in ("hash", "training") if name in manifest}
        for record in read_records(Path(run).expanduser()):
            rollout = derive(record.seed, record.sample, record.repeat)
            for move in record.outcome.moves:
                place = Place(rollout, move.seat, move.number, move.attempt)
                reply = replace(move.reply, prompt_ids=None, ids=None, logprobs=None)
                self.replies.setdefault(place, []).append(reply)
                digest.update(repr((place, move.reply.text)).encode())
        if not self.replies:
            raise HarnessError(f"{run} has no finished records to replay")
        self.identity = f"scripted:replay-{digest.hexdigest()}"

    def describe(self) -> Mapping[str, Json]:
        """With the hash of the run, and the training data of its checkpoint."""
        return {**super().describe(), **self.origin}

    def make(self, seat: Seat) -> Player:
        """A player who repeats what was said in this seat of this rollout."""
        return StoredPlayer(self.replies, seat, self.run)


@hookimpl
def create_model(name: str, options: Mapping[str, Json]) -> ReplayModel:
    """The replies of a run folder."""
    if name == "replay":
        raise HarnessError("which run? --model replay:RUN, a run folder")
    return ReplayModel(name, options)
