"""From the harness's options to verl's configuration, as Hydra overrides.

    sft_overrides(Place(...), options)      ['optim.lr=2e-05', 'data.train_batch_size=64', ...]

One function a trainer, pure, so that a recipe's numbers can be checked without verl. ``verl`` (an
option of both trainers) adds overrides of one's own after these, for what has no option here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.types import HarnessError, Json

ENGINES: Final = ("auto", "vllm", "transformers")
KL: Final = ("", "loss", "reward")
ROWS_MODULE: Final = "pkg://harness_plugins.trainers.verl.sft_rows"
PRECISIONS: Final = ("param", "reduce", "buffer")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job runs: its folder, the base's folder, GPUs (0: this processor), processes; and
    whether the base's output layer is its embedding."""

    out: Path
    base: Path
    gpus: int
    processes: int
    nodes: int = 1
    tied: bool = False

    @property
    def device(self) -> str:
        """verl's name of it."""
        return "cuda" if self.gpus else "cpu"


def check(options: Mapping[str, Json]) -> None:
    """Raise HarnessError for option values that make no sense, whatever the method."""
    at_least = {"batch_size": 1, "epochs": 0, "steps": 0, "save_every": 0, "keep": 0,
                "eval_every": 0, "gpus": -1, "nodes": 1, "lora.rank": 0, "max_prompt": 1,
                "max_reply": 1, "rollouts": 2, "micro_batch": 1}  # fmt: skip
    for name, low in at_least.items():
        if name in options and int(options[name]) < low:
            raise HarnessError(f"{name} {options[name]}: must be at least {low}")
    if not options["epochs"] and not options["steps"]:
        raise HarnessError("give epochs or steps: with both 0 there is nothing to do")
    for name in ("learning_rate", "clip_norm"):
        if float(options[name]) <= 0:
            raise HarnessError(f"{name} {options[name]}: must be positive")
    if not 0 <= float(options["warmup"]) < 1:
        raise HarnessError(f"warmup {options['warmup']}: a share of the steps, below 1")
    if options["schedule"] not in ("cosine", "constant"):
        raise HarnessError(f"schedule {options['schedule']!r}: cosine or constant")
    if options.get("kl", "") not in KL:
        raise HarnessError(f"kl {options['kl']!r}: loss, reward or nothing")
    if options.get("rollout.engine", "auto") not in ENGINES:
        raise HarnessError(f"rollout.engine {options['rollout.engine']!r}: {', '.join(ENGINES)}")
    if options.get("old_logprobs", "trainer") not in ("trainer", "rollout"):
        raise HarnessError(f"old_logprobs {options['old_logprobs']!r}: trainer or rollout")
    cut = "top_p" in options and (float(options["top_p"]) < 1 or int(options["top_k"]))
    if options.get("old_logprobs") == "rollout" and cut:
        raise HarnessError(
            "old_logprobs=rollout needs top_p=1 and top_k=0: with a cut distribution the engine's "
            "log-probabilities are not those of the policy"
        )


def total_steps(options: Mapping[str, Json], items: int) -> int:
    """Steps of the whole job: ``steps``, or ``epochs`` of whole batches. Raises HarnessError when
    a batch needs more items than there are."""
    batch = int(options["batch_size"])
    each = items // batch
    if each == 0:
        raise HarnessError(f"batch_size {batch} is more than the {items} items to train on")
    return int(options["steps"]) or int(options["epochs"]) * each


def epochs_for(options: Mapping[str, Json], items: int) -> int:
    """Epochs that cover all steps."""
    return -(-total_steps(options, items) // (items // int(options["batch_size"])))


def sft_overrides(place: Place, options: Mapping[str, Json], items: int) -> list[str]:
    """For verl's SFT trainer."""
    return [
        f"data.train_files={place.out}/data/train.parquet",
        "data.val_files=null",
        f"data.train_batch_size={options['batch_size']}",
        f"data.micro_batch_size_per_gpu={micro_batch(place, options)}",
        f"data.use_dynamic_bsz={bool(options['pack_tokens'])}",
        f"data.max_token_len_per_gpu={options['pack_tokens'] or 8192}",
        f"data.max_length={int(options['max_prompt']) + int(options['max_reply'])}",
        "data.pad_mode=no_padding",
        "data.num_workers=0",
        f"data.custom_cls.path={ROWS_MODULE}",
        "data.custom_cls.name=TokenRows",
        *_model("model", place, options),
        *_engine("engine", place, options),
        *_optimiser("optim", options, total_steps(options, items)),
        f"trainer.total_epochs={epochs_for(options, items)}",
        f"trainer.total_training_steps={total_steps(options, items)}",
        "trainer.logger=[file]",
        "trainer.project_name=harness",
        f"trainer.experiment_name={place.out.name or 'job'}",
        f"trainer.device={place.device}",
        f"trainer.default_local_dir={place.out}",
        f"trainer.save_freq={_save_every(options, total_steps(options, items))}",
        "trainer.test_freq=-1",
        "trainer.resume_mode=auto",
        f"trainer.n_gpus_per_node={place.processes}",
        f"trainer.nnodes={place.nodes}",
        *map(str, options["verl"]),
    ]


def grpo_overrides(place: Place, options: Mapping[str, Json], items: int) -> list[str]:
    """For verl's v1 PPO trainer with group-relative advantages."""
    actor = "actor_rollout_ref.actor"
    steps = total_steps(options, items)
    return [
        "algorithm.adv_estimator=grpo",
        f"algorithm.norm_adv_by_std_in_grpo={bool(options['standardise'])}",
        f"algorithm.use_kl_in_reward={options['kl'] == 'reward'}",
        f"algorithm.kl_ctrl.kl_coef={options['kl_coef']}",
        *_old_logprobs(options),
        f"data.train_files={place.out}/data/train.parquet",
        f"data.val_files={place.out}/data/validation.parquet",
        f"data.train_batch_size={options['batch_size']}",
        f"data.max_prompt_length={options['max_prompt']}",
        f"data.max_response_length={options['max_reply']}",
        f"data.shuffle={options['data.order'] == 'flat'}",
        f"data.seed={options['seed']}",
        "data.dataloader_num_workers=0",
        "data.truncation=error",
        *_model("actor_rollout_ref.model", place, options),
        f"{actor}.strategy=fsdp2",
        *_engine(f"{actor}.fsdp_config", place, options),
        *_engine("actor_rollout_ref.ref.fsdp_config", place, options, trained=False),
        *_optimiser(f"{actor}.optim", options, steps),
        f"{actor}.ppo_mini_batch_size={options['mini_batch'] or options['batch_size']}",
        f"{actor}.ppo_micro_batch_size_per_gpu={micro_batch(place, options)}",
        f"{actor}.ppo_epochs=1",
        f"{actor}.use_dynamic_bsz={bool(options['pack_tokens'])}",
        f"{actor}.ppo_max_token_len_per_gpu={options['pack_tokens'] or 16384}",
        f"{actor}.use_torch_compile=False",
        f"{actor}.clip_ratio_low={options['clip_low']}",
        f"{actor}.clip_ratio_high={options['clip_high']}",
        f"{actor}.clip_ratio={options['clip_low']}",
        f"{actor}.clip_ratio_c={options['clip_dual']}",
        f"{actor}.loss_agg_mode={options['loss_mean']}",
        f"{actor}.entropy_coeff={options['entropy']}",
        f"{actor}.use_kl_loss={options['kl'] == 'loss'}",
        f"{actor}.kl_loss_coef={options['kl_coef']}",
        f"{actor}.kl_loss_type={options['kl_estimator']}",
        f"{actor}.data_loader_seed={options['seed']}",
        f"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu={micro_batch(place, options)}",
        *_rollout(place, options),
        "reward.num_workers=1",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        "trainer.v1.trainer_mode=sync",
        "trainer.logger=[file]",
        "trainer.project_name=harness",
        f"trainer.experiment_name={place.out.name or 'job'}",
        f"trainer.device={place.device}",
        f"trainer.nnodes={place.nodes}",
        f"trainer.n_gpus_per_node={place.processes}",
        f"trainer.default_local_dir={place.out}",
        f"trainer.total_training_steps={steps}",
        f"trainer.total_epochs={epochs_for(options, items) + 1}",
        f"trainer.save_freq={_save_every(options, steps)}",
        f"trainer.test_freq={options['eval_every'] or steps}",
        "trainer.val_before_train=True",
        "trainer.resume_mode=auto",
        "+ray_kwargs.ray_init.include_dashboard=False",
        *([] if place.gpus else _logical_gpus(place)),
        *map(str, options["verl"]),
    ]


def micro_batch(place: Place, options: Mapping[str, Json]) -> int:
    """Rows that a process computes at a time: the most, up to ``micro_batch``, that divide its rows
    of an update, since verl takes no other number."""
    prompts = int(options.get("mini_batch", 0) or options["batch_size"])
    each = prompts * int(options.get("rollouts", 1)) // (place.processes * place.nodes)
    asked = int(options["micro_batch"])
    return max(n for n in range(1, each + 1) if each % n == 0 and (n <= asked or n == 1))


def fused(place: Place, options: Mapping[str, Json]) -> bool:
    """Whether verl's fused kernel computes log-probabilities: on a GPU, and where the output layer
    is the embedding. One of its own is sharded by itself, and the kernel would see one shard."""
    return bool(options["fused_logprobs"]) and place.gpus > 0 and place.tied


def rollout_engine(place: Place, options: Mapping[str, Json]) -> str:
    """What makes the rollouts: vLLM where there is a GPU, transformers elsewhere."""
    asked = str(options["rollout.engine"])
    if asked == "auto":
        return "vllm" if place.gpus else "transformers"
    if asked == "vllm" and not place.gpus:
        raise HarnessError("rollout.engine vllm needs a GPU; transformers works without")
    return asked


def _model(prefix: str, place: Place, options: Mapping[str, Json]) -> list[str]:
    attention = options["attention"]
    if attention == "auto":
        attention = "sdpa"
    found = [
        f"{prefix}.path={place.base}",
        f"{prefix}.trust_remote_code=False",
        f"{prefix}.use_remove_padding={attention == 'flash_attention_2'}",
        f"+{prefix}.override_config.attn_implementation={attention}",
        f"{prefix}.enable_gradient_checkpointing={bool(options['gradient_checkpointing'])}",
        f"{prefix}.use_fused_kernels={fused(place, options)}",
        f"{prefix}.fused_kernel_options.impl_backend=torch",
    ]
    if int(options["lora.rank"]):
        found += [
            f"{prefix}.lora_rank={options['lora.rank']}",
            f"{prefix}.lora_alpha={options['lora.alpha']}",
            f"{prefix}.target_modules={options['lora.targets']}",
            f"{prefix}.lora.merge=True",
        ]
    return found


def _engine(
    prefix: str, place: Place, options: Mapping[str, Json], trained: bool = True
) -> list[str]:
    found = [
        f"{prefix}.strategy=fsdp2",
        f"{prefix}.seed={options['seed']}",
        f"{prefix}.use_torch_compile=False",
        f"{prefix}.param_offload={bool(options['offload'])}",
    ]
    if trained:
        found.append(f"{prefix}.optimizer_offload={bool(options['offload'])}")
    if not place.gpus or options["precision"] == "float32":
        found += [f"+{prefix}.mixed_precision.{each}_dtype=fp32" for each in PRECISIONS]
    return found


def _optimiser(prefix: str, options: Mapping[str, Json], steps: int) -> list[str]:
    return [
        f"{prefix}.lr={options['learning_rate']}",
        f"{prefix}.lr_scheduler_type={options['schedule']}",
        # Whole steps, rounded down: a share would be rounded by verl in its own way.
        f"{prefix}.lr_warmup_steps={int(float(options['warmup']) * steps)}",
        f"{prefix}.weight_decay={options['weight_decay']}",
        f"{prefix}.clip_grad={options['clip_norm']}",
        f"{prefix}.betas=[0.9,0.999]",
    ]


def _rollout(place: Place, options: Mapping[str, Json]) -> list[str]:
    prefix = "actor_rollout_ref.rollout"
    engine = rollout_engine(place, options)
    top_k = int(options["top_k"]) or -1
    module = "harness_plugins.trainers.verl.rollouts"
    room = int(options["max_prompt"]) + int(options["max_reply"])
    found = [
        f"{prefix}.name={'vllm' if engine == 'vllm' else 'harness_transformers'}",
        f"{prefix}.n={options['rollouts']}",
        f"{prefix}.seed={options['seed']}",
        f"{prefix}.temperature={options['temperature']}",
        f"{prefix}.top_p={options['top_p']}",
        f"{prefix}.top_k={top_k}",
        f"{prefix}.tensor_model_parallel_size={options['rollout.tensor_parallel']}",
        f"{prefix}.log_prob_micro_batch_size_per_gpu={micro_batch(place, options)}",
        f"{prefix}.calculate_log_probs=True",
        f"{prefix}.max_model_len={room}",
        f"{prefix}.agent.num_workers={options['rollout.workers'] or (4 if place.gpus else 1)}",
        f"+{prefix}.agent.agent_loop_manager_class={module}.Manager",
    ]
    if engine == "vllm":
        found += [
            f"{prefix}.gpu_memory_utilization={options['rollout.memory']}",
            f"{prefix}.enforce_eager={bool(options['rollout.eager'])}",
            f"{prefix}.free_cache_engine={bool(options['rollout.sleep'])}",
            f"{prefix}.max_num_seqs={options['rollout.sequences']}",
            f"{prefix}.max_num_batched_tokens={max(16384, room)}",
        ]
        if options["rollout.graphs"]:
            sizes = ",".join(map(str, options["rollout.graphs"]))
            found.append(f"{prefix}.cudagraph_capture_sizes=[{sizes}]")
    else:
        found.append(f"{prefix}.free_cache_engine=False")
    return found


def _old_logprobs(options: Mapping[str, Json]) -> list[str]:
    if options["old_logprobs"] == "trainer":
        return []
    return ["algorithm.rollout_correction.bypass_mode=True"]


def _logical_gpus(place: Place) -> list[str]:
    return [
        "ray_kwargs.ray_init.num_cpus=16",
        f"+ray_kwargs.ray_init.num_gpus={place.processes}",
        "+ray_kwargs.ray_init.object_store_memory=500000000",
    ]


def _save_every(options: Mapping[str, Json], steps: int) -> int:
    return int(options["save_every"]) or steps
