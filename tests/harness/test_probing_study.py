"""Whole studies, from the command to the files, on states with a planted concept."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from harness.cli import probe_
from harness.probing.results import layers_from, read, weights_from, write
from harness.types import HarnessError

PLOTS = {"heatmap", "curves", "poolings", "pca", "cosines"}


@pytest.fixture
def probe(support, tmp_path, monkeypatch):
    """Run the verb in this process; returns its standard output."""
    monkeypatch.syspath_prepend(str(support))
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        registry = ["--registry", str(support / "probe_registry.toml")]
        made = CliRunner().invoke(probe_.command, [*map(str, arguments), *registry])
        if made.exception is not None and not isinstance(made.exception, SystemExit):
            raise made.exception
        assert made.exit_code == 0, made.output
        return made.stdout

    return run


PLANTED = ("--task", "planted", "--set", "n=160", "--poolings", "last,mean")


def test_a_planted_concept_is_reported_where_it_is(probe, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra probe)")
    text = probe(*PLANTED, "--model", "planted", "--out", "out")
    assert "coin" in text
    assert "not probed: one" in text
    found = read(tmp_path / "out" / "probes.json")
    coin = found["concepts"]["coin"]
    assert coin["decodable"]
    assert coin["critical_layers"] == [2]
    assert {s["layer"] for s in coin["selected"]} == {2}
    assert coin["gain"]["low"] > 0.1
    assert set(coin["controls"]) == {"majority", "size", "numbers", "words", "shuffled", "random"}
    assert all(c["value"] < 0.7 for c in coin["controls"].values())
    assert found["concepts"]["early"]["n"] == 80
    assert found["groups"] == 80
    assert coin["accuracy"]["clusters"] == 80
    comparison = json.loads((tmp_path / "out" / "pooling_comparison.json").read_text())
    assert set(comparison["coin"]) == {"last", "mean"}
    assert comparison["coin"]["mean"]["layers"] == {"2": 5}
    files = {path.name for path in (tmp_path / "out" / "plots").iterdir()}
    assert files == {f"{name}.{kind}" for name in PLOTS for kind in ("png", "svg")}
    assert layers_from(f"critical:{tmp_path / 'out' / 'probes.json'}") == [2]
    assert layers_from(f"critical:{tmp_path / 'out' / 'probes.json'}", 4, "mean") == [2]
    assert found["cosines"]["cosines"][0][1] > 0.8  # two concepts, one direction


def test_the_same_command_again_does_nothing_anew_and_says_the_same(probe, tmp_path):
    arguments = (*PLANTED, "--model", "planted", "--out", "out", "--no-plots")
    probe(*arguments)
    first = read(tmp_path / "out" / "probes.json")
    again = json.loads(probe(*arguments, "--json"))["reports"]["planted"]
    assert again["states"]["done_before"] == 160
    assert again["concepts"] == first["concepts"]
    assert again["pca"] == first["pca"]


def test_both_solvers_say_nearly_the_same(probe, tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (the extra probe)")
    found = {}
    for solver in ("torch", "sklearn"):
        probe(*PLANTED, "--model", "planted", "--out", solver, "--no-plots", "--solver", solver,
              "--controls", "majority", "--layers", "1,2")  # fmt: skip
        found[solver] = read(tmp_path / solver / "probes.json")["concepts"]["coin"]
    ours, theirs = found["torch"], found["sklearn"]
    assert abs(ours["accuracy"]["value"] - theirs["accuracy"]["value"]) < 0.02
    assert ours["selected"] == theirs["selected"]


def test_with_nothing_planted_no_layer_is_critical_for_training(probe, tmp_path):
    probe(*PLANTED, "--model", "planted", "--model-set", "strength=0", "--out", "out",
          "--no-plots", "--controls", "majority,shuffled")  # fmt: skip
    found = read(tmp_path / "out" / "probes.json")
    assert not any(c["decodable"] for c in found["concepts"].values())
    with pytest.raises(HarnessError, match="no layer is critical"):
        layers_from(f"critical:{tmp_path / 'out' / 'probes.json'}")


def test_several_models_stand_in_folders_of_their_own(probe, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra probe)")
    probe(*PLANTED, "--model", "planted", "--template", "both", "--out", "out", "--layers", "1,2",
          "--controls", "majority")  # fmt: skip
    for label in ("planted", "planted-plain"):
        assert read(tmp_path / "out" / label / "probes.json")["label"] == label
    assert (tmp_path / "out" / "plots" / "models.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--limit", "10"), "5 groups of items are too few to split"),
        (("--limit", "0"), "--limit"),
        (("--poolings", "median"), "--poolings median"),
        (("--controls", "luck"), "--controls luck"),
        (("--layers", "x"), "--layers x"),
        (("--layers", "1,1"), "each number once"),
        (("--seeds", "a"), "--seeds a"),
        (("--batch-tokens", "0"), "--batch-tokens"),
        (("--steer", "coin"), "CONCEPT:CLASS"),
        (("--model", "random"), "has no hidden states"),
    ],
)
def test_bad_input_is_one_line(probe, arguments, said):
    with pytest.raises(HarnessError, match=said):
        probe("--task", "planted", "--model", "planted", "--no-plots", *arguments)


# What a trainer reads


def concept(accuracy, layers, decodable=True):
    return {
        "accuracy": {"value": accuracy},
        "critical_layers": layers,
        "decodable": decodable,
        "poolings": {"mean": {"critical_layers": layers[1:]}},
    }


def test_layers_and_weights_of_a_file(tmp_path):
    path = tmp_path / "probes.json"
    concepts = {
        "a": concept(0.8, [4, 5, 6]),
        "b": concept(0.5, [5, 6, 7]),
        "c": concept(0.9, [1, 2], decodable=False),
    }
    write(path, {"version": 1, "poolings": ["mean"], "concepts": concepts})
    assert layers_from(f"critical:{path}") == [5]
    assert layers_from(f"critical:{path}", pooling="mean") == [6]
    assert weights_from(path) == pytest.approx({"a": 0.9 / 0.8, "b": 0.9 / 0.5, "c": 1.0})
    with pytest.raises(HarnessError, match="no layer 5: the model has 0 to 4"):
        layers_from(f"critical:{path}", depth=5)
    with pytest.raises(HarnessError, match="no probes with pooling last"):
        layers_from(f"critical:{path}", pooling="last")


def test_layers_by_number():
    assert layers_from("17") == [17]
    assert layers_from("6,-1", depth=30) == [6, 29]
    for text, depth in (("x", 0), ("", 0), ("30", 30), ("1,1", 0), ("29,-1", 30)):
        with pytest.raises(HarnessError):
            layers_from(text, depth)


def test_a_file_that_is_no_probes_json(tmp_path):
    path = tmp_path / "p.json"
    for text in ("", "[]", "{}", '{"version": 9, "concepts": {}}'):
        path.write_text(text)
        with pytest.raises(HarnessError, match=r"is no probes\.json"):
            read(path)
    with pytest.raises(HarnessError, match="cannot be read"):
        read(tmp_path / "absent.json")
