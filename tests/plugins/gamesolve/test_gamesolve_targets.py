"""Targets earn full marks, and every number in their steps is right."""

import re
from fractions import Fraction
from itertools import product

import pytest

from harness_plugins.rewards.gamesolve import judge
from harness_plugins.tasks.gamesolve.answers import block, correct, parse
from harness_plugins.tasks.gamesolve.items import draw_item
from harness_plugins.tasks.gamesolve.mixing import solved
from harness_plugins.tasks.gamesolve.presets import plan
from harness_plugins.tasks.gamesolve.targets import target
from harness_plugins.tasks.gamesolve.text import SCENARIOS

SAMPLES = [
    draw_item(item, data_seed=6)
    for preset in ("gamesolve", "gamesolve-ood", "gamesolve-skills")
    for item in plan(preset)[::7]
]
TARGETS = [(sample, target(sample.data, sample.truth)) for sample in SAMPLES]
NASH = [(s, text) for s, text in TARGETS if s.data["kind"] == "nash"]
NUMBER = r"-?\d+(?:\.\d+|/\d+)?"


def own(data, player):
    table = data["row"] if player == 0 else zip(*data["col"], strict=True)
    return [[Fraction(x) for x in line] for line in table]


def names(data, player):
    return data["row_labels"] if player == 0 else data["col_labels"]


def role(data, player):
    return SCENARIOS[data["context"]][player]


def player_of(data, text):
    """Whose name it is: 0 or 1."""
    return [role(data, k).lower() for k in (0, 1)].index(text.lower())


def test_all_targets_earn_full_marks():
    strata = set()
    for sample, text in TARGETS:
        read = parse(sample.data, text)
        assert judge(sample.data, sample.truth, read.value).value == 1.0, text
        assert text.endswith("\n\n" + block(sample.data, correct(sample.data, sample.truth)))
        strata.add((sample.data["kind"], sample.data["stratum"]))
    assert len(strata) >= 11


def test_targets_are_whole_lines_of_prose():
    for _, text in TARGETS:
        steps = text.split("\n\nANSWER:")[0].splitlines()
        assert steps
        assert "None" not in text.split("ANSWER:")[0]
        for line in steps:
            assert line == line.strip()
            assert line[-1] in ".:0123456789", line


def test_eliminated_actions_are_strictly_dominated():
    count = 0
    for sample, text in NASH:
        alive = [set(range(len(names(sample.data, k)))) for k in (0, 1)]
        for who, better, worse in re.findall(r"For (.+), (\w+) strictly dominates (\w+):", text):
            player = player_of(sample.data, who)
            table, labels = own(sample.data, player), names(sample.data, player)
            win, lose = labels.index(better), labels.index(worse)
            assert {win, lose} <= alive[player]
            assert all(table[win][o] > table[lose][o] for o in alive[1 - player])
            alive[player].remove(lose)
            count += 1
        for player in (0, 1):  # and nothing is left to eliminate
            table, rest = own(sample.data, player), alive[1 - player]
            for a, b in product(alive[player], repeat=2):
                assert not all(table[a][o] > table[b][o] for o in rest)
    assert count > 50


def test_best_replies_are_best():
    count = 0
    pattern = rf"Against (\w+), (.+) gets ((?:{NUMBER} from \w+(?:, | and )?)+): best (.+)\."
    for sample, text in NASH:
        for against, who, gets, best in re.findall(pattern, text):
            player = player_of(sample.data, who)
            other = names(sample.data, 1 - player).index(against)
            table = own(sample.data, player)
            pays = {name: Fraction(x) for x, name in re.findall(rf"({NUMBER}) from (\w+)", gets)}
            for name, pay in pays.items():
                assert table[names(sample.data, player).index(name)][other] == pay
            assert set(re.split(", | and ", best)) == {
                name for name, pay in pays.items() if pay == max(pays.values())
            }
            count += 1
    assert count > 200


def test_checks_of_mixed_strategies_hold():
    count = 0
    pattern = r"Check: against \[(.+?)\] of (.+), (.+) expects (.+); best (.+)\."
    for sample, text in NASH:
        for vector, mixer, who, results, best in re.findall(pattern, text):
            player = player_of(sample.data, who)
            assert player == 1 - player_of(sample.data, mixer)
            strategy = [Fraction(p) for p in vector.split(", ")]
            assert sum(strategy) == 1
            pays = {
                name: sum(x * p for x, p in zip(line, strategy, strict=True))
                for name, line in zip(
                    names(sample.data, player), own(sample.data, player), strict=True
                )
            }
            told = {name: Fraction(x) for name, x in re.findall(rf"(\w+) ({NUMBER})", results)}
            assert told == pays
            assert set(re.split(", | and ", best)) == {
                name for name, pay in pays.items() if pay == max(pays.values())
            }
            count += 1
    assert count > 200


def test_single_equations_are_set_up_and_solved_rightly():
    count = 0
    pattern = (
        rf"With t = (\S+) and 1 - t = (\S+): (.+) = (.+), so (.+) = ({NUMBER}) and"
        rf" \S+ = ({NUMBER}), \S+ = ({NUMBER})\."
    )
    for _, text in NASH:
        for first, second, left, right, reduced, constant, t, rest in re.findall(pattern, text):
            assert first != second
            assert Fraction(t) + Fraction(rest) == 1
            values = {"t": Fraction(t), "(1 - t)": Fraction(rest)}
            assert form_value(left, values) == form_value(right, values)
            factor = {"t": "1", "-t": "-1"}.get(reduced, reduced.removesuffix(" t"))
            assert Fraction(factor) * Fraction(t) == Fraction(constant)
            count += 1
    assert count > 100


def test_systems_are_solved_rightly():
    """The values after "So" satisfy every equation that stands before them."""
    count = 0
    for _, text in NASH:
        lines = text.splitlines()
        for place, line in enumerate(lines):
            if not line.startswith("So "):
                continue
            values = {k: Fraction(v) for k, v in re.findall(rf"([pq]\(\w+\)) = ({NUMBER})", line)}
            assert sum(values.values()) == 1
            back = place - 1
            while lines[back].startswith(("Eliminating", "With")):
                for form, constant in re.findall(rf"([^:;]+) = ({NUMBER})(?=[;.])", lines[back]):
                    form = form.split("= 1")[-1] if "With" in form else form
                    assert form_value(form, values) == Fraction(constant), lines[back]
                    count += 1
                back -= 1
    assert count > 20


def form_value(form, values):
    return sum(
        Fraction((sign or "+") + (size or "1")) * values[unknown]
        for sign, size, unknown in re.findall(
            r"([+-]?) ?(\d[\d./]*)? ?([pq]\(\w+\)|t|\(1 - t\))", form
        )
    )


def test_failing_supports_hold_no_equilibrium():
    count = 0
    for sample, text in NASH:
        supports = {
            tuple(
                frozenset(
                    label
                    for label, p in zip(names(sample.data, k), e[side], strict=True)
                    if p != "0"
                )
                for k, side in enumerate(("row", "col"))
            )
            for e in sample.truth["equilibria"]
        }
        for rows, cols in re.findall(
            r"Supports \{(.+?)\} with \{(.+?)\}: .+ no equilibrium\.", text
        ):
            assert (frozenset(rows.split(", ")), frozenset(cols.split(", "))) not in supports
            count += 1
    assert count > 50


def test_every_equilibrium_that_is_required_is_derived():
    for sample, text in NASH:
        steps = text.split("\n\nANSWER:")[0]
        for claim in correct(sample.data, sample.truth)["mixed"]:
            vectors = f"([{', '.join(claim['row'])}], [{', '.join(claim['col'])}])"
            assert vectors in steps
        if sample.truth["continuum"]:
            assert "Continuum of equilibria" in steps
        for i, j in sample.truth["pure"]:
            cell = f"({sample.data['row_labels'][i]}, {sample.data['col_labels'][j]})"
            assert f"{cell}: both actions are best replies" in steps


def test_best_responses_are_summed_rightly():
    count = 0
    for sample, text in TARGETS:
        if sample.data["kind"] != "best_response":
            continue
        for line in re.findall(r"^\w+: (.+)$", text.split("\n\nANSWER:")[0], re.MULTILINE):
            sides = [
                eval(re.sub(r"(\d[\d.]*)", r"Fraction('\1')", side), {"Fraction": Fraction})
                for side in line.split(" = ")
            ]
            assert len(sides) == 3
            assert len(set(sides)) == 1, line
            count += 1
    assert count > 200


@pytest.mark.parametrize(
    ("equations", "solution"),
    [
        ([[1, -1]], (Fraction(1, 2), Fraction(1, 2))),
        ([[1, 1]], None),
        ([[0, 0]], None),
        ([[1, 0, -1], [0, 1, -1]], (Fraction(1, 3),) * 3),
        ([[3, 1]], (Fraction(-1, 2), Fraction(3, 2))),
        ([[1, 0], [0, 1]], None),
    ],
)
def test_small_systems(equations, solution):
    assert solved(equations) == solution
