"""verl's platform for machines without an accelerator: one device ``cpu``, gloo between processes.

Chosen by ``VERL_PLATFORM=cpu``. Ray has no resource for it, so a logical GPU stands for each
process (``ray.init(num_gpus=N)``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

DEVICE = torch.device("cpu")
MEMORY = 1 << 34
"""Bytes that the device claims to have: verl asks, and nothing depends on the answer."""


def _device_module() -> ModuleType:
    """What stands where verl expects ``torch.cuda``."""
    module = ModuleType("harness_cpu_device")

    def nothing(*_: Any, **__: Any) -> None:
        return None

    def zero(*_: Any) -> int:
        return 0

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: DEVICE,
        "mem_get_info": lambda *_: (MEMORY // 2, MEMORY),
        "get_device_name": lambda *_: "cpu",
        "get_device_properties": lambda *_: SimpleNamespace(total_memory=MEMORY, name="cpu"),
        "memory_stats": lambda *_: {},
        "memory_summary": lambda *_: "",
        "manual_seed": torch.manual_seed,
        "manual_seed_all": torch.manual_seed,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "Stream": torch.cpu.Stream,
        "current_stream": torch.cpu.current_stream,
        "stream": torch.cpu.stream,
    }
    silent = ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "ipc_collect")
    counters = ("memory_allocated", "memory_reserved", "max_memory_allocated",
                "max_memory_reserved")  # fmt: skip
    answers |= dict.fromkeys(silent, nothing) | dict.fromkeys(counters, zero)
    for name, answer in answers.items():
        setattr(module, name, answer)
    return module


@PlatformRegistry.register(platform="cpu")
class CPUPlatform(PlatformBase):  # type: ignore[misc]  # verl is untyped
    """The processor as verl's device."""

    device_name = "cpu"
    vendor_name = "generic"
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def current_device(self) -> Any:
        return DEVICE

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        """There is one."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Nothing runs beside the caller."""

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """The system's allocator has none."""

    def empty_cache(self) -> None:
        """There is none."""

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        """No profiler of its own."""

    def profiler_stop(self) -> None:
        """No profiler of its own."""

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None
