"""Data sets as drawn, cached, read, checked and counted."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations

import pytest

from harness.types import HarnessError, Sample
from harness_plugins.tasks.gamesolve.canonical import canonical
from harness_plugins.tasks.gamesolve.checks import problems, sample_problems, set_problems
from harness_plugins.tasks.gamesolve.data import Source, read
from harness_plugins.tasks.gamesolve.games import Game
from harness_plugins.tasks.gamesolve.items import draw_item, split_of
from harness_plugins.tasks.gamesolve.overview import overview
from harness_plugins.tasks.gamesolve.presets import PRESETS, plan
from harness_plugins.tasks.gamesolve.truth import truth

Sets = dict[str, list[Sample]]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache that the tests of a session share."""
    folder = tmp_path_factory.getbasetemp() / "gamesolve-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def sets(cache) -> Sets:
    """All samples of every preset, with the default data seed."""
    return {preset: list(read(Source(preset), "all")) for preset in PRESETS}


# Drawing


@pytest.mark.parametrize("preset", PRESETS)
def test_an_item_drawn_alone_is_the_one_in_the_set(sets, preset):
    by_id = {sample.id: sample for sample in sets[preset]}
    items = plan(preset)
    assert len(by_id) == len(items)
    for item in random.Random(3).sample(items, 40):
        assert draw_item(item, Source(preset).data_seed) == replace(by_id[item.id], ordinal=0)


def test_another_data_seed_gives_other_games():
    item = plan("gamesolve")[7]
    assert draw_item(item, 1).data["row"] != draw_item(item, 2).data["row"]


def test_the_bytes_do_not_depend_on_hash_seed_or_process(sets, cache, tmp_path):
    """Another process, with other string hashes and no workers, writes the same files."""
    program = (
        "from harness_plugins.tasks.gamesolve.data import Source, read\n"
        "print(sum(1 for _ in read(Source('gamesolve-skills'), 'all')))"
    )
    env = {
        **os.environ,
        "PYTHONHASHSEED": "4711",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HARNESS_CACHE": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-"], input=program, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1200"
    written = sorted((tmp_path / "gamesolve").iterdir())
    assert len(written) == 3
    for file in written:
        assert file.read_bytes() == (cache / "gamesolve" / file.name).read_bytes()


def test_a_pinned_sample(sets):
    """If this changes, raise `items.GENERATOR`: old and new data must not be mixed up."""
    sample = next(s for s in sets["gamesolve"] if s.id == "gamesolve-nash-2x2-general-both-test-0")
    text = json.dumps([sample.data, sample.truth, sample.canonical], sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "bf488c54b650404b"


# What samples promise


def all_samples(sets: Sets) -> list[Sample]:
    return [sample for samples in sets.values() for sample in samples]


def test_no_game_is_in_two_splits_over_all_presets_together(sets):
    splits: dict[str, set[str]] = {}
    for sample in all_samples(sets):
        splits.setdefault(sample.canonical, set()).add(sample.split)
        assert split_of(sample.canonical) == sample.split
    assert len(splits) > 5000
    assert all(len(found) == 1 for found in splits.values())


def test_no_test_game_equals_a_training_game_by_brute_force(sets):
    """Independent of the canonical form: 2x2 games reduced by trying all orders."""

    def least(game: Game) -> tuple[object, ...]:
        images = []
        for one in (game, game.swapped()):
            for rows in ((0, 1), (1, 0)):
                for cols in ((0, 1), (1, 0)):
                    moved = one.permuted(rows, cols)
                    images.append((affine(moved.row), affine(moved.col)))
        return min(images)

    def affine(matrix) -> list[Fraction]:
        flat = [x for line in matrix for x in line]
        spread = max(flat) - min(flat) or 1
        return [Fraction(x - min(flat)) / spread for x in flat]

    seen: dict[str, set[object]] = {"train": set(), "validation": set(), "test": set()}
    for sample in all_samples(sets):
        if (len(sample.data["row"]), len(sample.data["row"][0])) == (2, 2):
            seen[sample.split].add(json.dumps(least(Game.from_data(sample.data)), default=str))
    for one, other in combinations(seen.values(), 2):
        assert one
        assert not one & other


def test_samples_follow_the_schema(sets):
    for sample in all_samples(sets):
        data = sample.data
        m, n = len(data["row"]), len(data["row"][0])
        assert (len(data["row_labels"]), len(data["col_labels"])) == (m, n)
        assert sample.cluster == sample.canonical == canonical(Game.from_data(data))
        assert sample.group == "/".join(x for x in (data["design"], data["stratum"]) if x)
        assert json.loads(json.dumps([data, sample.truth])) == [data, sample.truth]
        assert truth(data) == sample.truth
        if data["kind"] == "best_response":
            assert data["responder"] in ("row", "column")
            assert len(data["sigma"]) == (n if data["responder"] == "row" else m)
            assert sum(map(Fraction, data["sigma"])) == 1


def test_decimals_are_decimal_strings(sets):
    for sample in sets["gamesolve-ood"]:
        values = [x for key in ("row", "col") for line in sample.data[key] for x in line]
        decimals = sample.data["category"] in ("non_integer", "combined_hard")
        assert all(isinstance(x, str if decimals else int) for x in values)
        bound = 50 if sample.data["category"] in ("wide_range", "combined_hard") else 5
        assert all(abs(Fraction(x)) <= bound for x in values)


def test_right_answers_are_spread_so_that_no_position_is_a_good_guess(sets):
    for preset in ("gamesolve", "gamesolve-ood", "gamesolve-skills"):
        best: dict[tuple[str, str], Counter[int]] = {}
        total: Counter[tuple[str, str]] = Counter()
        for sample in sets[preset]:
            if "best" in sample.truth:
                key = (sample.data["design"], sample.data["responder"])
                best.setdefault(key, Counter()).update(sample.truth["best"])
                total[key] += 1
        for (design, responder), counts in best.items():
            m, n = map(int, design.split("/")[1].split("x"))
            actions = m if responder == "row" else n
            key = (design, responder)
            # Splits are balanced one by one, each to within one item; rare ties come on top.
            assert max(counts.values()) / total[key] <= 1 / actions + 0.05 + 2 / total[key]


def test_pure_equilibria_fall_on_all_cells_alike(sets):
    for design in ("nash/2x2/general", "nash/2x2/symmetric", "nash/3x3/general"):
        cells: Counter[tuple[int, int]] = Counter()
        chosen = [
            s
            for s in sets["gamesolve"]
            if s.data["design"] == design
            and s.data["stratum"] == "pure"
            and len(s.truth["pure"]) == 1
        ]
        cells.update(tuple(s.truth["pure"][0]) for s in chosen)
        size = int(design[5]) * int(design[7])
        assert len(cells) == size
        assert max(cells.values()) <= len(chosen) / size + 4


def test_symmetric_games_are_symmetric_up_to_the_order_of_columns(sets):
    found = [s for s in sets["gamesolve"] if s.data["game_type"] == "symmetric"]
    assert len(found) == 180
    for sample in found:
        game = Game.from_data(sample.data)
        m, n = game.shape
        moved = (game.permuted(range(m), order) for order in permutations(range(n)))
        assert any(one.swapped() == one for one in moved)


def test_the_reference_preset_is_unselected(sets):
    strata = Counter(s.data["stratum"] for s in sets["reference"] if s.data["kind"] == "nash")
    assert strata["mixed"] < 250 < strata["pure"]
    assert strata["continuum"] > 300
    assert {s.data.get("responder", "row") for s in sets["reference"]} == {"row"}


# Reading


def test_a_prefix_holds_the_groups_and_splits_in_proportion(sets):
    samples = sets["gamesolve"]
    assert [s.ordinal for s in samples] == list(range(2400))
    first = Counter(s.split for s in samples[:240])
    assert abs(first["test"] - 24) <= 2
    kinds = Counter(s.data["kind"] for s in samples[:240])
    assert abs(kinds["nash"] - 135) <= 12
    for split in ("train", "validation", "test"):
        alone = list(read(Source("gamesolve"), split))
        assert [s.ordinal for s in alone] == list(range(len(alone)))
        assert [s.id for s in alone] == [s.id for s in samples if s.split == split]


def test_reading_is_lazy(sets, cache):
    stream = read(Source("gamesolve"), "test")
    assert next(stream).ordinal == 0
    stream.close()
    assert not [file for file in (cache / "gamesolve").iterdir() if file.name.startswith(".")]


def test_a_split_that_is_not_there_is_refused(cache):
    with pytest.raises(HarnessError, match="no split 'train' here; choose one of test, all"):
        next(iter(read(Source("gamesolve-ood"), "train")))


# Checks


@pytest.mark.parametrize("preset", PRESETS)
def test_the_sets_pass_the_checks(sets, preset):
    """All counts and splits, and every twelfth sample; `data build --verify` checks each one."""
    pytest.importorskip("nashpy")
    assert list(set_problems(sets[preset], preset)) == []
    assert [text for sample in sets[preset][::12] for text in sample_problems(sample)] == []


def changed(sample: Sample, **truth: object) -> Sample:
    return replace(sample, truth={**sample.truth, **truth})


def find(sets: Sets, preset: str, group: str) -> Sample:
    return next(s for s in sets[preset] if s.group == group)


def test_the_checks_see_every_kind_of_fault(sets):
    pytest.importorskip("nashpy")
    both = next(
        s
        for s in sets["gamesolve"]
        if s.group == "nash/3x3/general/both" and not s.truth["degenerate"]
    )
    listed = both.truth["equilibria"]
    wrong = {**listed[-1], "row": ["1/3", "1/3", "1/3"]}
    response = find(sets, "gamesolve", "br/3x3/general")
    payoff = find(sets, "gamesolve-skills", "payoff/3x3/general")
    dominance = find(sets, "gamesolve-skills", "dominance/3x3/general")
    faults = [
        (changed(both, equilibria=listed[:-1]), "nashpy|even number"),
        (changed(both, equilibria=[*listed[:-1], wrong]), "no equilibrium with these payoffs"),
        (changed(both, pure=[]), "the pure equilibria are"),
        (changed(both, **{"class": "pure"}), "the class is wrong"),
        (changed(both, continuum=True), "the continuum flag"),
        (changed(both, subsets=both.truth["subsets"][1:]), "do not match"),
        (changed(response, best=[0, 1, 2]), "the best responses are"),
        (changed(response, value="99"), "the best responses are"),
        (changed(payoff, value="99"), "the payoff is"),
        (changed(dominance, dominated=[0, 1, 2]), "dominated are"),
        (replace(both, canonical="0" * 32), "canonical identity"),
        (replace(both, split="test" if both.split == "train" else "train"), "belongs to"),
        (replace(response, data={**response.data, "sigma": ["0.5", "0.4", "0.2"]}), "sum to 1"),
        (replace(both, data={**both.data, "row_labels": both.data["col_labels"]}), "share a name"),
    ]
    for sample, message in faults:
        found = sample_problems(sample)
        assert any(part in text for text in found for part in message.split("|")), message
    assert sample_problems(both) == []


def test_the_checks_see_missing_items_and_leaks(sets):
    samples = sets["gamesolve-skills"]
    short = list(set_problems(samples[:-1], "gamesolve-skills"))
    assert len(short) == 1
    assert "items instead of" in short[0]
    train = next(s for s in samples if s.split == "train")
    found = list(set_problems([*samples, replace(train, split="test")], "gamesolve-skills"))
    assert f"the game {train.canonical} is in test and train" in found


def test_checking_names_the_sample(sets):
    pytest.importorskip("nashpy")
    payoff = find(sets, "gamesolve-skills", "payoff/3x3/general")
    found = list(problems([changed(payoff, value="99")], ""))
    assert found == [f"{payoff.id}: the payoff is {payoff.truth['value']}"]


def test_without_nashpy_the_checks_say_what_to_install(monkeypatch):
    monkeypatch.setattr("harness_plugins.tasks.gamesolve.checks.find_spec", lambda name: None)
    with pytest.raises(HarnessError, match=r"pip install 'strategic-harness\[dev\]'"):
        list(problems([], "gamesolve"))


# Counts


def test_the_overview_counts_and_names_what_is_empty(sets):
    stats = overview(sets["gamesolve"], "gamesolve")
    assert sum(stats["splits"].values()) == 2400
    assert stats["canonical"]["in_several_splits"] == 0
    assert stats["cells"]["nash/2x2/general"]["mixed"] == {
        "train": 80,
        "validation": 10,
        "test": 10,
    }
    assert set(stats["empty_strata"]) == {
        "nash/2x2/zero_sum",
        "nash/2x2/symmetric",
        "nash/3x3/zero_sum",
    }
    formats = stats["factors"]["format"]
    assert set(formats) == {"abstract", "story", "compact"}
    assert max(formats.values()) - min(formats.values()) < 40
    responders = stats["factors"]["responder"]
    assert sum(responders.values()) == 1050
    assert abs(responders["row"] - responders["column"]) <= 7  # one for each cell at most
