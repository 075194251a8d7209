"""Scripted models and replays, played through the engine on the toy tasks."""

from __future__ import annotations

import asyncio

import pytest

import harness
from harness.player import Seat
from harness.registry import Registry
from harness.types import Decoding, HarnessError, Message, Reply, Request, Sample, Turn
from harness_plugins.models import replay, scripted
from harness_plugins.models.replay import ReplayModel
from harness_plugins.models.scripted import create_model

REPLAY = """
[[plugin]]
kind = "model"
name = "again"
module = "harness_plugins.models.replay"
[plugin.options]
delay = { default = 0.0, help = "seconds" }
"""


@pytest.fixture
def toys(support, tmp_path):
    """The toy plugins, and a replay under a name of its own."""
    path = tmp_path / "registry.toml"
    path.write_text((support / "toy_registry.toml").read_text() + REPLAY)
    return Registry.load(path)


@pytest.fixture
def copy_task(toys):
    return toys.create("task", "copy", {"size": 4})


def seat(task, seed=5, number=0):
    return Seat(task, next(iter(task.samples("test"))), number, seed)


def play(model, task, turn=None, **place):
    player = model.player(seat(task, **place))
    sample = seat(task).sample
    return asyncio.run(player.act(turn or Turn(0, (), truth=sample.truth))).text


def test_reference_players_play_under_their_names(copy_task):
    assert play(create_model("oracle", {}), copy_task) == "w0"
    assert play(create_model("random", {}), copy_task, seed=1).startswith("w")
    assert create_model("oracle", {}).identity == "scripted:oracle"
    seen = {play(create_model("random", {}), copy_task, seed=s) for s in range(30)}
    assert len(seen) > 3, "it draws from the rollout's seed"


def test_a_player_that_the_task_does_not_have_is_named_with_those_it_has(copy_task):
    with pytest.raises(
        HarnessError, match="copy has no player 'minimax'; it has empty, oracle, rand"
    ):
        create_model("minimax", {}).player(seat(copy_task))
    for name, said in (("player", "which player"),):
        with pytest.raises(HarnessError, match=said):
            create_model(name, {})
    with pytest.raises(HarnessError, match="negative"):
        create_model("oracle", {"delay": -1})


def test_empty_says_nothing_and_echo_says_it_back(copy_task):
    assert play(create_model("empty", {}), copy_task) == ""
    model = create_model("echo", {})
    assert model.player(seat(copy_task)) is None
    talk = (Message("user", "a"), Message("user", "b"), Message("assistant", "c"))
    assert asyncio.run(model.generate(Request(talk, Decoding(), 0))).text == "b"
    assert asyncio.run(model.generate(Request(talk[2:], Decoding(), 0))) == Reply("")


def test_delays_depend_on_the_rollout_alone(copy_task, monkeypatch):
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    monkeypatch.setattr(scripted.asyncio, "sleep", sleep)
    model = create_model("oracle", {"delay": 2.0})
    for seed in (1, 2, 1):
        assert play(model, copy_task, seed=seed) == "w0"
    assert waited[0] == waited[2] != waited[1]
    assert all(0 <= w < 2 for w in waited)
    echo = create_model("echo", {"delay": 2.0})
    asyncio.run(echo.generate(Request((Message("user", "x"),), Decoding(), 9)))
    assert 0 < waited[3] < 2


def test_runs_of_scripted_models_end_as_they_should(toys, tmp_path):
    def run(model):
        return harness.run("copy", model, toys, out=tmp_path, options={"size": 6}, observers=())

    for model, cls, value in (("oracle", "ok", 1.0), ("echo", "ok", 1.0), ("empty", "empty", 0.0)):
        records = list(run(model).records())
        assert len(records) == 6
        assert {r.outcome.cls for r in records} == {cls}
        assert {r.score.value for r in records} == {value}
    with pytest.raises(HarnessError, match="copy has no player 'constant'"):
        run("constant")


@pytest.mark.parametrize("task", ["copy", "duel"])
def test_a_replay_is_the_run_again(toys, tmp_path, task):
    settings = {"options": {"size": 5}, "seeds": (1, 2), "repeats": 2, "out": tmp_path / "runs"}
    first = harness.run(task, "random", toys, **settings)
    again = harness.run(task, f"again:{first.path}", toys, **settings, concurrency=2)
    assert again.path != first.path
    assert len(list(first.records())) == 20
    for before, after in zip(first.records(), again.records(), strict=True):
        assert [m.reply.text for m in after.outcome.moves] == [
            m.reply.text for m in before.outcome.moves
        ]
        assert (after.outcome, after.score) == (before.outcome, before.score)
    texts = {m.reply.text for r in first.records() for m in r.outcome.moves}
    assert len(texts) > 3, "a constant run would prove nothing"
    part = harness.run(task, f"again:{first.path}", toys, **{**settings, "seeds": (2,)}, limit=2)
    assert [r.outcome for r in part.records()] == [
        r.outcome for r in first.records() if r.seed == 2
    ][:4]


def test_a_replay_elsewhere_says_what_is_missing(toys, tmp_path):
    settings = {"options": {"size": 3}, "out": tmp_path / "runs"}
    first = harness.run("copy", "oracle", toys, **settings)
    with pytest.raises(HarnessError, match=r"holds no reply to turn 0 of seat 0 of copy-test-"):
        harness.run("copy", f"again:{first.path}", toys, **settings, seeds=(7,))
    with pytest.raises(HarnessError, match="which run"):
        replay.create_model("replay", {})
    with pytest.raises(HarnessError, match="no run folder"):
        ReplayModel(str(tmp_path), {})


def test_a_replay_is_identified_by_what_was_said(toys, tmp_path):
    settings = {"options": {"size": 3}, "out": tmp_path / "runs"}
    runs = [harness.run("copy", m, toys, **settings).path for m in ("oracle", "random", "empty")]
    identities = [ReplayModel(str(path), {}).identity for path in runs]
    assert len(set(identities)) == 3
    assert ReplayModel(str(runs[0]), {}).identity == identities[0]


def test_replies_of_one_turn_come_in_their_order():
    place = replay.Place(5, 0, 0, 0)
    stored = {place: [Reply("first"), Reply("second")]}
    where = Seat(None, Sample("s", "test", {}), 0, 5)  # type: ignore[arg-type]
    player = replay.StoredPlayer(stored, where, "run")
    turn = Turn(0, ())
    assert [asyncio.run(player.act(turn)).text for _ in range(2)] == ["first", "second"]
    with pytest.raises(HarnessError, match="no reply"):
        asyncio.run(player.act(turn))
