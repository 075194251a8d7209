"""Counterfactual theory of mind: pairs of stories that differ in who saw one thing.

One object goes from place to place, seen by some, overseen by others, claimed, faked. The question
nests beliefs: "where does Ana think Bo thinks the stamp is?" docs/tom.md has the rules. One
pair, as drawn for the split ``train`` (order 2):

>>> from harness_plugins.tasks.counterfactual_tom.data import Source, draw
>>> observed, hidden = draw(Source("strict"), "train", 2, 0)
>>> observed.data["question"] == hidden.data["question"]
True
>>> observed.truth["answer"] == hidden.truth["answer"]
False
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness import hookimpl

if TYPE_CHECKING:
    from harness.types import Json

    from .task import CounterfactualToM


@hookimpl
def create_task(name: str, options: Mapping[str, Json]) -> CounterfactualToM:
    """Make the task. Raises HarnessError for an option that does not exist."""
    from .task import CounterfactualToM

    return CounterfactualToM(options)
