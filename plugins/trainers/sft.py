"""Supervised fine-tuning: worked answers of the train split, loss on the reply's tokens only.

    harness train --method sft --task gamesolve --model FOLDER --out runs/sft

Every target is scored by the task's own reward before training begins, and one that does not get
full marks is refused (or leaves, with ``data.unverified=filter``): a model is not taught mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import hookimpl
from harness.parsing import classify
from harness.trainer import Checkpoint
from harness.training.checkpoints import step_folder
from harness.types import OK, HarnessError, Json, Move, Outcome, Reply

from .verl.launch import distributed
from .verl.probe_settings import Probe, export
from .verl.settings import Place, sft_overrides
from .verl.trainer import VerlTrainer

if TYPE_CHECKING:
    from harness.reward import Reward
    from harness.task import Task
    from harness.training.data import Item
    from harness.training.session import Session

FULL = 1.0 - 1e-9


class SFT(VerlTrainer):
    """verl's SFT trainer."""

    name = "sft"
    supervised = True
    config_name = "sft_trainer_engine"
    probe: Probe | None = None

    def overrides(self, session: Session, place: Place, options: Mapping[str, Json]) -> list[str]:
        return sft_overrides(place, options, len(session.items))

    def command(self, place: Place, description: Path) -> list[str]:
        name = "probe_sft" if self.probe else "sft_process"
        module = f"harness_plugins.trainers.verl.{name}"
        return distributed(module, str(description), place.processes, place.nodes)

    def prepare(self, session: Session) -> None:
        """Choose the items, and with ``probe.layers`` make the heads of a probe loss ready."""
        self._choose(session)
        if session.job.options["probe.layers"]:
            self.probe = Probe.of(session)

    def _choose(self, session: Session) -> None:
        """Let unverified targets go, or refuse them; accepted replies went through gates."""
        if session.job.options["data.file"]:
            return
        policy = str(session.job.options["data.unverified"])
        if policy not in ("error", "filter"):
            raise HarnessError(f"data.unverified {policy!r}: choose error or filter")
        reward = session.default_reward
        wrong = [i for i in session.items if not verified(session.task, reward, i)]
        if wrong and policy == "error":
            named = ", ".join(i.sample.id for i in wrong[:3])
            raise HarnessError(
                f"{len(wrong)} of {len(session.items)} worked answers do not get full marks "
                f"({named}); mend the task, or let them go with data.unverified=filter"
            )
        gone = {i.sample.id for i in wrong}
        session.items = [i for i in session.items if i.sample.id not in gone]

    def write_data(self, session: Session) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from harness.training.tokens import supervised

        rows: list[dict[str, Any]] = []
        for item in session.items:
            assert item.target is not None
            made = supervised(session.tokenizer, item.messages, item.target)
            row = {"id": item.sample.id, "ids": list(made.ids), "prompt": made.prompt}
            if self.probe:
                row["labels"] = self.probe.labels(session.task, item.sample)
            rows.append(row)
        if self.probe:
            self.probe.write(session)
        table = pa.Table.from_pylist(rows)
        pq.write_table(table, session.out / "data" / "train.parquet", compression="zstd")

    def _finish(self, session: Session, step: int, seconds: float) -> Checkpoint:
        made = super()._finish(session, step, seconds)
        if self.probe:
            export(step_folder(session.out, step), session.out)
        return made


def verified(task: Task, reward: Reward, item: Item) -> bool:
    """Whether the reward gives the item's target full marks, read as a reply would be. Games of
    several seats are paid as a whole: there the target, one move, must be one that can be read."""
    reply = Reply(item.target or "")
    parsed = classify(reply, task.parse(item.sample, reply))
    if task.seats > 1:
        return parsed.cls == OK
    move = Move(0, reply, parsed.value, parsed.cls, item.messages)
    score = reward.score(item.sample, Outcome((move,), parsed.cls))
    return score.value >= FULL


@hookimpl
def create_trainer(name: str, options: Mapping[str, Json]) -> SFT:
    """Make the trainer."""
    return SFT(options)
