"""Whole runs: who sits where, scheduling, the table, the estimate, bad input."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import game_models
import pytest

import harness
from harness.model import share_devices
from harness.registry import Registry
from harness.types import HarnessError

SUPPORT = Path(__file__).parents[2] / "support"
GAMES = ["tictactoe", "connect4", "kuhn_poker", "nim", "pig", "prisoners_dilemma"]


@pytest.fixture
def evaluate(tmp_path):
    """``evaluate(model, opponent, options, **more)``: a run of the task in a folder of its own."""
    registry = Registry.load(SUPPORT / "game_registry.toml")

    def run(model, opponent="", options=None, where="runs", **more):
        options = {"games": GAMES, "pairs": 3, **(options or {})}
        return harness.run(
            "gtbench", model, registry, opponent=opponent, options=options, out=tmp_path / where,
            **more,
        )  # fmt: skip

    return run


@pytest.fixture
def command(harness_command):
    """``command(*arguments)``: the command with the models of the game tests."""
    return lambda *arguments: harness_command(
        *arguments, "--registry", SUPPORT / "game_registry.toml", registry=False
    )


@pytest.mark.parametrize(
    ("model", "opponent"),
    [("first", "last"), ("first", "first"), ("first", "greedy"), ("player:greedy", "last")],
)
def test_any_two_can_sit_down_and_seats_are_balanced(evaluate, model, opponent):
    result = evaluate(model, opponent)
    assert (result.metrics["model"], result.metrics["opponent"]) == (model, opponent)
    assert result.complete
    records = list(result.records())
    for key in GAMES:
        seats = [r.outcome.data["model_seat"] for r in records if r.group == key]
        assert (seats.count(0), seats.count(1)) == (3, 3)
    # Models answer "ANSWER: move", reference players give the bare move.
    for record in records:
        for move in record.outcome.moves:
            who = model if move.seat == record.outcome.data["model_seat"] else opponent
            assert bool(move.messages) == (who in ("first", "last"))


def test_self_play_loads_one_model_for_both_seats(evaluate):
    before = len(game_models.Lister.loaded)
    evaluate("first", "first", {"games": ["nim"]})
    assert len(game_models.Lister.loaded) == before + 1


def test_the_seat_decides_which_model_is_asked(evaluate):
    result = evaluate("first", "last", {"games": ["kuhn_poker"], "pairs": 4, "retries": 9})
    for record in result.records():
        seat = record.outcome.data["model_seat"]
        for mover, move, _, how in record.outcome.data["line"]:
            if how == "asked":
                assert move == ("Pass" if mover == seat else "Bet")


@pytest.mark.parametrize(
    ("model", "opponent", "options"),
    [
        ("first", "last", {}),
        ("first", "random", {"agent": "tot", "games": ["kuhn_poker", "prisoners_dilemma"]}),
        ("player:mcts-50", "ismcts", {"games": ["kuhn_poker", "first_sealed_auction"]}),
    ],
)
def test_records_do_not_depend_on_concurrency(evaluate, model, opponent, options):
    files = [
        [(evaluate(model, opponent, options, where=str(n), concurrency=n).path / name).read_bytes()
         for name in ("records.parquet", "metrics.json")]
        for n in (1, 64)
    ]  # fmt: skip
    assert files[0] == files[1]


def test_options_of_the_opponent_are_its_own(evaluate):
    options = {"games": ["kuhn_poker"], "retries": 9}
    result = evaluate("first", "first", options, opponent_options={"place": -1})
    assert result.manifest["spec"]["opponent_options"] == {"place": -1}
    for record in result.records():
        seat = record.outcome.data["model_seat"]
        asked = [row for row in record.outcome.data["line"] if row[3] == "asked"]
        assert {row[1] for row in asked if row[0] == seat} <= {"Pass"}
        assert {row[1] for row in asked if row[0] != seat} <= {"Bet"}


@pytest.mark.parametrize(
    ("asked", "got"),
    [((0.9, 0.9), (0.475, 0.475)), ((0.6, 0.3), (0.6, 0.3)), ((0.9, 0.45), (1.9 / 3, 0.95 / 3)),
     ((0.0, 0.9), (0.0, 0.9))],
)  # fmt: skip
def test_two_models_share_a_device(evaluate, asked, got):
    evaluate(
        "first", "last", {"games": ["nim"], "pairs": 1},
        model_options={"share": asked[0]}, opponent_options={"share": asked[1]},
    )  # fmt: skip
    ours, theirs = game_models.Lister.loaded[-2:]
    assert (ours.name, theirs.name) == ("first", "last")
    assert (ours.device_share, theirs.device_share) == pytest.approx(got)


def test_one_model_in_both_seats_keeps_the_device_for_itself(evaluate):
    evaluate("first", "first", {"games": ["nim"], "pairs": 1}, model_options={"share": 0.9})
    assert game_models.Lister.loaded[-1].device_share == 0.9


def test_vllm_engines_start_with_their_share():
    from harness_plugins.models.vllm import VllmModel

    @dataclass(frozen=True)
    class Start:
        arguments: dict
        shared: bool = False

    models = [object.__new__(VllmModel) for _ in range(2)]
    for model in models:
        model.start = Start({"gpu_memory_utilization": 0.9, "seed": 0})
    share_devices(models)
    for model in models:
        assert model.start.arguments == {"gpu_memory_utilization": 0.475, "seed": 0}


def test_the_table_has_a_line_a_game_with_random_play_beside(command):
    done = command(
        "run", "--task", "gtbench", "--model", "first", "--opponent", "last",
        "--set", "games=[nim,kuhn_poker]", "--set", "pairs=25", "--set", "variant=both",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "gtbench / first against last: 200 of 200 records" in done.stdout
    assert "about 360 turns" in done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    for name in ("nim", "kuhn_poker", "nim/relabelled", "kuhn_poker/relabelled"):
        assert "(0.00)" in lines[name]
    assert "(0.56)" in lines["kuhn_poker"]
    assert "relabelled.difference" in done.stdout
    assert "ledger, moves:" in done.stdout


def test_help_and_dry_run_state_the_size(command):
    shown = command("run", "--help").stdout
    assert "400 episodes, some 2,200 turns" in " ".join(shown.split())
    done = command("run", "--task", "gtbench", "--model", "random", "--dry-run")
    assert "400 samples, 400 rollouts, about 2,216 turns" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "games=[chess]"], "gtbench has no game 'chess'"),
        (["--set", "pairs=-1"], "pairs=-1 must be a whole number of at least 0"),
        (["--set", "openings=9", "--set", "games=tictactoe"], "no opening of 9 moves was found"),
        (["--opponent", "mcts-50"], "player 'mcts-50' does not play prisoners_dilemma"),
        (["--opponent", "nobody"], "gtbench has the players best-response, cfr"),
        (["--opponent-set", "place=1"], "the player random has no options"),
        (["--opponent", "last", "--opponent-set", "plac=1"], "no option 'plac'"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_made(command, tmp_path, arguments, words):
    done = command("run", "--task", "gtbench", "--model", "random", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_names_of_games_are_read_with_either_dash(evaluate):
    result = evaluate("random", "", {"games": ["Leduc_Holdem", "KUHN-POKER"], "pairs": 1})
    assert {r.group for r in result.records()} == {"leduc-holdem", "kuhn_poker"}
    with pytest.raises(HarnessError, match="named twice"):
        evaluate("random", "", {"games": ["nim", "NIM"]})
