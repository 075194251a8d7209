"""Evaluate and train language models on game theory and theory of mind, honestly and fast.

    import harness
    run = harness.run(task="gamesolve", model="smollm2", limit=20)
    run.metrics, run.to_pandas()

Importing this package loads neither numpy, asyncio nor any plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .hookspecs import hookimpl
from .types import HarnessError

if TYPE_CHECKING:
    from .api import load, run

__version__ = "0.1.0"
__all__ = ["HarnessError", "__version__", "hookimpl", "load", "run"]


def __getattr__(name: str) -> Any:
    if name in ("load", "run"):
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
