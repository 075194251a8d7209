"""The driver of a job of self-distillation: that of GRPO with another trainer in it.

python -m harness_plugins.trainers.verl.opsd_process JOB_FOLDER/process.json
"""

from __future__ import annotations

import sys
from typing import Any

from .grpo_process import Runner, main


class Distilling(Runner):
    """The runner with the trainer of self-distillation."""

    def policy(self, config: Any) -> Any:
        """The trainer."""
        from .opsd_policy import Distil

        return Distil(config)


if __name__ == "__main__":
    main(sys.argv[1], Distilling)
