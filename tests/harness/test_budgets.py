"""Start-up, overhead and memory stay within their budgets, in CPU seconds with slack."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SLACK = 1.8
"""Times that a busy machine may add: its caches are shared, too."""


@pytest.fixture
def overhead(monkeypatch):
    if not (BENCHMARKS / "overhead.py").is_file():
        pytest.skip("the benchmarks lie in a checkout only")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import overhead

    return overhead


@pytest.mark.parametrize(("arguments", "seconds"), [(["--help"], 0.15), (["list"], 0.3)])
def test_the_command_starts_in_time(overhead, arguments, seconds):
    assert min(overhead.measure(arguments).cpu for _ in range(3)) <= SLACK * seconds


def test_a_sample_costs_a_tenth_of_a_millisecond_and_memory_is_flat(overhead, tmp_path):
    samples = 20_000
    task = ["--task", "echo-task", "--model", "echo", "--set", f"size={samples}"]
    task += ["--registry", str(BENCHMARKS / "registry.toml")]
    few = overhead.run_cost(task, samples // 10, tmp_path)
    every = overhead.run_cost(task, samples, tmp_path)
    assert every.peak_mb <= 120
    assert (every.cpu - few.cpu) / (0.9 * samples) * 1000 <= SLACK * 0.1


def test_the_clock_is_a_real_one(overhead):
    """A process that works for half a second and holds 60 MB is seen to."""
    code = "import time\nx = bytearray(60_000_000)\nwhile time.process_time() < 0.5: pass"
    cost = overhead.measure_command([sys.executable, "-c", code])
    assert 0.5 <= cost.cpu < 2.0
    assert 60 <= cost.peak_mb < 150
