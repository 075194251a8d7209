"""Whole tournaments: planted pools, stopping, going on, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.registry import Registry
from harness.tournament import Tournament, play
from harness.types import HarnessError

REGISTRY = Path(__file__).parents[1] / "support" / "pool_registry.toml"


@pytest.fixture
def held(tmp_path):
    """``held(models, **settings)``: the standings of a tournament in a folder of its own."""

    def held(models, task="pool", **settings):
        more = {"out": tmp_path, **settings.pop("more", {})}
        asked = Tournament(tuple(models), task, more=more, **settings)
        return play(asked, Registry.load(REGISTRY), quiet=True)

    return held


def test_a_circle_of_strategies_is_named_as_cyclic(held):
    found = held(["player:rock", "player:paper", "player:scissors"], limit=80)
    [first, *_] = found.warnings()
    assert "cyclic" in first
    # Each beats the one before it.
    assert found.circles.cycle in ((0, 2, 1), (2, 1, 0), (1, 0, 2))
    assert found.nash == pytest.approx([1 / 3] * 3, abs=0.15)
    assert found.alpha == pytest.approx([1 / 3] * 3, abs=0.02)


def test_a_ladder_is_ranked(held):
    found = held([f"player:{k}" for k in (2, 4, 1, 3)], limit=100)
    top, bottom = found.order[0], found.order[-1]
    assert {found.models[k] for k in (top, bottom)} <= {f"player:{k}" for k in (1, 2, 3, 4)}
    assert not found.circles.cycle
    assert found.games == 600


def test_play_goes_on_until_the_target_and_no_further(held):
    few = held(["player:1", "player:2"], limit=20, target=0.12, most=4000)
    assert few.reached
    assert max(few.half_widths) <= 0.12
    assert 20 < few.samples < 1000
    # The truth: the better one scores 0.7 + 0.05.
    assert few.scores[1] == pytest.approx(0.75, abs=0.12)
    short = held(["player:1", "player:2"], limit=20, target=0.01, most=40)
    assert short.reached is False
    assert any("not reached" in line for line in short.warnings())


def test_a_further_model_plays_the_new_pairings_only(held, tmp_path):
    before = held(["player:1", "player:2"], limit=20)
    stamps = {p: (p / "metrics.json").stat().st_mtime_ns for p in tmp_path.iterdir()}
    after = held(["player:1", "player:2", "player:3"], limit=20)
    assert set(before.folders) < set(after.folders)
    for folder, stamp in stamps.items():
        assert (folder / "metrics.json").stat().st_mtime_ns == stamp
    assert after.games == 60


def test_what_makes_no_sense_is_refused(held):
    cases = (
        ({"models": ["player:1"]}, "at least two"),
        ({"models": ["player:1", "player:2"], "limit": 1}, "at least 2"),
        ({"models": ["player:1", "player:2"], "target": 0.7}, "half-width"),
        ({"models": ["player:1", "player:2"], "target": 0.1, "most": 4}, "less than"),
        ({"models": ["player:1", "player:9"]}, "player"),
        ({"models": ["random", "oracle"], "task": "gamesolve"}, "one seat"),
    )
    for settings, message in cases:
        with pytest.raises(HarnessError, match=message):
            held(**settings)


def test_the_command_prints_standings_and_json(harness_command):
    given = ["tournament", "--models", "player:rock,player:paper,player:scissors", "--task", "pool"]
    more = ["--limit", "60", "--registry", REGISTRY]
    shown = harness_command(*given, *more, registry=False)
    assert shown.returncode == 0, shown.stderr
    assert "the pool is cyclic" in shown.stdout
    data = json.loads(harness_command(*given, *more, "--json", registry=False).stdout)
    assert sorted(data["cycle"]) == ["player:paper", "player:rock", "player:scissors"]
    assert data["games"] == 180


def test_the_command_says_in_one_line_what_is_wrong(harness_command):
    done = harness_command("tournament", "--models", "a", "--task", "gtbench", registry=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
