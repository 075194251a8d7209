"""Replays recorded rollouts through the workers of a GRPO job, in a fixed order.

    python probe_replay.py JOB_FOLDER VARIANT:STEPS[,VARIANT:STEPS] OUT

Each variant starts from the base and makes the same updates with the same rows; OUT/VARIANT-R.pt
holds the model's parameters, the heads and the figures of each step as rank R has them. Under
``torch.distributed.run`` the ranks share the rows. ``resumed`` saves after half of the steps and
goes on with a worker that loads what was saved. ``tied`` and ``fused`` start from a base beside the
job's, whose output layer is its embedding.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

VARIANTS = {
    "plain": [],
    "zero": [],
    "probe": [],
    "packed": ["actor_rollout_ref.model.use_remove_padding=True"],
    "stored": ["actor_rollout_ref.model.enable_gradient_checkpointing=False"],
    "parts": ["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2"],
    "adapters": [
        "actor_rollout_ref.model.lora_rank=4",
        "actor_rollout_ref.model.lora_alpha=8",
        "actor_rollout_ref.model.target_modules=all-linear",
    ],
    "tied": ["actor_rollout_ref.model.path=BASE-tied"],
    "fused": [
        "actor_rollout_ref.model.path=BASE-tied",
        "actor_rollout_ref.model.use_fused_kernels=True",
    ],
    "resumed": [],
}


def make(job, name):
    """A worker of the actor; without heads for ``plain``, with coef 0 for ``zero``."""
    from harness_plugins.trainers.verl.compose import compose
    from harness_plugins.trainers.verl.policy import CPUWorker
    from harness_plugins.trainers.verl.probe_policy import HeadsCPUWorker

    changes = [text.replace("BASE", job["base"]) for text in VARIANTS[name]]
    config = compose("ppo_trainer", [*job["overrides"], *changes]).actor_rollout_ref
    if name == "zero":
        path = Path(config.probe)
        changed = path.parent / "zero" / path.name
        shutil.copytree(path.parent, changed.parent)
        changed.write_text(json.dumps({**json.loads(path.read_text()), "coef": 0.0}))
        config.probe = str(changed)
    worker = (CPUWorker if name == "plain" else HeadsCPUWorker)(config=config, role="actor")
    worker.init_model()
    return worker


def batch(rows):
    """What the trainer hands to a worker."""
    import torch
    from verl.utils import tensordict_utils as tu
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    data = list_of_dict_to_tensordict(rows[rank::size])
    for key, value in list(data.items()):  # rows of one length are stacked; verl wants them jagged
        if value.dim() == 2 and not value.is_nested and key != "probe_labels":
            data[key] = torch.nested.as_nested_tensor(list(value), layout=torch.jagged)
    tu.assign_non_tensor(
        data, calculate_entropy=False, distillation_use_topk=False, distillation_only=False,
        global_batch_size=len(rows), mini_batch_size=len(rows), epochs=1, seed=1,
        dataloader_kwargs={"shuffle": False}, temperature=1.0,
    )  # fmt: skip
    return data


def update(worker, steps):
    """The figures of each step."""
    from verl.utils import tensordict_utils as tu
    from verl.utils.metric import reduce_metrics

    figures = []
    for rows in steps:
        output = worker.update_actor(batch(rows))
        metrics = reduce_metrics(dict(tu.get(output, "metrics")))
        told = {k: float(v) for k, v in metrics.items() if k.startswith(("probe/", "actor/pg_l"))}
        figures.append(told)
    return figures


def state(worker):
    """Parameters and heads, whole."""
    engine = worker.actor.engine
    whole = {n: p.full_tensor().detach().clone() for n, p in engine.module.named_parameters()}
    heads = getattr(engine, "heads", None)
    adam = engine.adam.state_dict()["state"] if heads is not None else {}
    return {"model": whole, "heads": dict(heads.state_dict()) if heads else {}, "adam": adam}


def main(folder, wanted, out):
    import torch

    job = json.loads((folder / "process.json").read_text())
    recorded = torch.load(folder / "rollouts.pt", weights_only=True)
    for text in wanted.split(","):
        name, _, count = text.partition(":")
        steps = recorded[: int(count)]
        worker = make(job, name)
        if name == "resumed":
            half = len(steps) // 2
            figures = update(worker, steps[:half])
            worker.save_checkpoint(str(out / "saved"))
            worker = make(job, name)
            worker.load_checkpoint(str(out / "saved"))
            figures += update(worker, steps[half:])
        else:
            figures = update(worker, steps)
        seen = {} if name == "plain" else worker.probe_held_out()
        found = {**state(worker), "figures": figures, "held_out": seen}
        torch.save(found, out / f"{name}-{os.environ['RANK']}.pt")
    torch.distributed.barrier()


if __name__ == "__main__":
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    for variable, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"),
                            ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0")):  # fmt: skip
        os.environ.setdefault(variable, value)
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
