"""``harness fetch``: download what a plugin needs, once."""

from __future__ import annotations

from pathlib import Path

import click

from ..types import HarnessError
from .options import registry_option


@click.command("fetch")
@click.argument("name")
@registry_option
def command(name: str, registry_file: Path | None) -> int:
    """Download what the plugin NAME needs (a model, say) into the user's cache."""
    from ..progress import track
    from ..registry import KINDS, Registry, load_module, nearest

    registry = Registry.load(registry_file)
    entries = [registry.entries[kind, name] for kind in KINDS if (kind, name) in registry.entries]
    if not entries:
        known = [known for _, known in registry.entries]
        raise HarnessError(f"there is no plugin {name!r}{nearest(name, known)}")
    fetchers = [getattr(load_module(entry), "fetch", None) for entry in entries]
    usable = [fetch for fetch in fetchers if fetch is not None]
    if not usable:
        raise HarnessError(f"{name} has nothing to fetch")
    for fetch in usable:
        click.echo(fetch(name, track))
    return 0
