"""The task: samples, splits, presets, options, prompts, and what importing costs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import islice

import pytest

from harness.types import HarnessError
from harness_plugins.tasks.gtbench import answers, deals
from harness_plugins.tasks.gtbench.games import DEFAULT_GAMES, GAMES, skin
from harness_plugins.tasks.gtbench.presets import EIGHT
from harness_plugins.tasks.gtbench.task import GTBench


def samples(options=None, split="test"):
    return list(GTBench(options or {}).samples(split))


def test_default_size_and_balance():
    found = samples()
    assert len(found) == 400
    for key in DEFAULT_GAMES:
        own = [s for s in found if s.group == key]
        assert len(own) == 40
        assert sum(s.data["model_seat"] for s in own) == 20
        assert len({s.cluster for s in own}) == 20


def test_any_prefix_holds_games_in_proportion_and_pairs_together():
    for n in (20, 60, 200):
        prefix = samples()[:n]
        counts = [sum(s.group == key for s in prefix) for key in DEFAULT_GAMES]
        assert max(counts) - min(counts) <= 2
        assert all(sum(s.cluster == c for s in prefix) == 2 for c in {s.cluster for s in prefix})
    assert [s.ordinal for s in samples()] == list(range(400))


def test_pairs_do_not_depend_on_what_else_is_played():
    alone = [s.data for s in samples({"games": ["kuhn_poker"], "pairs": 5})]
    among = [s.data for s in samples({"pairs": 9}) if s.group == "kuhn_poker"]
    assert alone == among[: len(alone)]
    other = [s.data["seed"] for s in samples({"games": ["kuhn_poker"], "data_seed": 1})]
    assert not {d["seed"] for d in alone} & set(other)


def test_openings_are_legal_balanced_and_apart_between_splits():
    for key in ("tictactoe", "connect4", "breakthrough", "nim"):
        seen = {}
        for split in ("train", "validation", "test"):
            for s in samples({"games": [key], "pairs": 30}, split):
                assert len(s.data["opening"]) == GAMES[key].opening_plies
                assert seen.setdefault(s.canonical, split) == split
                look = skin(key, "plain")
                position = look.game.start(0)
                for move in s.data["opening"]:
                    look.act(position, position.seats()[0], move)
                assert not position.over
        test = [name for name, split in seen.items() if split == "test"]
        assert len(test) >= (15 if key == "tictactoe" else 25)


def test_openings_can_be_switched_off_and_set():
    assert all(s.data["opening"] == [] for s in samples({"openings": 0}))
    longer = samples({"openings": 3, "games": ["connect4", "kuhn_poker"], "pairs": 2})
    assert {(s.group, len(s.data["opening"])) for s in longer} == {
        ("connect4", 3),
        ("kuhn_poker", 0),
    }
    with pytest.raises(HarnessError, match="no opening of 9 moves"):
        samples({"openings": 9, "games": ["tictactoe"], "pairs": 1})


def test_verification_finds_nothing_in_samples_and_names_what_is_wrong():
    task = GTBench({"pairs": 3, "variant": "both"})
    good = list(task.samples("all"))
    assert list(task.verify(good)) == []
    alone = [good[0]]
    assert "not a pair" in next(iter(task.verify(alone)))
    data = {**good[0].data, "opening": ["C1R1", "C1R1"]}
    bad = replace(good[0], data=data)
    assert any("'C1R1' is not legal" in line for line in task.verify([bad]))
    moved = [replace(s, split="validation") for s in good if s.cluster == good[0].cluster]
    assert any("another split" in line for line in task.verify(moved))


def test_relabelled_pairs_share_seed_and_cluster():
    found = samples({"variant": "both", "games": ["nim", "kuhn_poker"], "pairs": 3})
    assert len(found) == 24
    for s in found:
        twins = [t for t in found if t.cluster == s.cluster]
        assert len(twins) == 4
        assert len({t.data["seed"] for t in twins}) == 1
        assert {t.data["variant"] for t in twins} == {"plain", "relabelled"}
    assert {s.group for s in found} == {
        "nim",
        "nim/relabelled",
        "kuhn_poker",
        "kuhn_poker/relabelled",
    }


def test_presets_are_the_two_reference_sets():
    eight, ten = GTBench({"preset": "reference-8x20"}), GTBench({"preset": "reference-10x20"})
    assert len(list(eight.samples("test"))) == 160
    assert len(list(ten.samples("test"))) == 200
    assert set(EIGHT) == set(DEFAULT_GAMES) - {"breakthrough", "negotiation"}
    for task in (eight, ten):
        assert task.plan.conduct.retries == 0
        assert task.decoding.temperature == 0.2
        assert task.decoding.max_tokens == 1024
        assert all(s.data["opening"] == [] for s in islice(task.samples("test"), 50))
    assert GTBench({"preset": "reference-8x20", "retries": 1, "pairs": 3}).plan.pairs == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"games": ["chess"]}, "no game 'chess'; choose from tictactoe"),
        ({"games": ["nim", "nim"]}, "named twice"),
        ({"preset": "reference"}, "preset='reference' is unknown"),
        ({"variant": "new"}, "variant='new'"),
        ({"agent": "mcts"}, "agent='mcts'"),
        ({"forced": "no"}, "forced='no'"),
        ({"pairs": -1}, "pairs=-1 must be a whole number of at least 0"),
        ({"retries": -2}, "retries=-2"),
        ({"openings": -2}, "openings=-2"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(HarnessError, match=words.replace("[", r"\[")):
        GTBench(options)


def test_unknown_splits_are_named():
    with pytest.raises(HarnessError, match="no split 'dev'; choose from train, validation, test"):
        samples(split="dev")


@pytest.mark.parametrize("key", GAMES)
def test_first_prompts_are_for_the_models_seat(key):
    task = GTBench({"games": [key], "pairs": 3, "variant": "both"})
    for s in task.samples("train"):
        system, user = task.messages(s)
        assert (system.role, user.role) == ("system", "user")
        assert "It is your move." in user.content
        assert skin(key, s.data["variant"]).words["name"] in system.content
        if s.data["opening"]:
            count = len(s.data["opening"])
            assert f"the first {count} were drawn at random" in user.content


def test_targets_answer_the_first_prompt():
    task = GTBench({"pairs": 4})
    known = set()
    for s in task.samples("train"):
        target = task.target(s)
        if target is None:
            continue
        known.add(s.group)
        parsed = task.parse(s, _reply(target))
        assert parsed.cls == "ok"
        user = task.messages(s)[1].content
        if s.group not in ("negotiation",):
            assert parsed.value in user.split("Legal ")[1]
    assert known == set(DEFAULT_GAMES) - {"connect4", "breakthrough", "liars_dice"}


def _reply(text):
    from harness.types import Reply

    return Reply(text)


def test_prompt_prefix_is_stable_over_turns(saying, roll):
    """The system message is the same object for all episodes; the user message grows."""
    seen = []

    def player(seat):
        seen.append(saying(lambda turn: f"ANSWER: {turn.legal[0]}"))
        return seen[-1]

    roll({"games": ["connect4"], "pairs": 2}, player)
    systems = {id(turn.messages[0]) for p in seen for turn in p.turns}
    assert len(systems) == 1
    first, second = seen[0].turns[0].messages[1].content, seen[0].turns[1].messages[1].content
    history = first.split("\n\nThe grid")[0]
    assert second.startswith(history)


def test_the_lineup_seats_model_and_opponent():
    task = GTBench({"games": ["nim"], "pairs": 1})
    first, second = task.samples("test")
    assert task.lineup(first) == ("model", "opponent")
    assert task.lineup(second) == ("opponent", "model")
    assert task.default_opponent in task.players()
    assert set(task.level_players) <= set(task.players())


def test_split_names_are_a_function_of_the_opening_alone():
    counts = dict.fromkeys(deals.SPLITS, 0)
    for n in range(3000):
        counts[deals.split_of(f"game/{n}")] += 1
    assert [round(counts[s] / 300) for s in deals.SPLITS] == [6, 1, 3]


def test_importing_and_making_the_task_loads_no_game_library():
    code = (
        "import sys\n"
        "import harness_plugins.tasks.gtbench as g, harness_plugins.rewards.gtbench as r\n"
        "task = g.create_task('gtbench', {})\n"
        "r.create_reward('gtbench', {})\n"
        "list(task.players())\n"
        "bad = {'pyspiel', 'rlcard', 'numpy', 'torch'} & set(sys.modules)\n"
        "sys.exit(str(sorted(bad)) if bad else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_parser_of_the_task_reads_without_a_position():
    task = GTBench({"games": ["tictactoe"], "pairs": 1})
    sample = next(iter(task.samples("test")))
    assert task.parse(sample, _reply("ANSWER: c9r9")).value == "C9R9"
    assert answers.read("x", skin("tictactoe", "plain")).value is None
