"""verl's engine with a probe loss: heads on pooled prompt positions beside the model.

    training = ProbeTraining(config, probe)     # in place of verl's TrainingWorker
    held_out(training, rows, tokens)            # loss and accuracy on items that are not trained on

Forward hooks on the decoder blocks take the hidden states, so it does not matter how the output
layer is computed (fused kernels), nor whether activations are computed again (gradient
checkpointing: a hook that runs in the backward pass hears nothing). Rows may be padded or packed.

The heads are no part of the model: they have an optimiser of their own, do not count in the norm
that gradients are clipped to, and stay out of exported weights. They learn from the cross entropy
itself, whatever ``coef`` is; the model gets ``coef`` times its gradient, and none at 0, where a job
is plain GRPO, to the last bit, with its states watched. Their gradients are averaged over the
ranks, of losses that are divided by the counts of the whole batch: all ranks have equal heads,
those that one process would have.

Whatever goes wrong here is an error that ends the job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch import nn
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id, get_device_name
from verl.utils.metric import AggregationType, Metric
from verl.workers.engine import EngineRegistry
from verl.workers.engine_workers import TrainingWorker

from harness.probing.heads import ProbeHeads, pool_packed, pool_padded
from harness.types import HarnessError

from .engines import BlockEngine, CPUEngine
from .probe_settings import FILES, Probe

MODEL_TYPE: Final = "harness_probe"
READ: Final = "probe_read"
"""Set in a batch whose forward pass is made for the heads' figures."""

STATE: Final = "probe.pt"
FIGURE: Final = "probe/"


class Scaled(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """The states as they are; their gradient is scaled on the way back."""

    @staticmethod
    def forward(context: Any, states: torch.Tensor, factor: float) -> torch.Tensor:
        context.factor = factor
        return states.view_as(states)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient * context.factor, None


class Taps:
    """Hooks that keep the output of blocks while they listen."""

    def __init__(self, module: nn.Module, layers: Sequence[int], depth: int) -> None:
        self.states: dict[int, torch.Tensor] = {}
        self.listening = False
        blocks = blocks_of(module, depth)
        for layer in layers:
            blocks[layer].register_forward_hook(partial(self._keep, layer))

    def _keep(self, layer: int, module: nn.Module, inputs: Any, output: Any) -> None:
        if self.listening:
            self.states[layer] = output[0] if isinstance(output, tuple) else output

    def __enter__(self) -> Taps:
        self.listening = True
        return self

    def __exit__(self, *_: object) -> None:
        self.listening = False
        self.states = {}


def blocks_of(module: nn.Module, depth: int) -> nn.ModuleList:
    """The decoder blocks: the list of modules with one entry for each layer. Raises HarnessError
    where there is none."""
    for inner in module.modules():
        if isinstance(inner, nn.ModuleList) and len(inner) == depth:
            return inner
    raise HarnessError(f"{type(module).__name__}: its {depth} decoder blocks were not found")


class ProbeMixin:
    """What an engine with heads does besides. ``probe`` is set before ``initialize``."""

    probe: Probe

    def initialize(self) -> None:
        """The model as ever; then the heads, alike on all ranks, and the hooks."""
        super().initialize()  # type: ignore[misc]
        engine: Any = self
        if engine.use_ulysses_sp:
            raise HarnessError("a probe loss needs whole prompts: no sequence parallelism")
        heads = ProbeHeads(self.probe.width, self.probe.classes, self.probe.layers,
                           self.probe.weights, self.probe.seed)  # fmt: skip
        self.heads = heads.to(get_device_id())
        self.adam = torch.optim.Adam(self.heads.parameters(), lr=self.probe.learning_rate)
        self.taps = Taps(engine.module, self.probe.layers, self.probe.depth)
        self.tally: torch.Tensor | None = None

    # The loss

    def forward_backward_batch(
        self, data: Any, loss_function: Any, forward_only: bool = False
    ) -> Any:
        """Count the labels of the whole batch first: every part of its loss is divided by them."""
        engine: Any = self
        if not forward_only or tu.get_non_tensor_data(data, READ, False):
            if Probe.COLUMN not in data.keys():  # noqa: SIM118  (no mapping)
                raise HarnessError("the rows of a batch have no probe labels")
            counts = histogram(dense(data[Probe.COLUMN]), self.probe.classes)
            self.tally = counts.to(get_device_id())
            torch.distributed.all_reduce(self.tally, group=engine.get_data_parallel_group())
        try:
            return super().forward_backward_batch(data, loss_function, forward_only)  # type: ignore[misc]
        finally:
            self.tally = None

    def forward_step(self, micro_batch: Any, loss_function: Any, forward_only: bool) -> Any:
        """A forward pass, with the heads' loss where they learn or are read."""
        if self.tally is None:
            return super().forward_step(micro_batch, loss_function, forward_only)  # type: ignore[misc]
        with self.taps:
            both = partial(self._loss, loss_function)
            return super().forward_step(micro_batch, both, forward_only)  # type: ignore[misc]

    def _loss(
        self, inner: Callable[..., Any] | None, model_output: Any = None, data: Any = None,
        dp_group: Any = None, **named: Any,
    ) -> Any:  # fmt: skip
        """The policy's loss + coef x that of the heads, and the figures of both."""
        if model_output is None:  # asked to process logits
            return inner(data=data, **named) if inner else None
        probe, figures = self._probe_loss(data)
        if inner is None:
            return probe.detach(), figures
        loss, metrics = inner(model_output=model_output, data=data, dp_group=dp_group)
        # The value is loss + coef x probe; the gradient that reaches the heads is not scaled.
        whole = loss + (probe - probe.detach()) + self.probe.coef * probe.detach()
        return whole, {**metrics, **figures}

    def _probe_loss(self, data: Any) -> tuple[torch.Tensor, dict[str, Metric]]:
        engine: Any = self
        assert self.tally is not None
        size = engine.get_data_parallel_size()
        with torch.autocast(get_device_name(), enabled=False):
            labels = dense(data[Probe.COLUMN]).to(get_device_id())
            named = dict(zip(self.probe.classes, labels.unbind(1), strict=True))
            sums = self.heads.sums(self._pooled(data), named)
            seen = self.tally.tolist()
            counts = {n: float(sum(row)) for n, row in zip(self.probe.classes, seen, strict=True)}
            # verl averages gradients over the ranks, of losses that belong to the whole batch.
            loss = self.heads.combine(sums, counts) * size
        if not bool(torch.isfinite(loss)):
            raise HarnessError(f"the probe's loss is {float(loss.detach())}")
        figures = {f"{FIGURE}loss": Metric(AggregationType.SUM, loss)}
        for place, (name, found) in enumerate(sums.items()):
            if count := counts[name]:
                shares = {"loss": found.loss, "accuracy": found.right}
                for what, value in shares.items():
                    share = float(value.detach()) * size / count
                    figures[f"{FIGURE}{place}/{what}"] = Metric(AggregationType.SUM, share)
                majority = max(seen[place]) / count
                figures[f"{FIGURE}{place}/majority"] = Metric(AggregationType.MEAN, majority)
        return loss, figures

    def _pooled(self, data: Any) -> dict[int, torch.Tensor]:
        """Pooled prompt states (rows, width) of each layer, float32, with ``coef`` in their
        gradient."""
        offsets = data["input_ids"].offsets()
        starts, sizes = offsets[:-1], lengths(data["prompts"]).to(offsets.device)
        packed = bool(tu.get_non_tensor_data(data, "use_remove_padding", False))
        found = {}
        for layer in self.probe.layers:
            if layer not in self.taps.states:
                raise HarnessError(f"the block of layer {layer} was not heard")
            states = self.taps.states[layer]
            if not self.probe.coef:
                states = states.detach()
            if packed:
                pooled = pool_packed(states, starts, sizes, self.probe.pooling)
            else:
                pooled = pool_padded(states, torch.zeros_like(sizes), sizes, self.probe.pooling)
            found[layer] = Scaled.apply(pooled, self.probe.coef) if self.probe.coef else pooled
        return found

    # The heads' own optimiser

    def optimizer_zero_grad(self) -> None:
        """Of both."""
        super().optimizer_zero_grad()  # type: ignore[misc]
        self.adam.zero_grad()

    def optimizer_step(self) -> Any:
        """The model's step, then the heads' with gradients averaged over the ranks."""
        norm = super().optimizer_step()  # type: ignore[misc]
        engine: Any = self
        gradients = [p.grad for p in self.heads.parameters()]
        flat = torch.cat([g.reshape(-1) for g in gradients])
        torch.distributed.all_reduce(flat, group=engine.get_data_parallel_group())
        flat /= engine.get_data_parallel_size()
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]),
                                  strict=True):  # fmt: skip
            gradient.copy_(part.view_as(gradient))
        self.adam.step()
        return norm

    # Checkpoints

    def save_checkpoint(self, local_path: str, *arguments: Any, **named: Any) -> None:
        """The model's shards; rank 0 adds heads and optimiser, and the heads as safetensors."""
        super().save_checkpoint(local_path, *arguments, **named)  # type: ignore[misc]
        if torch.distributed.get_rank() == 0:
            folder = Path(local_path)
            state = {"heads": self.heads.state_dict(), "adam": self.adam.state_dict()}
            torch.save(state, folder / STATE)
            weights = {n: w.detach().cpu().contiguous() for n, w in self.heads.state_dict().items()}
            save_file(weights, folder / FILES[0])
            (folder / FILES[1]).write_text(json.dumps(self.probe.json(), indent=2) + "\n")
        torch.distributed.barrier()

    def load_checkpoint(self, local_path: str, *arguments: Any, **named: Any) -> None:
        """Both. Raises HarnessError where the step has no heads."""
        super().load_checkpoint(local_path, *arguments, **named)  # type: ignore[misc]
        path = Path(local_path) / STATE
        if not path.is_file():
            raise HarnessError(f"{local_path} holds no probe heads")
        state = torch.load(path, map_location="cpu", weights_only=True)
        self.heads.load_state_dict(state["heads"])
        self.adam.load_state_dict(state["adam"])


class ProbeEngine(ProbeMixin, BlockEngine):
    """On a GPU, with verl's fused kernel or without."""


class ProbeCPUEngine(ProbeMixin, CPUEngine):
    """On a processor."""


_register = EngineRegistry.register
_register(model_type=MODEL_TYPE, backend=["fsdp2"], device="cuda")(ProbeEngine)
_register(model_type=MODEL_TYPE, backend=["fsdp2"], device="cpu")(ProbeCPUEngine)


class ProbeTraining(TrainingWorker):  # type: ignore[misc]  # verl is untyped
    """verl's training worker with such an engine; its figures of the probe are plain numbers."""

    def __init__(self, config: Any, probe: Probe) -> None:
        super().__init__(replace(config, model_type=MODEL_TYPE))
        # It chose the engine; the model itself is a language model like any other.
        self.model_config.model_type = "language_model"
        self.engine.probe = probe

    def train_batch(self, data: Any) -> Any:
        """One update."""
        output = super().train_batch(data)
        if output is not None:
            flatten(tu.get(output, "metrics"))
        return output


def flatten(metrics: dict[str, Any]) -> None:
    """The probe's figures, one list of parts for each rank, as numbers."""
    for name in [n for n in metrics if n.startswith(FIGURE)]:
        value = metrics[name]
        parts = value if isinstance(value, list) else [value]
        metrics[name] = float(Metric.aggregate_dp(parts))


def told(metrics: Mapping[str, Any], probe: Probe, prefix: str = "") -> dict[str, Any]:
    """Figures under the names of their concepts. Between processes they have numbers, since verl
    takes the least of figures whose name contains "min" (dominance)."""
    names = list(probe.classes)
    found = {}
    for name, value in metrics.items():
        parts = name.removeprefix(prefix).split("/")
        if name.startswith(f"{prefix}{FIGURE}"):
            parts[1] = names[int(parts[1])] if parts[1].isdigit() else parts[1]
            name = "/".join(parts)
        found[name] = value
    return found


def dense(labels: torch.Tensor) -> torch.Tensor:
    """Labels as (rows, concepts), however the rows travelled."""
    return torch.stack(list(labels.unbind())) if labels.is_nested else labels


def lengths(rows: torch.Tensor) -> torch.Tensor:
    """The length of each row, (rows,), jagged or all alike."""
    if rows.is_nested:
        return rows.offsets().diff()
    return torch.full((len(rows),), rows.shape[1], device=rows.device)


def histogram(labels: torch.Tensor, classes: Mapping[str, int]) -> torch.Tensor:
    """How many rows have which class of each concept, int64 (concepts, most classes). Raises
    HarnessError for a class that a concept does not have."""
    width = max(classes.values())
    for (name, count), column in zip(classes.items(), labels.unbind(1), strict=True):
        if int(column.max()) >= count:
            raise HarnessError(f"{name} has {count} classes, and a label is {int(column.max())}")
    kept = [torch.bincount(c[c >= 0], minlength=width) for c in labels.long().unbind(1)]
    return torch.stack(kept)


def held_out(
    training: ProbeTraining, rows: Sequence[Mapping[str, Any]], tokens: int
) -> dict[str, float]:
    """Loss, accuracy and majority share of each concept on prompts that are not trained on, under
    the names of the concepts. All ranks call it with all rows, and each computes its part.

    :param rows: with ``ids`` of a prompt and its ``labels``.
    :param tokens: a batch's, at most (a longer prompt is a batch of its own).
    """
    engine = training.engine
    rank, size = engine.get_data_parallel_rank(), engine.get_data_parallel_size()
    mine = list(rows[rank::size])
    fewest = -(-len(rows) // size)
    blank = {"ids": rows[0]["ids"], "labels": [-1] * len(rows[0]["labels"])}
    mine += [blank] * (fewest - len(mine))  # every rank makes as many passes
    ids = [torch.tensor(row["ids"]) for row in mine]
    jagged = partial(torch.nested.as_nested_tensor, layout=torch.jagged)
    columns = {
        "input_ids": jagged(ids),
        "prompts": jagged(ids),
        "position_ids": jagged([torch.arange(len(i)) for i in ids]),
        "loss_mask": jagged([torch.zeros_like(i) for i in ids]),
        Probe.COLUMN: torch.tensor([row["labels"] for row in mine]),
    }
    settings = {
        READ: True, "compute_loss": False, "temperature": 1.0, "use_dynamic_bsz": True,
        "max_token_len_per_gpu": max(tokens, *(len(row["ids"]) for row in rows)),
    }  # fmt: skip
    output = training.infer_batch(tu.get_tensordict(columns, settings))
    metrics = tu.get(output, "metrics")
    flatten(metrics)
    return {n: float(v) for n, v in told(metrics, engine.probe).items() if n.startswith(FIGURE)}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The held-out rows that lie beside a probe's description."""
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(path.with_suffix(".parquet")).to_pylist()
    return rows
