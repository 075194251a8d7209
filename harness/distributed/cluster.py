"""The Ray cluster that replicas run on: the one of ``RAY_ADDRESS``, or this machine's own.

    connect(replicas=4); gpus()                 # 8.0

Ray's usage reports and dashboard are off; the variables that decide where models and caches lie
reach its workers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..types import HarnessError, Json

EXTRA: Final = "pip install 'strategic-harness[ray]'"
FORWARDED: Final = ("HF_HOME", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_TOKEN", "TMPDIR", "PYTHONPATH",
                    "HARNESS_CACHE", "HARNESS_LOAD_PLUGINS", "XDG_CACHE_HOME")  # fmt: skip
PREFIXES: Final = ("VLLM_", "NCCL_")
STORE: Final = 200_000_000
"""Bytes of Ray's object store on this machine: requests and replies are small."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What one replica reserves: cores, GPUs, and the share of each GPU's memory it may take."""

    cpus: float
    gpus: float
    share: float = 1.0


def connect(replicas: int) -> Any:
    """Ray, connected: to ``RAY_ADDRESS`` where it is set, else to a cluster of this process.

    Raises HarnessError when Ray is missing or the cluster does not answer.
    """
    try:
        import ray
    except ImportError:
        raise HarnessError(f"--replicas needs Ray, which is not installed; {EXTRA}") from None
    if ray.is_initialized():
        return ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    address = os.environ.get("RAY_ADDRESS")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    environment = {n: os.environ[n] for n in FORWARDED if n in os.environ}
    environment |= {n: v for n, v in os.environ.items() if n.startswith(PREFIXES)}
    quiet["runtime_env"] = {"env_vars": environment}
    try:
        if address:
            ray.init(address=address, **quiet)
        else:
            ray.init(
                num_cpus=max(replicas, os.cpu_count() or 1),
                include_dashboard=False,
                object_store_memory=STORE,
                **quiet,
            )
    except Exception as error:  # Ray raises many kinds
        where = f"the cluster at RAY_ADDRESS={address}" if address else "a local cluster"
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise HarnessError(f"Ray cannot start {where}: {reason}") from None
    return ray


def slot(ray: Any, replicas: int, options: Mapping[str, Json], wanted: bool, seats: int) -> Slot:
    """What each of ``replicas`` gets. ``options`` are the back end's, ``wanted`` says whether it
    can use a GPU, ``seats`` how many models share the devices (a model as opponent).

    A replica is ``tensor_parallel`` x ``pipeline_parallel`` GPUs wide. One that is one GPU wide may
    share it: more replicas than GPUs split their memory. Raises HarnessError where they do not fit.
    """
    there = float(ray.cluster_resources().get("GPU", 0.0)) if wanted else 0.0
    if not there:
        return Slot(1.0, 0.0)
    wide = int(options.get("tensor_parallel", 1)) * int(options.get("pipeline_parallel", 1))
    if wide == 1:
        crowd = max(1, -(-replicas // int(there))) * seats
        # A hair less, or rounding leaves the last one of a crowd without its place.
        return Slot(1.0, 1.0 if crowd == 1 else int(9999 / crowd) / 10000, 1.0 / crowd)
    if replicas * wide * seats > there and not os.environ.get("RAY_ADDRESS"):
        raise HarnessError(
            f"--replicas {replicas} of {wide} GPUs each need {replicas * wide * seats} GPUs; there "
            f"are {there:g}"
        )
    return Slot(1.0, float(wide), 1.0 / seats)
