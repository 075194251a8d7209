"""The audit of data: leaks of the study's plan are named and measured, ours stay within bounds."""

from __future__ import annotations

import json
import random

from harness.audit import Finding, audit, check, duplicates, measure
from harness.registry import Registry
from harness.types import Sample
from harness_plugins.tasks.counterfactual_tom import create_task
from harness_plugins.tasks.counterfactual_tom.data import Source, draw
from harness_plugins.tasks.counterfactual_tom.leaks import STATES, shortcuts
from harness_plugins.tasks.tom.classifier import cross_validated
from harness_plugins.tasks.tom.shortcuts import RULES, Facts


def drawn(preset, split, order, pairs):
    return [s for k in range(pairs) for s in draw(Source(preset), split, order, k)]


def measured(preset, split, order, pairs):
    return {f.name: f for f in shortcuts("group", drawn(preset, split, order, pairs))}


def test_the_leaks_of_the_reference_plan_are_found():
    order4 = measured("reference", "ood", 4, 60)
    assert order4["last joint move with outer and inner"].value == 1.0
    assert order4["last joint move with the whole chain"].value == 1.0
    assert order4["belief of the chain reversed"].value == 1.0
    from_end = [order4[f"place {k} from the end"].value for k in (7, 8)]
    assert max(from_end) == 0.5  # the observed side's answer is at one fixed place
    assert order4["last joint move with outer and inner"].failed
    assert order4["world"].value == order4["last place named"].value == 0.0
    order1 = measured("reference", "train", 1, 40)
    assert order1["belief of the outer person"].value == 1.0
    assert order1["belief of the outer person"].bound is None
    assert "at order 1" in order1["belief of the outer person"].note


def test_strict_stories_do_not_give_way_to_any_rule():
    found = measured("strict", "train", 2, 500)
    chance = found["world"].bound - 0.05
    assert 0.09 < chance < 0.13
    # A thousand samples leave +-0.02; the command uses two thousand and more.
    assert [n for n, f in found.items() if f.bound is None] == [STATES]
    bound = {n: f.value for n, f in found.items() if f.bound is not None}
    assert {n: value for n, value in bound.items() if value > chance + 0.045} == {}
    assert len(found) == len(RULES) + 3


def test_the_classifier_finds_a_planted_word():
    rng = random.Random(1)
    samples = drawn("strict", "train", 2, 100)
    facts, gold = [], []
    for sample in samples:
        answer = sample.truth["answer"]
        told = sample.data["story"].replace(answer, f"lovely {answer}")
        facts.append(Facts.of({**sample.data, "story": told}))
        gold.append(answer)
    clusters = [s.cluster for s in samples]
    assert sum(cross_validated(facts, gold, clusters, False)) > 0.9 * len(samples)
    plain = [Facts.of(s.data) for s in samples]
    assert sum(cross_validated(plain, gold, clusters, False)) < 0.25 * len(samples)
    shuffled = [rng.choice(f.mentions) for f in facts]
    assert sum(cross_validated(facts, shuffled, clusters, False)) < 0.25 * len(samples)


def test_a_file_with_wrong_gold_is_found(tmp_path):
    from harness_plugins.tasks.counterfactual_tom.records import record

    rows = [record(s) for s in drawn("reference", "train", 2, 4)]
    rows[3]["answer"] = rows[3]["latent_state"]["world_state"]
    rows.append({**rows[0], "sample_id": "again"})
    rows.append({**rows[1], "sample_id": "elsewhere", "split": "val"})
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    found = {f.name: f for f in audit(create_task("counterfactual-tom", {"data": str(path)}))}
    assert found["gold against the oracle"].value == 1
    assert rows[3]["sample_id"] in found["gold against the oracle"].note
    assert found["items twice in a split"].value == 1
    assert found["items in more than one split"].value == 1


def test_findings_and_their_bounds():
    assert Finding("x", "", 0.1, 0.05, 0.16, 0.15).failed
    assert not Finding("x", "", 0.1, 0.05, 0.14, 0.15).failed
    assert not Finding("x", "", 0.9, 0.8, 1.0, None).failed
    assert check("planted", ["a", "b"], 9).failed
    assert not check("planted", [], 9).failed
    twins = [Sample(i, s, {}, canonical=c) for i, s, c in ("aux", "bux", "cvx", "cuy")]
    values = {f.name: f.value for f in duplicates(twins)}
    assert values == {
        "double ids": 1, "items twice in a split": 1, "items in more than one split": 1,
    }  # fmt: skip


def test_few_samples_cannot_pass():
    samples = [
        Sample(str(k), "test", {}, {"answer": "a" if k % 10 else "b"}, "g") for k in range(40)
    ]
    (found,) = measure(samples, {"always b": lambda s: "b"}, lambda name, members: 0.15)
    assert found.value == 0.1
    assert found.failed


def pure(i, j, payoffs):
    unit = [[1.0, 0.0], [0.0, 1.0]]
    return {"sigma_row": unit[i], "sigma_col": unit[j], "is_pure": True, "payoffs": payoffs}


def dilemma(k):
    """A prisoner's dilemma: (D, D) is the only equilibrium."""
    return {
        "id": f"pd-{k}",
        "task": "nash_equilibrium",
        "row_labels": ["C", "D"],
        "col_labels": ["C", "D"],
        "payoff_matrix_row": [[3 + k, 0], [5 + k, 1]],
        "payoff_matrix_col": [[3 + k, 5 + k], [0, 1]],
        "split": "test" if k else "train",
        "ground_truth": {
            "equilibria": [pure(1, 1, [1.0, 1.0])],
            "n_equilibria": 1,
            "equilibrium_class": "pure",
            "pure_ne_count": 1,
        },
    }


def response(k):
    """Against (1/2, 1/2) the second row is best by far."""
    return {
        "id": f"br-{k}",
        "task": "best_response",
        "row_labels": ["A", "B"],
        "col_labels": ["X", "Y"],
        "payoff_matrix_row": [[k, 1], [10, 10 + k]],
        "payoff_matrix_col": [[0, 1], [2, 3]],
        "opponent_sigma": [0.5, 0.5],
        "ground_truth": {
            "expected_payoffs": [(k + 1) / 2, 10 + k / 2],
            "best_response_actions": [1],
            "best_response_value": 10 + k / 2,
            "is_unique": True,
        },
    }


PLANTED = {
    "pd-1": {"equilibria": [pure(0, 0, [4.0, 4.0])]},
    "pd-2": {"equilibria": [pure(1, 1, [1.0, 1.0]), pure(0, 1, [0.0, 7.0])], "n_equilibria": 2},
    "pd-3": {"equilibria": [pure(1, 1, [2.0, 1.0])]},
    "pd-4": {"equilibrium_class": "both"},
    "pd-5": {"equilibria": [], "n_equilibria": 0},
    "pd-6": {"pure_ne_count": 2},
    "br-1": {"best_response_actions": [0]},
    "br-2": {"is_unique": False},
    "br-3": {"best_response_value": 9.0},
    "br-4": {"expected_payoffs": [10.0, 12.0]},
}
"""Wrong labels, by item."""


def test_planted_wrong_labels_of_matrix_games_are_all_found(harness_command, tmp_path):
    rows = [*map(dilemma, range(9)), *map(response, range(1, 8))]
    for row in rows:
        row["ground_truth"] |= PLANTED.get(row["id"], {})
    rows.append({**rows[7], "id": "twin"})
    rows.append({**rows[8], "id": "leak", "split": "train"})
    path = tmp_path / "games.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    made = Registry.load(None).create("task", "gamesolve", {"data": str(path)})
    assert {problem.split(":")[0] for problem in made.verify(made.samples("all"))} == set(PLANTED)
    done = harness_command(
        "data", "audit", "gamesolve", "--set", f"data={path}", "--json", registry=False
    )
    assert done.returncode == 1, done.stderr
    found = {f["name"]: f for f in json.loads(done.stdout)}
    assert {item.split(":")[0] for item in found["problems"]["items"]} == set(PLANTED)
    assert found["items twice in a split"]["value"] == 1
    assert found["items in more than one split"]["value"] == 1


def test_clean_labels_exit_with_0(harness_command, tmp_path):
    path = tmp_path / "games.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in (dilemma(1), dilemma(2), response(3))))
    done = harness_command("data", "audit", "gamesolve", "--set", f"data={path}", registry=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 exceed their bound" in done.stdout
