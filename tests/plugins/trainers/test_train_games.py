"""GRPO of games of several turns on real verl: where the loss lies by token ids, how turns weigh,
and real steps on tic-tac-toe against random."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from recorded import Engine
from tiny_player import player_checkpoint
from train_jobs import Training, missing

from harness.player import Player
from harness.registry import Registry
from harness.seeds import Streams
from harness.training import curves
from harness.types import Decoding
from harness_plugins.trainers.verl.sessions import Speaker, play, seats, seed_of

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(bool(missing()), reason=missing() or "verl is there"),
]

RECIPE = Path(__file__).resolve().parents[3] / "configs" / "tiny-tictactoe-grpo-cpu.toml"
os.environ.setdefault("VERL_PLATFORM", "cpu")
OPTIONS = {"games": ["tictactoe"], "retries": 0, "openings": 4}


def tictactoe():
    return Registry.load(None).create("task", "gtbench", OPTIONS)


@pytest.fixture(autouse=True)
def _one_thread():
    """So small a model is slower with several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def player(tmp_path_factory):
    """A checkpoint that plays, loaded."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = player_checkpoint(tmp_path_factory.mktemp("player") / "base", tictactoe())
    made = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    return SimpleNamespace(folder=folder, model=made[0], tokenizer=made[1])


@pytest.fixture(scope="module")
def games(player):
    """Real rollouts against random: 12 samples, 4 each."""
    task = tictactoe()
    ends = frozenset({player.tokenizer.eos_token_id})
    engine = Engine(player.model, player.tokenizer)
    speaker = Speaker(engine.generate, player.tokenizer, ends, 640, True)
    found = []
    for sample in list(task.samples("train"))[:12]:
        for number in range(4):
            seeds = seed_of(0, 1, sample, number), seed_of(0, 1, sample, 0)
            made = play(task, sample, speaker, Decoding(1.0, max_tokens=6), seeds[0], "random",
                        seeds[1])  # fmt: skip
            found.append((sample, asyncio.run(made)))
    return found


def jagged(rows):
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def lossy(model, rows, mode="token-mean", sequences=None):
    """verl's own loss of these rows, and the gradient of each position's logits, (tokens,)."""
    from tensordict import TensorDict
    from verl.utils import tensordict_utils as tu
    from verl.workers.config import FSDPActorConfig
    from verl.workers.utils.losses import ppo_loss

    told = [model(row["input_ids"][None]).logits[0] for row in rows]
    for logits in told:
        logits.retain_grad()
    chosen = [
        torch.log_softmax(logits, -1).gather(-1, row["input_ids"].roll(-1)[:, None]).squeeze(-1)
        for logits, row in zip(told, rows, strict=True)
    ]
    names = ("prompts", "responses", "response_mask", "advantages")
    columns = {name: jagged([row[name] for row in rows]) for name in names}
    columns["old_log_probs"] = jagged([row["rollout_log_probs"] for row in rows])
    data = TensorDict(columns, batch_size=len(rows))
    tokens = int(sum(row["loss_mask"].sum() for row in rows))
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=tokens,
                         global_batch_size=sequences or len(rows))  # fmt: skip
    config = FSDPActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1, loss_agg_mode=mode
    )
    loss, _ = ppo_loss(config, {"log_probs": jagged(chosen)}, data)
    loss.backward()
    return loss, [logits.grad.abs().sum(-1) for logits in told]


def rows_of(session, gain=1.0):
    from harness_plugins.trainers.verl.rollouts import row

    made = [row(call, 1.0, 0, len(session.calls)) for call in session.calls]
    return [{**r, "advantages": torch.full((len(r["responses"]),), gain)} for r in made]


def test_opponent_tokens_carry_no_loss(player, games):
    """The positions whose logits get a gradient predict the model's own replies, token by token and
    nothing else; the opponent's moves are there, among the tokens without one."""
    ids_of, long, theirs = player.tokenizer, 0, 0
    for sample, session in games:
        seat = sample.data["model_seat"]
        mine = [m for m in session.outcome.moves if m.seat == seat]
        if len(mine) < 2:
            continue
        long += 1
        rows = rows_of(session)
        _, gradients = lossy(player.model, rows)
        for row, gradient, move in zip(rows, gradients, mine, strict=True):
            ids = row["input_ids"].tolist()
            taught = [at + 1 for at in torch.nonzero(gradient).flatten().tolist()]
            assert tuple(ids[at] for at in taught) == move.reply.ids
            assert taught == list(range(len(row["prompts"]), len(ids)))
            others = {at: token for at, token in enumerate(ids) if at not in taught}
            for other in session.outcome.moves:
                if other.seat == seat or other.number > move.number:
                    continue
                theirs += 1
                token = ids_of.convert_tokens_to_ids(other.parsed)
                assert token in others.values(), "shown to the model"
                text = ids_of.decode(list(others.values()))
                assert f"Opponent: {other.parsed}\n" in text
    assert long >= 5
    assert theirs >= 10


def test_an_episode_is_compared_whatever_its_turns(games):
    """verl's advantages of rows: of each episode's score within its group, for all its turns."""
    from verl import DataProto
    from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

    turns, values = [3, 1, 2, 1], [1.0, 0.0, 0.5, 0.0]
    keys = [f"u_{n}_{turn}" for n, count in enumerate(turns) for turn in range(count)]
    each = torch.tensor([values[int(key.split("_")[1])] for key in keys])
    mask = torch.ones(len(keys), 2)
    mask[-1] = 0  # a rollout that said nothing counts in the mean all the same
    scores = torch.zeros_like(mask)
    scores[:, -1] = each
    data = DataProto.from_dict({"token_level_rewards": scores, "response_mask": mask})
    import numpy as np

    data.non_tensor_batch["uid"] = np.array(["u"] * len(keys), dtype=object)
    found = compute_advantage_for_multi_trajectories(data, keys, "grpo").batch["advantages"]
    whole = torch.tensor(values)
    wanted = (each - whole.mean()) / (whole.std() + 1e-6)
    assert torch.allclose(found, wanted[:, None] * mask, atol=1e-5)


def test_turns_weigh_as_one_sequence(player, games):
    """With shares, verl's mean over sequences of the rows of episodes is the mean over episodes of
    the mean over an episode's tokens."""
    from harness_plugins.trainers.verl.turns import EPISODES, shares

    played = [s for _, s in games if s.calls][:6]
    assert len({len(s.calls) for s in played}) > 1
    rows, keys, wanted = [], [], 0.0
    for number, session in enumerate(played):
        gain = (-1.0) ** number * (1 + number / 10)
        made = rows_of(session, gain)
        ratios = []
        for row in made:
            row["rollout_log_probs"] = row["rollout_log_probs"] + 0.05 * len(made)
            start, ids = len(row["prompts"]), row["input_ids"]
            logits = player.model(ids[None]).logits[0, start - 1 : -1]
            said = torch.log_softmax(logits, -1).gather(-1, ids[start:, None]).squeeze(-1)
            ratios.append((said - row["rollout_log_probs"]).exp().detach())
        ratio = torch.cat(ratios)
        wanted -= float(torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()) / len(played)
        rows += made
        keys += [f"u_{number}_{turn}" for turn in range(len(made))]
    for row, part in zip(rows, shares(keys, [len(r["responses"]) for r in rows]), strict=True):
        row["advantages"] = row["advantages"] * part
    loss, _ = lossy(player.model, rows, EPISODES, len(played))
    assert loss.item() == pytest.approx(wanted, abs=1e-5)


class Queue:
    """Stands where verl's queue of rows stands: rows by name, in this process."""

    def __init__(self):
        self.rows, self.tags = {}, {}

    def kv_batch_put(self, keys, partition_id, fields=None, tags=None):
        from transfer_queue import KVBatchMeta

        for place, key in enumerate(keys):
            for name in fields.keys() if fields is not None else ():
                self.rows.setdefault(key, {})[name] = fields[name][place]
            self.tags[key] = tags[place] if tags else self.tags[key]
        return KVBatchMeta(
            partition_id=partition_id, keys=list(keys), tags=[self.tags[key] for key in keys]
        )

    def kv_batch_get(self, keys, partition_id, select_fields):
        from tensordict import TensorDict

        there = [n for n in select_fields if n in self.rows[keys[0]]]
        columns = {n: [self.rows[key][n] for key in keys] for n in there}
        found = {n: jagged(v) if v[0].dim() else torch.stack(v) for n, v in columns.items()}
        return TensorDict(found, len(keys))


class Workers:
    """Stands where verl's workers stand: keeps the update that it was asked for."""

    def __init__(self):
        self._dispatch_info = {"actor": [0]}

    def update_actor(self, batch):
        self.asked = dict(batch.extra_info)
        return {"metrics": {"mfu": [0.0], "loss": [1.0]}}


def test_a_step_of_uneven_games(monkeypatch):
    """verl's steps of an update on rows of three rollouts: of three turns, of one, of none."""
    from omegaconf import OmegaConf
    from transfer_queue import KVBatchMeta
    from verl.trainer.ppo.v1 import trainer_base

    from harness_plugins.trainers.verl import policy
    from harness_plugins.trainers.verl.rollouts import group_number, row
    from harness_plugins.trainers.verl.sessions import Call
    from harness_plugins.trainers.verl.turns import EPISODES

    queue = Queue()
    monkeypatch.setattr(policy, "tq", queue)
    monkeypatch.setattr(trainer_base, "tq", queue)
    trainer = object.__new__(policy.Policy)
    actor = {
        "ppo_mini_batch_size": 1, "ppo_micro_batch_size_per_gpu": 4, "use_dynamic_bsz": False,
        "loss_agg_mode": EPISODES, "ppo_epochs": 1, "data_loader_seed": 42, "shuffle": False,
        "calculate_entropy": False, "entropy_coeff": 0.0,
    }  # fmt: skip
    trainer.config = OmegaConf.create({
        "data": {"train_batch_size": 1},
        "actor_rollout_ref": {"actor": actor, "rollout": {"n": 3, "temperature": 1.0}},
        "algorithm": {"use_kl_in_reward": False, "adv_estimator": "grpo", "gamma": 1.0, "lam": 1.0,
                      "norm_adv_by_std_in_grpo": True},
    })  # fmt: skip
    trainer.out, trainer.global_steps, trainer.use_critic = Path("nowhere"), 1, False
    trainer.tokenizer = SimpleNamespace(eos_token_id=2)
    trainer.actor_rollout_wg = Workers()
    values, replies = (1.0, 0.0, 0.5), ((3, 1, 4), (2,), ())
    keys, tags = [], []
    for number, (value, counts) in enumerate(zip(values, replies, strict=True)):
        for turn, count in enumerate(counts or (1,)):
            key = f"u_{number}_{turn}"
            told = {"turns": len(counts), "score": value, "response_len": count, "seq_len": 2}
            keys.append(key)
            tags.append(told)
            queue.tags[key] = told
            if counts:
                call = Call((5, 6), (7,) * count, (0.0,) * count, 0)
                queue.rows[key] = row(call, value, group_number("u"), len(counts))
    batch = KVBatchMeta(partition_id="train", keys=keys, tags=tags)
    metrics = {}
    batch = trainer._balance_batch(batch, metrics)
    assert len(batch) == 8, "five rows, up to what is computed together"
    batch = trainer._compute_advantage(batch, metrics)
    whole = torch.tensor(values)
    gains = ((whole - whole.mean()) / (whole.std() + 1e-6)).tolist()
    for number, counts in enumerate(replies[:2]):
        for turn, count in enumerate(counts):
            found = queue.rows[f"u_{number}_{turn}"]["advantages"]
            assert found.tolist() == pytest.approx([gains[number] * count / sum(counts)] * count)
    silent = queue.rows["u_2_0"]
    assert (silent["response_mask"].tolist(), silent["advantages"].tolist()) == ([0], [0.0])
    trainer._update_actor(batch, metrics)
    asked = trainer.actor_rollout_wg.asked
    assert (asked["mini_batch_size"], asked["global_batch_size"]) == (8, 3)
    assert metrics["actor/loss"] == 1.0


class Asked(Exception):
    """The model was asked."""


class Never(Player):
    async def act(self, turn):
        raise Asked


def unasked(task, samples, step):
    """How many of these are over before the model's first turn: the opponent has won by then."""
    count = 0
    for sample in samples:
        luck = seed_of(42, step, sample, 0)
        players = seats(task, sample, Never, luck, "random")
        try:
            asyncio.run(task.rollout(sample, players, Streams(luck)))
            count += 1
        except Asked:
            pass
    return count


@pytest.fixture(scope="module")
def trained(tmp_path_factory, player):
    """The recipe, with four marks on the board and the same eight games in each step."""
    training = Training(tmp_path_factory.mktemp("games"), player.folder, task="gtbench")
    return training.run(
        "grpo", "played", "--config", str(RECIPE), task__openings=4, data__limit=8, batch_size=8,
        validation__limit=2, learning_rate=2e-4,
    )  # fmt: skip


def figures(folder):
    return [row for row in curves.steps(folder).values() if "reward/mean" in row]


def test_games_train_on_a_processor(trained, player):
    rows = figures(trained)
    assert len(rows) == 4
    for row in rows:
        outcomes = [row[f"reward/part/{name}"] for name in ("win", "draw", "loss")]
        assert sum(outcomes) == pytest.approx(1.0), "games are counted once, not by turn"
        assert row["reward/mean"] == pytest.approx(outcomes[0] + outcomes[1] / 2)
        assert row["reward/part/forfeit"] <= outcomes[2]
        ledger = sum(value for name, value in row.items() if name.startswith("reward/class/"))
        assert ledger == pytest.approx(1.0)
        assert row["training/rollout_actor_probs_pearson_corr"] > 0.99
    assert max(row["num_turns/max"] for row in rows) >= 2
    assert any(row["reward/turns"] > 1 for row in rows)
    assert any(row["actor/grad_norm"] > 0 for row in rows)


def test_one_update_a_step_however_many_turns(trained):
    """Adam counts its updates."""
    [path] = (trained / "global_step_4" / "actor").glob("optim_*_rank_0.pt")
    os.environ["VERL_PLATFORM"] = "cpu"
    state = torch.load(path, weights_only=False)["state"]
    assert {int(each["step"]) for each in state.values()} == {4}


def test_games_that_ended_before_the_model_spoke_are_counted(trained):
    task = tictactoe()
    samples = [sample_of(row) for row in items(trained)]
    assert len(samples) == 8
    expected = [unasked(task, samples, step) for step in range(1, 5)]
    assert any(expected), "the test needs such a game"
    for row, count in zip(figures(trained), expected, strict=True):
        assert (row["num_turns/min"] == 0) == bool(count)
        assert row["reward/failed_prompts"] == 0.0


def items(folder):
    import pyarrow.parquet as pq

    return pq.read_table(folder / "data" / "train.parquet").to_pylist()


def sample_of(row):
    from harness.training.export import sample_of as read

    return read(row["sample"])


def test_the_trained_player_differs_and_is_a_checkpoint(trained, player):
    from safetensors.torch import load_file

    before, after = (load_file(p / "model.safetensors") for p in (player.folder, trained))
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[n].to(after[n].dtype), after[n]) for n in before)
    record = json.loads((trained / "training.json").read_text())
    assert (record["reward"], record["options"]["opponent"]) == ("gtbench", "random")
    assert [row["step"] for row in curves.validations(trained)] == [0, 4]
