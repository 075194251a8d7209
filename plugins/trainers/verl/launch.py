"""Worker processes of a job: their environment, their start, and what went wrong in them.

    run(command, environment, log, watch)      # until they end; watch is called twice a second

The output of the processes goes into a log of the job; when they fail, the cause is told in one
line, and the log is named.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.processes import die_with_parent
from harness.types import HarnessError

POLL: Final = 0.5
ORPHANS: Final = 180.0
"""Seconds that the processes of a killed attempt are waited for: Ray notices a death by and by."""

GRACE: Final = 20.0
"""Seconds between asking processes to end and ending them."""

QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "WANDB_MODE": "offline",
    "DO_NOT_TRACK": "1",
}
"""No usage report leaves the machine."""

CAUSES: Final = (
    (r"CUDA out of memory|OutOfMemoryError|No available memory for the cache blocks",
     "the GPU's memory is too small: lower micro_batch, pack_tokens or rollout.memory, or set "
     "offload=true, gradient_checkpointing=true or lora.rank"),
    (r"Free memory on device .* is less than desired GPU memory utilization",
     "another process holds the GPU's memory: free it or lower rollout.memory"),
    (r"DefaultCPUAllocator: can't allocate memory|Cannot allocate memory|MemoryError",
     "the machine's memory is too small for this job"),
    (r"No space left on device", "the disk is full"),
    (r"ImportError: cannot import name 'AutoModelForCausalLMWithValueHead'",
     "trl is installed beside verl, whose workers then fail: pip uninstall trl"),
    (r"Unknown platform 'cpu'",
     "verl does not load this package's platform: reinstall strategic-harness, so that its entry "
     "point 'verl.plugins' is known"),
)  # fmt: skip
"""What a log says, and what the user is told."""


def environment(gpus: int, metrics: Path, processes: int = 1) -> dict[str, str]:
    """The environment of worker processes: the user's, with what verl needs.

    ``HF_HOME``, ``HF_HUB_OFFLINE``, ``RAY_TMPDIR``, ``TMPDIR`` and ``VERL_*`` are the user's own.
    """
    found = dict(os.environ)
    for name, value in QUIET.items():
        found.setdefault(name, value)
    found |= {
        "VERL_FILE_LOGGER_PATH": str(metrics),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HYDRA_FULL_ERROR": "1",
        "PYTHONPATH": os.pathsep.join(import_path()),
    }
    # FlashInfer's sampler is compiled on first use, for more than a minute.
    found.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    if not gpus:
        found["VERL_PLATFORM"] = "cpu"
        found.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
        found.pop("CUDA_VISIBLE_DEVICES", None)
    return found


def import_path() -> list[str]:
    """Where this process imports from, besides its interpreter's own folders."""
    own = tuple(str(Path(p).resolve()) for p in {sys.prefix, sys.base_prefix})
    found = [str(Path(p or ".").resolve()) for p in sys.path]
    asked = [
        str(Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p
    ]
    kept = [p for p in found if p in asked or not p.startswith(own)]
    return list(dict.fromkeys([*asked, *kept]))


def forwarded() -> dict[str, str]:
    """Variables that must reach Ray's workers on every node."""
    names = ("HF_HOME", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "RAY_TMPDIR", "TMPDIR", "PYTHONPATH",
             "HARNESS_CACHE", "HARNESS_LOAD_PLUGINS", "XDG_CACHE_HOME", "OMP_NUM_THREADS",
             *QUIET)  # fmt: skip
    found = {name: os.environ[name] for name in names if name in os.environ}
    prefixes = ("VERL_", "VLLM_", "NCCL_")
    return found | {n: v for n, v in os.environ.items() if n.startswith(prefixes)}


def distributed(module: str, argument: str, processes: int, nodes: int = 1) -> list[str]:
    """The command of ``torch.distributed.run`` for a module, on this node."""
    where = ["--standalone"] if nodes == 1 else []
    return [
        sys.executable, "-m", "torch.distributed.run", *where, f"--nnodes={nodes}",
        f"--nproc-per-node={processes}", "-m", module, argument,
    ]  # fmt: skip


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def run(
    command: Sequence[str], variables: Mapping[str, str], log: Path, watch: Callable[[], None]
) -> None:
    """Run processes to their end. They are a group of their own, which ends with this one.

    Raises HarnessError with the cause when they fail.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(variables),
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        try:
            while process.poll() is None:
                watch()
                time.sleep(POLL)
        except BaseException:
            stop(process)
            raise
    watch()
    _sweep(process.pid)
    if process.returncode != 0:
        raise HarnessError(f"training failed: {cause(log, process.returncode)} (see {log})")


def hold(folder: Path, patience: float = ORPHANS) -> int:
    """Lock a job's folder for the process that writes its checkpoints; the descriptor holds it.

    Waits for the processes of an attempt that was killed, which take their time to go. Raises
    HarnessError when they do not.
    """
    lock = os.open(folder / "writer.lock", os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(lock)
                raise HarnessError(
                    f"{folder}: processes of an earlier attempt still write here; end them first"
                ) from None
            time.sleep(POLL)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the group, gently at first."""
    for how, wait in ((signal.SIGTERM, GRACE), (signal.SIGKILL, GRACE)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait)
            break
    _sweep(process.pid)


def _sweep(group: int) -> None:
    """End what the leader of a group left behind (Ray's daemons stay in it)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def cause(log: Path, code: int) -> str:
    """Why the processes failed, from the end of their log, in one line."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 200_000))
        text = file.read().decode(errors="replace")
    for pattern, told in CAUSES:
        if re.search(pattern, text):
            return told
    if code == -signal.SIGKILL:
        return "the process was killed (out of memory?)"
    ours = re.findall(r"HarnessError: (.+)", text)
    if ours:
        return str(ours[-1])
    errors = re.findall(r"^(?:\S+ )?((?:\w+\.)*\w*(?:Error|Exception)\b: .+)$", text, re.MULTILINE)
    return str(errors[-1])[:300] if errors else f"exit code {code}"
