"""A Ray cluster that is there already (RAY_ADDRESS) is joined as it is; else one is made."""

from __future__ import annotations

import json

import pytest
from train_jobs import missing

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(bool(missing()), reason=missing() or "verl is there"),
]


@pytest.mark.parametrize("address", ["", "127.0.0.1:6379"])
def test_what_ray_is_told(tmp_path, monkeypatch, address):
    from harness.registry import Registry
    from harness_plugins.trainers.verl import grpo_process
    from harness_plugins.trainers.verl.settings import Place, grpo_overrides

    registry = Registry.load()
    options = registry.options(registry.entry("trainer", "grpo"), {"gpus": 0, "micro_batch": 4})
    place = Place(tmp_path, tmp_path / "base", 0, 1)
    overrides = grpo_overrides(place, options, 64)
    path = tmp_path / "process.json"
    path.write_text(json.dumps({"device": "cpu", "overrides": overrides}))
    asked = {}
    monkeypatch.setattr("verl.utils.config.validate_config", lambda **_: None)
    monkeypatch.setattr(
        grpo_process, "run_ppo", lambda config, **_: asked.update(config.ray_kwargs.ray_init)
    )
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    grpo_process.main(str(path))
    sized = {name for name in ("num_cpus", "num_gpus", "object_store_memory") if asked.get(name)}
    assert sized == (set() if address else {"num_cpus", "num_gpus", "object_store_memory"})
