"""Checks that plugins of every kind go through: the entry, and what an import costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..registry import convert
from ..types import HarnessError
from .kit import Finding, Kit, Steps

HEAVY = (
    "torch", "transformers", "vllm", "tensorflow", "jax", "verl", "ray", "numpy", "scipy", "pandas",
    "pyarrow", "sklearn", "matplotlib", "openai", "rich",
)  # fmt: skip
SLOW = 2.0
"""Seconds of CPU time that importing and making a plugin may take."""

PROBE = """
import json, sys, time
from pathlib import Path
from harness.registry import Registry, load_module
from harness.types import HarnessError
asked = json.loads(sys.argv[1])
registry = Registry.load(Path(asked["registry"]) if asked["registry"] else None)
entry = registry.entry(asked["kind"], asked["name"])
began = time.process_time()
load_module(entry)
if asked["make"]:
    registry.create(entry.kind, entry.name, asked["options"])
seconds = time.process_time() - began
print(json.dumps([seconds, [name for name in asked["heavy"] if name in sys.modules]]))
"""


def registered(kit: Kit) -> Steps:
    """The entry: a summary, options whose defaults stay what they are, the hook."""
    entry = kit.entry
    if not entry.summary:
        yield Finding("the entry has no summary", 'add summary = "..." in registry.toml')
    silent = [name for name, option in entry.options.items() if not option.help]
    if silent and entry.source != "built in":
        yield Finding(
            f"options without help: {', '.join(silent)}", 'write help = "..." for each of them'
        )
    for name, option in entry.options.items():
        try:
            same = convert(option.default, option.default, name) == option.default
        except HarnessError:
            same = False
        if not same:
            yield Finding(
                f"the default of option {name} does not read back as itself",
                "use a truth value, a number, a text, a list of texts or a table",
            )
    if not hasattr(kit.module, f"create_{entry.kind}"):
        yield Finding(
            f"{entry.module} has no create_{entry.kind}",
            f"define it there, marked @hookimpl: def create_{entry.kind}(name, options)",
        )
    yield f"{entry.module} ({entry.source}), {len(entry.options)} options"


def own_options(kit: Kit) -> Finding | None:
    """The object's options are the registry's: a part of them may be for something else (a judge),
    but none may be unknown there, and an object without any forgot to take them."""
    made, entry = kit.made(), kit.entry
    unknown = sorted(set(made.options) - set(entry.options))
    if unknown or (entry.options and not made.options):
        return Finding(
            f"it has the options {', '.join(sorted(made.options)) or 'none'}, the registry "
            f"{', '.join(sorted(entry.options)) or 'none'}",
            f"pass the options of create_{entry.kind} to super().__init__ as they come: they are "
            "part of what a run is",
        )
    return None


def imports(kit: Kit) -> Steps:
    """Importing the module and making the object loads nothing heavy, and is quick.

    A model's module is imported when the model is asked for, and may load what it runs on then.
    """
    entry = kit.entry
    make = entry.kind != "model"  # making a model loads its weights
    found = probe(kit, PROBE, {"make": make, "heavy": HEAVY})
    seconds, heavy = found
    if not make:
        loaded = f", with {', '.join(heavy)}" if heavy else ""
        yield f"{seconds:.2f} s of CPU time{loaded}"
        return
    if heavy:
        yield Finding(
            f"making it loads {', '.join(heavy)}",
            "import them inside the function that needs them: `harness list`, --help and other "
            "plugins pay for it",
        )
    if seconds > SLOW:
        yield Finding(
            f"importing and making it takes {seconds:.1f} s of CPU time",
            "leave reading and building to samples() or the first request",
        )
    yield f"{seconds:.2f} s of CPU time"


def probe(kit: Kit, script: str, more: dict[str, Any], hash_seed: str = "random") -> Any:
    """What a script prints as JSON in a fresh process. Raises HarnessError when it fails."""
    asked = {
        "kind": kit.entry.kind,
        "name": kit.entry.name,
        "options": dict(kit.options),
        "registry": str(kit.registry_file.absolute()) if kit.registry_file else "",
        **more,
    }
    package = str(Path(__file__).resolve().parents[2])
    search = os.pathsep.join([package, *(p for p in sys.path if p and p != package)])
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(asked)],
        env={**os.environ, "PYTHONPATH": search, "PYTHONHASHSEED": hash_seed},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it was killed"])[-1]
        raise HarnessError(f"in a process of its own: {last[:300]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
