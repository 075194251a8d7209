"""The designs: counts of cells, strata and splits, and what the presets promise."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.types import HarnessError
from harness_plugins.tasks.gamesolve.presets import (
    BUCKETS,
    FORMATS,
    PRESETS,
    SPLITS,
    Cell,
    plan,
    shares,
)
from harness_plugins.tasks.gamesolve.truth import KINDS

STUDY = {
    "nash/2x2/general": 400,
    "nash/2x2/zero_sum": 150,
    "nash/2x2/symmetric": 100,
    "nash/3x3/general": 200,
    "nash/3x3/zero_sum": 100,
    "nash/3x3/symmetric": 80,
    "nash/4x4/general": 100,
    "nash/2x3/general": 120,
    "nash/3x2/general": 100,
    "br/2x2/general": 300,
    "br/2x2/zero_sum": 100,
    "br/3x3/general": 200,
    "br/3x3/zero_sum": 80,
    "br/4x4/general": 150,
    "br/2x3/general": 120,
    "br/3x2/general": 100,
}


@given(st.integers(0, 500), st.lists(st.integers(1, 9), min_size=1, max_size=5))
@settings(deadline=None, derandomize=True)
def test_shares_are_whole_complete_and_within_one_of_their_part(count, weights):
    named = {str(i): w for i, w in enumerate(weights)}
    parts = shares(count, named)
    assert sum(parts.values()) == count
    assert all(abs(parts[k] - count * w / sum(weights)) < 1 for k, w in named.items())


@pytest.mark.parametrize("preset", ["gamesolve", "reference"])
def test_cells_have_the_counts_of_the_reference_study(preset):
    items = plan(preset)
    assert len(items) == 2400
    assert Counter(item.cell.name for item in items) == STUDY


def test_nash_cells_are_balanced_over_the_strata_that_exist():
    counts: dict[str, Counter[str]] = {}
    for item in plan("gamesolve"):
        counts.setdefault(item.cell.name, Counter())[item.stratum] += 1
    for name, strata in counts.items():
        if name.startswith("br"):
            assert set(strata) == {""}
            continue
        empty = {"zero_sum": {"both"}}.get(name.split("/")[-1], set())
        empty = {"mixed"} if name == "nash/2x2/symmetric" else empty
        assert set(strata) == {"pure", "mixed", "both", "continuum"} - empty
        assert max(strata.values()) - min(strata.values()) <= 1


@pytest.mark.parametrize("preset", ["gamesolve", "gamesolve-skills"])
def test_each_cell_and_stratum_is_split_80_10_10(preset):
    counts: dict[tuple[str, str], Counter[str]] = {}
    for item in plan(preset):
        counts.setdefault((item.cell.name, item.stratum), Counter())[item.split] += 1
    for splits in counts.values():
        total = sum(splits.values())
        for split, part in zip(SPLITS, (0.8, 0.1, 0.1), strict=True):
            assert abs(splits[split] - part * total) < 1
    assert [BUCKETS.count(split) for split in SPLITS] == [8, 1, 1]


def test_ood_has_eight_categories_and_every_format_for_both_tasks():
    items = plan("gamesolve-ood")
    assert len(items) >= 750
    assert {item.split for item in items} == {"test"}
    assert Counter(item.cell.category for item in items) == {
        "large_matrix": 140,
        "non_integer": 120,
        "wide_range": 120,
        "novel_format_math": 60,
        "novel_format_json": 60,
        "novel_format_table": 60,
        "asymmetric": 150,
        "combined_hard": 70,
    }
    for kind in ("nash", "best_response"):
        shown = {f for item in items if item.cell.kind == kind for f in item.cell.formats}
        assert shown == set(FORMATS)
    sizes = {(item.cell.m, item.cell.n) for item in items}
    assert {(5, 5), (6, 6), (4, 2), (2, 5), (3, 5), (5, 3)} <= sizes


def test_skills_have_200_items_each():
    items = plan("gamesolve-skills")
    assert Counter(item.cell.kind for item in items) == dict.fromkeys(KINDS, 200)
    assert {n for item in items for n in (item.cell.m, item.cell.n)} == {2, 3, 4}


@pytest.mark.parametrize("preset", PRESETS)
def test_ids_are_unique(preset):
    ids = [item.id for item in plan(preset)]
    assert len(set(ids)) == len(ids)


def test_empty_strata_come_with_a_reason():
    cell = Cell("nash", 2, 2, "zero_sum", 9, weights={"pure": 1, "both": 1})
    assert cell.strata() == {"pure": 9}
    assert list(cell.empty()) == ["both"]
    assert "product set" in cell.empty()["both"]


def test_an_unknown_preset_is_refused():
    with pytest.raises(HarnessError, match="no preset 'big'; choose one of gamesolve,"):
        plan("big")
