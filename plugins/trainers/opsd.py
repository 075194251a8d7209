"""OPSD: on-policy self-distillation from a teacher that knows the answer.

    harness train --method opsd --task counterfactual-tom --model FOLDER --out runs/opsd

The student replies to the prompt of evaluation, once. The teacher is the same model with its
adapters off, and its prompt also holds the verified answer and what it rests on
(`Task.privileged`); it says nothing, and only reads the student's reply. The loss is the divergence
of the student's distribution from the teacher's at each token of that reply, over the whole
vocabulary: generalised knowledge distillation (Agarwal et al. 2024) with its beta at 0 and all data
on-policy, with a teacher that is the student with a better prompt.

Adapters only: the weights that they lie on are the teacher, so it needs no copy of the model. Full
fine-tuning would need one, and is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness import hookimpl
from harness.types import HarnessError, Json

from .grpo import GRPO
from .verl.settings import Place

if TYPE_CHECKING:
    from harness.training.session import Session

UNUSED: Final[Mapping[str, Json]] = {
    "rollouts": 1, "mini_batch": 0, "opponent": "", "fused_logprobs": False, "standardise": False,
    "kl": "", "kl_coef": 0.0, "kl_estimator": "low_var_kl", "old_logprobs": "trainer",
    "clip_low": 0.2, "clip_high": 0.2, "clip_dual": 3.0, "loss_mean": "token-mean", "entropy": 0.0,
}  # fmt: skip
"""Options of GRPO that this method does not have: its trainer is asked for one rollout a prompt,
and its loss is never computed."""

AUDIT: Final = "teacher prompt"


class OPSD(GRPO):
    """GRPO's trainer with another loss and without advantages."""

    name = "opsd"

    def overrides(self, session: Session, place: Place, options: Mapping[str, Json]) -> list[str]:
        shared = super().overrides(session, place, {**options, "verl": []})
        return [*shared, *own_overrides(options)]

    def command(self, place: Place, description: Path) -> list[str]:
        module = "harness_plugins.trainers.verl.opsd_process"
        return [sys.executable, "-m", module, str(description)]

    def prepare(self, session: Session) -> None:
        """Check the settings, and measure the teacher's prompts. Raises HarnessError for a task
        that has none, and for what does not fit."""
        check(session.job.options)
        from harness.training.lengths import Lengths, overlong

        option = session.job.options
        longest, reply = int(option["max_teacher_prompt"]), int(option["max_reply"])
        room = session.base.context()
        if room and longest + reply > room:
            raise HarnessError(
                f"max_teacher_prompt {longest} and max_reply {reply} exceed the {room} tokens of "
                f"{session.base.label}"
            )
        audit = Lengths.of(AUDIT, teacher_lengths(session), longest)
        session.audits[AUDIT] = audit
        gone = overlong({AUDIT: audit}, str(option["data.overlong"]))
        session.items = [i for i in session.items if i.sample.id not in gone]
        if not session.items:
            raise HarnessError("data.overlong=filter left no item to train on")

    def _staged(self, session: Session) -> dict[str, Json]:
        return {**UNUSED, **super()._staged(session)}


def own_overrides(options: Mapping[str, Json]) -> list[str]:
    """What differs from GRPO in verl's configuration, and the user's own overrides."""
    module = "harness_plugins.trainers.verl.opsd_rollouts"
    return [
        # As `opsd_engine` registers it; importing that would import verl.
        "+actor_rollout_ref.model.model_type=harness_opsd",
        f"++actor_rollout_ref.rollout.agent.agent_loop_manager_class={module}.Manager",
        *map(str, options["verl"]),
    ]


def check(options: Mapping[str, Json]) -> None:
    """Raise HarnessError for settings that make no sense for this method."""
    if int(options["lora.rank"]) < 1:
        raise HarnessError(
            f"lora.rank {options['lora.rank']}: opsd trains adapters, since its teacher is the "
            "model without them; give a rank of at least 1"
        )
    if float(options["kl_temperature"]) <= 0:
        raise HarnessError(f"kl_temperature {options['kl_temperature']}: must be positive")
    if float(options["kl_clip"]) < 0:
        raise HarnessError(f"kl_clip {options['kl_clip']}: must be positive, or 0 for none")


def teacher_lengths(session: Session) -> Iterator[tuple[str, int]]:
    """Id and tokens of the teacher's prompt, for each item."""
    from harness.progress import track
    from harness.rendering import render

    for item in track(session.items, "measuring the teacher's prompts", len(session.items)):
        told = session.task.privileged(item.sample)
        if told is None or not item.messages:
            raise HarnessError(
                f"{session.task.name} has no prompt for a teacher (Task.privileged), which opsd "
                "distils from"
            )
        yield item.sample.id, len(render(session.tokenizer, told))


@hookimpl
def create_trainer(name: str, options: Mapping[str, Json]) -> OPSD:
    """Make the trainer."""
    return OPSD(options)
