"""Contamination by training data, and the other findings of ``harness audit``."""

from __future__ import annotations

import json
import random

import pytest
from board_runs import make_run

from harness.board.places import find_runs
from harness.contamination import check, load_training, normal_words, trained_on
from harness.findings import Limits, audit_run, is_ambiguous
from harness.leaderboard import Options, make_board
from harness.types import HarnessError


def game(seed):
    rng = random.Random(seed)
    return [[[rng.randint(-9, 9) for _ in range(3)] for _ in range(3)] for _ in range(2)]


def permuted(payoffs, seed):
    """The same game with rows and columns in another order and payoffs on another scale."""
    rng = random.Random(seed)
    rows, cols = rng.sample(range(3), 3), rng.sample(range(3), 3)
    return [[[2 * m[i][j] + 1 for j in cols] for i in rows] for m in payoffs]


def identity(payoffs):
    from harness_plugins.tasks.gamesolve.canonical import canonical
    from harness_plugins.tasks.gamesolve.games import Game

    return canonical(Game.of(*payoffs))


def told(payoffs, story):
    start = "Two firms set prices." if story else "Solve this matrix game."
    return f"{start} Row player gets {payoffs[0]} and the column player gets {payoffs[1]}."


@pytest.fixture
def planted(tmp_path):
    """60 evaluation games, 10 of them in the training data, reworded and permuted."""
    games = [game(i) for i in range(60)]
    training = [permuted(games[i], i) for i in range(10)] + [game(1000 + i) for i in range(200)]
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "canonical.txt").write_text("".join(f"{identity(g)}\n" for g in training))
    (checkpoint / "prompts.jsonl").write_text(
        "".join(json.dumps({"text": told(g, True)}) + "\n" for g in training)
    )
    entry = {
        "task": "gamesolve", "split": "train", "samples": len(training),
        "canonical_file": "canonical.txt", "prompts_file": "prompts.jsonl",
    }  # fmt: skip
    described = {"method": "sft", "base": "smollm2", "data": [entry]}
    (checkpoint / "training.json").write_text(json.dumps(described))
    run = make_run(
        tmp_path / "runs", "gamesolve", "sft", [1.0] * 10 + [0.5] * 50,
        canonical=[identity(g) for g in games],
        prompts=[told(g, False) for g in games],
        described={"folder": str(checkpoint)},
    )  # fmt: skip
    make_run(
        tmp_path / "runs", "gamesolve", "base", [0.5] * 60,
        canonical=[identity(g) for g in games], prompts=[told(g, False) for g in games],
    )  # fmt: skip
    return run


def test_planted_items_are_marked_in_the_cell(planted):
    board = make_board([str(planted.parent)])
    cell = board.cells["sft", "gamesolve:score"]
    assert (cell.marks, cell.contaminated, cell.clean) == ("†", 10, 0.5)
    assert board.cells["base", "gamesolve:score"].marks == ""
    assert any("sft in gamesolve:score: 10 items, 0.500 without" in s for s in board.caption)


def test_planted_items_are_found_by_the_audit(planted):
    (run,) = find_runs([str(planted)])
    report = audit_run(run, Limits(samples=0))
    texts = [f.text for f in report.findings if f.check == "contamination"]
    assert texts == ["10 of 60 items are in the training data (canonical)"]
    assert report.examples["canonical"] == ("s0", "s1", "s2", "s3", "s4")


def test_prompts_are_found_by_text_where_identities_are_unknown(tmp_path):
    words = [f"w{i}" for i in range(400)]
    rng = random.Random(1)

    def story(i):
        own = random.Random(i)
        return "Read the story and answer the question that follows it. " + " ".join(
            own.choices(words, k=40)
        )

    training = [story(i).upper().replace(". ", ".\n\n") for i in range(3)]
    training += [story(i).replace("Read", "Please read") + " Thank you." for i in range(3, 8)]
    training += [story(1000 + i) for i in range(50)]
    rng.shuffle(training)
    prompts = [{"messages": [{"role": "user", "content": text}]} for text in training]
    entry = {"task": "tom", "prompts": prompts}
    path = make_run(
        tmp_path, "tom", "m", [1.0] * 40,
        prompts=[story(i) for i in range(40)], manifest={"training": {"data": [entry]}},
    )  # fmt: skip
    (run,) = find_runs([str(path)])
    found = check(run, load_training(run))
    assert found.canonical == ()
    assert found.exact == ("s0", "s1", "s2")
    assert found.ngrams == tuple(f"s{i}" for i in range(8))
    assert set(found.all) == set(found.ngrams)


def test_training_of_the_parent_checkpoint_counts(tmp_path):
    described = {
        "method": "grpo", "data": [{"task": "tom", "canonical": ["s1"]}],
        "parent": {"method": "sft", "data": [{"task": "tom", "canonical": ["s2"]}]},
    }  # fmt: skip
    make_run(tmp_path, "tom", "m", [1.0] * 30, manifest={"training": described})
    assert make_board([str(tmp_path)]).cells["m", "tom:score"].contaminated == 2


def test_other_tasks_identities_do_not_count(tmp_path):
    described = {"data": [{"task": "chess", "canonical": ["s1"]}]}
    make_run(tmp_path, "tom", "m", [1.0] * 30, manifest={"training": described})
    cell = make_board([str(tmp_path)]).cells["m", "tom:score"]
    assert (cell.contaminated, cell.marks) == (0, "")


def test_training_data_may_be_named_by_the_user(tmp_path):
    make_run(tmp_path / "runs", "tom", "m", [1.0] * 30)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "training.json").write_text('{"data": [{"task": "tom", "canonical": ["s3"]}]}')
    options = Options(training={"m": str(folder)})
    board = make_board([str(tmp_path / "runs")], options)
    assert board.cells["m", "tom:score"].contaminated == 1
    with pytest.raises(HarnessError, match=r"no training\.json"):
        make_board([str(tmp_path / "runs")], Options(training={"m": str(tmp_path)}))


def test_missing_and_broken_training_files_are_not_silent(tmp_path):
    described = {"data": [{"task": "tom", "canonical_file": "gone.txt"}]}
    path = make_run(tmp_path, "tom", "m", [1.0] * 30, manifest={"training": described})
    (run,) = find_runs([str(path)])
    report = audit_run(run, Limits(samples=0))
    assert [f.text for f in report.findings] == ["training data file gone.txt was not found"]
    broken = make_run(tmp_path, "tom", "n", [1.0] * 30, manifest={"training": {"data": "all"}})
    (run,) = find_runs([str(broken)])
    with pytest.raises(HarnessError, match="must be a list"):
        load_training(run)


def test_words_keep_signs_and_fractions():
    assert normal_words("A: (-3, 1/2),\n B 0.25!") == ["a", "-3", "1/2", "b", "0.25"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ANSWER: 3", False),
        ("ANSWER: 3\nI repeat, answer: 3.", False),
        ("Answer: 3\nFinal answer: 4", True),
        (r"\boxed{2} and then \boxed{3}", True),
        ("<think>answer: 1 or answer: 2</think>ANSWER: 2", False),
        ("nothing", False),
    ],
)
def test_replies_that_commit_twice_are_ambiguous(text, expected):
    assert is_ambiguous(text) is expected


def test_shares_above_the_limits_are_findings(tmp_path):
    classes = ["ok"] * 24 + ["unparsed"] * 4 + ["truncated"] * 2
    texts = ["Answer: 1\nAnswer: 2"] * 3 + ["Answer: 1"] * 27
    path = make_run(tmp_path, "tom", "m", [0.0] * 30, classes=classes, texts=texts, expected=31)
    (run,) = find_runs([str(path)])
    found = {f.check: f.text for f in audit_run(run, Limits(samples=0)).findings}
    assert set(found) == {"parse failures", "truncation", "cut off", "ambiguous", "complete"}
    assert found["parse failures"].startswith("4 of 30")
    assert found["ambiguous"].startswith("3 of 30")
    loose = Limits(failures=0.2, truncated=0.2, ambiguous=0.2, samples=0)
    assert [f.check for f in audit_run(run, loose).findings] == ["complete"]


def test_players_that_do_not_look_earn_chance_or_are_found(harness_command):
    assert harness_command("run", "--task", "copy", "--model", "batched").returncode == 0
    assert harness_command("run", "--task", "duel", "--model", "sleepy").returncode == 0
    done = harness_command("audit", "runs", "--json")
    assert done.returncode == 1, done.stderr
    copy, duel = json.loads(done.stdout)
    (found,) = [f["text"] for f in copy["findings"] if f["check"] == "reward"]
    assert "'echo' does not look at the question" in found  # the toy task is to echo
    assert copy["players"]["oracle"] == 1.0
    assert duel["players"]["empty"] == 0.0
    assert not [f for f in duel["findings"] if f["check"] == "reward"]
    text = harness_command("audit", "runs", "--samples", "0")
    assert (text.returncode, text.stdout.splitlines()[-1]) == (0, "0 findings in 2 runs")


def test_a_run_keeps_what_its_checkpoint_was_trained_on(tmp_path):
    step = tmp_path / "job" / "checkpoints" / "step-20"
    step.mkdir(parents=True)
    (tmp_path / "job" / "canonical.txt").write_text("s1\ns2\n")
    entry = {"task": "tom", "canonical_file": "canonical.txt"}
    described = {"method": "sft", "data": [entry], "curves": {"loss": [1.0] * 1000}}
    (tmp_path / "job" / "training.json").write_text(json.dumps(described))
    kept = trained_on(str(step))
    assert set(kept) == {"method", "data"}
    make_run(tmp_path / "runs", "tom", "m", [1.0] * 30, manifest={"training": kept})
    assert make_board([str(tmp_path / "runs")]).cells["m", "tom:score"].contaminated == 2
    (tmp_path / "job" / "canonical.txt").unlink()  # as on another machine
    board = make_board([str(tmp_path / "runs")])
    assert board.cells["m", "tom:score"].contaminated is None
    assert "was not found" in board.problems[0]
    assert trained_on(None) is None
    assert trained_on(str(tmp_path / "nowhere" / "deep" / "er")) is None
