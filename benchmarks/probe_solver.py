"""Probes: the batched solver beside scikit-learn, and how often nothing is taken for something.

    python benchmarks/probe_solver.py speed OUT [--blocks 4]
    python benchmarks/probe_solver.py planted [--runs 100]

``speed`` takes the folder of a `harness probe --out OUT` and fits what its sweep fits, on the
blocks (layer and pooling) where each concept is read best and some others, with both solvers on one
thread: CPU seconds, and test accuracies. ``planted`` probes noise that holds a coin at layer 2 at
some strength (the distance of the class means in deviations): in how many runs the lower bound of
the gain is above 0, the layer is found, and how near the accuracy is to the best possible.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from pathlib import Path
from statistics import NormalDist

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from harness.probing import concepts, controls, reference, solver
from harness.probing.extract import items_of
from harness.probing.nested import Plan, Settings, choose, predict, predictions, sweep
from harness.probing.results import read
from harness.probing.states import States
from harness.registry import Registry


def speed(out: Path, blocks: int) -> None:
    """Both solvers on the blocks where validation reads each concept best, and some others; on
    each all five folds, with the concepts and their shuffled controls, as a sweep has them."""
    report = read(out / "probes.json")
    states = States.load(out / "states" / report["states"]["folder"])
    made = Registry.load().create("task", report["task"], {})
    items = items_of(made, list(islice(made.samples("all"), states.items)))
    known, _ = concepts.problems_of(items)
    problems = [*known, *(controls.shuffled(p, 0) for p in known)]
    peaks = [report["concepts"][p.name]["peak"] for p in known]
    keys = [(peak["pooling"], peak["layer"]) for peak in peaks]
    every = [(p, layer) for p in states.poolings if p != "first" for layer in states.layers]
    keys += [every[i] for i in np.linspace(0, len(every) - 1, blocks).astype(int)]
    keys = list(dict.fromkeys(keys))
    spent = {"torch": 0.0, "sklearn": 0.0}
    hits = {name: np.zeros((len(known), len(keys), 5, states.items)) for name in spent}
    for place, key in enumerate(keys):
        features = torch.as_tensor(states.block(*key))[None]
        for part in Plan.of([item.group for item in items], [0]).parts():
            scaled = solver.Scaler.of(features[:, part.train], report["states"]["noise"])(features)
            for name, solve in (("torch", solver.solve), ("sklearn", reference.solve)):
                began = time.process_time()
                found = solve(scaled, problems, part.train, part.test)
                spent[name] += time.process_time() - began
                for number, problem in enumerate(known):
                    guess = found.predictions[number][0].numpy()
                    hits[name][number, place, :, part.test] = (guess == problem.labels[part.test]).T
    fits = len(keys) * 5 * len(problems) * len(solver.STRENGTHS)
    print(f"{len(keys)} blocks of {tuple(features.shape[1:])}, 5 folds, {len(problems)} problems, "
          f"{len(solver.STRENGTHS)} strengths: {fits} fits")  # fmt: skip
    print(f"CPU seconds: torch {spent['torch']:.1f}, scikit-learn {spent['sklearn']:.1f}, "
          f"ratio {spent['sklearn'] / spent['torch']:.1f}")  # fmt: skip
    for number, problem in enumerate(known):
        rows = problem.labels >= 0
        ours, theirs = (hits[n][number][..., rows].mean(-1) for n in ("torch", "sklearn"))
        best = np.unravel_index(theirs.argmax(), theirs.shape)
        print(
            f"{problem.name:14} best at {'-'.join(map(str, keys[best[0]])):12} torch "
            f"{ours[best]:.4f}, scikit-learn {theirs[best]:.4f}: "
            f"{100 * (ours - theirs)[best]:+.2f} points; over all fits mean "
            f"{100 * (ours - theirs).mean():+.3f}, largest {100 * np.abs(ours - theirs).max():.2f}"
        )


def planted(runs: int, strength: float, items: int = 100, layers: int = 4, width: int = 16) -> None:
    """Noise with a coin in it, the whole nested procedure, each run its own data."""
    lower, alone, place, accuracies = 0, 0, 0, []
    names = [str(i) for i in range(items)]
    for run in range(runs):
        rng = np.random.default_rng([run, 11])
        states = rng.normal(size=(layers, items, width)).astype(np.float32)
        problem = solver.Problem("coin", rng.integers(2, size=items), 2)
        states[2, :, 0] += strength * (problem.labels - 0.5)
        problems = [problem, controls.shuffled(problem, 0)]
        plan, fitting, keys = Plan.of(names, [0]), Settings(), [("n", k) for k in range(layers)]
        hits = sweep(lambda key, s=states: s[key[1]], keys, problems, plan, fitting)
        choices = choose(hits, problems, plan)
        guesses = predict(lambda key, s=states: s[key[1]], keys, choices, problems, plan, fitting)
        mine, other = (
            concepts.right(predictions(choices, guesses, k, plan), p)
            for k, p in enumerate(problems)
        )
        most = np.zeros(plan.folds.shape, np.int64)
        for part in plan.parts():
            seen = np.concatenate([part.train, part.validation])
            most[0, part.test] = controls.majority(problem, seen)
        known = {"majority": concepts.right(most, problem), "shuffled": other}
        best = known[concepts.best_control(known, problem)]
        lower += concepts.gain(mine, best, problem, names)["low"] > 0
        alone += concepts.gain(mine, known["majority"], problem, names)["low"] > 0
        place += 2 in concepts.critical_layers(hits[0, 0], problem, names, range(layers))[0]
        accuracies.append(mine.mean())
    print(
        f"strength {strength:g}, {runs} runs: lower bound above 0 in {lower} over the best "
        f"control, {alone} over majority alone; layer 2 critical in {place}; mean accuracy "
        f"{np.mean(accuracies):.3f}, best possible {NormalDist().cdf(strength / 2):.3f}"
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["speed", "planted"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        if given.what == "speed":
            speed(given.folder, given.blocks)
        else:
            for strength in (0.0, 1.0, 2.0, 3.0):
                planted(given.runs, strength)


if __name__ == "__main__":
    main()
