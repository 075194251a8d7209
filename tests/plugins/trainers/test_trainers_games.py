"""Games of several turns in training, without verl: what is said by whom, groups, weights."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_tokenizer

from harness.cli.train_ import divide, read_config
from harness.registry import Registry
from harness.rendering import render
from harness.types import Decoding, HarnessError, Outcome, Sample, Score
from harness_plugins.trainers.grpo import GRPO
from harness_plugins.trainers.verl import settings
from harness_plugins.trainers.verl.payment import figures, tag
from harness_plugins.trainers.verl.sessions import Speaker, play
from harness_plugins.trainers.verl.settings import Place
from harness_plugins.trainers.verl.turns import episode_of, episodes, shares

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
SAMPLE = Sample("s", "train", {})


class Mouth:
    """Stands where verl's client stands: says what a function makes of the prompt, as tokens."""

    def __init__(self, say):
        self.tokenizer = tiny_tokenizer()
        self.say = say

    def speaker(self):
        end = frozenset({self.tokenizer.eos_token_id})
        return Speaker(self.generate, self.tokenizer, end, 4000, True)

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        text = self.say(self.tokenizer.decode(prompt_ids))
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return SimpleNamespace(
            token_ids=[*ids, self.tokenizer.eos_token_id], log_probs=[-0.5] * (len(ids) + 1),
            stop_reason="completed", extra_fields={},
        )  # fmt: skip


def first_listed(prompt):
    """The first legal move of a prompt's list."""
    return f"ANSWER: {prompt.rpartition('Legal moves: ')[2].partition(';')[0]}"


def last_listed(prompt):
    moves = prompt.rpartition("Legal moves: ")[2].partition("\n")[0]
    return f"ANSWER: {moves.rpartition('; ')[2]}"


def tictactoe(**options):
    return Registry.load(None).create("task", "gtbench", {"games": ["tictactoe"], **options})


def sat(task, seat):
    return next(s for s in task.samples("train") if s.data["model_seat"] == seat)


def rolled(task, sample, say, seed=1, **named):
    return asyncio.run(play(task, sample, Mouth(say).speaker(), Decoding(1.0), seed, **named))


@pytest.mark.parametrize("seat", [0, 1])
def test_the_opponents_moves_stand_in_prompts_alone(seat):
    """By ids: prompts are the rendered messages, replies the model's own words, nothing else is
    trained on; what the opponent played is part of later prompts."""
    task, tokenizer = tictactoe(), tiny_tokenizer()
    session = rolled(task, sat(task, seat), first_listed)
    mine = [m for m in session.outcome.moves if m.seat == seat]
    theirs = [m for m in session.outcome.moves if m.seat != seat]
    assert len(session.calls) == len(mine) >= 2
    assert theirs
    for call, move in zip(session.calls, mine, strict=True):
        assert list(call.prompt) == render(tokenizer, move.messages)
        assert call.reply == move.reply.ids
        said = tokenizer.decode(call.reply, skip_special_tokens=True)
        assert said == f"ANSWER: {move.parsed}"
    shown = tokenizer.decode(session.calls[-1].prompt)
    before = [m for m in theirs if m.number < mine[-1].number]
    assert before
    for move in before:
        assert f"Opponent: {move.parsed}\n" in shown
        assert not move.reply.ids, "the opponent speaks no tokens"


def test_an_illegal_move_is_a_loss_and_each_try_a_turn():
    once, thrice = tictactoe(retries=0), tictactoe()
    reward = Registry.load(None).create("reward", "gtbench", {})
    for task, tries in ((once, 1), (thrice, 3)):
        sample = sat(task, 0)
        session = rolled(task, sample, lambda prompt: "ANSWER: C9R9")
        assert [len(session.calls), session.outcome.cls] == [tries, "illegal"]
        score = reward.score(sample, session.outcome)
        assert (score.value, score.parts["forfeit"]) == (0.0, 1.0)
    decoded = [tiny_tokenizer().decode(call.prompt) for call in session.calls]
    assert [text.count("C9R9 is not legal") for text in decoded] == [0, 1, 2]


def test_rollouts_of_a_group_meet_the_same_luck():
    """An opponent that moves first moves the same; what differs is what the model says."""
    task = tictactoe()
    sample = sat(task, 1)

    def opened(seed, luck, say=first_listed):
        return rolled(task, sample, say, seed, luck=luck).outcome.moves[0].parsed

    assert len({opened(seed, 7) for seed in range(6)}) == 1
    assert len({opened(7, luck) for luck in range(6)}) > 1
    assert opened(3, None) == opened(5, 3), "by default the rollout's own seed"
    lines = {
        say: rolled(task, sample, say, 1, luck=7).outcome.data["line"]
        for say in (first_listed, last_listed)
    }
    assert lines[first_listed][0] == lines[last_listed][0]
    assert lines[first_listed] != lines[last_listed]


GAMES = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=5), min_size=1, max_size=6)


@given(GAMES)
def test_the_shares_of_an_episode_are_one(games):
    keys = [f"p{i % 2}_{i}_{turn}" for i, game in enumerate(games) for turn in range(len(game))]
    tokens = [count for game in games for count in game]
    found = shares(keys, tokens)
    for number, game in enumerate(games):
        mine = [s for k, s in zip(keys, found, strict=True) if episode_of(k).endswith(f"_{number}")]
        assert sum(mine) == pytest.approx(1.0)
        assert mine == pytest.approx([count / sum(game) for count in game])


def test_figures_count_games_and_not_their_turns():
    def told(value, turns):
        outcome = Outcome((), "ok" if turns != 1 else "illegal")
        return {**tag(SAMPLE, outcome, Score(value, {"win": value})), "turns": turns}

    rows = [(f"u_0_{turn}", told(1.0, 3)) for turn in range(3)]
    rows += [("u_1_0", told(0.0, 1)), ("v_0_0", told(0.5, 0))]
    found = figures(episodes(rows))
    assert found["reward/mean"] == 0.5
    assert found["reward/part/win"] == 0.5
    assert found["reward/turns"] == pytest.approx(4 / 3)
    assert found["reward/class/illegal"] == pytest.approx(1 / 3)
    assert found["reward/zero_variance_groups"] == 0.5
    assert "reward/turns" not in figures([("u", told(1.0, 1))])


def recipe(name):
    top, given = read_config(CONFIGS / name)
    registry = Registry.load(None)
    options, task_options, _ = divide(registry, top["method"], top["task"], given)
    return top, registry.options(registry.entry("trainer", top["method"]), options), task_options


@pytest.mark.parametrize(
    ("name", "gpus", "wanted"),
    [
        ("tiny-tictactoe-grpo-cpu", 0, {"batch_size": 4, "rollouts": 4, "steps": 4}),
        ("smollm2-tictactoe-grpo-1gpu", 1, {"batch_size": 32, "rollouts": 8, "steps": 60}),
    ],
)
def test_the_recipes_of_a_game(name, gpus, wanted):
    """Games count the same, an illegal move loses at once, lengths leave room for a whole game."""
    top, options, task_options = recipe(f"{name}.toml")
    assert (top["method"], top["task"]) == ("grpo", "gtbench")
    assert {key: options[key] for key in wanted} == wanted
    assert (options["opponent"], options["loss_mean"]) == ("random", "seq-mean-token-mean")
    assert (options["kl"], options["gpus"], options["max_prompt"]) == ("", gpus, 640)
    assert (task_options["games"], task_options["retries"]) == (["tictactoe"], 0)
    place = Place(Path("/out"), Path("/base"), gpus, 1, tied=True)
    found = settings.grpo_overrides(place, options, 80)
    engine = "vllm" if gpus else "harness_transformers"
    for override in (
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean",
        f"actor_rollout_ref.rollout.n={wanted['rollouts']}",
        f"actor_rollout_ref.rollout.name={engine}",
        f"trainer.total_training_steps={wanted['steps']}",
    ):
        assert override in found


def session_of(task, **options):
    items = [SimpleNamespace(sample=sample) for sample in task.samples("train")]
    given = {"opponent": "", "kl": "", **options}
    return SimpleNamespace(task=task, items=items, job=SimpleNamespace(options=given))


def test_what_grpo_cannot_do_with_games():
    GRPO({}).prepare(session_of(tictactoe(), opponent="mcts-50", kl="loss"))
    with pytest.raises(HarnessError, match="opponent 'nobody': gtbench has "):
        GRPO({}).prepare(session_of(tictactoe(), opponent="nobody"))
    with pytest.raises(HarnessError, match="'tit-for-tat' does not play tictactoe"):
        GRPO({}).prepare(session_of(tictactoe(), opponent="tit-for-tat"))
    with pytest.raises(HarnessError, match=r"kl reward: gtbench asks several times .* use kl=loss"):
        GRPO({}).prepare(session_of(tictactoe(), kl="reward"))
    skills = Registry.load(None).create("task", "gamesolve-skills", {})
    GRPO({}).prepare(session_of(skills, kl="reward"))


def test_first_moves_can_be_learnt_from_targets():
    """A reward pays whole games, so the target of one move is only read."""
    from harness_plugins.trainers.sft import verified

    task = tictactoe()
    reward = Registry.load(None).create("reward", "gtbench", {})
    for sample in list(task.samples("train"))[:6]:
        item = SimpleNamespace(sample=sample, target=task.target(sample), messages=())
        assert verified(task, reward, item)
        item.target = "I pass"
        assert not verified(task, reward, item)
