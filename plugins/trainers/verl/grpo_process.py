"""The driver of a GRPO job: starts Ray, and verl's task runner with our trainer in it.

python -m harness_plugins.trainers.verl.grpo_process JOB_FOLDER/process.json
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import ray
from omegaconf import OmegaConf, open_dict
from verl.trainer.main_ppo import TaskRunnerV1, run_ppo

from .compose import compose
from .launch import forwarded, hold

LOGICAL_CORES: Final = 64
_Base = TaskRunnerV1.__ray_metadata__.modified_class


class Runner(_Base):  # type: ignore[misc, valid-type]  # verl is untyped
    """verl's runner, with our trainer in place of a registered one: verl gives another treatment to
    trainers that are not named ``sync``."""

    def run(self, config: Any) -> None:
        """Train to the end."""
        import transfer_queue as tq

        from . import transformers_rollout  # noqa: F401  (registers itself)

        lock = hold(Path(json.loads(Path(config.harness.job).read_text())["out"]))
        config.transfer_queue.enable = True
        OmegaConf.resolve(config)
        self.config = config
        tq.init(config.transfer_queue)
        succeeded = False
        try:
            self.trainer = self.policy(config)
            self.trainer.init()
            self.init_agent_loop_manager()
            self.trainer.fit(self.agent_loop_manager)
            succeeded = True
        finally:
            try:
                tracking = getattr(self.trainer, "logger", None)
                if tracking is not None:
                    tracking.finish(exit_code=0 if succeeded else 1)
            finally:
                tq.close()
                os.close(lock)

    def policy(self, config: Any) -> Any:
        """The trainer."""
        from .policy import Policy

        return Policy(config)


def main(path: str, runner: type[Runner] = Runner) -> None:
    """Run the job that ``process.json`` describes."""
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    job = json.loads(Path(path).read_text())
    config = compose("ppo_trainer", job["overrides"])
    with open_dict(config):
        config.harness = {"job": path}
        config.ray_kwargs.ray_init.runtime_env = {"env_vars": forwarded()}
        if "RAY_ADDRESS" in os.environ:
            # A cluster that is there has its size; Ray refuses to be told another.
            for name in ("num_cpus", "num_gpus", "object_store_memory"):
                config.ray_kwargs.ray_init.pop(name, None)
        elif job["device"] == "cuda":
            # Ray counts a core for each small actor, and waits for ever where cores run out.
            config.ray_kwargs.ray_init.num_cpus = max(LOGICAL_CORES, os.cpu_count() or 1)
    validate_config(
        config=config,
        use_reference_policy=need_reference_policy(config),
        use_critic=need_critic(config),
    )
    try:
        run_ppo(config, task_runner_class=ray.remote(num_cpus=1)(runner))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
