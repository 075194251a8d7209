"""The peers of overhead.py: the same empty task in lm-eval and in Inspect, each in an environment
of its own.

Both get as many samples from a local file, a model that answers at once (lm-eval's ``dummy``,
Inspect's ``mockllm``), an exact-match score, and write every sample to disk, as the harness does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple


class Peer(NamedTuple):
    """What it is installed from, how many samples a measurement takes, its files and command."""

    packages: tuple[str, ...]
    samples: int
    prepare: Callable[[Path, int], None]
    command: Callable[[Path, Path], Sequence[str]]


LM_EVAL_TASK: Final = """\
task: echo
dataset_path: json
dataset_kwargs:
  data_files:
    test: {file}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs:
  until: []
metric_list:
  - metric: exact_match
"""

INSPECT_TASK: Final = """\
from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.scorer import exact
from inspect_ai.solver import generate


@task
def echo():
    return Task(dataset=json_dataset({file!r}), solver=generate(), scorer=exact())
"""


def _rows(file: Path, samples: int, question: str, answer: str) -> None:
    lines = (json.dumps({question: f"word {i}", answer: f"word {i}"}) for i in range(samples))
    file.write_text("\n".join(lines) + "\n")


def _prepare_lm_eval(folder: Path, samples: int) -> None:
    _rows(folder / "rows.jsonl", samples, "question", "answer")
    (folder / "echo.yaml").write_text(LM_EVAL_TASK.format(file=folder / "rows.jsonl"))


def _run_lm_eval(python: Path, folder: Path) -> Sequence[str]:
    command = [str(python), "-m", "lm_eval", "--model", "dummy", "--tasks", "echo"]
    return [*command, "--include_path", str(folder), "--log_samples", "--output_path",
            str(folder / "out")]  # fmt: skip


def _prepare_inspect(folder: Path, samples: int) -> None:
    _rows(folder / "rows.jsonl", samples, "input", "target")
    (folder / "echo.py").write_text(INSPECT_TASK.format(file=str(folder / "rows.jsonl")))


def _run_inspect(python: Path, folder: Path) -> Sequence[str]:
    command = [str(python), "-m", "inspect_ai", "eval", str(folder / "echo.py")]
    return [*command, "--model", "mockllm/model", "--log-dir", str(folder / "out"),
            "--display", "none"]  # fmt: skip


PEERS: Final = {
    "lm-eval": Peer(("lm-eval",), 5_000, _prepare_lm_eval, _run_lm_eval),
    "inspect": Peer(("inspect-ai", "openai"), 1_000, _prepare_inspect, _run_inspect),
}


def environment(name: str, folder: Path) -> Path:
    """The interpreter of a peer's environment below ``folder``, made where it is missing."""
    home = folder / name
    python = home / "bin" / "python"
    if not python.exists():
        print(f"making an environment for {name} ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        packages = PEERS[name].packages
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def versions(name: str, python: Path) -> dict[str, str]:
    """Name and version of a peer's packages."""
    script = (
        "import sys, json; from importlib.metadata import version; "
        "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    )
    command = [str(python), "-c", script, *PEERS[name].packages]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found
