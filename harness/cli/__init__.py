"""The command ``harness``: one module a verb, imported when the verb is used."""

from __future__ import annotations

import sys
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
    "audit": "Look for contamination, parse failures and reward hacks.",
    "serve": "Serve a checkpoint over HTTP, for runs and for others.",
    "list": "Show what is registered.",
    "doctor": "Check what this machine can run, and say what to install.",
    "train": "Train a checkpoint on a task.",
    "sample": "Sample completions of train prompts, for rejection sampling.",
    "rft": "Score sampled candidates, build a data set of accepted ones.",
    "probe": "Probe hidden states for a task's concepts, with controls.",
    "export": "Make a Hugging Face folder of a training step.",
    "data": "Build, show and audit data sets.",
    "fetch": "Download what a plugin needs.",
}
"""Every verb with its one line of help, so that ``--help`` imports none of them."""


class LazyGroup(click.Group):
    """A group whose commands are imported from ``harness.cli.<verb>`` on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            from ..registry import nearest

            raise HarnessError(
                f"there is no verb {name!r}{nearest(name, VERBS)}; see harness --help"
            )
        command: click.Command = import_module(f".{name}_", __name__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


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
    click.echo(f"harness: {message}", err=True)
    sys.exit(2)
