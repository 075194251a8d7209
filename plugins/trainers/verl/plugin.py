"""The door by which verl loads this package in every process of its own (entry point
``verl.plugins``). Only a platform is registered here, so that importing verl stays cheap; engines,
rollouts and trainers are registered by the processes that use them (`engines`, `policy`).
"""

from __future__ import annotations

import os

if os.environ.get("VERL_PLATFORM") == "cpu":
    from . import platform as _platform  # noqa: F401  (registers itself)
