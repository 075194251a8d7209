"""``harness serve``: a checkpoint behind HTTP, with vLLM's own server."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from ..types import HarnessError
from .options import pairs, registry_option


@click.command("serve", context_settings={"ignore_unknown_options": True})
@click.argument("model")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[-- FLAG...]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=int, default=8000, show_default=True)
@click.option("--model-set", multiple=True, metavar="KEY=VALUE", help="An option of the back end.")
@click.option("--print", "show", is_flag=True, help="Print the command and stop.")
@registry_option
def command(
    model: str,
    flags: tuple[str, ...],
    host: str,
    port: int,
    model_set: tuple[str, ...],
    show: bool,
    registry_file: Path | None,
) -> int:
    """Serve a checkpoint (a folder, FOLDER@STEP or a hub id) as an OpenAI-compatible server.

    The options are those of the back end vllm; what follows -- goes to vLLM's server as it is.
    Then: harness run --task T --model openai:NAME --model-set base_url=http://HOST:PORT/v1
    """
    from ..registry import Registry, load_module

    registry = Registry.load(registry_file)
    backend, name = ("vllm", model.removeprefix("vllm:"))
    entry = registry.entry("model", backend)
    options = registry.options(entry, pairs(model_set, "--model-set"))
    maker = getattr(load_module(entry), "serve", None)
    if maker is None:
        raise HarnessError(f"the back end {backend!r} has no server")
    try:
        served = maker(name, options, ["--host", host, "--port", str(port), *flags], check=not show)
    except ModuleNotFoundError as error:
        raise HarnessError(
            f"serving needs the module {error.name!r}, which is not installed; pip install "
            f"'strategic-harness[{entry.extra}]'"
        ) from None
    if show:
        click.echo(shlex.join(served.command))
        return 0
    shown = f"http://{host}:{port}/v1"
    click.echo(f"serving openai:{served.name} at {shown} (Ctrl-C ends it)", err=True)
    sys.stderr.flush()
    # The server takes this process's place: signals reach it, and it ends with the terminal.
    os.execve(served.command[0], served.command, {**os.environ, **served.environment})
