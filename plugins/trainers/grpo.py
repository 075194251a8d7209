"""GRPO: several rollouts of each prompt, paid by a reward, compared within their group.

    harness train --method grpo --task gamesolve --model runs/sft --out runs/grpo

The advantage of a rollout is its reward less the mean of its group, divided by the group's standard
deviation (Shao et al. 2024); the update is PPO's clipped one. What pays is the reward that
`harness run` scores with, or ``--reward a=0.8,b=0.2``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import hookimpl
from harness.player import Player
from harness.types import HarnessError, Json, Message

from .verl.sessions import seats
from .verl.settings import Place, grpo_overrides, rollout_engine
from .verl.trainer import VerlTrainer

if TYPE_CHECKING:
    from harness.training.data import Item
    from harness.training.session import Session


class GRPO(VerlTrainer):
    """verl's v1 trainer with rollouts and rewards of the harness."""

    name = "grpo"
    config_name = "ppo_trainer"

    def overrides(self, session: Session, place: Place, options: Mapping[str, Json]) -> list[str]:
        if rollout_engine(place, options) == "vllm":
            from importlib.util import find_spec

            if find_spec("vllm") is None:
                raise HarnessError(
                    "rollouts on a GPU need vLLM, which is not installed; "
                    "pip install 'strategic-harness[train,vllm]'"
                )
        if session.job.reward_options.get("judge_model") and not options["rollout.workers"]:
            options = {**options, "rollout.workers": 1}  # the back end's budget counts by process
        return grpo_overrides(place, options, len(session.items))

    def command(self, place: Place, description: Path) -> list[str]:
        module = "harness_plugins.trainers.verl.grpo_process"
        return [sys.executable, "-m", module, str(description)]

    def prepare(self, session: Session) -> None:
        """Check the opponent, and that a KL penalty sees every turn."""
        name = str(session.job.options["opponent"])
        if name and name not in session.task.players():
            raise HarnessError(
                f"opponent {name!r}: {session.task.name} has "
                f"{', '.join(sorted(session.task.players())) or 'no players'}"
            )
        for sample in {session.task.stratum(i.sample): i.sample for i in session.items}.values():
            seats(session.task, sample, Player, 0, name)  # raises where the opponent does not play
        asked = (session.task.turns(item.sample) for item in session.items)
        if session.job.options["kl"] == "reward" and any(turns > 1 for turns in asked):
            raise HarnessError(
                f"kl reward: {session.task.name} asks several times a game, and verl would count "
                "the last turn's penalty alone; use kl=loss"
            )

    def write_data(self, session: Session) -> None:
        from harness.training.export import write_items

        folder = session.out / "data"
        validation = session.validation or session.items[:1]  # verl wants a file, used or not
        for name, items in (("train", session.items), ("validation", validation)):
            rows = [_shown(item) for item in items]
            write_items(rows, session.task, "verl", folder / f"{name}.parquet")


def _shown(item: Item) -> Item:
    """The item with a prompt. Games whose first prompt depends on the opponent have none before
    they are played; verl wants one, and nobody reads it."""
    return item if item.messages else replace(item, messages=(Message("user", item.sample.id),))


@hookimpl
def create_trainer(name: str, options: Mapping[str, Json]) -> GRPO:
    """Make the trainer."""
    return GRPO(options)
