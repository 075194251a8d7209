"""The rewards bridge and sessions, without verl: training is paid what evaluation stores."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace

import pytest
from tiny_models import tiny_tokenizer

import harness
from harness.reward import Reward
from harness.types import Decoding, HarnessError, Outcome, ProviderError, Sample, Score
from harness_plugins.trainers.verl.payment import figures, pay, tag
from harness_plugins.trainers.verl.sessions import Speaker, play, seed_of


def run(coroutine):
    return asyncio.run(coroutine)


@pytest.mark.parametrize("task", ["gamesolve", "gamesolve-skills"])
@pytest.mark.parametrize("model", ["oracle", "constant", "random", "echo", "empty"])
def test_training_pays_what_evaluation_scored(task, model, tmp_path):
    """On stored transcripts, bit for bit in float64."""
    from harness.registry import Registry
    from harness.trainer import TrainJob
    from harness.training.session import make_reward

    made = harness.run(task=task, model=model, limit=12, split="validation", out=tmp_path)
    registry = Registry.load()
    plugin = registry.create("task", task, {})
    reward = make_reward(registry, plugin, TrainJob(task, "base", tmp_path))
    samples = {s.id: s for s in plugin.samples("validation")}
    records = list(made.records())
    assert len(records) == 12
    for record in records:
        (score,) = run(pay(reward, samples[record.sample], [record.outcome]))
        assert struct.pack("d", score.value) == struct.pack("d", record.score.value)
        assert dict(score.parts) == dict(record.score.parts)


def test_a_weighted_reward_pays_the_same_too(tmp_path, toy_registry, support):
    from harness.trainer import TrainJob
    from harness.training.session import make_reward

    weights = "exact=0.3,length=0.7"
    made = harness.run(
        "copy", "oracle", registry=toy_registry, limit=10, reward=weights, out=tmp_path
    )
    task = toy_registry.create("task", "copy", {})
    reward = make_reward(toy_registry, task, TrainJob("copy", "x", tmp_path, reward=weights))
    samples = {s.id: s for s in task.samples("test")}
    for record in made.records():
        (score,) = run(pay(reward, samples[record.sample], [record.outcome]))
        assert score.value == record.score.value


class Ranked(Reward):
    """A group reward: the longest reply of a prompt gets 1."""

    name = "ranked"

    async def score_group(self, sample, outcomes):
        lengths = [len(o.moves[-1].reply.text) for o in outcomes]
        return [Score(float(n == max(lengths))) for n in lengths]


class Wrong(Reward):
    """Gives what it is made with."""

    name = "wrong"

    def __init__(self, scores):
        super().__init__()
        self.scores = scores

    async def score_group(self, sample, outcomes):
        return self.scores


SAMPLE = Sample("s", "train", {"word": "w1"}, {"answer": "w1"}, group="even")


def test_a_group_reward_sees_all_rollouts_of_a_prompt(toy_registry):
    task = toy_registry.create("task", "copy", {})
    engine = Engine(["a", "abc", "ab"])
    sessions = [run(play(task, SAMPLE, engine.speaker(), Decoding(), n)) for n in range(3)]
    scores = run(pay(Ranked(), SAMPLE, [s.outcome for s in sessions]))
    assert [s.value for s in scores] == [0.0, 1.0, 0.0]


def test_rewards_that_break_their_word_are_named():
    with pytest.raises(HarnessError, match="gave 0 scores for 1 rollouts"):
        run(pay(Wrong([]), SAMPLE, [Outcome(())]))
    with pytest.raises(HarnessError, match=r"gave 1\.5 for s"):
        run(pay(Wrong([Score(1.5)]), SAMPLE, [Outcome(())]))
    with pytest.raises(HarnessError, match="gave nan"):
        run(pay(Wrong([Score(float("nan"))]), SAMPLE, [Outcome(())]))


class Engine:
    """Stands where verl's client stands: says given texts, and keeps what it was asked."""

    def __init__(self, texts, end=True):
        self.tokenizer = tiny_tokenizer()
        self.texts = iter(texts)
        self.end = end
        self.asked = []

    def speaker(self, longest=1000):
        end = self.tokenizer.eos_token_id
        return Speaker(self.generate, self.tokenizer, frozenset({end}), longest, True)

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        self.asked.append((prompt_ids, sampling_params))
        ids = self.tokenizer(next(self.texts), add_special_tokens=False)["input_ids"]
        ids = [*ids, self.tokenizer.eos_token_id] if self.end else ids
        return SimpleNamespace(
            token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed",
            extra_fields={"global_steps": 7},
        )  # fmt: skip


def test_a_session_records_the_tokens_that_were_said(toy_registry):
    from harness.rendering import render

    task = toy_registry.create("task", "copy", {})
    engine = Engine(["w1"])
    session = run(play(task, SAMPLE, engine.speaker(), Decoding(1.0, max_tokens=9), seed=3))
    (call,) = session.calls
    assert list(call.prompt) == render(engine.tokenizer, task.messages(SAMPLE))
    assert call.reply[-1] == engine.tokenizer.eos_token_id
    assert engine.tokenizer.decode(call.reply[:-1]) == "w1"
    assert (call.version, call.logprobs) == (7, (-0.5,) * len(call.reply))
    move = session.outcome.moves[-1]
    assert (move.reply.text, move.reply.finish_reason, move.cls) == ("w1", "stop", "ok")
    asked = engine.asked[0][1]
    assert asked["max_tokens"] == 9
    assert asked["temperature"] == 1.0
    assert isinstance(asked["seed"], int)


def test_a_reply_that_hits_the_limit_is_told_apart(toy_registry):
    task = toy_registry.create("task", "copy", {})
    engine = Engine(["w1"], end=False)
    session = run(play(task, SAMPLE, engine.speaker(), Decoding(max_tokens=2), seed=3))
    assert session.outcome.moves[-1].reply.finish_reason == "length"
    assert "seed" not in engine.asked[0][1], "greedy replies need none"


def test_only_the_model_is_trained_in_a_game_of_two(toy_registry):
    task = toy_registry.create("task", "duel", {})
    sample = next(iter(task.samples("train")))
    engine = Engine(["1", "2", "3"])
    session = run(play(task, sample, engine.speaker(), Decoding(), seed=1))
    assert len(session.outcome.moves) == 6
    said = [m.reply.ids for m in session.outcome.moves if m.reply.ids]
    assert [c.reply for c in session.calls] == said
    with pytest.raises(HarnessError, match="opponent 'nobody': duel has oracle, random"):
        run(play(task, sample, engine.speaker(), Decoding(), 1, "nobody"))


def test_a_history_that_grew_too_long_is_the_models_fault(toy_registry):
    task = toy_registry.create("task", "copy", {})
    session = run(play(task, SAMPLE, Engine([]).speaker(longest=3), Decoding(), 1))
    assert session.calls == []
    assert session.outcome.cls == "truncated"


def test_an_engine_that_gives_nothing_is_not_the_models_fault(toy_registry):
    class Silent(Engine):
        async def generate(self, request_id, *, prompt_ids, sampling_params):
            return SimpleNamespace(
                token_ids=[], log_probs=None, stop_reason="aborted", extra_fields={}
            )

    task = toy_registry.create("task", "copy", {})
    with pytest.raises(ProviderError, match="aborted"):
        run(play(task, SAMPLE, Silent([]).speaker(), Decoding(), 1))


def test_seeds_of_rollouts_depend_on_step_sample_and_number():
    seeds = {
        seed_of(run_seed, step, SAMPLE, number)
        for run_seed in (0, 1) for step in (1, 2) for number in (0, 1)
    }  # fmt: skip
    assert len(seeds) == 8


def test_figures_of_a_step():
    def told(value, cls="ok", **parts):
        outcome = Outcome((), cls)
        return tag(SAMPLE, outcome, Score(value, parts))

    rows = [
        ("a", told(1.0, precision=1.0)),
        ("a", told(1.0, precision=0.5)),
        ("b", told(0.0, "unparsed")),
        ("b", told(0.5, precision=0.0)),
    ]
    found = figures(rows)
    assert found["reward/mean"] == 0.625
    assert (found["reward/min"], found["reward/max"]) == (0.0, 1.0)
    assert found["reward/zero_variance_groups"] == 0.5
    assert found["reward/part/precision"] == 0.5
    assert found["reward/parsed"] == 0.75
    assert found["reward/class/unparsed"] == 0.25
    assert figures([]) == {}
