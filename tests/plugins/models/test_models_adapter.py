"""Adapters at run time against peft's own model, and the ones that must be refused."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import tiny_checkpoint

from harness.types import Decoding, HarnessError, Message, Request
from harness_plugins.models.adapter import read_adapter
from harness_plugins.models.checkpoint import Found, weights_hash
from harness_plugins.models.transformers import TransformersModel

A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return Found(tiny_checkpoint(tmp_path_factory.mktemp("adapters") / "tiny"), "tiny")


@pytest.fixture
def adapter(base, tmp_path):
    """A folder as peft leaves it, without peft: rank 4 on the queries of both layers."""
    folder = tmp_path / "louder"
    folder.mkdir()
    torch.manual_seed(0)
    layers = [f"base_model.model.model.layers.{n}.self_attn.q_proj" for n in (0, 1)]
    save_file(
        {f"{layer}.lora_{x}.weight": torch.randn((4, 64) if x == "A" else (64, 4))
         for layer in layers for x in "AB"},
        folder / "adapter_model.safetensors",
    )  # fmt: skip
    change(folder, peft_type="LORA", r=4, lora_alpha=8, target_modules=["q_proj"], bias="none",
           task_type="CAUSAL_LM", base_model_name_or_path=str(base.folder))  # fmt: skip
    return folder


def change(folder, **values):
    path = folder / "adapter_config.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **values}))


def refused(folder, base):
    with pytest.raises(HarnessError) as told:
        read_adapter(str(folder), base)
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.mark.parametrize("stabilised", [False, True])
def test_an_adapted_model_says_what_pefts_says(base, adapter, stabilised):
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    change(adapter, use_rslora=stabilised)
    ours = TransformersModel(base, {"dtype": "float32", "lora": str(adapter)})
    plain = AutoModelForCausalLM.from_pretrained(base.folder, dtype=torch.float32)
    ids = torch.tensor([[1, 3, 50, 60, 70]])
    with torch.no_grad():
        untouched = plain(ids).logits
        wanted = peft.PeftModel.from_pretrained(plain, adapter)(ids).logits
        found = ours.model(ids).logits
    assert torch.allclose(found, wanted, atol=1e-4)
    assert not torch.allclose(found, untouched, atol=1e-2)


def test_identity_names_the_adapter_and_replies_differ(base, adapter):
    plain = TransformersModel(base, {"dtype": "float32"})
    ours = TransformersModel(base, {"dtype": "float32", "lora": str(adapter)})
    assert ours.identity == f"{plain.identity}+louder-{weights_hash(adapter)[:12]}"
    assert (plain.name, ours.name) == ("tiny", "tiny+louder")
    request = Request((Message("user", "hi"),), Decoding(max_tokens=8), 0)
    said = [model.generate_batch([request])[0].ids for model in (plain, ours)]
    assert said[0] != said[1]


def test_an_adapter_of_another_base_by_its_record(base, adapter):
    digits = weights_hash(base.folder)[:12]
    record = adapter / "training.json"
    record.write_text(json.dumps({"base": {"identity": f"tiny-{digits}"}}))
    assert read_adapter(str(adapter), base).rank == 4
    record.write_text(json.dumps({"base": {"identity": "qwen@3-0123456789ab"}}))
    told = refused(adapter, base)
    assert f"was trained on qwen@3-0123456789ab, not on tiny-{digits}" in told


def test_an_adapter_of_another_base_by_its_shapes(base, adapter, tmp_path):
    wide = Found(tiny_checkpoint(tmp_path / "wide", hidden_size=32), "wide")
    told = refused(adapter, wide)
    assert "another base than wide: model.layers.0.self_attn.q_proj is 64 x 64 for it" in told
    assert "32 x 32 there" in told
    shallow = Found(tiny_checkpoint(tmp_path / "shallow", num_hidden_layers=1), "shallow")
    assert "model.layers.1.self_attn.q_proj is 64 x 64 for it, and no such layer" in refused(
        adapter, shallow
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"peft_type": "IA3"}, "an adapter of the kind IA3"),
        ({"r": 0}, "has the rank 0"),
        ({"r": True}, "has the rank True"),
        ({"r": "8"}, "has the rank '8'"),
        ({"use_dora": True}, "uses use_dora"),
        ({"modules_to_save": ["lm_head"]}, "uses modules_to_save"),
        ({"bias": "all"}, "also holds biases"),
    ],
)
def test_adapters_of_other_kinds(base, adapter, changes, said):
    change(adapter, **changes)
    assert said in refused(adapter, base)


def test_folders_that_are_no_adapter(base, adapter, tmp_path):
    assert "is no adapter" in refused(tmp_path / "nowhere", base)
    state = load_file(adapter / "adapter_model.safetensors")
    save_file({**state, "score.weight": state[A].clone()}, adapter / "adapter_model.safetensors")
    assert "holds score.weight" in refused(adapter, base)
    (adapter / "adapter_model.safetensors").write_bytes(b"x" * 9)
    assert "cannot be read" in refused(adapter, base)
    (adapter / "adapter_config.json").write_text("{")
    assert "is no adapter" in refused(adapter, base)


def test_the_command_refuses_in_one_line(base, adapter, tmp_path, harness_command):
    wide = tiny_checkpoint(tmp_path / "wide", hidden_size=32)
    done = harness_command(
        "run", "--task", "copy", "--model", str(wide), "--model-set", f"lora={adapter}",
        "--limit", "1", "--quiet",
    )  # fmt: skip
    assert done.returncode == 2
    assert "is an adapter of another base than wide" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
