"""Rollouts inside of verl: its agent-loop worker, with the harness's tasks, players and rewards.

verl's worker starts n rollouts of a prompt and scores each by itself. Here they are gathered, paid
together, and handed over at once; rows hold tensors only, since verl moves other columns between
processes one by one, and what they say (score, parts, outcome) travels in the rows' tags.

Touched without a public door: the class behind ``AgentLoopWorkerTQ`` (Ray wraps it), and its
``_run_prompt``; ``tests/plugins/trainers`` pins both.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import zlib
from pathlib import Path
from typing import Any

import ray
import torch
import transfer_queue as tq
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from harness.registry import Registry
from harness.trainer import TrainJob
from harness.training.export import sample_of
from harness.training.session import make_reward
from harness.types import Decoding, HarnessError, ProviderError, Sample

from .payment import halt, pay, tag
from .sessions import Call, Session, Speaker, play, seed_of

log = logging.getLogger(__name__)
TRIES = 3
"""Times that a rollout is tried when the engine fails."""

_Base = AgentLoopWorkerTQ.__ray_metadata__.modified_class


class Worker(_Base):  # type: ignore[misc, valid-type]  # verl is untyped
    """Plays, pays and hands over the rollouts of prompts."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        job = json.loads(Path(self.config.harness.job).read_text())
        self.options = job["options"]
        registry = Registry.load(Path(job["registry_file"]) if job["registry_file"] else None)
        self.task = registry.create("task", job["task"], job["task_options"])
        made = TrainJob(job["task"], job["base"], Path(job["out"]), reward=job["reward"],
                        reward_options=job["reward_options"])  # fmt: skip
        self.reward = make_reward(registry, self.task, made)
        self.rules = make_reward(registry, self.task, TrainJob(made.task, made.model, made.out))
        self.out, self.told = made.out, 0
        self.speaker = Speaker(
            self.llm_client.generate,
            self.tokenizer,
            end_tokens(self.tokenizer, self.model_config),
            int(self.options["max_prompt"]),
            self.options["rollout.seeds"] == "request",
            engine_settings(self.config.actor_rollout_ref.rollout.name),
        )

    def decoding(self, validate: bool) -> Decoding:
        """As the options say; greedy for validation."""
        o = self.options
        if validate:
            return Decoding(temperature=0.0, max_tokens=int(o["max_reply"]))
        return Decoding(float(o["temperature"]), float(o["top_p"]), int(o["top_k"]),
                        int(o["max_reply"]))  # fmt: skip

    async def _run_prompt(
        self, prompt: dict[str, Any], sampling_params: Any, trajectory: Any, trace: bool = False
    ) -> None:
        """All rollouts of a prompt, from the first token to their place in the queue."""
        validate = bool(trajectory["validate"])
        where = "val" if validate else "train"
        uid = prompt["uid"]
        await tq.async_kv_put(key=uid, partition_id=where, tag={"status": "running"})
        try:
            await self._roll_out(uid, where, prompt, validate)
        except HarnessError as error:  # trying again would not mend it: the job stops
            log.exception("a prompt's rollouts cannot be paid")
            halt(self.out, str(error))
            await tq.async_kv_put(key=uid, partition_id=where, tag={"status": "failure"})
        except Exception:  # whatever a task, reward or engine raises: counted, and told in the log
            log.exception("a prompt's rollouts failed")
            await tq.async_kv_put(key=uid, partition_id=where, tag={"status": "failure"})
        else:
            await tq.async_kv_put(key=uid, partition_id=where, tag={"status": "finished"})

    async def _roll_out(self, uid: str, where: str, prompt: dict[str, Any], validate: bool) -> None:
        sample = sample_of(prompt["sample"])
        step = int(prompt["global_steps"])
        count = 1 if validate else int(self.options["rollouts"])
        sessions = await asyncio.gather(
            *(self._session(sample, step, number, validate) for number in range(count))
        )
        reward = self.rules if validate else self.reward
        scores = await pay(reward, sample, [s.outcome for s in sessions])
        judged = {} if validate else self._judged()
        stratum = {"stratum": self.task.stratum(sample)}
        keys, rows, tags = [], [], []
        silent = {}
        for number, (session, score) in enumerate(zip(sessions, scores, strict=True)):
            told = {**tag(sample, session.outcome, score), "turns": len(session.calls)}
            if validate:
                made = self.validation_rows(sample, session)
                rows += made
                keys.append(f"{uid}_{number}_0")
                tags.append({"status": "success", "rows": len(made), **told})
                continue
            if not session.calls:  # its row, without a loss, is made by the trainer
                mute = _lengths(Call((0,), (0,), (0.0,), step), step)
                silent[f"{uid}_{number}_0"] = {**told, **stratum, **judged, **mute}
            for turn, call in enumerate(session.calls):
                keys.append(f"{uid}_{number}_{turn}")
                plain = row(call, score.value, group_number(uid), len(session.calls))
                rows.append({**plain, **self.columns(sample, call)})
                tags.append({**told, **stratum, **judged, **_lengths(call, step)})
        if keys:
            fields = list_of_dict_to_tensordict(rows) if rows else None
            await tq.async_kv_batch_put(keys=keys, fields=fields, tags=tags, partition_id=where)
        if silent:
            await tq.async_kv_batch_put(
                keys=list(silent), tags=list(silent.values()), partition_id=where
            )

    def _judged(self) -> dict[str, Any]:
        """The judge's totals so far, marked so that the newest of a process can be told."""
        figures = self.reward.judge_figures()
        if not figures:
            return {}
        self.told += 1
        return {"judge": {"worker": os.getpid(), "told": self.told, **figures}}

    def columns(self, sample: Sample, call: Call) -> dict[str, torch.Tensor]:
        """Further columns of a row, where a method needs any."""
        return {}

    def validation_rows(self, sample: Sample, session: Session) -> list[dict[str, torch.Tensor]]:
        """The one row of a validation rollout, where a method measures more than its score."""
        return []

    async def _session(self, sample: Sample, step: int, number: int, validate: bool) -> Session:
        run, step = int(self.options["seed"]), 0 if validate else step
        seed, luck = (seed_of(run, step, sample, n) for n in (number, 0))
        decoding, opponent = self.decoding(validate), str(self.options["opponent"])
        for attempt in range(TRIES):
            try:
                return await play(self.task, sample, self.speaker, decoding, seed, opponent, luck)
            except ProviderError:
                if attempt == TRIES - 1:
                    raise
        raise AssertionError("not reached")


class Manager(AgentLoopManagerTQ):  # type: ignore[misc]  # verl is untyped
    """verl's manager with these workers."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.agent_loop_workers_class = ray.remote(Worker)


def row(call: Call, value: float, group: int, turns: int) -> dict[str, torch.Tensor]:
    """A training sequence as verl's columns: int64 ids, float32 figures, the reward on the last
    token of the reply; a loss on the reply's tokens and on no other."""
    prompt, reply = torch.tensor(call.prompt), torch.tensor(call.reply)
    ids = torch.cat([prompt, reply])
    mask = torch.ones_like(reply)
    scores = torch.zeros(len(reply))
    scores[-1] = value
    return {
        "uid": torch.tensor(group),
        "prompts": prompt,
        "responses": reply,
        "response_mask": mask,
        "loss_mask": mask,
        "input_ids": ids,
        "position_ids": torch.arange(len(ids)),
        "rollout_log_probs": torch.tensor(call.logprobs, dtype=torch.float32),
        "rm_scores": scores,
        "num_turns": torch.tensor(turns),
    }


def engine_settings(engine: str) -> dict[str, Any]:
    """What a request tells vLLM: to answer once, at the end. Otherwise each token of each rollout
    wakes the server's loop and builds an answer that nobody reads."""
    if engine != "vllm":
        return {}
    try:
        from vllm.sampling_params import RequestOutputKind
    except Exception:  # an import of vLLM may fail in a process without a GPU; it only costs time
        log.exception("vLLM's request settings cannot be imported; rollouts are slower for it")
        return {}
    return {"output_kind": RequestOutputKind.FINAL_ONLY}


def group_number(uid: str) -> int:
    """A number for a prompt's group: verl compares uids for equality only, and a number is a
    tensor where a text is not."""
    data = uid.encode()
    return (zlib.crc32(data) << 31) | (zlib.adler32(data) & 0x7FFFFFFF)


def end_tokens(tokenizer: Any, model_config: Any) -> frozenset[int]:
    """All tokens that end a reply, by tokenizer, configuration and generation configuration."""
    config = model_config.hf_config
    named = [tokenizer.eos_token_id, getattr(config, "eos_token_id", None)]
    named.append(getattr(getattr(model_config, "generation_config", None), "eos_token_id", None))
    found: set[int] = set()
    for value in named:
        found |= set(value) if isinstance(value, list | tuple) else {value} - {None}
    return frozenset(map(int, found))


def _lengths(call: Call, step: int) -> dict[str, Any]:
    return {
        "status": "success",
        "prompt_len": len(call.prompt),
        "response_len": len(call.reply),
        "seq_len": len(call.prompt) + len(call.reply),
        "global_steps": step,
        "min_global_steps": call.version,
        "max_global_steps": call.version,
    }
