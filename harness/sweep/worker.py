"""The process of one cell: trains, chooses a checkpoint on validation, tests it.

    python -m harness.sweep.worker SWEEP_FOLDER CELL

Exit codes: 0 done, 1 failed, `STOPPED` stopped by SIGTERM or SIGINT. What was done is not done
again: a training goes on from its last saved step, a run from its last record. The same process is
the body of a Slurm job, so it takes its orders from signals and its facts from ``cell.json``.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..processes import bound, ended, kill_group
from ..store import write_atomically
from ..training import record
from ..training.checkpoints import newest, resolve_step, saved_steps, step_folder
from ..training.curves import validations
from ..training.session import JOB
from ..types import HarnessError, Json
from .cells import Cell, Places, Test, recipe_text
from .events import Events

STOPPED: Final = 75
"""Exit code of a cell that was asked to stop: it is to go on later (EX_TEMPFAIL)."""

GRACE: Final = 90.0
"""Seconds that a command gets to stop; training needs up to 40 for its own processes. It is asked
again after half of them, as a program that only begins can miss the first time."""

POLL: Final = 0.1
WAIT: Final = 60.0
"""Seconds that the process of an earlier attempt is waited for."""


class Stopped(Exception):
    """Somebody asked the cell to stop."""


class Worker:
    """Does one cell, in phases that are each a command of the harness."""

    def __init__(self, root: Path, name: str) -> None:
        self.places = Places(root, name)
        self.facts = self.places.read("cell.json")
        if not self.facts:
            raise HarnessError(
                f"{self.places.folder}: there is no cell.json; harness sweep writes it"
            )
        self.cell = Cell.of(self.facts["cell"])
        self.events = Events(root)
        self.attempt = int(self.places.read("state.json").get("attempt", 0)) + 1
        self.log = self.places.folder / f"log-{self.attempt}.txt"
        self.child: subprocess.Popen[bytes] | None = None
        self.asked_to_stop = False

    def run(self) -> int:
        """All phases; the exit code."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._ask)
        lock = self._lock()
        began = time.time()
        try:
            self._state("running", pid=os.getpid(), started=began)
            self._train()
            step = self._choose()
            tests = {t.task: self._test(t, step) for t in self.cell.tests}
            self._finish(step, tests, began)
        except Stopped:
            self._state("stopped", reason="asked to stop", step=newest(self.places.model))
            self.events.add("cell_stopped", cell=self.cell.name, attempt=self.attempt)
            return STOPPED
        except HarnessError as error:
            self._state("failed", reason=str(error), step=newest(self.places.model))
            return 1
        finally:
            os.close(lock)
        return 0

    # Phases

    def _train(self) -> None:
        model = self.places.model
        if record.read(model).get("complete") and saved_steps(model):
            return
        recipe = self.places.folder / "train.toml"
        write_atomically(recipe, recipe_text(self.cell.train).encode())
        words = ["train", "--config", str(recipe), "--out", str(model), *self._registry()]
        if (model / JOB).is_file():
            words.append("--resume")
        self.events.add(
            "cell_training", cell=self.cell.name, attempt=self.attempt, step=newest(model)
        )
        self._command(words)

    def _choose(self) -> int:
        """The step that is tested: by validation, or the last."""
        name = "best" if self.cell.checkpoint == "best" else "latest"
        step = resolve_step(self.places.model, name)
        self.events.add("cell_chosen", cell=self.cell.name, step=step, by=self.cell.checkpoint)
        return step

    def _test(self, test: Test, step: int) -> dict[str, Json]:
        self.events.add("cell_testing", cell=self.cell.name, task=test.task, step=step)
        found = self._command(
            [
                "run", "--task", test.task, "--model", f"{self.places.model}@{step}",
                "--out", str(self.places.tests), *arguments(test), "--json", *self._registry(),
            ],
            answer=True,
        )  # fmt: skip
        try:
            run = json.loads(found)[0]
            kept = {key: run["score"][key] for key in ("value", "low", "high", "n")}
        except (ValueError, LookupError, TypeError):
            raise HarnessError(
                f"harness run said nothing that can be read (see {self.log})"
            ) from None
        return {**kept, "run": run["folder"]}

    def _finish(self, step: int, tests: dict[str, Json], began: float) -> None:
        model = self.places.model
        scores = [row["score"] for row in validations(model)]
        at = next((r["score"] for r in validations(model) if r["step"] == step), None)
        result = {
            "cell": self.cell.name,
            "train_hash": self.cell.train_hash,
            "test_hash": self.cell.test_hash,
            "step": step,
            "last_step": newest(model),
            "validation": at,
            "best_validation": max(scores, default=None),
            "tests": tests,
            "attempts": self.attempt,
            "train_seconds": record.read(model).get("seconds"),
            "seconds": round(time.time() - began, 1),
        }
        write_atomically(
            self.places.folder / "result.json", json.dumps(result, indent=1).encode() + b"\n"
        )
        if self.facts["prune"]:
            prune(model, step)
        self._state("done")
        shown = {task: row["value"] for task, row in tests.items()}
        self.events.add("cell_done", cell=self.cell.name, step=step, validation=at, tests=shown)

    # Commands

    def _registry(self) -> list[str]:
        file = self.facts["registry_file"]
        return ["--registry", file] if file else []

    def _command(self, words: Sequence[str], answer: bool = False) -> str:
        """Run a verb to its end; what it printed, where that is asked for.

        Raises HarnessError with its last words when it fails, Stopped when it was stopped.
        """
        self._check()
        command = [*self.facts["command"], *words]
        with self.log.open("ab") as log:
            log.write(f"$ {shlex.join(command)}\n".encode())
            log.flush()
            start = log.tell()
            try:
                self.child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE if answer else log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=bound(),
                )
            except OSError as error:
                raise HarnessError(f"{command[0]} cannot be run: {error.strerror}") from None
        if self.asked_to_stop:  # the signal came between the check and the start
            self.child.send_signal(signal.SIGINT)
        said = self._wait(self.child)
        code = self.child.returncode
        self.child = None
        self._check()
        if code != 0:
            told = last_words(self.log, start) or ended(code)
            raise HarnessError(f"harness {words[0]}: {told} (see {self.log})")
        return said

    def _wait(self, child: subprocess.Popen[bytes]) -> str:
        """Wait for a command, for `GRACE` seconds from the moment it is asked to stop."""
        deadline, again = None, False
        said = b""
        while True:
            try:
                said = child.communicate(timeout=POLL)[0] or b""
                break
            except subprocess.TimeoutExpired:
                if self.asked_to_stop and deadline is None:
                    deadline = time.monotonic() + GRACE
                if deadline is None:
                    continue
                if not again and time.monotonic() > deadline - GRACE / 2:
                    again = True
                    child.send_signal(signal.SIGINT)
                if time.monotonic() > deadline:
                    break
        kill_group(child)
        return said.decode(errors="replace")

    def _ask(self, *_: object) -> None:
        """Pass the request on: an interrupted command stops its own processes and saves."""
        self.asked_to_stop = True
        if self.child is not None and self.child.returncode is None:
            self.child.send_signal(signal.SIGINT)

    def _check(self) -> None:
        if self.asked_to_stop:
            raise Stopped

    # State

    def _lock(self) -> int:
        """Hold the cell for this process, as soon as an earlier one has let it go."""
        lock = os.open(self.places.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + WAIT
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise HarnessError(
                        f"{self.places.folder}: another process works on this cell"
                    ) from None
                time.sleep(POLL)

    def _state(self, status: str, **facts: Json) -> None:
        row = {"status": status, "attempt": self.attempt, **facts}
        write_atomically(self.places.folder / "state.json", json.dumps(row).encode() + b"\n")


def arguments(test: Test) -> list[str]:
    """The options of `harness run` that a test asks for.

    >>> arguments(Test("copy", {"size": 3}, {}, {"limit": 8, "seeds": [0, 1]}))
    ['--limit', '8', '--seeds', '0,1', '--set', 'size=3']
    """
    words: list[str] = []
    for key, value in test.arguments.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += [f"--{key.replace('_', '-')}", text]
    for flag, options in (("--set", test.options), ("--model-set", test.model_options)):
        for key, value in options.items():
            words += [flag, f"{key}={_text(value)}"]
    return words


def _text(value: Json) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def last_words(log: Path, start: int) -> str:
    """What the command that began at ``start`` said when it failed."""
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - 20_000))
        lines = file.read().decode(errors="replace").splitlines()
    told = [line.removeprefix("harness: ") for line in lines if line.startswith("harness: ")]
    if told:
        return told[-1]
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def prune(model: Path, step: int) -> None:
    """Remove all steps but the chosen one, and of that the shards: its merged weights stay."""
    for other in saved_steps(model):
        if other != step:
            shutil.rmtree(step_folder(model, other), ignore_errors=True)
    folder = step_folder(model, step)
    if any((folder / "huggingface").glob("*.safetensors")):
        for shard in folder.rglob("*.pt"):
            shard.unlink()


def main(root: str, name: str) -> int:
    """Do a cell. A failure is told on stderr, too, which is a Slurm job's log."""
    try:
        worker = Worker(Path(root), name)
        code = worker.run()
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        return 1
    if code == 1:
        print(f"harness: {worker.places.read('state.json').get('reason')}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
