"""``harness new``: a plugin to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from ..types import HarnessError
from .options import json_option, quiet_option, registry_option


@click.command("new")
@click.argument("plugin", metavar="KIND")
@click.argument("name")
@click.option(
    "--kind",
    "shape",
    default="",
    metavar="SHAPE",
    help="Of a task: single-turn (default), multi-turn or two-player.",
)
@click.option("--out", type=click.Path(path_type=Path), help="A new folder (default: ./NAME).")
@click.option("--here", is_flag=True, help="Into plugins/ and registry.toml of this checkout.")
@quiet_option
@registry_option
@json_option
def command(
    plugin: str,
    name: str,
    shape: str,
    out: Path | None,
    here: bool,
    quiet: bool,
    registry_file: Path | None,
    as_json: bool,
) -> int:
    """Write a plugin of your own to begin with: a task, model, reward or trainer named NAME.

    The result is a small package with a test that works as it is: change it step by step, and let
    `harness check NAME` look at it.
    """
    from ..registry import Registry
    from ..scaffold import make

    registry = Registry.load(registry_file)
    if shape and plugin != "task":
        raise HarnessError(f"--kind {shape}: only tasks have shapes")
    if plugin == "task":
        shape = shape or "single-turn"
    if here:
        if out is not None:
            raise HarnessError("--here and --out: give one of the two")
        made = make.here(plugin, name, shape, make.find_checkout(Path.cwd()), registry)
    else:
        made = make.package(plugin, name, shape, out or Path(name), registry)
    if as_json:
        import json

        print(json.dumps({"files": list(map(str, made.files)), "next": list(made.next)}, indent=2))
        return 0
    for path in made.files:
        print(path)
    if not quiet:
        print("\nnext:")
        for line in made.next:
            print(f"  {line}")
    return 0
