"""Writes the reference pages that could drift: commands, hooks, registry.

python docs/generate.py           write them
python docs/generate.py --check   exit with 1 when one is out of date
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from harness import hookspecs
from harness.cli import cli
from harness.registry import KINDS, Registry

HERE = Path(__file__).resolve().parent / "reference"
WIDTH = 92


def pages() -> dict[str, str]:
    """File name -> text of each generated page."""
    return {"cli.md": cli_page(), "hooks.md": hooks_page(), "registry.md": registry_page()}


def cli_page() -> str:
    """The help of every verb."""
    parts = ["# Commands", "", "Generated from `--help` by `docs/generate.py`."]
    for name, command in commands("harness", cli):
        context = command.context_class(
            command, info_name=name, max_content_width=WIDTH, **cli.context_settings
        )
        context.terminal_width = WIDTH
        parts += ["", f"## {name}", "", "```text", command.get_help(context).rstrip(), "```"]
    return "\n".join(parts) + "\n"


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, **cli.context_settings)
        for verb in command.list_commands(context):
            below = command.get_command(context, verb)
            if below is not None:
                yield from commands(f"{name} {verb}", below)


def hooks_page() -> str:
    """The hook specifications with their documentation."""
    parts = ["# Hooks", "", inspect.getdoc(hookspecs) or ""]
    for name, function in vars(hookspecs).items():
        if hasattr(function, "harness_spec"):
            signature = inspect.signature(function)
            documentation = inspect.getdoc(function) or ""
            parts += ["", f"## {name}", "", f"```python\n{name}{signature}\n```", "", documentation]
    return "\n".join(parts) + "\n"


def registry_page() -> str:
    """What is registered, with options."""
    parts = ["# Registered names", "", "Generated from `registry.toml` by `docs/generate.py`."]
    registry = Registry.load()
    for kind in KINDS:
        members = [entry for (k, _), entry in registry.entries.items() if k == kind]
        if members:
            parts += ["", f"## {kind}s", "", "| name | summary | options |", "| --- | --- | --- |"]
        for entry in members:
            options = "<br>".join(
                f"`{name}={option.default}` {option.help}" for name, option in entry.options.items()
            )
            parts.append(f"| `{entry.name}` | {entry.summary} | {options} |")
    return "\n".join(parts) + "\n"


def main() -> int:
    """Write or check; the exit code says whether all pages were up to date."""
    check = "--check" in sys.argv[1:]
    HERE.mkdir(exist_ok=True)
    stale = []
    for name, text in pages().items():
        path = HERE / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run python docs/generate.py", file=sys.stderr)
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
