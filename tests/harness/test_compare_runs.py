"""``harness compare``: the figures of a pair of runs, from records to the printed lines."""

from __future__ import annotations

import json
import random

import pytest
from board_runs import make_run
from scipy import stats as scipy_stats

from harness.compare import compare, one_run
from harness.comparisons import mcnemar, paired
from harness.types import HarnessError


@pytest.fixture
def verdicts():
    rng = random.Random(5)
    first = [float(rng.random() < 0.6) for _ in range(80)]
    second = [v if rng.random() < 0.7 else float(rng.random() < 0.4) for v in first]
    return first, second


@pytest.fixture
def pair(tmp_path, verdicts):
    groups = [f"order-{i % 2}" for i in range(80)]
    paths = []
    for name, values in zip(("a", "b"), verdicts, strict=True):
        texts = [f"{name} {i}" for i in range(80)]
        paths.append(make_run(tmp_path, "tom", name, values, groups=groups, texts=texts))
    return paths


def test_figures_equal_the_tests_on_the_raw_scores(pair, verdicts):
    first, second = verdicts
    result = compare(*map(one_run, map(str, pair)))
    assert result.overall == pytest.approx(paired(first, second))
    assert result.overall.p == pytest.approx(scipy_stats.ttest_rel(first, second).pvalue, rel=1e-6)
    better = sum(a > b for a, b in zip(first, second, strict=True))
    worse = sum(a < b for a, b in zip(first, second, strict=True))
    assert (result.better, result.worse) == (better, worse)
    assert result.verdicts == mcnemar(better, worse)
    assert result.permutation == pytest.approx(result.verdicts.exact, abs=0.01)
    assert result.warnings == ()
    assert result.samples_needed > 80 or result.overall.p < 0.05


def test_groups_are_compared_and_corrected(pair, verdicts):
    result = compare(*map(one_run, map(str, pair)))
    assert [g.name for g in result.groups] == ["order-0", "order-1"]
    for k, group in enumerate(result.groups):
        assert group.result == pytest.approx(paired(verdicts[0][k::2], verdicts[1][k::2]))
    raw = [g.result.p for g in result.groups]
    assert min(g.p for g in result.groups) == pytest.approx(min(1.0, 2 * min(raw)))


def test_flips_name_the_samples_and_their_replies(pair, verdicts):
    result = compare(*map(one_run, map(str, pair)), most_flips=100, replies=True)
    expected = {f"s{i}" for i in range(80) if verdicts[0][i] != verdicts[1][i]}
    assert {flip.sample for flip in result.flips} == expected
    for flip in result.flips:
        assert flip.first_reply == f"a {flip.sample[1:]}"
        assert flip.second_reply == f"b {flip.sample[1:]}"
    assert len(compare(*map(one_run, map(str, pair)), most_flips=3).flips) == 3


def test_samples_in_clusters_leave_out_mcnemar(tmp_path, verdicts):
    clusters = [f"c{i // 4}" for i in range(80)]
    paths = [
        make_run(tmp_path, "tom", name, values, clusters=clusters)
        for name, values in zip("ab", verdicts, strict=True)
    ]
    result = compare(*map(one_run, map(str, paths)))
    assert result.verdicts is None
    assert result.overall.clusters == 20
    assert result.overall.p == pytest.approx(paired(*verdicts, clusters).p)


def test_only_common_samples_count_and_differences_are_warned_of(tmp_path, verdicts):
    one = make_run(tmp_path, "tom", "a", verdicts[0])
    other = make_run(
        tmp_path, "tom", "b", verdicts[1][:50], expected=80, decoding={"temperature": 1.0}
    )
    result = compare(one_run(str(one)), one_run(str(other)))
    assert (result.overall.n, result.only_first, result.only_second) == (50, 30, 0)
    assert result.overall.difference == pytest.approx(
        sum(verdicts[0][:50]) / 50 - sum(verdicts[1][:50]) / 50
    )
    assert "the decoding differs" in result.warnings
    assert any("30 records are missing" in warning for warning in result.warnings)


def test_equal_runs_cannot_be_separated(tmp_path, verdicts):
    paths = [make_run(tmp_path, "tom", name, verdicts[0]) for name in "ab"]
    result = compare(*map(one_run, map(str, paths)))
    assert (result.overall.p, result.permutation, result.samples_needed) == (1.0, 1.0, None)


def test_what_cannot_be_compared_is_one_clear_line(tmp_path, verdicts):
    one = make_run(tmp_path, "tom", "a", verdicts[0])
    other = make_run(tmp_path, "chess", "a", verdicts[0])
    apart = make_run(tmp_path, "tom", "c", [(f"x{i}", 1.0) for i in range(30)])
    with pytest.raises(HarnessError, match="cannot compare tom with chess"):
        compare(one_run(str(one)), one_run(str(other)))
    with pytest.raises(HarnessError, match="no sample in common"):
        compare(one_run(str(one)), one_run(str(apart)))
    with pytest.raises(HarnessError, match="no figure 'recall'"):
        compare(one_run(str(one)), one_run(str(one)), "recall")
    with pytest.raises(HarnessError, match="holds 3 runs"):
        one_run(str(tmp_path))
    (one / "metrics.json").unlink()
    with pytest.raises(HarnessError, match="has not ended"):
        one_run(str(one))


def test_command_prints_and_gives_json(harness_command, pair):
    done = harness_command("compare", *pair, "--replies", registry=False)
    assert done.returncode == 0, done.stderr
    for part in ("McNemar", "permutation p", "by group", "order-1", "samples to separate", "a 1"):
        assert part in done.stdout
    value = json.loads(harness_command("compare", *pair, "--json", registry=False).stdout)
    assert value["overall"]["n"] == 80
    assert value["flips"][0]["sample"].startswith("s")
