"""What the options of a probe loss resolve to, without verl; its heads beside scikit-learn."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from tiny_models import tiny_checkpoint, tiny_tokenizer

from harness.probing.heads import POOLINGS as POOLED
from harness.probing.heads import ProbeHeads
from harness.registry import Registry
from harness.rendering import render
from harness.trainer import TrainJob
from harness.training.session import Session
from harness.types import HarnessError
from harness_plugins.trainers.verl.probe_settings import (
    POOLINGS,
    Probe,
    description,
    export,
    weights_of,
)

SUPPORT = Path(__file__).parents[2] / "support"
REGISTRY = SUPPORT / "toy_registry.toml"
CLASSES = {"dominant": 2, "most": 3}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny_checkpoint(tmp_path_factory.mktemp("base"), num_hidden_layers=4)


@pytest.fixture
def session(base, tmp_path):
    def make(task="marks", method="grpo-probe", **changes):
        registry = Registry.load(REGISTRY)
        given = {f"probe.{name}": value for name, value in {"layers": "2", **changes}.items()}
        options = registry.options(
            registry.entry("trainer", method), {**given, "max_prompt": 64, "max_reply": 16}
        )
        job = TrainJob(task, str(base), tmp_path / "job", options, registry_file=REGISTRY)
        return Session.of(job, method, method == "sft")

    return make


def probes_json(folder, critical, accuracy):
    """A file as `harness probe` writes it, with what is read of it."""
    concepts = {
        name: {
            "decodable": True,
            "critical_layers": [0],
            "accuracy": {"value": accuracy[name]},
            "poolings": {p: {"critical_layers": layers} for p, layers in critical.items()},
        }
        for name in accuracy
    }
    path = folder / "probes.json"
    path.write_text(json.dumps({"version": 1, "poolings": list(critical), "concepts": concepts}))
    return path


def test_what_is_resolved_replaces_what_was_asked(session):
    made = session(layers="-1, 1", weights="most=2", coef=0.5)
    probe = Probe.of(made)
    assert (probe.layers, probe.width, probe.depth) == ((3, 1), 64, 4)
    assert (probe.pooling, probe.coef, probe.learning_rate, probe.seed) == ("mean", 0.5, 1e-3, 42)
    assert (dict(probe.classes), dict(probe.weights)) == (CLASSES, {"dominant": 1.0, "most": 2.0})
    assert made.job.options["probe.layers"] == "3,1"
    assert made.job.options["probe.weights"] == "dominant=1.0,most=2.0"
    assert made.job.options["probe.concepts"] == ["dominant", "most"]
    assert Probe.of(made) == probe, "a resolved job resolves to itself"


def test_critical_layers_are_those_of_the_pooling_that_is_used(session, tmp_path):
    path = probes_json(tmp_path, {"last": [1], "mean": [2, 3]}, {"dominant": 0.8, "most": 0.4})
    probe = Probe.of(session(layers=f"critical:{path}"))
    assert probe.layers == (2,)
    assert dict(probe.weights) == {"dominant": 1.0, "most": pytest.approx(2.0)}
    assert Probe.of(session(layers=f"critical:{path}", pooling="last")).layers == (1,)
    plain = Probe.of(session(layers="1", weights=str(path)))
    assert dict(plain.weights) == dict(probe.weights)


def test_concepts_can_be_chosen_and_are_labelled_in_their_order(session):
    made = session(concepts=["most", "dominant"])
    probe = Probe.of(made)
    assert list(probe.classes) == ["most", "dominant"]
    for item in made.items[:6]:
        truth = made.task.concepts(item.sample)
        assert probe.labels(made.task, item.sample) == [truth["most"], truth["dominant"]]
        assert (truth["most"] == -1) == (item.sample.ordinal % 2 == 0)


def test_a_concept_of_one_class_is_left_out(session, monkeypatch):
    made = session()
    plain = made.task.concepts
    monkeypatch.setattr(made.task, "concepts", lambda s: {**plain(s), "constant": 1})
    assert list(Probe.of(made).classes) == ["dominant", "most"]
    made.job.options["probe.concepts"][:] = ["constant"]
    with pytest.raises(HarnessError, match="constant has one class in all training items"):
        Probe.of(made)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"layers": ""}, "probe.layers is missing"),
        ({"layers": "9"}, "there is no layer 9: the model has 0 to 3"),
        ({"layers": "1,1"}, "name a layer twice"),
        ({"pooling": "max"}, "probe.pooling 'max': last, mean, weighted"),
        ({"coef": -0.1}, "must not be negative"),
        ({"learning_rate": 0.0}, "must not be negative, probe.learning_rate 0.0 be positive"),
        ({"concepts": ["colour"]}, "marks has no 'colour'; it has dominant, most"),
        ({"weights": "most=x"}, "write a=1.5,b=1, or name a probes.json"),
        ({"weights": "colour=1"}, "concepts are dominant, most"),
        ({"weights": "most=0"}, "weights positive"),
        ({"weights": "none.json"}, "none.json: cannot be read"),
        ({"task": "copy"}, "copy has no concepts to probe"),
    ],
)
def test_options_that_make_no_sense(session, changes, told):
    with pytest.raises(HarnessError, match=told):
        Probe.of(session(**changes))


def test_held_out_prompts_are_those_of_validation(session):
    made = session()
    made.out.mkdir()
    (made.out / "data").mkdir()
    probe = Probe.of(made)
    probe.write(made)
    assert Probe.read(description(made.out)) == probe
    rows = pq.read_table(made.out / "data" / "probe.parquet").to_pylist()
    assert len(rows) == len(made.validation) == 120
    for row, item in zip(rows, made.validation, strict=True):
        assert row["ids"] == list(render(tiny_tokenizer(), item.messages))
        assert row["labels"] == probe.labels(made.task, item.sample)
        assert item.sample.split == "validation"


def test_heads_leave_a_step_for_a_folder_of_their_own(tmp_path):
    step = tmp_path / "global_step_3"
    (step / "actor").mkdir(parents=True)
    with pytest.raises(HarnessError, match="holds no probe heads"):
        export(step, tmp_path)
    for name in ("probe_heads.safetensors", "probe_heads.json"):
        (step / "actor" / name).write_text(name)
    export(step, tmp_path)
    assert sorted(p.name for p in (tmp_path / "probe").iterdir()) == [
        "probe_heads.json",
        "probe_heads.safetensors",
    ]
    assert not list(tmp_path.glob("*.safetensors")), "they would pass for weights of the model"


def test_grpo_probe_has_the_options_of_grpo():
    registry = Registry.load(None)
    plain, probing = (registry.entry("trainer", n).options for n in ("grpo", "grpo-probe"))
    assert {n: probing[n] for n in plain} == dict(plain)
    more = {n for n in probing if n not in plain}
    assert more == {f"probe.{n}" for n in ("layers", "coef", "pooling", "concepts", "weights",
                                           "learning_rate")}  # fmt: skip
    sft = registry.entry("trainer", "sft").options
    for name in more - {"probe.layers"}:
        assert sft[name] == probing[name]
    assert sft["probe.layers"].default == probing["probe.layers"].default == ""


def test_poolings_are_those_of_the_heads():
    assert POOLINGS == POOLED


def test_no_weights_are_equal_weights():
    assert weights_of("", "3", CLASSES) == {"dominant": 1.0, "most": 1.0}


def test_the_loss_is_scikit_learns_log_loss():
    """Of each concept, over its labelled rows, with scikit-learn's own softmax."""
    metrics = pytest.importorskip("sklearn.metrics")
    extmath = pytest.importorskip("sklearn.utils.extmath")
    torch.manual_seed(0)
    states = torch.randn(40, 6)
    labels = {"dominant": torch.randint(0, 2, (40,)), "most": torch.randint(-1, 3, (40,))}
    heads = ProbeHeads(6, CLASSES, [0], {"dominant": 1.0, "most": 3.0})
    loss, figures = heads.loss({0: states}, labels)
    each = {}
    for name, count in CLASSES.items():
        rows = labels[name] >= 0
        head = heads.heads[f"0:{name}"]
        scores = (states[rows] @ head.weight.T + head.bias).detach().double().numpy()
        chances = extmath.softmax(scores)
        truth = labels[name][rows].numpy()
        each[name] = metrics.log_loss(truth, chances, labels=range(count))
        right = metrics.accuracy_score(truth, chances.argmax(1))
        assert figures[f"probe/{name}/loss"] == pytest.approx(each[name], rel=1e-5)
        assert figures[f"probe/{name}/accuracy"] == pytest.approx(right)
    assert loss.item() == pytest.approx((each["dominant"] + 3 * each["most"]) / 4, rel=1e-5)
