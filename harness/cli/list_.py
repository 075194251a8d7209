"""``harness list``: what is registered, without importing any of it."""

from __future__ import annotations

from pathlib import Path

import click

from ..registry import KINDS, Registry
from ..types import HarnessError
from .options import json_option, registry_option


@click.command("list")
@click.argument("kind", required=False)
@registry_option
@json_option
def command(kind: str | None, registry_file: Path | None, as_json: bool) -> int:
    """Show what is registered: tasks, models, rewards, trainers, observers.

    With a KIND, also the options of each entry.
    """
    kinds = KINDS if kind is None else (kind.removesuffix("s"),)
    if kinds[0] not in KINDS:
        raise HarnessError(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
    registry = Registry.load(registry_file)
    for problem in registry.problems:
        click.echo(f"to look at: {problem}", err=True)
    entries = [entry for (k, _), entry in registry.entries.items() if k in kinds]
    if as_json:
        import json
        from dataclasses import asdict

        print(json.dumps([asdict(entry) for entry in entries], indent=2))
        return 0
    for each in kinds:
        members = [entry for entry in entries if entry.kind == each]
        if not members:
            continue
        print(f"{each}s")
        width = max(len(entry.name) for entry in members)
        for entry in members:
            origin = "" if entry.source == "built in" else f"  ({entry.source})"
            print(f"  {entry.name:{width}}  {entry.summary}{origin}")
            if kind is not None:
                for name, option in entry.options.items():
                    print(f"  {'':{width}}    {name}={option.default!r}  {option.help}")
    return 0
