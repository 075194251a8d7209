"""A GRPO step of the harness beside one of verl's own trainer, step by step in turns.

    python benchmarks/train_step.py --job runs/grpo --work DIR --steps 30

Both trainers are started from one job (its ``process.json``; ``harness train --stage build`` makes
one): the harness's own, and verl's with the same settings, kernels and polling interval, whose
rollouts verl's own workers drive and a reward function pays (``python -m verl.trainer.main_ppo``
on a GPU; on a processor the same trainer with workers that connect over gloo). They take turns on
the same machine, each step beginning when the other's has ended, so that what else the machine does
hits both alike. A step is timed from its first rollout to the moment when the next one could begin.
Prints both medians and their ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WARM_UP = 3
NAMES = ("harness", "verl")
PATIENCE = 1800


class Turns:
    """Two processes that take turns, through a file that names whose turn it is."""

    def __init__(self) -> None:
        self.folder = Path(os.environ["STEP_TURNS"])
        self.name = os.environ["STEP_NAME"]
        self.began = 0.0

    def arrive(self) -> None:
        """The step is over (there may be none yet): note its time and wait for the next turn."""
        now = time.perf_counter()
        if self.began:
            with (self.folder / f"{self.name}.times").open("a") as file:
                file.write(f"{now - self.began}\n")
        other = NAMES[1 - NAMES.index(self.name)]
        (self.folder / f"{self.name}.ready").touch()
        whose = self.folder / "turn"
        while not (self.folder / f"{other}.ready").exists():
            time.sleep(0.05)
        if self.began or not whose.exists():
            pass_on(whose, other if self.began else NAMES[0])
        while whose.read_text() != self.name:
            if (self.folder / f"{other}.done").exists():
                break
            time.sleep(0.005)
        self.began = time.perf_counter()


def pass_on(whose: Path, name: str) -> None:
    part = whose.with_name(f"turn.{os.getpid()}")
    part.write_text(name)
    part.replace(whose)


def gated(base: type) -> type:
    """An agent-loop manager that waits for its turn before each step's rollouts."""

    class Gated(base):  # type: ignore[misc]
        def generate_sequences(self, prompts: object) -> object:
            if not hasattr(self, "turns"):
                self.turns = Turns()
            self.turns.arrive()
            return super().generate_sequences(prompts)

    return Gated


def __getattr__(name: str) -> type:
    """The managers and the sampler, made when verl asks for them by name."""
    if name == "HarnessManager":
        from harness_plugins.trainers.verl.rollouts import Manager

        return gated(Manager)
    if name == "VerlManager":
        from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ

        return gated(AgentLoopManagerTQ)
    if name == "Sampler":
        from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

        class Sampler(ReplayBuffer):  # type: ignore[misc]
            """verl's own, which looks as often as the harness's."""

            def __init__(self, *arguments: object, **named: object) -> None:
                super().__init__(*arguments, **{**named, "poll_interval": 0.02})

        return Sampler
    raise AttributeError(name)


_paid: dict[str, object] = {}


async def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: object = None, **_: object
) -> float:
    """The same reward, as verl asks for it: one reply at a time."""
    from harness.parsing import classify
    from harness.registry import Registry
    from harness.training.export import sample_of
    from harness.types import Move, Outcome, Reply

    if not _paid:
        job = json.loads(Path(os.environ["STEP_JOB"]).read_text())
        registry = Registry.load(Path(job["registry_file"]) if job["registry_file"] else None)
        task = registry.create("task", job["task"], job["task_options"])
        import pyarrow.parquet as pq

        rows = pq.read_table(f"{job['out']}/data/train.parquet").to_pylist()
        samples = {r["extra_info"]["id"]: sample_of(r["sample"]) for r in rows}
        reward = registry.create("reward", job["reward"] or task.reward, job["reward_options"])
        _paid.update(task=task, reward=reward, samples=samples)
    task, sample = _paid["task"], _paid["samples"][extra_info["id"]]  # type: ignore[index]
    reply = Reply(solution_str)
    parsed = classify(reply, task.parse(sample, reply))  # type: ignore[attr-defined]
    move = Move(0, reply, parsed.value, parsed.cls)
    await asyncio.sleep(0)
    return _paid["reward"].score(sample, Outcome((move,), parsed.cls)).value  # type: ignore[attr-defined]


def overrides(job: dict, name: str, out: Path, steps: int) -> list[str]:
    """The job's settings, for one of the two trainers."""
    dropped = ("agent_loop_manager_class", "default_local_dir", "total_training_steps", "save_freq",
               "test_freq", "val_before_train", "resume_mode", "total_epochs")  # fmt: skip
    kept = [o for o in job["overrides"] if not any(d in o for d in dropped)]
    manager = "HarnessManager" if name == "harness" else "VerlManager"
    found = [
        *kept,
        f"+actor_rollout_ref.rollout.agent.agent_loop_manager_class=train_step.{manager}",
        f"trainer.default_local_dir={out}",
        f"trainer.total_training_steps={steps}",
        "trainer.total_epochs=1000",
        "trainer.save_freq=-1",
        "trainer.test_freq=-1",
        "trainer.val_before_train=False",
        "trainer.resume_mode=disable",
    ]
    if name == "verl":
        found += [
            "trainer.v1.sampler.custom_sampler.path=pkg://train_step",
            "trainer.v1.sampler.custom_sampler.name=Sampler",
            "reward.custom_reward_function.path=pkg://train_step",
            "reward.custom_reward_function.name=compute_score",
            "reward.num_workers=4",
            "transfer_queue.enable=True",
        ]
    return found


def start(job: dict, name: str, work: Path, steps: int) -> subprocess.Popen[bytes]:
    from harness_plugins.trainers.verl import launch

    out = work / name
    out.mkdir(parents=True, exist_ok=True)
    described = {**job, "overrides": overrides(job, name, out, steps), "validation": 0}
    path = out / "process.json"
    path.write_text(json.dumps({**described, "out": str(out)}))
    variables = launch.environment(1 if job["device"] == "cuda" else 0, out / "metrics.jsonl")
    variables |= {"STEP_TURNS": str(work), "STEP_NAME": name, "STEP_JOB": str(work / "job.json")}
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT / "benchmarks"), variables["PYTHONPATH"]])
    if name == "harness":
        command = ["-m", "harness_plugins.trainers.verl.grpo_process", str(path)]
    elif job["device"] == "cuda":
        command = ["-m", "verl.trainer.main_ppo", *described["overrides"]]
    else:
        command = ["-m", "train_step", "--plain", str(path)]
    with (out / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *command], stdout=log, stderr=log, env=variables, cwd=out,
            preexec_fn=launch.die_with_parent,
        )  # fmt: skip


def plain(path: str) -> None:
    """verl's trainer and task runner on a processor, without anything else of the harness."""
    import ray
    from verl.trainer.main_ppo import TaskRunnerV1, run_ppo
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    from harness_plugins.trainers.verl.compose import compose
    from harness_plugins.trainers.verl.policy import CPUWorker

    class Plain(PPOTrainerSync):  # type: ignore[misc]
        def _init_resource_pool_mgr(self) -> None:
            super()._init_resource_pool_mgr()
            for role in list(self.role_worker_mapping):
                self.role_worker_mapping[role] = ray.remote(CPUWorker)

    class Runner(TaskRunnerV1.__ray_metadata__.modified_class):  # type: ignore[misc]
        def run(self, config: object) -> None:
            import verl.trainer.ppo.v1 as registry

            from harness_plugins.trainers.verl import transformers_rollout  # noqa: F401

            registry.get_trainer_cls = lambda mode: Plain
            super().run(config)

    config = compose("ppo_trainer", json.loads(Path(path).read_text())["overrides"])
    run_ppo(config, task_runner_class=ray.remote(num_cpus=1)(Runner))


def main() -> int:
    if sys.argv[1:2] == ["--plain"]:
        plain(sys.argv[2])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", type=Path, required=True, help="a GRPO job's folder")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=30)
    given = parser.parse_args()
    work = given.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    for old in work.glob("*"):
        if old.is_file():
            old.unlink()
    job = json.loads((given.job / "process.json").read_text())
    (work / "job.json").write_text(json.dumps(job))
    running = {name: start(job, name, work, given.steps + WARM_UP + 1) for name in NAMES}
    codes = {}
    deadline = time.monotonic() + PATIENCE
    while len(codes) < len(NAMES) and time.monotonic() < deadline:
        for name, process in running.items():
            if name not in codes and process.poll() is not None:
                codes[name] = process.returncode
                (work / f"{name}.done").touch()
        time.sleep(0.5)
    told = {}
    for name in NAMES:
        file = work / f"{name}.times"
        times = [float(line) for line in file.read_text().split()] if file.exists() else []
        times = times[WARM_UP : WARM_UP + given.steps]
        told[name] = {
            "steps": len(times), "code": codes.get(name),
            "median": statistics.median(times) if times else None,
        }  # fmt: skip
    if all(told[name]["median"] for name in NAMES):
        told["ratio"] = told["harness"]["median"] / told["verl"]["median"]  # type: ignore[assignment]
    print(json.dumps(told, indent=1))
    return 0 if "ratio" in told else 1


if __name__ == "__main__":
    sys.exit(main())
