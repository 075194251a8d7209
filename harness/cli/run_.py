"""``harness run``: evaluate models on tasks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..terminal import lines
from ..types import HarnessError
from .options import json_option, names, pairs, registry_option, replicas_option, set_option

if TYPE_CHECKING:
    from ..plan import RunSettings


class RunCommand(click.Command):
    """A command whose help ends with the tasks and their sizes."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from ..registry import Registry

        entries = Registry.load().entries
        with formatter.section("Tasks (options: harness list tasks)"):
            formatter.write_dl(
                [(e.name, e.summary) for (k, _), e in entries.items() if k == "task"]
            )


@click.command("run", cls=RunCommand)
@click.option("--task", "tasks", default="", metavar="A[,B]", help="Tasks, by name.")
@click.option(
    "--model",
    "models",
    default="",
    metavar="X[,Y]",
    help="Models: a registered name, backend:name, a checkpoint folder, or owner/name[@revision].",
)
@click.option(
    "--opponent", default="", help="The other seat: a player or any model (default: the task's)."
)
@click.option("--opponent-set", multiple=True, metavar="KEY=VALUE", help="Its back end's option.")
@click.option("--split", default="test", show_default=True, help="A split of the task, or all.")
@click.option("--limit", type=int, help="The first N samples of a fixed, stratified order.")
@click.option("--groups", default="", metavar="A[,B]", help="Only groups that begin so.")
@click.option("--seeds", default="0", show_default=True, help="Seeds of decoding and episodes.")
@click.option("--repeats", type=int, default=1, show_default=True, help="Rollouts of each sample.")
@click.option("--n", type=int, default=1, show_default=True, help="Completions of each prompt.")
@set_option
@click.option("--model-set", multiple=True, metavar="KEY=VALUE", help="A back end's option.")
@click.option("--reward", default="", help="A reward, or a weighted sum a=0.8,b=0.2.")
@click.option("--reward-set", multiple=True, metavar="KEY=VALUE", help="A reward's option.")
@click.option("--system", help="A system message instead of the task's.")
@click.option("--fewshot", type=int, default=0, help="Worked examples, from the train split only.")
@click.option("--temperature", type=float, help="0 is greedy (default: the task's).")
@click.option("--top-p", type=float, help="Nucleus sampling (default: the task's).")
@click.option("--top-k", type=int, help="0 is off (default: the task's).")
@click.option("--max-tokens", type=int, help="New tokens at most (default: the task's).")
@click.option("--stop", multiple=True, help="A text that ends a reply. Repeatable.")
@click.option("--chat-template-kwargs", default="", metavar="JSON", help="For the chat template.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Go on with this run folder; needs no other option.",
)
@click.option("--concurrency", type=int, help="Rollouts in flight (default 128).")
@replicas_option
@click.option("--sync", default="", metavar="URL", help="Copy each finished run there (s3://...).")
@click.option("--retries", type=int, default=5, show_default=True, help="After engine faults.")
@click.option("--log", "observers", default="", metavar="A[,B]", help="Observers, by name.")
@click.option("--dry-run", is_flag=True, help="Print the estimate and stop.")
@click.option("--quiet", is_flag=True, help="No progress and no estimate.")
@registry_option
@json_option
def command(**given: Any) -> int:
    """Evaluate models on tasks.

    The same specification again resumes the run or says that it is complete; a larger --limit
    extends it. Exit code 0: complete; 1: incomplete; 2: bad input.
    """
    from ..api import evaluate
    from ..registry import Registry

    settings = _resumed(given) if given["resume"] and not given["tasks"] else _settings(given)
    registry = Registry.load(given["registry_file"])
    if given["sync"]:
        from ..remote import check_target

        check_target(given["sync"])
    results = evaluate(settings, registry, given["quiet"], given["dry_run"])
    if given["sync"]:
        results = _copied(results, given["sync"])
    if "@*" in given["models"]:
        return _report_series(results, given)
    return report(results, given["as_json"])


def _copied(results: Any, url: str) -> Any:
    """The results, each copied to a URL once its records are all there."""
    from ..api import Run
    from ..remote import upload

    for label, result in results:
        if isinstance(result, Run) and result.complete:
            try:
                print(f"copied to {upload(result.path, url)}", file=sys.stderr)
            except HarnessError as error:
                yield label, result
                yield label, error
                continue
        yield label, result


def _report_series(results: Any, given: dict[str, Any]) -> int:
    """As `report`, and the curve of each series of steps."""
    from ..api import Run
    from ..training.series import draw, series_of

    runs: list[Run] = []

    def kept() -> Any:
        for label, result in results:
            if isinstance(result, Run):
                runs.append(result)
            yield label, result

    code = report(kept(), given["as_json"])
    for folder in series_of(names(given["models"])):
        for path in draw(folder, runs):
            print(f"curve: {path}", file=sys.stderr)
    return code


def _settings(given: dict[str, Any]) -> RunSettings:
    """The settings of a new run, or of one that is named in full."""
    from ..plan import RunSettings

    for name in ("tasks", "models"):
        if not given[name]:
            raise HarnessError(f"--{name[:-1]} is missing (only --resume RUN goes without)")
    decoding = {
        key: given[key]
        for key in ("temperature", "top_p", "top_k", "max_tokens")
        if given[key] is not None
    }
    if given["stop"]:
        decoding["stop"] = tuple(given["stop"])
    return RunSettings(
        tasks=names(given["tasks"]),
        models=_models(given["models"]),
        split=given["split"],
        limit=given["limit"],
        groups=names(given["groups"]) if given["groups"] else (),
        seeds=seeds_of(given["seeds"]),
        repeats=given["repeats"],
        n=given["n"],
        options=pairs(given["settings"]),
        model_options=pairs(given["model_set"], "--model-set"),
        opponent_options=pairs(given["opponent_set"], "--opponent-set"),
        reward_options=pairs(given["reward_set"], "--reward-set"),
        reward=given["reward"],
        opponent=given["opponent"],
        system=given["system"],
        fewshot=given["fewshot"],
        decoding=decoding,
        template_kwargs=_json_object(given["chat_template_kwargs"]),
        out=given["out"],
        resume=given["resume"],
        concurrency=given["concurrency"],
        replicas=given["replicas"],
        retries=given["retries"],
        observers=names(given["observers"]) if given["observers"] else (),
    )


def _models(text: str) -> tuple[str, ...]:
    """The models, with every step of a training job in place of ``DIR@*``."""
    if "@*" not in text:
        return names(text)
    from ..training.series import expand

    return expand(names(text))


def _resumed(given: dict[str, Any]) -> RunSettings:
    """The settings of the run folder that ``--resume`` names."""
    from ..plan import RunSettings
    from ..store import read_manifest

    manifest = read_manifest(given["resume"])
    changes = {name: given[name] for name in ("limit", "concurrency", "retries", "replicas")}
    return RunSettings.resumed(given["resume"], manifest, **changes)


def report(results: Any, as_json: bool) -> int:
    """Print each run as it ends; the exit code is that of the worst pair."""
    from ..api import Run
    from .tables import print_json, print_run

    worst = 0
    finished = []
    try:
        for label, result in results:
            if isinstance(result, Run):
                finished.append({"folder": str(result.path), **result.metrics})
                if not as_json:
                    print_run(result)
                worst = max(worst, 0 if result.complete else 1)
            else:
                print(lines(f"harness: {label}: {result}"), file=sys.stderr)
                worst = 2
    except KeyboardInterrupt:
        print("interrupted; the same command resumes", file=sys.stderr)
        worst = max(worst, 1)
    if as_json:
        print_json(finished)
    return worst


def seeds_of(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise HarnessError(f"--seeds {text}: give whole numbers, as in 0,1,2") from None


def _json_object(text: str) -> dict[str, Any]:
    import json

    if not text:
        return {}
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise HarnessError(f"--chat-template-kwargs: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise HarnessError("--chat-template-kwargs: give a JSON object")
    return value
