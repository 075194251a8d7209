"""The conformance kit: it finds every planted fault, and nothing in what is sound."""

from __future__ import annotations

import json
import random
import time

import pytest

from harness.conformance import fuzz
from harness.conformance.run import CHECKS, Asked, check, entries_of
from harness.registry import Registry
from harness.types import HarnessError


@pytest.fixture
def faulty(support):
    return Registry.load(support / "faulty_registry.toml")


@pytest.fixture
def found_in(faulty, support):
    """The text of what one check finds in a plugin with a fault."""

    def find(kind, fault, only, **more):
        asked = Asked(
            {"fault": fault}, only=(only,), registry_file=support / "faulty_registry.toml", **more
        )
        [report] = check("faulty", faulty, asked, kind)
        return [finding.text for finding in report.results[0].findings]

    return find


@pytest.mark.parametrize("kind", ["task", "reward", "model"])
def test_nothing_is_found_in_what_is_sound(faulty, support, kind):
    asked = Asked(registry_file=support / "faulty_registry.toml")
    [report] = check("faulty", faulty, asked, kind)
    assert [f for r in report.results for f in r.findings] == []
    assert [r.check for r in report.results] == list(CHECKS[kind])


TASK_FAULTS = {
    "name": ("names", "calls itself 'another'"),
    "heavy": ("imports", "loads numpy"),
    "same id": ("ids", "ids that come twice"),
    "hash": ("ids", "differ in another process"),
    "tuple": ("data", "comes back changed"),
    "not JSON": ("data", "is not JSON"),
    "other split": ("splits", "another split"),
    "leak": ("splits", "is also in train"),
    "any split": ("splits", "unknown split yields samples"),
    "shared generator": ("seeds", "shared random generator"),
    "counting prompt": ("seeds", "made before it"),
    "long prompt": ("prompts", "is the limit"),
    "role": ("prompts", "does not end with the user's"),
    "lineup": ("lineup", "lineup is"),
    "no floor": ("lineup", "no player random"),
    "oracle": ("oracle", "does not score 1 in 60 of 60"),
    "constant": ("constants", "always saying 'ANSWER: A' scores 1.000"),
    "empty answers": ("faults", "counts as an answer"),
    "target": ("targets", "not read as an answer"),
    "unseeded player": ("players", "differs when it is repeated"),
    "deaf player": ("players", "the same under another seed"),
    "raises": ("parser", "raises ValueError"),
    "quadratic": ("parser", "takes"),
    "unstorable": ("parser", "raises TypeError"),
    "state": ("concurrency", "differ when rollouts run at once"),
    "unrecorded": ("records", "fewer replies"),
    "fresh chance": ("records", "another outcome"),
    "tuple in outcome": ("records", "cannot be stored"),
    "class": ("records", "no class of the ledger"),
    "infinite": ("metrics", "come twice"),
    "no records": ("metrics", "ZeroDivisionError"),
    "slow": ("speed", "ms of the task's own time"),
}


@pytest.mark.parametrize("fault", TASK_FAULTS)
def test_faults_of_tasks_are_found(found_in, monkeypatch, fault):
    monkeypatch.setattr(fuzz, "LENGTHS", (1_000, 2_000, 16_000))
    only, text = TASK_FAULTS[fault]
    limit = 20 if fault == "slow" else 60
    assert any(text in found for found in found_in("task", fault, only, limit=limit))


REWARD_FAULTS = {
    "beyond": ("bounded", "the value is 2.0"),
    "nan part": ("bounded", "not finite"),
    "raw": ("bounded", "not JSON"),
    "crash": ("bounded", "raises KeyError"),
    "gate": ("bounded", "gates that are no part"),
    "counting": ("repeatable", "score"),
    "mutating": ("repeatable", "changes sample"),
    "inverted": ("worth", "the oracle earns 0.000"),
    "consoling": ("worth", "saying nothing earns 0.900"),
}


@pytest.mark.parametrize("fault", REWARD_FAULTS)
def test_faults_of_rewards_are_found(found_in, fault):
    only, text = REWARD_FAULTS[fault]
    assert any(text in found for found in found_in("reward", fault, only))


MODEL_FAULTS = {
    "identity": ("identity", "the identity is ''"),
    "description": ("identity", "not JSON"),
    "endless": ("replies", "allowed"),
    "reason": ("replies", "finish_reason"),
    "miscounted": ("replies", "count_tokens says"),
    "keeps stops": ("stops", "the stop text"),
    "stream": ("repeatable", "replies differ"),
}


@pytest.mark.parametrize("fault", MODEL_FAULTS)
def test_faults_of_models_are_found(found_in, fault):
    only, text = MODEL_FAULTS[fault]
    assert any(text in found for found in found_in("model", fault, only))


def test_every_finding_says_what_to_do(faulty, support):
    asked = Asked({"fault": "raises"}, registry_file=support / "faulty_registry.toml")
    [report] = check("faulty", faulty, asked, "task")
    findings = [f for r in report.results for f in r.findings]
    assert findings
    assert all(len(f.advice) > 10 for f in findings)


def test_a_summary_and_help_are_asked_for(faulty):
    [report] = check("speechless", faulty, Asked(only=("registered",)))
    texts = [f.text for f in report.results[0].findings]
    assert texts == ["the entry has no summary", "options without help: fault"]


def test_what_cannot_be_made_is_said_once():
    [report] = check("player", Registry.load(), Asked())
    texts = [f.text for r in report.results for f in r.findings]
    assert len(texts) == 1
    assert "which player?" in texts[0]
    [report] = check("player:random", Registry.load(), Asked())
    assert report.found == 0


def test_a_name_of_several_kinds_is_checked_as_each(faulty):
    assert [e.kind for e, _ in entries_of(faulty, "faulty")] == ["task", "reward", "model"]
    assert [e.kind for e, _ in entries_of(faulty, "faulty", "model")] == ["model"]


@pytest.mark.parametrize(
    ("name", "asked", "kind", "message"),
    [
        ("faultey", Asked(), "", "did you mean faulty"),
        ("faulty", Asked(), "game", "choose one of"),
        ("faulty", Asked(only=("idz",)), "task", "no such check"),
        ("faulty", Asked({"fautl": 1}), "task", "did you mean fault"),
        ("faulty", Asked(limit=0), "task", "at least 1"),
        ("faulty", Asked(task="copi"), "reward", "there is no task"),
    ],
)
def test_bad_input_is_one_error(faulty, name, asked, kind, message):
    with pytest.raises(HarnessError, match=message):
        list(check(name, faulty, asked, kind))


def test_mangled_replies_are_the_same_for_a_seed():
    texts = ["ANSWER: B", "I take 3. ANSWER: 3"]
    first = list(fuzz.mangled(texts, 200, seed=1))
    assert first == list(fuzz.mangled(texts, 200, seed=1))
    assert first != list(fuzz.mangled(texts, 200, seed=2))
    assert len(set(first)) > 150


def test_checking_leaves_the_shared_generator_usable(found_in):
    random.seed(3)
    found_in("task", "", "seeds")
    assert random.random() != random.random()


def test_the_command_says_what_it_found(harness_command, support):
    registry = support / "faulty_registry.toml"
    words = ("check", "faulty", "--kind", "task", "--registry", registry)
    bad = harness_command(*words, "--set", "fault=leak", "--only", "splits", registry=False)
    assert bad.returncode == 1, bad.stderr
    assert "FOUND  splits" in bad.stdout
    assert "-> give every item to one split" in bad.stdout
    assert bad.stdout.endswith("findings\n")
    good = harness_command(*words, "--only", "splits,names", "--json", registry=False)
    assert good.returncode == 0, good.stderr
    [report] = json.loads(good.stdout)
    assert [row["status"] for row in report["checks"]] == ["ok", "ok"]
    quiet = harness_command(*words, "--only", "names", "--quiet", registry=False)
    assert quiet.stdout == "task faulty\nno findings\n"


SLOWER = [
    pytest.param("task", "hitom", {}, marks=pytest.mark.train),
    pytest.param("task", "hitom-ood", {}, marks=pytest.mark.train),
    pytest.param("task", "gamesolve-ood", {}, marks=pytest.mark.train),
    pytest.param("task", "gamesolve-skills", {}, marks=pytest.mark.train),
    pytest.param("task", "textarena", {}, marks=pytest.mark.train),
    pytest.param("reward", "textarena", {"task": "textarena"}, marks=pytest.mark.train),
    pytest.param("model", "smollm2", {}, marks=pytest.mark.train),
]
"""The second, slower stage runs them: of a module that the first one covers, or of a real model."""

BUILT_IN = [
    *SLOWER,
    ("task", "gtbench", {}),
    ("task", "counterfactual-tom", {}),
    ("task", "gamesolve", {}),
    ("reward", "gamesolve", {"task": "gamesolve"}),
    ("reward", "gamesolve-legacy", {"task": "gamesolve"}),
    ("reward", "gtbench", {"task": "gtbench"}),
    ("reward", "tom-process", {"task": "counterfactual-tom"}),
    ("reward", "tom-process-v2", {"task": "counterfactual-tom"}),
    ("reward", "tom-answer", {"task": "hitom"}),
    ("model", "random", {}),
    ("model", "oracle", {}),
    ("model", "constant", {}),
    ("model", "empty", {}),
    ("model", "echo", {}),
]


@pytest.mark.parametrize(("kind", "name", "more"), BUILT_IN, ids=lambda v: str(v))
def test_built_in_plugins_pass(conformance, monkeypatch, kind, name, more):
    # The long run of the parser is the command's; here a few replies of each sort do.
    monkeypatch.setattr(fuzz, "ROUNDS", 60)
    monkeypatch.setattr(fuzz, "LENGTHS", (1_000, 8_000))
    without = ["imports", "ids"] if kind == "task" else ["imports"]
    if name == "textarena":
        pytest.importorskip("textarena")
    conformance(kind, name, without=without, limit=20, **more)


@pytest.mark.parametrize("name", ["gtbench", "counterfactual-tom"])
def test_ids_and_imports_of_built_in_tasks(name):
    [report] = check(name, Registry.load(), Asked(limit=20, only=("ids", "imports")), "task")
    assert [f for r in report.results for f in r.findings] == []


def test_a_check_costs_seconds_not_minutes(faulty, support):
    began = time.process_time()
    list(check("faulty", faulty, Asked(registry_file=support / "faulty_registry.toml"), "task"))
    assert time.process_time() - began < 20
