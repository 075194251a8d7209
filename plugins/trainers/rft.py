"""RFT: rejection sampling and fine-tuning as one command.

    harness train --method rft --task counterfactual-tom --model FOLDER --out runs/rft

The base replies many times to each prompt of the train split, a reward and its gates decide which
replies are accepted, and the base is fine-tuned on these under the prompt of evaluation (rejection
sampling fine-tuning, Yuan et al. 2023). The steps are those of `harness sample`, `rft score`,
`rft build` and ``--method sft``, each with its files below ``--out`` (`harness.rejection.chain`);
after a crash or kill -9, ``--resume`` goes on and does nothing twice.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness import hookimpl
from harness.cli.options import pairs
from harness.plan import RunSettings
from harness.registry import Registry
from harness.rejection.build import Choice
from harness.rejection.chain import Chain, Recipe, identity
from harness.rejection.gates import Gates
from harness.shots import asked, worked_examples
from harness.task import Task
from harness.trainer import Checkpoint, TrainJob
from harness.training.base import Base, base_checkpoint, require_template
from harness.training.data import Item
from harness.training.lengths import Lengths, overlong
from harness.training.session import Session, make_reward
from harness.training.tokens import prompt_lengths
from harness.types import HarnessError, Json, Sample

from .sft import SFT
from .verl import settings
from .verl.payment import kept_judge
from .verl.trainer import require_verl

NO_GATES: Final = ("none",)
SMOKE: Final = (8, 4)
"""Prompts and candidates of each in a smoke test, at most."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was looked at before anything is sampled."""

    base: Base
    prompts: list[Sample]
    lengths: Lengths


class RFT(SFT):
    """SFT whose data are accepted replies of its own base."""

    name = "rft"

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        super().__init__(options)
        self.chain: Chain | None = None

    def train(self, job: TrainJob) -> Checkpoint:
        """Sample, score, build, train; or as far as ``job.stage`` says: ``build`` ends before
        training, ``smoke`` takes a few prompts, ``pilot`` a tenth of them."""
        settings.check(job.options)
        require_verl()
        registry = Registry.load(job.registry_file)
        job = _named(job)
        prepared = prepare(job, registry)
        rehearsal = job.stage in ("smoke", "pilot")
        root = job.out / job.stage if rehearsal else job.out
        recipe = recipe_of(job, root, registry)
        if rehearsal:
            recipe = rehearsed(recipe, job.stage, len(prepared.prompts))
        chain = self.chain = Chain(root, recipe, job.quiet)
        if job.stage == "plan":
            print(plan_text(job, recipe, prepared))
            return Checkpoint(job.out, 0)
        if job.stage == "validate":
            self._validate(job, prepared)
            return Checkpoint(job.out, 0)
        chain.open(job.resume)
        record = chain.run(registry)
        return super().train(self._last(job, registry, record["build"]["rows"]))

    def provenance(self, session: Session) -> dict[str, Json]:
        """The chain, for ``training.json``: hashes of each step, acceptance by gate."""
        assert self.chain is not None
        return {"chain": self.chain.record()}

    def _last(self, job: TrainJob, registry: Registry, rows: int) -> TrainJob:
        """The job of the last step, on the rows that the chain made."""
        assert self.chain is not None
        own = registry.options(registry.entry("trainer", "sft"), {})
        options = {**own, **job.options, "data.file": str(self.chain.rows.absolute())}
        if job.stage == "smoke":
            options["batch_size"] = min(int(options["batch_size"]), rows)
        if rows < int(options["batch_size"]):
            raise HarnessError(
                f"{rows} accepted rows are fewer than batch_size {options['batch_size']}; sample "
                "more, or give a smaller batch_size"
            )
        resume = (self.chain.root / "job.json").is_file()
        if not job.quiet:
            print("step 4 of 4, sft", file=sys.stderr, flush=True)
        return replace(job, options=options, reward="", reward_options={}, resume=resume)

    def _validate(self, job: TrainJob, prepared: Prepared) -> None:
        """Let verl read the last step's configuration, as if each prompt had one accepted reply."""
        gpus = max(0, int(job.options["gpus"]))
        folder = prepared.base.folder
        place = settings.Place(job.out.absolute(), folder, gpus, gpus or 1, 1, prepared.base.tied())
        self._compose(settings.sft_overrides(place, job.options, len(prepared.prompts)))


def prepare(job: TrainJob, registry: Registry) -> Prepared:
    """Look at everything that could fail hours later. Raises HarnessError with what is wrong."""
    base = base_checkpoint(registry, job.model)
    tokenizer = base.tokenizer()
    require_template(base, tokenizer)
    o = job.options
    prompts = list(chosen(job, registry))
    if not prompts:
        raise HarnessError(f"{job.task}: no prompts to sample; see data.groups and sample.limit")
    task: Task = registry.create("task", job.task, job.task_options)
    if task.seats > 1:
        raise HarnessError(f"{job.task} is a game; its replies answer no one prompt")
    items = [Item(s, tuple(task.messages(s)), None) for s in prompts]
    lengths = prompt_lengths(tokenizer, items, int(o["max_prompt"]))
    overlong({"prompt": lengths}, str(o["data.overlong"]))
    room = base.context()
    if room and int(o["max_prompt"]) + int(o["max_reply"]) > room:
        raise HarnessError(
            f"max_prompt {o['max_prompt']} and max_reply {o['max_reply']} exceed the {room} tokens "
            f"of {base.label}"
        )
    return Prepared(base, prompts, lengths)


def chosen(job: TrainJob, registry: Registry) -> Iterable[Sample]:
    """The prompts that are sampled, worded as for sampling."""
    o = job.options
    task: Task = registry.create("task", job.task, sampled_options(job))
    groups = tuple(o["data.groups"])
    shots = worked_examples(task, int(o["sample.fewshot"]), groups)
    limit = int(o["sample.limit"]) or None
    return asked(task, "train", groups, int(o["sample.pilot"]), limit, shots)


def sampled_options(job: TrainJob) -> dict[str, Json]:
    """The task's options at sampling: those of training, with ``sample.set``."""
    return {**job.task_options, **pairs(job.options["sample.set"], "sample.set")}


def recipe_of(job: TrainJob, root: Path, registry: Registry) -> Recipe:
    """The chain that the options describe. Raises HarnessError for values that make no sense."""
    o = job.options
    if int(o["sample.pilot"]) and int(o["sample.limit"]):
        raise HarnessError("sample.limit and sample.pilot: give one of the two")
    backend = str(o["sample.backend"])
    folder = base_checkpoint(registry, job.model).folder
    sampling = RunSettings(
        tasks=(job.task,),
        models=(f"{backend}:{folder}" if backend else job.model,),
        split="train",
        limit=int(o["sample.limit"]) or None,
        groups=tuple(o["data.groups"]),
        pilot=int(o["sample.pilot"]),
        seeds=(int(o["sample.seed"]),),
        n=int(o["sample.n"]),
        options=sampled_options(job),
        model_options=pairs(o["sample.model_set"], "sample.model_set"),
        fewshot=int(o["sample.fewshot"]),
        decoding={
            "temperature": float(o["sample.temperature"]),
            "top_p": float(o["sample.top_p"]),
            "top_k": int(o["sample.top_k"]),
            "max_tokens": int(o["max_reply"]),
        },
        out=root / "sample",
    )
    sampling.check()
    choice = Choice(
        int(o["build.cap"]),
        str(o["build.dedupe"]),
        bool(o["build.pairs"]),
        bool(o["build.balance"]),
        int(o["build.min_samples"]),
        int(o["build.max_samples"]),
        int(o["build.seed"]),
    )
    named = tuple(o["score.gates"])
    gates = None if not named else () if named == NO_GATES else named
    least, step = (_optional(o[name]) for name in ("score.min_reward", "score.min_step"))
    finished = not o["score.unfinished"]
    # A judge without a key is told here, before the sampling.
    reward = make_reward(registry, registry.create("task", job.task, job.task_options), job)
    reward.close()
    Gates.of(reward, gates, least, step)
    return Recipe(
        sampling,
        job.reward,
        kept_judge(job.reward_options, root),
        reward.specification(),
        gates,
        least,
        step,
        finished,
        choice,
        dict(job.task_options),
    )


def rehearsed(recipe: Recipe, stage: str, prompts: int) -> Recipe:
    """The recipe of a smoke test or a pilot."""
    s = recipe.sampling
    few, n = SMOKE if stage == "smoke" else (max(SMOKE[0], prompts // 10), s.n)
    sampling = replace(s, pilot=0, limit=min(few, prompts), n=min(n, s.n))
    return replace(recipe, sampling=sampling)


def plan_text(job: TrainJob, recipe: Recipe, prepared: Prepared) -> str:
    """What ``--dry-run`` prints."""
    s, o = recipe.sampling, job.options
    prompts = len(prepared.prompts)
    most = prompts * (min(recipe.choice.cap, s.n) or s.n)
    rows = min(most, recipe.choice.most or most)
    gates = {None: "the reward's own", (): "none"}.get(recipe.gates) or ", ".join(
        recipe.gates or ()
    )
    described = {**identity(recipe), "options": dict(o), "base": prepared.base.identity}
    each = rows // int(o["batch_size"])
    steps = int(o["steps"]) or int(o["epochs"]) * each
    return "\n".join(
        [
            json.dumps(described, indent=2, default=str),
            prepared.lengths.line(),
            f"1 sample: {prompts:,} prompts x {s.n} = {prompts * s.n:,} candidates of at most "
            f"{o['max_reply']} tokens, by {s.models[0]}",
            f"2 score: {recipe.reward or 'the reward of the task'}, gates: {gates}",
            f"3 build: at most {rows:,} rows, at least {recipe.choice.least:,}",
            f"4 sft: at most {steps:,} steps of {o['batch_size']}",
        ]
    )


def _named(job: TrainJob) -> TrainJob:
    """The job with an absolute folder: the chain's files are named from there."""
    return replace(job, out=job.out.absolute())


def _optional(value: Json) -> float | None:
    return None if float(value) < 0 else float(value)


@hookimpl
def create_trainer(name: str, options: Mapping[str, Json]) -> RFT:
    """Make the trainer."""
    return RFT(options)
