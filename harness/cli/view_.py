"""``harness view``: runs in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from ..types import HarnessError
from .options import registry_option


@click.command("view")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--static", type=click.Path(path_type=Path), help="Write the pages to this new folder instead."
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=2_000,
    show_default=True,
    help="Records of a run in --static, at most.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0: any free one (default).")
@click.option("--open", "open_browser", is_flag=True, help="Open the browser, too.")
@click.option("--observer", "observers", multiple=True, help="A plugin that adds sections to runs.")
@registry_option
def command(
    runs: tuple[str, ...],
    static: Path | None,
    limit: int,
    host: str,
    port: int,
    open_browser: bool,
    observers: tuple[str, ...],
    registry_file: Path | None,
) -> int:
    """Look at the runs in the folders or URLs RUNS: leaderboard, records, transcripts, flips.

    Prints an address that only this machine answers, with a random token; runs that go on are
    followed. Nothing is written, and no request leaves the machine.
    """
    from ..observers import Observers
    from ..registry import Registry
    from ..viewer.catalogue import Catalogue
    from ..viewer.pages import Pages
    from ..viewer.stage import Stage

    registry = Registry.load(registry_file)
    catalogue = Catalogue(runs)
    pages = Pages(catalogue, Stage(registry), Observers.load(registry, observers))
    for problem in catalogue.problems:
        click.echo(f"harness: not shown: {problem}", err=True)
    if static is not None:
        from ..viewer.static import write

        count = write(pages, static, limit)
        click.echo(f"{static / 'index.html'}: {count} files")
        return int(bool(catalogue.problems))
    try:
        from ..viewer.server import serve
    except ModuleNotFoundError as error:
        raise HarnessError(
            f"harness view needs the module {error.name!r}; pip install 'strategic-harness'"
        ) from None
    serve(pages, host, port, click.launch if open_browser else None)
    return 0
