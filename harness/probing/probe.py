"""One model's probes on one list of items: extraction, sweep, selection, test, controls.

    report = Probe(settings, items, out).run(Source("smollm2"))

`run` does what `harness probe` does for each model and returns what stands in probes.json.
"""

from __future__ import annotations

import hashlib
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..types import HarnessError, Json
from . import concepts, controls, geometry
from .entries import entry, pooling_comparison
from .extract import BATCH_TOKENS, POOLINGS, Item, Source, describe, extract, with_random_weights
from .nested import Choice, Plan, Settings, choose, predict, predictions, sweep
from .results import VERSION
from .states import States

CONTROLS: Final = ("majority", *controls.TEXT, "shuffled", "random")

Array = Any  # of NumPy


@dataclass(frozen=True)
class ProbeSettings:
    """What is probed and how. ``layers`` None: all; ``random_layers`` None: the same layers."""

    poolings: tuple[str, ...] = POOLINGS
    layers: tuple[int, ...] | None = None
    random_layers: tuple[int, ...] | None = None
    seeds: tuple[int, ...] = (0,)
    controls: tuple[str, ...] = CONTROLS
    solver: str = "torch"
    devices: tuple[str, ...] = ()
    batch_tokens: int = BATCH_TOKENS
    geometry: bool = True

    def fitting(self, noise: float) -> Settings:
        """How the probes are fitted, on the first device (default: a GPU where there is one)."""
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        if self.solver == "sklearn":
            from .reference import solve

            return Settings(noise, solver=solve)
        return Settings(noise, device=self.devices[0] if self.devices else device)


class Swept(NamedTuple):
    """The sweep of one model's states: hits as of `nested.sweep`, blocks pooling by pooling."""

    states: States
    keys: list[tuple[str, int]]
    hits: Array
    facts: dict[str, Json]
    settings: Settings

    def read(self, key: tuple[str, int]) -> Array:
        """The features of a block."""
        return self.states.block(*key)


@dataclass
class Probe:
    """Probes of several models on the same items, with the same folds."""

    settings: ProbeSettings
    items: Sequence[Item]
    out: Path
    times: dict[str, list[float]] = field(default_factory=dict)

    @cached_property
    def groups(self) -> list[str]:
        """What must not stand on two sides of a split."""
        return [item.group for item in self.items]

    @cached_property
    def plan(self) -> Plan:
        """The folds."""
        plan = Plan.of(self.groups, self.settings.seeds)
        if len(set(self.groups)) < 4 * plan.count:
            raise HarnessError(
                f"{len(set(self.groups))} groups of items are too few to split; raise --limit"
            )
        return plan

    @cached_property
    def problems(self) -> tuple[list[Any], dict[str, Json]]:
        """The concepts that can be probed, and the others with the reason."""
        return concepts.problems_of(self.items)

    def run(self, source: Source) -> dict[str, Any]:
        """Everything for one model. Raises HarnessError for bad input."""
        problems, skipped = self.problems
        self.times = {}
        mine = self._sweep(source, self.settings.layers, with_shuffled=True)
        choices, found = self._test(mine)
        guesses = [predictions(choices, found, p, self.plan) for p in range(len(problems))]
        others = self._controls(source, mine, guesses_of_shuffled=(choices, found))
        entries: dict[str, Any] = {}
        with self._timed("report"):
            for place, problem in enumerate(problems):
                entries[problem.name] = entry(
                    self, mine, problem, place, choices, guesses[place], others
                )
            comparison = pooling_comparison(self, mine, found)
        result: dict[str, Any] = {
            "version": VERSION,
            "model": describe(source),
            "states": mine.facts,
            "layers": mine.states.layers,
            "poolings": mine.states.poolings,
            "seeds": list(self.settings.seeds),
            "folds": self.plan.count,
            "strengths": list(mine.settings.strengths),
            "solver": self.settings.solver,
            "items": len(self.items),
            "groups": len(set(self.groups)),
            "concepts": entries,
            "skipped": skipped,
            "pooling_comparison": comparison,
        }
        if self.settings.geometry:
            with self._timed("geometry"):
                result["pca"] = self._pca(mine, entries)
                result["cosines"] = self._cosines(mine, entries)
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result["peak_memory_mb"] = round(kilobytes / (2**20 if sys.platform == "darwin" else 1024))
        result["seconds"] = {
            name: [round(s, 2) for s in spent] for name, spent in self.times.items()
        }
        return result

    # Steps

    def _sweep(
        self, source: Source, layers: Sequence[int] | None, with_shuffled: bool = False
    ) -> Swept:
        settings = self.settings
        kind = "" if source.random is None else ", random weights"
        states, facts = extract(
            source, self.items, self.out, settings.poolings, layers, settings.batch_tokens,
            settings.devices,
        )  # fmt: skip
        self.times[f"hidden states{kind}"] = list(states.seconds())
        problems, _ = self.problems
        if with_shuffled and "shuffled" in settings.controls:
            problems = [*problems, *(controls.shuffled(p, 0) for p in problems)]
        fitting = settings.fitting(facts["noise"])
        keys = [(pooling, layer) for pooling in states.poolings for layer in states.layers]
        cache = self.out / "sweeps" / self._digest(facts["folder"], problems, fitting)
        swept = Swept(states, keys, np.empty(0), facts, fitting)
        with self._timed(f"probes{kind}"):
            hits = sweep(
                swept.read, keys, problems, self.plan, fitting, cache, f"probes{kind}, by block"
            )
        return swept._replace(hits=hits)

    def _digest(self, folder: str, problems: Sequence[Any], fitting: Settings) -> str:
        text = f"{folder} {fitting.noise} {fitting.strengths} {self.settings.solver}"
        digest = hashlib.blake2b(text.encode(), digest_size=6)
        digest.update(self.plan.folds.tobytes())
        for problem in problems:
            digest.update(problem.labels.tobytes())
        return digest.hexdigest()

    def _test(self, swept: Swept) -> tuple[list[Choice], dict[Choice, Array]]:
        """What was chosen over all poolings, for all problems of the sweep, and predictions of
        these and of what was chosen for each pooling."""
        problems = self._all_problems(len(swept.hits))
        choices = choose(swept.hits, problems, self.plan)
        wanted = [*choices]
        for place in range(len(swept.states.poolings)):
            wanted += self.within(swept, place)
        with self._timed("chosen probes"):
            found = predict(swept.read, swept.keys, wanted, problems, self.plan, swept.settings)
        return choices, found

    def _all_problems(self, count: int) -> list[Any]:
        problems, _ = self.problems
        if count > len(problems):
            problems = [*problems, *(controls.shuffled(p, 0) for p in problems)]
        return problems

    def within(self, swept: Swept, pooling: int) -> list[Choice]:
        """What validation chooses for the true labels when only one pooling may be used."""
        problems, _ = self.problems
        size = len(swept.states.layers)
        part = swept.hits[: len(problems), :, :, pooling * size : (pooling + 1) * size]
        chosen = choose(part, problems, self.plan)
        return [c._replace(block=c.block + pooling * size) for c in chosen]

    def _controls(
        self, source: Source, mine: Swept, guesses_of_shuffled: tuple[Any, Any]
    ) -> dict[str, list[Array]]:
        """For each control, whether it was right, (seeds, items), by problem."""
        problems, _ = self.problems
        wanted, others = self.settings.controls, {}
        if "majority" in wanted:
            others["majority"] = [concepts.right(self._majority(p), p) for p in problems]
        features = controls.text_features(self.items)
        for name in (n for n in controls.TEXT if n in wanted):
            with self._timed(f"control {name}"):
                others[name] = self._text_control(features[name])
        if "shuffled" in wanted:
            everything = self._all_problems(len(mine.hits))
            others["shuffled"] = [
                concepts.right(predictions(*guesses_of_shuffled, p, self.plan), everything[p])
                for p in range(len(problems), len(everything))
            ]
        if "random" in wanted:
            layers = self.settings.random_layers or self.settings.layers
            swept = self._sweep(with_random_weights(source, 0), layers)
            choices = choose(swept.hits, problems, self.plan)
            with self._timed("chosen probes, random weights"):
                found = predict(
                    swept.read, swept.keys, choices, problems, self.plan, swept.settings
                )
            others["random"] = [
                concepts.right(predictions(choices, found, place, self.plan), problem)
                for place, problem in enumerate(problems)
            ]
        return others

    def _majority(self, problem: Any) -> Array:
        guess: Array = np.zeros(self.plan.folds.shape, np.int64)
        for part in self.plan.parts():
            seen = np.concatenate([part.train, part.validation])
            guess[part.seed, part.test] = controls.majority(problem, seen)
        return guess

    def _text_control(self, features: Array) -> list[Array]:
        problems, _ = self.problems
        fitting = self.settings.fitting(noise=1e-6)
        keys = [("text", 0)]
        hits = sweep(lambda _: features, keys, problems, self.plan, fitting)
        choices = choose(hits, problems, self.plan)
        found = predict(lambda _: features, keys, choices, problems, self.plan, fitting)
        return [
            concepts.right(predictions(choices, found, place, self.plan), problem)
            for place, problem in enumerate(problems)
        ]

    # What is reported

    def _pca(self, mine: Swept, entries: dict[str, Any]) -> dict[str, Json]:
        problems, _ = self.problems
        found: dict[str, Json] = {}
        for problem in problems:
            peak = entries[problem.name]["peak"]
            features = mine.states.block(peak["pooling"], peak["layer"])
            curve = geometry.pca_curve(
                features, problem, self.plan, mine.settings, peak["strength"]
            )
            found[problem.name] = [
                {
                    "components": count,
                    **concepts.interval(concepts.right(guess, problem), problem, self.groups),
                }
                for count, guess in curve
            ]
        return found

    def _cosines(self, mine: Swept, entries: dict[str, Any]) -> dict[str, Json]:
        """At the block whose validation accuracies stand highest above the majority shares."""
        problems, _ = self.problems
        lifts = []
        for pooling, layer in mine.keys:
            place = mine.states.layers.index(layer)
            lifts.append(
                sum(
                    e["poolings"][pooling]["curve"][place]["validation"] - e["majority"]
                    for e in entries.values()
                )
            )
        pooling, layer = mine.keys[int(np.argmax(lifts))]
        features = mine.states.block(pooling, layer)
        strengths = [entries[p.name]["peak"]["strength"] for p in problems]
        weights = geometry.class_weights(features, problems, mine.settings, strengths)
        found, chance = geometry.cosines(weights)
        return {
            "pooling": pooling,
            "layer": layer,
            "concepts": [p.name for p in problems],
            "cosines": np.round(found, 4).tolist(),
            "random": np.round(chance, 4).tolist(),
        }

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        spent = (time.perf_counter() - wall, time.process_time() - cpu)
        before = self.times.get(name, [0.0, 0.0])
        self.times[name] = [before[0] + spent[0], before[1] + spent[1]]
