"""Test-time methods: what they pick, what they may see, what they cost, and where they stand."""

import asyncio
from collections import Counter
from typing import ClassVar

import pytest

import harness
from harness.board.formats import render
from harness.leaderboard import Options, make_board
from harness.plan import Planner, RunSettings
from harness.player import Player, Seat
from harness.registry import Registry
from harness.rescore import rescore
from harness.seeds import derive
from harness.store import read_records
from harness.tables import batches, record_from_row
from harness.types import HarnessError, Reply, Turn
from harness_plugins.models.testtime.best_of import BestOf
from harness_plugins.models.testtime.majority import Majority
from harness_plugins.models.testtime.oracle_of import OracleOf
from harness_plugins.models.testtime.self_correct import AGAIN, SelfCorrect
from harness_plugins.tasks.gamesolve import create_task

SKILLS = "gamesolve-skills"
TASK = create_task(SKILLS, {"preset": SKILLS})
SAMPLE = next(s for s in TASK.samples("test") if s.data["kind"] == "payoff")
RIGHT = f"ANSWER:\nPayoff: {SAMPLE.truth['value']}"


class Says(Player):
    """Gives the text of its draft, and keeps what it was asked."""

    asked: ClassVar[list] = []

    def __init__(self, text):
        self.text = text

    async def act(self, turn):
        Says.asked.append(turn.messages)
        return Reply(self.text, prompt_tokens=10, completion_tokens=len(self.text))


class Inner:
    identity, label, given = "inner-1", "", None
    context_length, concurrency, incidental = None, 0, frozenset()


def play(kind, texts, sample=SAMPLE, options=None, **seat):
    """The reply of a method over drafts with these texts."""
    method = kind("m", f"{len(texts)}:inner", options or {})
    method.bind(Inner(), Registry.load())
    seeds = {}

    def make(place):
        seeds[place.repeat] = place.seed
        return Says(texts[place.repeat % len(texts)])

    Says.asked = []
    player = method.wrap(make, Seat(TASK, sample, 0, 0, **seat))
    turn = Turn(0, tuple(TASK.messages(sample)), truth=sample.truth, state=sample)
    return asyncio.run(player.act(turn)), seeds


def test_a_vote_counts_what_answers_say_and_not_how():
    texts = ["ANSWER:\nPayoff: 7", "ANSWER:\nPayoff: 0.50", "no idea", "So ... ANSWER: Payoff: 1/2"]
    reply, _ = play(Majority, texts)
    assert reply.text == texts[1], "the first with the most frequent answer"
    assert [d.text for d in reply.drafts] == texts
    assert (reply.prompt_tokens, reply.completion_tokens) == (40, sum(map(len, texts)))
    assert play(Majority, ["a", "b"])[0].text == "a"
    assert play(Majority, ["a", "ANSWER:\nPayoff: 1"])[0].text == "ANSWER:\nPayoff: 1"


def test_the_verifier_chooses_without_the_truth():
    drafts = ["ANSWER:\nPayoff: 99", "hm", RIGHT, RIGHT + " "]
    reply, _ = play(BestOf, drafts)
    assert reply.text == RIGHT
    assert play(OracleOf, drafts)[0].text == RIGHT
    seen = []

    class Spy(BestOf):
        def verifier(self, task):
            verifier = super().verifier(task)
            score = verifier.score
            verifier.score = lambda sample, outcome: (
                seen.append(sample.truth) or score(sample, outcome)
            )
            return verifier

    play(Spy, drafts)
    assert len(seen) >= 4
    assert not any(seen)


def test_rewards_that_read_the_truth_are_no_verifiers():
    for kind in (BestOf, SelfCorrect):
        with pytest.raises(HarnessError, match="the reward gamesolve reads the truth"):
            play(kind, ["a"], options={"verifier": "gamesolve"})


def test_who_corrects_itself_is_told_what_is_wrong_and_not_what_is_right():
    reply, _ = play(SelfCorrect, ["ANSWER:\nPayoff: 99", RIGHT, RIGHT])
    assert reply.text == RIGHT
    first, second, third = Says.asked
    assert first == tuple(TASK.messages(SAMPLE))
    assert second[:2] == first
    assert [m.role for m in second[2:]] == ["assistant", "user"]
    assert second[2].content == "ANSWER:\nPayoff: 99"
    assert "not right" in second[3].content
    assert second[3].content.endswith(AGAIN)
    assert SAMPLE.truth["value"] not in second[3].content
    assert third[2].content == RIGHT, "an answer without steps is not yet a solution"
    i, j = SAMPLE.data["cell"]
    rows, cols = SAMPLE.data["row_labels"], SAMPLE.data["col_labels"]
    pays = f"({SAMPLE.data['row'][i][j]}, {SAMPLE.data['col'][i][j]})"
    solved = TASK.target(SAMPLE)
    assert f"({rows[i]}, {cols[j]}) pays {pays}" in solved
    reply, _ = play(SelfCorrect, [solved, RIGHT])
    assert len(Says.asked) == len(reply.drafts) == 1, "nothing to correct: it ends"


def test_drafts_have_the_seeds_of_repeats_of_a_plain_run():
    _, seeds = play(Majority, ["a", "b", "c"], run_seed=5, repeat=2)
    settings = RunSettings((SKILLS,), ("random",), n=9, limit=1, seeds=(5,))
    planner = Planner(settings, Registry.load())
    try:
        job = planner.job(SKILLS, "random")
        items = list(job.items())
        assert list(seeds) == [6, 7, 8]
        assert list(seeds.values()) == [derive(i.seed, SAMPLE.id, i.repeat) for i in items[6:]]
    finally:
        planner.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Four replies to each of forty questions, and the methods over them, asked and replayed."""
    out = tmp_path_factory.mktemp("runs")
    more = {"out": out, "limit": 40, "decoding": {"temperature": 0.5}}
    found = {"pool": harness.run(SKILLS, "random", n=4, **more)}
    del more["decoding"]
    for method in ("majority", "best-of", "oracle-of"):
        replayed = f"{method}:4:replay:{found['pool'].path}"
        found[method] = harness.run(SKILLS, replayed, **more)
        found[f"{method} asked"] = harness.run(SKILLS, f"{method}:4:random", **more)
    found["corrected"] = harness.run(SKILLS, "self-correct:3:random", **more)
    return found


def test_replies_that_are_there_need_not_be_asked_for_again(runs):
    pool = [r.outcome.moves[0].reply.text for r in runs["pool"].records()]
    for method in ("majority", "best-of", "oracle-of"):
        replayed, asked = (list(runs[f"{method}{more}"].records()) for more in ("", " asked"))
        for k, (one, other) in enumerate(zip(replayed, asked, strict=True)):
            reply = one.outcome.moves[0].reply
            assert [d.text for d in reply.drafts] == pool[4 * k : 4 * k + 4]
            assert reply.text in pool[4 * k : 4 * k + 4]
            assert (reply.text, one.score) == (other.outcome.moves[0].reply.text, other.score)


def test_the_truth_bounds_what_a_verifier_reaches(runs):
    values = {name: run.metrics["score"]["value"] for name, run in runs.items()}
    best = [r.score.value for r in runs["oracle-of"].records()]
    pool = [r.score.value for r in runs["pool"].records()]
    assert best == [max(pool[4 * k : 4 * k + 4]) for k in range(40)]
    assert values["pool"] < values["best-of"] <= values["oracle-of"]
    assert values["best-of"] > values["majority"]


def test_a_run_says_what_made_it(runs):
    spec = runs["best-of"].manifest["spec"]
    assert spec["test_time"] == {
        "method": "best-of",
        "samples": 4,
        "verifier": {"name": "gt-prm", "version": "1"},
    }
    assert spec["decoding"]["temperature"] == 0.5, "as the replies were made"
    assert spec["model"].startswith("best-of-4+scripted:replay-")
    assert "test_time" not in runs["pool"].manifest["spec"]
    hashes = Counter(run.manifest["hash"] for run in runs.values())
    assert max(hashes.values()) == 1


def test_replies_and_drafts_survive_the_folder_and_are_scored_again(runs):
    run = runs["best-of"]
    stored = list(read_records(run.path))
    rows = [row for batch in batches(stored) for row in batch.to_pylist()]
    assert [record_from_row(row).outcome.moves for row in rows] == [
        record.outcome.moves for record in stored
    ]
    report = asyncio.run(rescore(run.path, Registry.load()))
    assert report.moved == ()
    assert report.summary["score"] == run.metrics["score"]


def test_the_leaderboard_ranks_methods_and_not_the_bound(runs):
    paths = [str(runs[name].path) for name in ("pool", "majority", "best-of", "oracle-of")]
    board = make_board(paths, Options())
    cells = {row: board.cells[row, f"{SKILLS}:score"] for row in board.rows}
    assert set(cells) == {
        "random",
        *(f"{m}:4:random" for m in ("majority", "best-of", "oracle-of")),
    }
    bound = cells.pop("oracle-of:4:random")
    assert (bound.bound, bound.rank, bound.marks) == (True, None, "◊")
    assert all(cell.rank is not None and not cell.differs for cell in cells.values())
    for form in ("terminal", "md", "csv", "json", "latex", "html"):
        assert "oracle-of:4:random" in render(board, form)
    assert "upper bound, not ranked (oracle-of:4:random)" in " ".join(board.caption)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("best-of", "'best-of' is no N:MODEL"),
        ("best-of:random", "'random' is no N:MODEL"),
        ("majority:0:random", "'0:random' is no N:MODEL"),
        ("majority:3:nobody", "there is no model 'nobody'"),
        ("majority:3:best-of:x:random", "'x:random' is no N:MODEL"),
    ],
)
def test_names_that_make_no_sense_are_refused(tmp_path, model, said):
    with pytest.raises(HarnessError, match=said):
        harness.run(SKILLS, model, out=tmp_path, limit=2)


def test_tasks_and_replays_that_do_not_fit_are_refused(tmp_path, runs):
    with pytest.raises(HarnessError, match="needs a task that asks once; gtbench is played"):
        harness.run("gtbench", "majority:2:random", out=tmp_path, limit=2)
    with pytest.raises(HarnessError, match="hitom names no verifier"):
        harness.run("hitom", "best-of:2:random", out=tmp_path, limit=2)
    replay = f"replay:{runs['pool'].path}"
    with pytest.raises(HarnessError, match="asked for with --fewshot 0"):
        harness.run(SKILLS, f"best-of:4:{replay}", out=tmp_path, limit=2, fewshot=1)
    hotter = {"temperature": 1.0}
    with pytest.raises(HarnessError, match="its replies were made with"):
        harness.run(SKILLS, f"best-of:4:{replay}", out=tmp_path, limit=2, decoding=hotter)
    with pytest.raises(HarnessError, match="no more repeats or drafts"):
        harness.run(SKILLS, f"best-of:5:{replay}", out=tmp_path, limit=2)


def test_methods_nest_and_other_tasks_vote(tmp_path):
    run = harness.run(SKILLS, "best-of:2:majority:3:random", out=tmp_path, limit=6)
    for record in run.records():
        drafts = record.outcome.moves[0].reply.drafts
        assert [len(d.drafts) for d in drafts] == [3, 3]
    assert run.manifest["model"]["label"] == "best-of:2:majority:3:random"
    voted, bound = (
        harness.run("counterfactual-tom", f"{method}:3:random", out=tmp_path, limit=6)
        for method in ("majority", "oracle-of")
    )
    assert voted.complete
    assert bound.metrics["score"]["value"] >= voted.metrics["score"]["value"]


def test_a_wrapped_model_takes_its_options_and_is_loaded_once(tmp_path, monkeypatch):
    from harness_plugins.models import scripted

    made = []
    create = scripted.create_model

    def counted(name, options):
        made.append((name, options["delay"]))
        return create(name, options)

    monkeypatch.setattr(scripted, "create_model", scripted.hookimpl(counted))
    models = ("random", "majority:2:random", "best-of:2:random")
    found = harness.run(SKILLS, models, out=tmp_path, limit=3, model_options={"delay": 0.001})
    assert [run.complete for run in found] == [True] * 3
    assert made == [("random", 0.001)]
    with pytest.raises(HarnessError, match="no option 'dealy'"):
        harness.run(SKILLS, "majority:2:random", out=tmp_path, model_options={"dealy": 1})
