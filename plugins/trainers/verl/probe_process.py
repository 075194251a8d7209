"""The driver of a GRPO job with a probe loss: that of GRPO with another trainer in it.

python -m harness_plugins.trainers.verl.probe_process JOB_FOLDER/process.json
"""

from __future__ import annotations

import sys
from typing import Any

from .grpo_process import Runner, main


class Probing(Runner):
    """The runner with the trainer that has heads."""

    def policy(self, config: Any) -> Any:
        """The trainer."""
        from .probe_policy import ProbePolicy

        return ProbePolicy(config)


if __name__ == "__main__":
    main(sys.argv[1], Probing)
