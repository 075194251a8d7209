"""The command ``harness``: one module a verb, imported when the verb is used."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Final

import click

from .. import __version__
from ..types import HarnessError

VERBS: Final = {
    "run": "Evaluate models on tasks.",
    "score": "Score a run again, without a model.",
    "compare": "Compare two runs sample by sample.",
    "tournament": "Rate a pool of models by playing all against all.",
    "leaderboard": "Show all runs as one table, with intervals and ranks.",
    "view": "Look at runs in a browser: records, transcripts, flips.",
    "audit": "Look for contamination, parse failures and reward hacks.",
    "serve": "Serve a checkpoint over HTTP, for runs and for others.",
    "list": "Show what is registered.",
    "doctor": "Check what this machine can run, and say what to install.",
    "train": "Train a checkpoint on a task.",
    "sweep": "Train and test many conditions, and compare them.",
    "sample": "Sample completions of train prompts, for rejection sampling.",
    "rft": "Score sampled candidates, build a data set of accepted ones.",
    "probe": "Probe hidden states for a task's concepts, with controls.",
    "export": "Make a Hugging Face folder of a training step.",
    "data": "Build, show and audit data sets.",
    "fetch": "Download what a plugin needs.",
    "new": "Write a plugin of your own to begin with.",
    "check": "Check a plugin against the rules of the core.",
}
"""Every verb with its one line of help, so that ``--help`` imports none of them."""


class Formatter(click.HelpFormatter):
    """Help that keeps to narrow terminals (click's own takes 50 columns at the least)."""

    def __init__(
        self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None
    ) -> None:
        columns = min(shutil.get_terminal_size().columns, max_width or 80)
        super().__init__(indent_increment, width or max(30, columns - 2), max_width)

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """As click's, with a first column of a third of a narrow terminal."""
        super().write_dl(rows, col_max if self.width >= 60 else self.width // 3, col_spacing)


class Context(click.Context):
    """The context of every verb."""

    formatter_class = Formatter


class LazyGroup(click.Group):
    """A group whose commands are imported from ``harness.cli.<verb>`` on use."""

    context_class = Context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            from ..registry import nearest

            raise HarnessError(
                f"there is no verb {name!r}{nearest(name, VERBS)}; see harness --help"
            )
        command: click.Command = import_module(f".{name}_", __name__).command
        _prepare(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


def _prepare(command: click.Command) -> None:
    """Give a verb, and all below it, what all have: help for narrow terminals, and the option
    ``--quiet``; an own one of that name is made to reach progress."""
    command.context_class = Context
    if isinstance(command, click.Group):
        for below in command.commands.values():
            _prepare(below)
        return
    own = next((p for p in command.params if p.name == "quiet"), None)
    if own is None:
        own = click.Option(["--quiet"], is_flag=True, expose_value=False, help="No progress.")
        command.params.append(own)
    own.callback = _hush


def _hush(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    from .. import progress

    progress.quiet = value
    return value


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="harness")
def cli() -> None:
    """Evaluate and train language models on game theory and theory of mind.

    harness run --task gamesolve --model smollm2 --limit 20
    """


def main() -> None:
    """Entry point. Exit codes: 0 complete; 1 incomplete or a finding; 2 bad input."""
    try:
        code = cli.main(standalone_mode=False)
    except HarnessError as error:
        _fail(str(error))
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(1)
    except click.ClickException as error:
        _fail(error.format_message())
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    from ..terminal import lines

    click.echo(f"harness: {lines(message)}", err=True)
    sys.exit(2)
