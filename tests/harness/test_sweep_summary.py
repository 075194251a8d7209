"""The figures of a sweep from its folder: SciPy's tests, statsmodels' Holm, gaps, trajectories."""

from __future__ import annotations

import json

import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from sweep_files import QUICK, sweep_file

from harness.cli.sweep_ import _report
from harness.registry import Registry
from harness.sweep.cells import Places
from harness.sweep.file import read_sweep
from harness.sweep.run import Outcome
from harness.sweep.summary import summarise
from harness.sweep.trajectories import Curve, means, panels

# Peak validation rewards of the reference study's ablation by seed (three decimals).
PEAKS = {
    "none": (0.728, 0.716, 0.724),
    "probe@6": (0.725, 0.722, 0.738),
    "probe@17": (0.723, 0.717, 0.700),
    "probe@30": (0.706, 0.698, 0.704),
    "probe@35": (0.690, 0.677, 0.689),
}
LAYERS = dict.fromkeys((6, 17, 30, 35), QUICK)


@pytest.fixture(scope="module")
def registry():
    return Registry.load()


def filled(folder, registry, end="", without=()):
    """A sweep whose cells have the reference study's figures as validation, and as test."""
    sweep = read_sweep(sweep_file(folder, LAYERS, end, seeds=[0, 1, 2]), registry)
    for cell in sweep.cells:
        if cell.name in without:
            continue
        places = Places(folder, cell.name)
        places.folder.mkdir(parents=True)
        value = PEAKS[cell.condition][cell.seed]
        result = {
            "train_hash": cell.train_hash, "test_hash": cell.test_hash, "step": 40,
            "best_validation": value, "validation": value, "last_step": 80,
            "tests": {"gamesolve": {"value": value - 0.01, "low": 0, "high": 1, "n": 8}},
        }  # fmt: skip
        (places.folder / "result.json").write_text(json.dumps(result))
    return sweep


def test_the_reference_ablation(tmp_path, registry):
    sweep = filled(tmp_path, registry)
    summary = summarise(sweep, tmp_path)
    test, validation = summary["measures"]
    assert test["measure"] == "test gamesolve"
    assert validation["measure"] == "best validation"
    rows = validation["conditions"]
    assert list(rows) == list(PEAKS)
    assert "p" not in rows["none"], "the baseline is not compared with itself"
    wanted = {}
    for name, values in list(PEAKS.items())[1:]:
        found = stats.ttest_ind(values, PEAKS["none"], equal_var=False)
        row = rows[name]
        assert (row["t"], row["df"], row["p"]) == pytest.approx(
            (found.statistic, found.df, found.pvalue), rel=1e-6
        )
        interval = found.confidence_interval()
        assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high), rel=1e-6)
        wanted[name] = found.pvalue
    _, adjusted, *_ = multipletests(list(wanted.values()), method="holm")
    assert [rows[name]["p_holm"] for name in wanted] == pytest.approx(list(adjusted), rel=1e-6)
    reported = {"probe@6": 0.41, "probe@17": 0.31, "probe@30": 0.013, "probe@35": 0.003}
    for name, p in reported.items():
        assert rows[name]["p"] == pytest.approx(p, abs=0.006 if p > 0.1 else 0.0006)
    assert rows["none"]["mean"] == pytest.approx(0.7227, abs=5e-5)
    assert rows["probe@17"]["sd"] == pytest.approx(0.0118, abs=2e-4)
    assert round(validation["trend"]["rho"], 2) == -0.91
    assert validation["trend"]["n"] == 12
    assert test["conditions"]["probe@6"]["mean"] == pytest.approx(0.7183, abs=1e-4)
    assert (summary["done"], summary["expected"]) == (15, 15)


def test_paired_by_seed(tmp_path, registry):
    without = ("none--seed1",)
    end = 'test = "paired"\n'
    summary = summarise(filled(tmp_path, registry, end, without), tmp_path)
    row = summary["measures"][0]["conditions"]["probe@30"]
    found = stats.ttest_rel([0.706, 0.704], [0.728, 0.724])
    assert (row["t"], row["p"]) == pytest.approx((found.statistic, found.pvalue), rel=1e-6)
    assert row["pairs"] == 2
    assert row["n"] == 3


def test_cells_that_are_missing(tmp_path, registry):
    """No test with one seed on a side; conditions without any figure stay in the table."""
    gone = ["probe-6--seed0", "probe-6--seed1", *(f"probe-17--seed{i}" for i in range(3))]
    summary = summarise(filled(tmp_path, registry, without=gone), tmp_path)
    rows = summary["measures"][1]["conditions"]
    assert rows["probe@6"]["difference"] == pytest.approx(0.738 - 0.72267, abs=1e-4)
    assert "p" not in rows["probe@6"]
    assert rows["probe@6"]["sd"] is None
    assert rows["probe@17"] == {"n": 0, "seeds": {}, "mean": None, "sd": None, "place": None,
                                "difference": None}  # fmt: skip
    assert summary["done"] == 10
    states = {c["cell"]: c["status"] for c in summary["cells"]}
    assert states["probe-6--seed0"] == "waiting"
    assert states["probe-6--seed2"] == "done"


def test_nothing_but_json_inside(tmp_path, registry):
    """Where neither side varies there is no spread to test by, and no p of 0."""
    sweep = filled(tmp_path, registry)
    for cell in sweep.cells:
        places = Places(tmp_path, cell.name)
        result = places.read("result.json")
        result["tests"]["gamesolve"]["value"] = 0.5 if cell.condition == "none" else 0.25
        (places.folder / "result.json").write_text(json.dumps(result))
    summary = summarise(sweep, tmp_path)
    text = json.dumps(summary, allow_nan=False)
    row = json.loads(text)["measures"][0]["conditions"]["probe@6"]
    assert row == {"n": 3, "seeds": {"0": 0.25, "1": 0.25, "2": 0.25}, "mean": 0.25, "sd": 0.0,
                   "place": 6.0, "difference": -0.25, "d": None, "g": None}  # fmt: skip
    assert summary["measures"][0]["trend"] is None, "all alike: no trend"


def test_the_table(tmp_path, registry, capsys):
    sweep = filled(tmp_path, registry, without=["none--seed0"])
    outcome = Outcome(summarise(sweep, tmp_path), {"none--seed0": "it broke"}, False, ())
    assert _report(sweep, outcome, False) == 1
    found = capsys.readouterr()
    assert "Welch's test" in found.out
    assert "none (baseline)" in found.out
    assert "Spearman -0.91 over 12 cells" in found.out
    assert "14 of 15 cells done (1 waiting); the same command goes on" in found.err
    assert "none--seed0: it broke" in found.err
    assert "0.690 0.677 0.689" in found.out


def test_mean_curves_at_common_steps(tmp_path, registry):
    sweep = filled(tmp_path, registry)
    one, other, third = sweep.cells[0], sweep.cells[1], sweep.cells[3]
    lines = [
        Curve(one, "validation/score", [(0, 0.0), (40, 0.5), (80, 0.7)]),
        Curve(other, "validation/score", [(0, 0.2), (40, 0.7)]),
        Curve(third, "validation/score", [(0, 0.1)]),
        Curve(one, "critic/score/mean", [(1, 0.3)]),
    ]
    assert means(lines[:3]) == {"none": [(0, 0.1), (40, 0.6)], "probe@6": [(0, 0.1)]}
    assert list(panels(lines)) == ["validation score", "reward"]
