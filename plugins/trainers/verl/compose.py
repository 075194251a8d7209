"""verl's configuration, composed as its own entry points do it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def compose(name: str, overrides: Sequence[str]) -> Any:
    """verl's configuration ``name`` with these overrides. Raises what Hydra raises."""
    import verl
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(config_dir=str(folder), version_base=None):
        return hydra_compose(name, overrides=list(overrides))
