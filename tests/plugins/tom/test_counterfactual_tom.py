"""The task counterfactual-tom: pairs, prompts, players, figures, held-out words."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest

from harness.player import Seat
from harness.seeds import Streams
from harness.types import HarnessError, Record, Reply, Turn
from harness_plugins.rewards.tom_process import TomProcess, TomProcessV2
from harness_plugins.tasks.counterfactual_tom import create_task
from harness_plugins.tasks.counterfactual_tom.checks import belief, problems, sample_problems
from harness_plugins.tasks.counterfactual_tom.data import Source, draw
from harness_plugins.tasks.counterfactual_tom.records import record
from harness_plugins.tasks.counterfactual_tom.vocabulary import POOLS
from harness_plugins.tasks.tom.grammar import read, structure
from harness_plugins.tasks.tom.oracle import Beliefs
from harness_plugins.tasks.tom.players import slug
from harness_plugins.tasks.tom.shortcuts import RULES
from harness_plugins.tasks.tom.world import Event

STORIES = Path(__file__).with_name("stories.jsonl")
STRICT = Source("strict")


@pytest.fixture(scope="module")
def strict():
    """Pairs of every order of a few splits."""
    cells = [("train", o) for o in (1, 2, 3)] + [("validation", 2), ("test", 3), ("ood", 4)]
    return [s for split, o in cells for k in range(6) for s in draw(STRICT, split, o, k)]


@pytest.fixture(scope="module")
def task():
    return create_task("counterfactual-tom", {})


def rollout(task, sample, say):
    class Player:
        async def act(self, turn):
            return Reply(text=say)

    return asyncio.run(task.rollout(sample, [Player()], Streams(0)))


def play(task, sample, name, seed=0):
    player = task.players()[name](Seat(task, sample, 0, seed))
    return asyncio.run(player.act(Turn(0, (), truth=sample.truth, state=sample))).text


def test_pairs_hold_what_they_promise(strict):
    assert list(problems(strict, "")) == []
    for first, second in zip(strict[::2], strict[1::2], strict=True):
        assert first.cluster == second.cluster
        assert (first.data["side"], second.data["side"]) == ("observed", "hidden")
        assert first.truth["answer"] != second.truth["answer"]
        moves = [[(e["kind"], e.get("to")) for e in s.data["events"]] for s in (first, second)]
        assert moves[0] == moves[1]
        assert sorted(first.data["story"]) == sorted(second.data["story"])  # the same names


def test_the_closed_conditions_agree_with_the_oracle_on_any_chain(strict):
    rng = random.Random(5)
    for sample in strict:
        events = [Event.of(e) for e in sample.data["events"]]
        beliefs = Beliefs(events)
        for order in range(1, 6):
            chain = rng.sample(sample.data["agents"], min(order, len(sample.data["agents"])))
            assert belief(events, chain) == beliefs.place(sample.data["object"], chain)


def test_planted_faults_are_found(strict):
    from dataclasses import replace

    sample = strict[4]
    wrong = next(c for c in sample.data["choices"] if c != sample.truth["answer"])
    bad = replace(sample, truth={**sample.truth, "answer": wrong})
    assert any("answer" in p for p in sample_problems(bad))
    told = sample.data["story"].replace(sample.data["chain"][0], POOLS["test"].name_list[0])
    foreign = replace(sample, data={**sample.data, "story": told})
    assert any("another split" in p for p in problems([foreign, strict[5]], "strict"))
    assert any("hidden side" in p for p in problems([sample], ""))


def test_words_of_one_split_are_in_no_other():
    for a, b in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not POOLS[a].names & POOLS[b].names
        assert not POOLS[a].objects & POOLS[b].objects
        assert not POOLS[a].places & POOLS[b].places


def test_the_same_names_in_another_order_are_another_question(strict):
    differ = 0
    for sample in strict:
        events = [Event.of(e) for e in sample.data["events"]]
        chain = sample.data["chain"]
        reverse = Beliefs(events).place(sample.data["object"], chain[::-1])
        differ += len(chain) > 1 and reverse != sample.truth["answer"]
    assert differ > 0.8 * sum(len(s.data["chain"]) > 1 for s in strict)


@pytest.mark.parametrize("order", [5, 6])
def test_higher_orders_by_option(order):
    source = Source("strict", ood_order=order)
    samples = draw(source, "ood", order, 0)
    assert list(problems(samples, "")) == []
    assert samples[0].truth["order"] == order
    assert source.pairs("ood") == {order: 300}


def test_counts_of_the_presets():
    assert {s: 2 * sum(STRICT.pairs(s).values()) for s in STRICT.splits} == {
        "train": 3200,
        "validation": 400,
        "test": 600,
        "ood": 600,
    }
    reference = Source("reference")
    assert reference.splits == ("train", "validation", "ood")
    assert reference.pairs("train") == {1: 400, 2: 752, 3: 448}
    assert reference.pairs("ood") == {4: 300}


def test_a_split_is_drawn_once_and_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    made = create_task("counterfactual-tom", {})
    found = list(made.samples("validation"))
    assert found == list(made.samples("validation"))
    assert [s.ordinal for s in found] == list(range(400))
    prefix = [s.group for s in found[:40]]
    assert [prefix.count(f"order-{o}") for o in (1, 2, 3)] == [10, 20, 10]
    assert list(made.verify(found)) == []
    first = made.source.path("validation").read_bytes()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "another"))
    assert list(made.samples("validation")) == found
    assert made.source.path("validation").read_bytes() == first


def test_the_committed_stories_are_what_the_code_writes():
    cells = [("train", 1), ("train", 2), ("train", 3), ("ood", 4)]
    drawn = [s for split, o in cells for s in draw(Source("reference"), split, o, 0)]
    rows = [json.loads(line) for line in STORIES.read_text().splitlines()]
    assert rows == [json.loads(json.dumps(record(s))) for s in drawn]


@pytest.mark.parametrize("style", ["compact", "exact-order"])
def test_prompts_tell_no_more_than_they_should(strict, style):
    made = create_task("counterfactual-tom", {"style": style})
    for sample in strict:
        (message,) = made.messages(sample)
        head, _, tail = message.content.partition("\n\n")
        assert sample.data["story"] in head
        assert "\n" not in head
        assert not [c for c in sample.data["choices"] if c in tail]
        n = len(sample.data["chain"])
        if style == "compact":
            assert "N =" not in tail
            assert "<" not in tail
            assert not set(sample.data["chain"]) & set(tail.replace(",", " ").split())
        else:
            assert f"N = {n} " in tail
            assert tail.count("- Think ") == n
            assert f"Think {n}: ..." in tail


def test_targets_are_perfect_replies(strict, task):
    for sample in strict:
        outcome = rollout(task, sample, task.target(sample))
        assert outcome.data["format_ok"]
        assert TomProcessV2().score(sample, outcome).value == 1.0
        assert TomProcess().score(sample, outcome).value == pytest.approx(0.55)
        assert structure(read(task.target(sample)), sample.truth["order"]).format_ok


def test_players(strict, task):
    players = task.players()
    assert {slug(name) for name in RULES} < set(players)
    for sample in strict[::5]:
        for name in players:
            text = play(task, sample, name)
            outcome = rollout(task, sample, text)
            assert outcome.data["answer_strict"] <= (name != "empty")
            if text:
                assert outcome.data["format_ok"], name
        assert play(task, sample, "oracle") == task.target(sample)
        assert play(task, sample, "random", 3) == play(task, sample, "random", 3)


def records(task, samples, say):
    found = []
    for k, sample in enumerate(samples):
        outcome = rollout(task, sample, say(sample))
        score = TomProcessV2().score(sample, outcome)
        found.append(
            Record(
                k,
                "counterfactual-tom",
                sample.id,
                sample.split,
                0,
                0,
                sample.group,
                sample.cluster,
                sample.canonical,
                outcome,
                score,
            )
        )
    return found


def test_figures_of_a_perfect_and_of_a_stubborn_run(strict, task):
    def figures(say):
        return {(m.name, m.group): m for m in task.metrics(records(task, strict, say))}

    perfect = figures(task.target)
    for name in ("score", "answer", "pair_answer", "intervention_sensitivity", "format_ok"):
        assert perfect[name, ""].value == 1.0
    assert perfect["pair_answer", ""].n == len(strict) // 2
    assert perfect["score", ""].clusters == len(strict) // 2
    assert perfect["state", "step-4"].n == 12
    assert perfect["shortcut_copy", "world"].value == 0.0
    world = figures(lambda s: play(task, s, "world"))
    assert world["intervention_sensitivity", ""].value == 0.0
    assert world["pair_answer", ""].value == 0.0
    assert world["shortcut_copy", "world"].value == 1.0
    silent = figures(lambda s: "")
    assert silent["answer", ""].value == silent["parsed", ""].value == 0.0
    assert silent["intervention_sensitivity", ""].value == 0.0


def test_half_a_pair_counts_in_no_pair_figure(strict, task):
    found = task.metrics(records(task, strict[:1], task.target))
    assert not [m for m in found if m.name == "pair_answer"]


def test_labels_for_probes(strict, task):
    for sample in strict:
        labels = task.concepts(sample)
        assert labels["order"] == sample.truth["order"] - 1
        assert labels["side"] == (sample.data["side"] == "observed")


def test_a_foreign_file_is_read_and_audited():
    made = create_task("counterfactual-tom", {"data": str(STORIES)})
    found = list(made.samples("all"))
    assert len(found) == 8
    assert len(made.data_identity()) == 64
    assert list(made.verify(found)) == []
    assert [s.split for s in made.samples("ood")] == ["ood", "ood"]
    with pytest.raises(HarnessError, match="no split"):
        list(made.samples("dev"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "strictest"}, "preset=strictest: choose strict or reference"),
        ({"style": "long"}, "style=long"),
        ({"ood_order": 7}, "choose 4, 5 or 6"),
        ({"preset": "reference", "ood_order": 5}, "ood_order must be 4"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(HarnessError, match=message):
        create_task("counterfactual-tom", options)
