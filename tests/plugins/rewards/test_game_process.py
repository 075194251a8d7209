"""The process reward for games: solutions earn all, tricks next to nothing, errors are found."""

import asyncio
import random
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harness
from harness.findings import _hacks, _play_all
from harness.plan import Planner, RunSettings
from harness.registry import Registry
from harness.rescore import rescore
from harness.types import Move, Outcome, Reply, Sample
from harness_plugins.rewards.game_process import create_reward, feedback, score
from harness_plugins.rewards.game_process.algebra import parse
from harness_plugins.rewards.game_process.solution import needed, read
from harness_plugins.rewards.game_process.view import View
from harness_plugins.tasks.gamesolve.answers import block
from harness_plugins.tasks.gamesolve.answers import parse as parse_answer
from harness_plugins.tasks.gamesolve.items import draw_item
from harness_plugins.tasks.gamesolve.presets import plan
from harness_plugins.tasks.gamesolve.targets import target
from harness_plugins.tasks.gamesolve.text import messages
from harness_plugins.tasks.gamesolve.truth import truth

PRESETS = ("gamesolve", "gamesolve-ood", "gamesolve-skills")
SAMPLES = [draw_item(item, data_seed=4) for preset in PRESETS for item in plan(preset)[::23]]
TARGETS = [(s, target(s.data, s.truth)) for s in SAMPLES]

GAME = {
    "kind": "nash",
    "row": [[2, -1], [-5, 4], [-6, -6]],
    "col": [[5, -3], [-1, 1], [0, 2]],
    "row_labels": ["Left", "Right", "Centre"],
    "col_labels": ["Early", "Late"],
    "format": "abstract",
    "context": "market",
}
SOLUTION = target(GAME, truth(GAME))


def errors(data, text):
    return {kind for kind, _ in read(text, View.of(data)).findings.false}


def test_every_derived_solution_earns_everything():
    kinds = set()
    for sample, text in TARGETS:
        found = score(sample.data, text)
        assert found.value == 1.0, (sample.id, found)
        assert found.raw["false"] == 0
        assert all(part == 1.0 for part in found.parts.values()), (sample.id, found.parts)
        kinds |= set(needed(View.of(sample.data)))
    assert kinds == {
        "parse", "dominance", "elimination", "best_response", "equilibrium", "arithmetic"
    }  # fmt: skip


def test_nothing_is_paid_for_nothing_or_for_the_prompt_said_again():
    for sample, _ in TARGETS:
        for text in ("", "   ", "I do not know.", "<think>hm", messages(sample.data)[1].content):
            assert score(sample.data, text).value == 0.0


def test_solutions_of_other_games_earn_next_to_nothing():
    rng = random.Random(1)
    values = []
    for sample, _ in TARGETS:
        shape = [s for s in SAMPLES if _shape(s) == _shape(sample) and s.id != sample.id]
        if not shape:
            continue
        # A twin tells another game with the very names and the very question of this one.
        asked = ("responder", "player", "cell", "opponent_action", "sigma", "context")
        same = {k: sample.data[k] for k in (*asked, "row_labels", "col_labels") if k in sample.data}
        twin = {**rng.choice(shape).data, **same}
        if (twin["row"], twin["col"]) != (sample.data["row"], sample.data["col"]):
            values.append(score(sample.data, target(twin, truth(twin))).value)
    assert len(values) > 100
    assert sum(values) / len(values) <= 0.05
    assert sorted(values)[int(0.95 * len(values))] <= 0.05


def _shape(sample):
    return sample.data["kind"], len(sample.data["row"]), len(sample.data["row"][0])


PLANTED = [
    # (what is changed, kind of the error)
    ("Against Early, Firm 1 gets 2 from Left", "Against Early, Firm 1 gets 3 from Left", "parse"),
    ("-5 from Right: best Left", "-5 from Right: best Right", "best_response"),
    (
        "Left strictly dominates Centre: 2 > -6 against Early and -1 > -6 against Late",
        "Left strictly dominates Right: 2 > -5 against Early and -1 > 4 against Late",
        "dominance",
    ),
    ("Strike out Centre", "Strike out Left", "elimination"),
    ("(Right, Late): both actions", "(Right, Early): both actions", "equilibrium"),
    ("so 12 t = 5", "so 12 t = 6", "arithmetic"),
    ("q(Early) = 5/12, q(Late) = 7/12", "q(Early) = 1/2, q(Late) = 1/2", "arithmetic"),
    ("expects Left 0.25", "expects Left 0.5", "best_response"),
    ("Equilibrium: ([1/5, 4/5, 0]", "Equilibrium: ([4/5, 1/5, 0]", "equilibrium"),
    ("Pure equilibria: (Left, Early)", "Pure equilibria: (Left, Late)", "equilibrium"),
]


@pytest.mark.parametrize(("right", "wrong", "kind"), PLANTED)
def test_a_planted_error_of_each_kind_is_found(right, wrong, kind):
    assert SOLUTION.count(right) == 1, SOLUTION
    text = SOLUTION.replace(right, wrong)
    assert kind in errors(GAME, text)
    assert score(GAME, text).value < 0.95
    assert wrong.split(":")[0].split(" = ")[0][:20] in feedback(GAME, text)


def test_errors_of_the_other_questions_are_found():
    response = {**GAME, "kind": "best_response", "responder": "row", "sigma": ["0.2500", "0.7500"]}
    solution = target(response, truth(response))
    for right, wrong, kind in (
        ("0.2500 * 2", "0.2500 * 3", "parse"),
        ("= -0.25", "= -0.75", "arithmetic"),
        ("The most is 1.75", "The most is 2.5", "best_response"),
    ):
        assert right in solution, solution
        changed = solution.replace(right, wrong, 1)
        assert errors(response, changed) == {kind}
        assert score(response, changed).value < 0.8
    dominance = {**GAME, "kind": "dominance", "player": "row"}
    solution = target(dominance, truth(dominance))
    right = "Left is not dominated: Right pays only -5"
    changed = solution.replace(right, right.replace("-5", "5"))
    assert changed != solution
    assert errors(dominance, changed) == {"parse"}
    payoff = {**GAME, "kind": "payoff", "player": "column", "cell": [0, 1]}
    solution = target(payoff, truth(payoff))
    for right, wrong in (("(-1, -3)", "(-3, -1)"), ("second number", "first number")):
        assert errors(payoff, solution.replace(right, wrong)) == {"parse"}


def test_the_arithmetic_anywhere_is_checked():
    for text, wrong in (
        ("So 2 + 3 = 5 here.", False),
        ("So 2 + 3 = 6 here.", True),
        ("We get 0.25 * 3 + 0.75 * (-1) = 0.75 - 0.75 = 0.", False),
        ("We get 1/3 * 2 = 0.67.", False),
        ("We get 1/3 * 2 = 0.66.", True),
    ):
        assert (errors(GAME, text) == {"arithmetic"}) is wrong


def test_tricks_are_not_paid():
    rows, cols = GAME["row_labels"], GAME["col_labels"]
    cells = [(r, c) for r in rows for c in cols]
    honest = score(GAME, SOLUTION).value
    line = "Against Early, Firm 1 gets 2 from Left, -5 from Right and -6 from Centre: best Left."
    once, often = score(GAME, line).value, score(GAME, "\n".join([line] * 200)).value
    assert 0 < once == often < 0.1 < honest
    table = "\n".join(
        f"Against {c}, Firm 1 gets "
        + ", ".join(f"{GAME['row'][i][j]} from {r}" for i, r in enumerate(rows))
        for j, c in enumerate(cols)
    )
    readings = "\n".join(
        f"The cell ({r}, {c}) pays ({GAME['row'][i][j]}, {GAME['col'][i][j]})."
        for i, r in enumerate(rows)
        for j, c in enumerate(cols)
    )
    assert score(GAME, table).value == score(GAME, readings).value == 0.0
    listed = "\n".join(f"({r}, {c}) is an equilibrium." for r, c in cells)
    assert score(GAME, listed).value == 0.0
    answer = block(GAME, {"pure": [[i, j] for i in range(3) for j in range(2)], "mixed": []})
    assert score(GAME, f"{table}\n{readings}\n{listed}\n\n{answer}").value < 0.01
    # Saying of every action that it is the best establishes nothing: the false ones deny the true.
    start = line[: line.index("Left.")]
    spray = "\n".join(f"{start}{r}." for r in rows)
    assert score(GAME, spray).value == 0.0
    guess = "\n".join(f"Against {c}, the best reply is Left." for c in cols)
    assert score(GAME, guess).value == 0.0


def test_a_payoff_is_paid_with_its_answer_only():
    data = {**GAME, "kind": "payoff", "player": "column", "cell": [0, 1]}
    reading = "The cell (Left, Late) pays (-1, -3); Firm 2's payoff is the second number."
    assert score(data, reading).value == 0.0
    assert score(data, f"{reading}\n\nANSWER:\nPayoff: -1").value == 0.0
    assert score(data, f"{reading}\n\nANSWER:\nPayoff: -3").value == 1.0
    assert score(data, "ANSWER:\nPayoff: -3").value == 0.5


def test_steps_that_are_left_out_cost_their_share():
    lines = SOLUTION.split("\n")
    whole = score(GAME, SOLUTION).value
    without = {
        words: score(GAME, "\n".join(x for x in lines if not re.search(words, x))).value
        for words in (
            "strictly dominates",
            "Against Early",
            "both actions|Pure equilibria",
            "indifferent",
            "Check",
            "^Equilibrium",
            "^Mixed NE",
        )
    }
    assert all(value < whole for value in without.values()), without
    bare = SOLUTION[SOLUTION.index("ANSWER:") :]
    assert score(GAME, bare).value == pytest.approx(1 / 6)


def test_marking_the_whole_game_needs_no_elimination():
    full = [
        "Against Early, Firm 1 gets 2 from Left, -5 from Right and -6 from Centre: best Left.",
        "Against Late, Firm 1 gets -1 from Left, 4 from Right and -6 from Centre: best Right.",
        "Against Left, Firm 2 gets 5 from Early and -3 from Late: best Early.",
        "Against Right, Firm 2 gets -1 from Early and 1 from Late: best Late.",
        "Against Centre, Firm 2 gets 0 from Early and 2 from Late: best Late.",
    ]
    start, end = SOLUTION.index("Step 1"), SOLUTION.index("(Left, Early): both")
    assert score(GAME, SOLUTION[:start] + "\n".join(full) + "\n" + SOLUTION[end:]).value == 1.0


def test_other_words_for_the_same_steps_are_read():
    data = {**GAME, "kind": "best_response_pure", "responder": "row", "opponent_action": 0}
    for text in (
        "If Firm 2 plays Early, Left gives 2, Right gives -5, Centre gives -6. The best is Left.",
        "* When Firm 2 chooses Early, Firm 1 gets **2** from Left, -5 from Right, -6 from Centre; "
        "the best response is Left.",
    ):
        said = read(text, View.of(data))
        assert ("best", 0, 0) in said.findings.facts, text
        assert not said.findings.false


def test_nothing_of_the_truth_is_read():
    for sample, text in TARGETS[::5]:
        outcome = Outcome((Move(0, Reply(text)),))
        reward = create_reward("gt-prm", {})
        assert not reward.reads_truth
        assert reward.score(replace(sample, truth={}), outcome) == reward.score(sample, outcome)
    told = feedback(GAME, SOLUTION.replace("best Left", "best Right", 1))
    assert "best Left" not in told
    assert feedback(GAME, SOLUTION) == ""


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(SOLUTION.split("\n")), max_size=12), st.text(max_size=80))
def test_any_text_has_a_value_that_repetition_does_not_raise(lines, junk):
    text = "\n".join(lines) + "\n" + junk
    value = score(GAME, text).value
    assert 0.0 <= value <= 1.0
    assert value == score(GAME, text).value
    # A second time may show grounds that were missing (a strike before a best reply), no third can.
    steps = text.partition("ANSWER")[0] + "\n"
    assert score(GAME, steps * 3).value == pytest.approx(score(GAME, steps * 2).value)


SUMS = st.recursive(
    st.integers(-9, 9).map(str),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
    max_leaves=8,
)


@given(SUMS)
def test_sums_are_computed_as_python_does(text):
    found = parse(text)
    assert found is not None
    assert found.constant == eval(re.sub(r"(\d+)", r"Fraction(\1)", text), {"Fraction": Fraction})


def test_long_replies_take_little_time():
    import time

    text = ("Against Early, Firm 1 gets 2 from Left and ((((" * 4000) + "= " * 20000 + "1/" * 20000
    began = time.process_time()
    score(GAME, text)
    score(GAME, text.replace(" and", "\n"))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("task", ["gamesolve", "gamesolve-skills"])
def test_players_that_do_not_look_earn_no_more_than_chance(task):
    job_settings = RunSettings((task,), ("oracle",), reward="gt-prm", limit=60)
    planner = Planner(job_settings, Registry.load())
    try:
        scores, problems = asyncio.run(_play_all(planner.job(task, "oracle"), 60))
    finally:
        planner.close()
    assert not problems
    assert not list(_hacks(scores))
    assert max(scores["empty"] + scores["echo"]) == 0.0


def test_it_mixes_with_the_outcome_in_runs_and_scores_again(tmp_path):
    mixed = "gamesolve=0.8,gt-prm=0.2"
    run = harness.run("gamesolve-skills", "oracle", reward=mixed, limit=5, out=tmp_path)
    for record in run.records():
        part = record.score.parts
        assert record.score.value == pytest.approx(0.8 * part["gamesolve"] + 0.2 * part["gt-prm"])
        assert 0 < part["gt-prm"] < 1 == part["gamesolve"]
    alone = asyncio.run(rescore(run.path, Registry.load(), "gt-prm")).summary
    assert alone["score"]["value"] < run.metrics["score"]["value"]


def test_a_sample_without_moves_earns_nothing():
    sample = Sample("x", "test", GAME)
    assert create_reward("gt-prm", {}).score(sample, Outcome(())).value == 0.0


def test_training_is_paid_the_mixture_as_runs_are():
    from harness_plugins.trainers.verl.payment import pay, tag

    settings = RunSettings(("gamesolve-skills",), ("oracle",), reward="gamesolve=0.8,gt-prm=0.2")
    reward = Planner(settings, Registry.load()).reward(harness_task("gamesolve-skills"))
    sample, text = next((s, t) for s, t in TARGETS if s.data["kind"] == "dominance")
    replies = [text, text[text.index("ANSWER:") :], ""]
    outcomes = [Outcome((Move(0, Reply(t), parsed_of(sample, t)),)) for t in replies]
    scores = asyncio.run(pay(reward, sample, outcomes))
    assert [s.value for s in scores] == pytest.approx([1.0, 0.8 + 0.2 * 0.5, 0.0])
    assert tag(sample, outcomes[1], scores[1])["parts"]["gt-prm.dominance"] == 0.0


def harness_task(name):
    return Registry.load().create("task", name, {})


def parsed_of(sample, text):
    return parse_answer(sample.data, text).value
