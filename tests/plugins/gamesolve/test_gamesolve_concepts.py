"""Concept labels follow from the matrix and the exact equilibria, whatever the generator meant."""

from itertools import permutations

import pytest

from harness_plugins.tasks.gamesolve.concepts import CLASSES, concepts, game_type
from harness_plugins.tasks.gamesolve.games import Game
from harness_plugins.tasks.gamesolve.items import draw_item
from harness_plugins.tasks.gamesolve.presets import plan
from harness_plugins.tasks.gamesolve.truth import truth

SAMPLES = [
    draw_item(item, data_seed=8)
    for preset in ("gamesolve", "gamesolve-ood", "gamesolve-skills")
    for item in plan(preset)[::11]
]


def named(sample):
    labels = concepts(sample.data, sample.truth)
    assert list(labels) == list(CLASSES)
    return {c: CLASSES[c][k] if k >= 0 else None for c, k in labels.items()}


def test_labels_follow_from_the_definitions():
    seen = set()
    for sample in SAMPLES:
        data, true = sample.data, sample.truth
        label = named(sample)
        seen |= {(c, k) for c, k in label.items() if k}
        dominant = [
            i
            for i, line in enumerate(data["row"])
            if all(
                float(a) > float(b)
                for k, other in enumerate(data["row"])
                if k != i
                for a, b in zip(line, other, strict=True)
            )
        ]
        assert label["dominance"] == ("yes" if dominant else "no")
        assert label["difficulty"] == data["difficulty"]
        if "equilibria" in true:
            pure = [e for e in true["equilibria"] if {*e["row"], *e["col"]} <= {"0", "1"}]
            kind = "mixed" if not pure else "both"
            if len(pure) == len(true["equilibria"]) and not true["continuum"]:
                kind = "pure"
            assert label["eq_type"] == kind
            assert label["eq_uniqueness"] == ("one" if len(true["equilibria"]) == 1 else "multiple")
        else:
            assert label["eq_type"] is label["eq_uniqueness"] is None
        if "best" in true:
            best = true["best"]
            assert label["br_direction"] == (f"action_{best[0]}" if len(best) == 1 else "tied")
        else:
            assert label["br_direction"] is None
    assert {c for c, _ in seen} == set(CLASSES)
    assert {k for c, k in seen if c == "eq_type"} == {"pure", "mixed", "both"}
    assert {k for c, k in seen if c == "dominance"} == {"yes", "no"}


def test_the_generators_types_are_detected():
    for sample in SAMPLES:
        found, drawn = named(sample)["game_type"], sample.data["game_type"]
        if drawn in ("zero_sum", "symmetric"):
            assert found in (drawn, "zero_sum")
        elif found != "general":  # by chance
            game = Game.from_data(sample.data)
            assert game.shape == (2, 2) or found == "zero_sum"


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_symmetry_does_not_depend_on_the_order_of_actions(order):
    row = [[1, 7, 3], [4, 0, 6], [2, 8, 9]]
    game = Game.of(row, list(zip(*row, strict=True)))
    assert game_type(game.permuted(range(3), order)) == "symmetric"
    assert game_type(game.permuted(order, range(3))) == "symmetric"
    changed = [list(line) for line in zip(*row, strict=True)]
    changed[0][1], changed[0][2] = changed[0][2], changed[0][1]
    assert game_type(Game.of(row, changed)) == "general"


def test_constant_sums_are_zero_sum():
    assert game_type(Game.of([[1, 2], [3, "0.5"]], [[4, 3], [2, "4.5"]])) == "zero_sum"
    assert game_type(Game.of([[1, 2, 3]], [[1, 2, 3]])) == "general"


def test_a_continuum_counts_as_having_mixed_equilibria():
    data = {"kind": "nash", "row": [[1, 1], [0, 0]], "col": [[2, 2], [0, 0]], "difficulty": "easy"}
    labels = concepts(data, truth(data))
    assert CLASSES["eq_type"][labels["eq_type"]] == "both"
    assert CLASSES["eq_uniqueness"][labels["eq_uniqueness"]] == "multiple"
