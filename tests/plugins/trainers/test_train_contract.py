"""What is used of verl 0.9.1 without a public door, pinned: a new version breaks here first."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from train_jobs import missing

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(bool(missing()), reason=missing() or "verl is there"),
]


def test_the_platform_enters_through_the_entry_point():
    code = (
        "from verl.plugin.platform.platform_manager import get_platform\n"
        "p = get_platform()\n"
        "print(type(p).__module__, p.device_name, p.communication_backend_name())"
    )
    environment = {**os.environ, "VERL_PLATFORM": "cpu"}
    environment.pop("VERL_USE_EXTERNAL_MODULES", None)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300
    )
    assert "harness_plugins.trainers.verl.platform cpu gloo" in done.stdout, done.stderr


CONTRACT = """
import inspect

from verl.trainer.main_ppo import TaskRunnerV1
from verl.trainer.ppo.v1 import agent_loop_tq, replay_buffer, trainer_base, trainer_sync
from verl.trainer.sft_trainer import SFTTrainer
from verl.utils.checkpoint import CheckpointHandler
from verl.workers.engine import FSDPEngineWithLMHead
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker
from verl.workers.rollout.base import _ROLLOUT_REGISTRY

def has(owner, *names):
    for name in names:
        assert callable(getattr(owner, name)), (owner, name)

has(TaskRunnerV1.__ray_metadata__.modified_class, "run", "init_agent_loop_manager")
worker = agent_loop_tq.AgentLoopWorkerTQ.__ray_metadata__.modified_class
names = list(inspect.signature(worker._run_prompt).parameters)
assert names[:5] == ["self", "prompt", "sampling_params", "trajectory", "trace"], names
has(trainer_sync.PPOTrainerSync, "_init_resource_pool_mgr", "_validate", "_balance_batch",
    "_compute_metrics", "_save_checkpoint", "_get_required_batch_multiple", "_compute_advantage",
    "_update_actor", "fit")
assert "poll_interval" in inspect.signature(replay_buffer.ReplayBuffer.__init__).parameters
has(SFTTrainer, "_build_dataloader", "_build_ckpt_handler", "_build_engine", "fit")
has(CheckpointHandler, "_load_dataloader_state", "save_checkpoint")
has(FSDPEngineWithLMHead, "_build_fsdp_module", "initialize", "forward_backward_batch",
    "forward_step", "optimizer_zero_grad", "optimizer_step", "save_checkpoint", "load_checkpoint")
has(TrainingWorker, "train_batch", "infer_batch")
assert ActorRolloutRefWorker.actor_worker_cls is TrainingWorker
assert ("vllm", "async") in _ROLLOUT_REGISTRY
print("held")
"""


def test_names_without_a_public_door():
    environment = {**os.environ, "VERL_PLATFORM": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", CONTRACT], capture_output=True, text=True, env=environment,
        timeout=600,
    )  # fmt: skip
    assert done.stdout.strip().endswith("held"), done.stderr[-3000:]


def test_log_probabilities_in_blocks_and_their_gradients():
    """Against log_softmax over the whole, in float64."""
    os.environ["VERL_PLATFORM"] = "cpu"
    import torch

    from harness_plugins.trainers.verl.engines import BLOCK, in_blocks

    torch.manual_seed(0)
    tokens = BLOCK + 37
    logits = torch.randn(tokens, 11, requires_grad=True)
    labels, heat = torch.randint(11, (tokens,)), torch.rand(tokens) + 0.5
    found, entropy = in_blocks(logits, labels, heat, True)
    weights = torch.randn(tokens)
    (found * weights).sum().backward()
    exact = logits.detach().double().requires_grad_()
    wanted = torch.log_softmax(exact / heat.double().unsqueeze(-1), -1)
    chosen = wanted.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    (chosen * weights.double()).sum().backward()
    assert torch.allclose(found.double(), chosen, atol=1e-5)
    assert torch.allclose(entropy.double(), -(wanted.exp() * wanted).sum(-1), atol=1e-5)
    assert torch.allclose(logits.grad.double(), exact.grad, atol=1e-5)
    assert len(in_blocks(logits, labels, heat, False)[1]) == 0


def test_the_sampler_of_the_processor_against_its_definition():
    """Frequencies of 4,000 draws from a cut distribution, within four standard errors."""
    os.environ["VERL_PLATFORM"] = "cpu"
    import torch

    from harness_plugins.trainers.verl.transformers_rollout import choose

    logits = torch.log(torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.0625]))
    stream = torch.Generator().manual_seed(1)
    sampling = {"temperature": 1.0, "top_p": 0.7, "top_k": -1}
    draws = [choose(logits, sampling, stream) for _ in range(4000)]
    counts = [sum(t == k for t, _ in draws) / 4000 for k in range(5)]
    assert counts[2:] == [0, 0, 0]
    assert abs(counts[0] - 2 / 3) < 4 * (2 / 9 / 4000) ** 0.5
    assert all(lp == pytest.approx(float(logits[t]), abs=1e-6) for t, lp in draws[:50])
    assert choose(logits, {"temperature": 0.0}, stream)[0] == 0
    only = [choose(logits, {"temperature": 1.0, "top_k": 1}, stream)[0] for _ in range(20)]
    assert set(only) == {0}
