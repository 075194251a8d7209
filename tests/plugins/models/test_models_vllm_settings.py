"""What the vLLM back end decides before an engine starts; needs neither vLLM nor a GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tiny_models import tiny_checkpoint, tiny_tokenizer

from harness.registry import Registry
from harness.types import HarnessError
from harness_plugins.models import vllm, vllm_device
from harness_plugins.models.vllm_checkpoint import checkpoint
from harness_plugins.models.vllm_device import Gpu
from harness_plugins.models.vllm_engine import Start
from harness_plugins.models.vllm_server import served
from harness_plugins.models.vllm_thinking import Thinking
from harness_plugins.models.vllm_words import Words

GIB = 2**30
H200 = Gpu(0, "NVIDIA H200", "580.159.04", 140 * GIB, 139 * GIB)
OLD = Gpu(0, "NVIDIA A100", "535.183.01", 80 * GIB, 79 * GIB)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


def start(folder, context=512, **options):
    options = {**vllm.DEFAULTS, **options}
    return Start.of(checkpoint(str(folder), options), options, context)


def test_the_registry_and_the_back_end_name_the_same_options():
    entry = Registry.load().entry("model", "vllm")
    declared = {name: option.default for name, option in entry.options.items()}
    assert declared == dict(vllm.DEFAULTS)
    assert entry.handles == ("folder", "hub")
    assert set(declared) >= vllm.VllmModel.incidental


def test_without_vllm_a_checkpoint_goes_to_transformers(folder, monkeypatch):
    monkeypatch.setattr(vllm_device, "installed", lambda: "")
    assert Registry.load().for_model(str(folder))[0].name == "transformers"
    monkeypatch.setattr(vllm_device, "installed", lambda: "vllm 0.24.0")
    monkeypatch.setattr(vllm_device, "gpus", lambda: [])
    assert Registry.load().for_model(str(folder))[0].name == "transformers"
    monkeypatch.setattr(vllm_device, "gpus", lambda: [H200])
    assert Registry.load().for_model(str(folder))[0].name == "vllm"


def test_a_missing_vllm_says_what_to_install(folder, monkeypatch):
    monkeypatch.setattr(vllm_device, "installed", lambda: "")
    with pytest.raises(HarnessError, match=r"'vllm'.*pip install 'strategic-harness\[vllm\]'"):
        Registry.load().create("model", "vllm", {}, str(folder))
    with pytest.raises(HarnessError, match="which checkpoint"):
        Registry.load().create("model", "vllm", {}, "vllm")


# The driver


def fake_smi(tmp_path, monkeypatch, table):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{table}\nEND\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_gpus_are_read_from_the_drivers_own_tool(tmp_path, monkeypatch):
    table = "0, NVIDIA H200, 580.159.04, 143771, 143158\n1, NVIDIA H200, 580.159.04, 143771, [N/A]"
    fake_smi(tmp_path, monkeypatch, table)
    found = vllm_device.gpus()
    assert [(gpu.index, gpu.driver_major) for gpu in found] == [(0, 580), (1, 580)]
    assert found[0].free == 143158 * 2**20
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert vllm_device.gpus() == []


@pytest.mark.parametrize(
    ("found", "needed", "cuda", "said"),
    [
        ([H200], 1, "13.0", ""),
        ([OLD], 1, "12.8", ""),
        ([], 1, "13.0", "no NVIDIA GPU is visible"),
        ([H200], 2, "13.0", "2 GPUs were asked for and 1 are visible"),
        ([OLD], 1, "13.0", "driver 535.183.01 is too old for CUDA 13.*constraints-gpu-cu12.txt"),
        ([H200], 1, None, "CPU build"),
    ],
)
def test_what_is_missing_is_one_line(found, needed, cuda, said):
    line = vllm_device.what_is_missing(found, needed, cuda)
    assert "\n" not in line
    assert bool(line) == bool(said)
    import re

    assert re.search(said, line)


def test_memory_that_others_hold_is_left_to_them_and_a_model_that_does_not_fit_is_named():
    assert vllm_device.memory_share([H200], 0.9, GIB) == (0.9, "")
    busy = H200._replace(free=70 * GIB)
    share, trouble = vllm_device.memory_share([busy], 0.9, GIB)
    assert share == pytest.approx(69.5 / 140)
    assert not trouble
    _, trouble = vllm_device.memory_share([busy], 0.9, 72 * GIB)
    assert "the weights take 72.0 GiB" in trouble
    assert "tensor_parallel" in trouble


def test_the_context_is_what_fits_beside_the_weights():
    # 80 GiB x 0.9 x 0.9 - 60 GiB - 1 GiB = 3.8 GiB at 1 MiB a token
    assert vllm_device.context_that_fits([OLD], 0.9, 60 * GIB, 2**20) == 3891
    assert vllm_device.context_that_fits([OLD], 0.9, 60 * GIB, 0) == 0
    assert vllm_device.context_that_fits([], 0.9, 60 * GIB, 2**20) == 0


def test_doctor_reads_the_driver_first_and_names_the_packages_for_it(tmp_path, monkeypatch):
    fake_smi(tmp_path, monkeypatch, "0, NVIDIA A100, 535.183.01, 81920, 81000")
    monkeypatch.setattr(vllm_device, "installed", lambda: "")
    first, second = vllm_device.findings()
    assert first[0] == "GPU driver"
    assert first[1]
    assert "CUDA 12" in first[2]
    assert "constraints-gpu-cu12.txt" in second[2]


# The engine's arguments


def test_arguments_leave_nothing_to_the_checkpoint(folder):
    given = start(folder, tensor_parallel=2, max_num_seqs=64, engine_args='{"block_size": 32}')
    arguments = given.arguments
    assert arguments["generation_config"] == "vllm"
    assert arguments["trust_remote_code"] is False
    assert arguments["load_format"] == "safetensors"
    assert (arguments["tensor_parallel_size"], given.gpus) == (2, 2)
    assert (arguments["max_num_seqs"], arguments["block_size"]) == (64, 32)
    assert arguments["max_model_len"] == 512


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tensor_parallel": 0}, "tensor_parallel must be at least 1"),
        ({"gpu_memory": 1.5}, "gpu_memory"),
        ({"engine_args": "{"}, "not valid JSON"),
        ({"engine_args": "[1]"}, "JSON object"),
        ({"engine_args": '{"trust_remote_code": true}'}, "stays off"),
        ({"lora": "nowhere"}, "is no adapter"),
    ],
)
def test_bad_options_are_one_line(folder, options, said):
    with pytest.raises(HarnessError, match=said):
        start(folder, **options)


def test_identity_names_weights_adapter_and_quantisation(folder, tmp_path):
    plain = checkpoint(str(folder), {})
    assert plain.identity.startswith("tiny-")
    assert plain.identity.endswith("+vllm")
    adapter = tmp_path / "louder"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 12}))
    layer = "base_model.model.model.layers.0.self_attn.q_proj"
    pair = {"A": torch.zeros(12, 64), "B": torch.zeros(64, 12)}
    state = {f"{layer}.lora_{x}.weight": matrix for x, matrix in pair.items()}
    save_file(state, adapter / "adapter_model.safetensors")
    with_adapter = checkpoint(str(folder), {"lora": str(adapter)})
    assert with_adapter.rank == 12
    assert with_adapter.name == "tiny+louder"
    assert "+louder-" in with_adapter.identity
    assert start(folder, lora=str(adapter)).arguments["max_lora_rank"] == 16
    assert "+fp8+" in checkpoint(str(folder), {"quantization": "fp8"}).identity


def test_dummy_weights_need_a_configuration_only_and_are_named_so(folder, tmp_path):
    shape = tmp_path / "shape"
    shape.mkdir()
    (shape / "config.json").write_text((folder / "config.json").read_text())
    found = checkpoint(str(shape), {"load_format": "dummy"})
    assert found.identity.startswith("dummy-")
    # Two layers: q and o 64 x 64, k and v 64 x 32, three of 64 x 96; embeddings 260 x 64 twice.
    assert found.weight_bytes == 2 * (2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96) + 2 * 260 * 64)
    assert found.cache_bytes == 2 * 2 * 2 * 2 * 16  # keys and values, layers, heads, width, bytes
    with pytest.raises(HarnessError, match=r"no config\.json"):
        checkpoint(str(tmp_path / "nothing"), {"load_format": "dummy"})


def test_the_server_gets_the_engines_settings(folder):
    made = served(start(folder, enforce_eager=True, gpu_memory=0.5), ["--port", "9000"], False)
    line = " ".join(made.command)
    assert made.name == "tiny"
    assert f"serve {folder} --served-model-name tiny " in line
    for flag in (
        "--generation-config vllm",
        "--enforce-eager",
        "--gpu-memory-utilization 0.5",
        "--max-model-len 512",
        "--no-trust-remote-code",
        "--port 9000",
    ):
        assert flag in line
    assert made.environment.get("VLLM_NO_USAGE_STATS", "1") == "1"
    assert "VLLM_LOGGING_LEVEL" not in made.environment


def test_the_verb_prints_the_command(folder, harness_command):
    done = harness_command("serve", folder, "--print", "--port", "81", "--", "--api-server-count=2")
    assert done.returncode == 0, done.stderr
    assert "--host 127.0.0.1 --port 81 --api-server-count=2" in done.stdout
    done = harness_command("serve", folder, "--print", "--model-set", "gpu_memori=1")
    assert done.returncode == 2
    assert "did you mean gpu_memory" in done.stderr


# Thinking


def thinking(**changes):
    settings = {"reasoning_budget": 4, "reasoning_end": "q", "reasoning_parser": ""}
    return Thinking.of(tiny_tokenizer(), {**settings, **changes})


def test_thoughts_are_closed_only_where_they_must_be():
    made = thinking()
    end = made.stops[0]
    assert made.closed([9, 8, end], cut=False) == (9, 8, end)
    assert made.closed([9, 8, 7, 6], cut=True) == (9, 8, 7, 6, *made.forced)
    assert made.closed([9, 2], cut=False) == ()
    assert made.most == 4 + len(made.forced)
    assert made.shown("so q") == "so q"
    assert made.shown("so ") == "so q"


def test_an_end_of_thoughts_must_be_one_token():
    with pytest.raises(HarnessError, match="no single token"):
        thinking(reasoning_end="</think>")
    assert thinking(reasoning_budget=0, reasoning_end="</think>").most == 0


# Words and processes


def test_the_line_that_says_why_is_found_among_the_traces():
    words = Words()
    script = (
        "import sys\n"
        "print('(Worker pid=1) ERROR 12-01 [x.py:1] ValueError: no memory is left', "
        "file=sys.stderr)\n"
        "print('Exception: WorkerProc initialization failed due to an exception in a background"
        " process. See stack trace for root cause.', file=sys.stderr)\n"
    )
    with pytest.raises(RuntimeError), words:  # noqa: PT012
        subprocess.run([sys.executable, "-c", script], check=True)
        raise RuntimeError("Engine core initialization failed. See root cause above.")
    assert words.reason() == "ValueError: no memory is left"


def test_the_reason_is_the_line_that_says_what_is_wrong():
    from harness_plugins.models.vllm_engine import _reason

    pydantic = ValueError(
        "1 validation error for ModelConfig\nquantization\n"
        "  Value error, Unknown method: odd [type=value_error, input_value={}]\n    For more"
    )
    assert _reason(pydantic) == "Unknown method: odd"
    assert _reason(RuntimeError("no room is left\nmore")) == "no room is left"
    assert _reason(RuntimeError()) == "RuntimeError"


def test_words_after_the_start_pass_through(capfd):
    with Words() as words:
        os.write(2, b"starting\n")
        late = subprocess.Popen(["sh", "-c", "sleep 0.5; echo later >&2"])
    late.wait()
    until = time.monotonic() + 5
    said = ""
    while "later" not in said and time.monotonic() < until:
        said += capfd.readouterr().err
        time.sleep(0.05)
    assert "later" in said
    assert "starting" not in said
    assert words.reason() == ""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
def test_the_engine_ends_with_a_run_that_is_killed():
    script = (
        "import subprocess, sys, time\n"
        "from harness_plugins.models.vllm_guard import Guard\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "guard = Guard([child.pid])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    engine = int(run.stdout.readline())
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    until = time.monotonic() + 20
    while _runs(engine) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(engine)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_engines_that_share_a_gpu_are_told_their_cache(monkeypatch, tmp_path):
    """vLLM measures what is free while it starts, and would count the other engine's as its own."""
    import types

    import torch

    from harness_plugins.models import vllm_engine
    from harness_plugins.models.vllm_device import Gpu

    gpu = Gpu(0, "NVIDIA H200", "580.1", 140 * 2**30, 120 * 2**30)
    monkeypatch.setattr(vllm_engine.vllm_device, "gpus", lambda: [gpu])
    platforms = types.ModuleType("vllm.platforms")
    platforms.current_platform = types.SimpleNamespace(is_cpu=lambda: False)
    monkeypatch.setitem(sys.modules, "vllm", types.ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    found = types.SimpleNamespace(weight_bytes=2**30, cache_bytes=20_000)
    arguments = {"gpu_memory_utilization": 0.225}
    alone = vllm_engine.Start(found, arguments, {}, 1, fit=False)
    assert "kv_cache_memory_bytes" not in vllm_engine.prepare(alone)
    shared = vllm_engine.prepare(vllm_engine.Start(found, arguments, {}, 1, False, shared=True))
    expected = 0.225 * 140 * 2**30 - 1.1 * 2**30 - vllm_engine.WORKING
    assert shared["kv_cache_memory_bytes"] == pytest.approx(expected, abs=2)


def test_memory_that_moves_while_an_engine_starts_is_no_end(monkeypatch):
    """Seen where another process ended meanwhile: vLLM asserts that what is free shrinks."""
    from harness_plugins.models import vllm_engine

    tried = []

    def start(what, arguments):
        tried.append(what.shared)
        if not what.shared:
            raise HarnessError("vLLM cannot start: AssertionError: Error in memory profiling. ...")
        return "engine"

    monkeypatch.setattr(vllm_engine, "_start", start)
    monkeypatch.setattr(vllm_engine, "prepare", lambda what, needed: what.arguments)
    assert vllm_engine.start_engine(Start(None, {}, {}, 1, fit=False)) == "engine"
    assert tried == [False, True]
