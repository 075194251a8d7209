"""Fixtures for the tests of plugins; pytest finds them wherever the harness is installed.

    def test_it_keeps_the_rules(conformance):
        conformance("task", "rps-memory")

    def test_a_refusal_pays_nothing(rollout):
        outcome, score = rollout("rps-memory", ["I will not play."])
        assert score.value == 0

    def test_the_ceiling_is_above_the_floor(mean_score):
        assert mean_score("rps-memory", "oracle") > mean_score("rps-memory", "random")

Each takes ``registry=FILE`` for a plugin that is not installed, and ``options={...}``. A check that
does not apply may be left out by name: ``conformance("task", NAME, without=["constants"])``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conformance.kit import Kit
    from .types import Json, Outcome, Score


@pytest.fixture
def conformance() -> Callable[..., None]:
    """Fails with every finding of `harness check`, and what to do about it."""

    def check(
        kind: str,
        name: str,
        registry: str | Path | None = None,
        options: Mapping[str, Json] | None = None,
        without: Sequence[str] = (),
        **more: Any,
    ) -> None:
        __tracebackhide__ = True
        from .conformance.run import CHECKS, Asked, check
        from .registry import Registry

        file = Path(registry) if registry is not None else None
        only = tuple(each for each in CHECKS[kind] if each not in without)
        asked = Asked(options=options, only=only, registry_file=file, **more)
        [report] = check(name, Registry.load(file), asked, kind)
        lines = [
            f"{result.check}: {finding.text}\n    -> {finding.advice}"
            for result in report.results
            for finding in result.findings
        ]
        if lines:
            pytest.fail("\n".join([f"{kind} {name}: {report.found} findings", *lines]), False)

    return check


@pytest.fixture
def rollout() -> Callable[..., tuple[Outcome, Score]]:
    """Plays one sample with given replies in the model's seat; the last one is repeated.

    ``sample`` names one by its id (default: the first of the split that runs evaluate).
    """

    def play(
        task: str,
        replies: Sequence[str],
        sample: str = "",
        registry: str | Path | None = None,
        options: Mapping[str, Json] | None = None,
    ) -> tuple[Outcome, Score]:
        import asyncio

        from .conformance.table import Table

        kit = _kit(task, registry, options)
        table = Table.of(kit)
        chosen = next((s for s in table.samples if sample in ("", s.id)), None)
        assert chosen is not None, f"{task} has no sample {sample!r} among its first {kit.limit}"
        outcome = asyncio.run(table.rollout(chosen, _in_turn(replies)))
        assert outcome is not None, "the opponent cannot play this sample"
        return outcome, table.reward.score(chosen, outcome)

    return play


@pytest.fixture
def mean_score() -> Callable[..., float]:
    """The mean score of a reference player over the first samples."""

    def mean(
        task: str,
        player: str,
        registry: str | Path | None = None,
        options: Mapping[str, Json] | None = None,
    ) -> float:
        from .conformance.table import Table

        found = Table.of(_kit(task, registry, options)).mean(player)
        assert found is not None, f"{task} has no player {player!r} for these samples"
        return found

    return mean


def _kit(task: str, registry: str | Path | None, options: Mapping[str, Json] | None) -> Kit:
    from .conformance.kit import Kit
    from .registry import Registry

    loaded = Registry.load(Path(registry) if registry is not None else None)
    return Kit(loaded, loaded.entry("task", task), dict(options or {}))


def _in_turn(replies: Sequence[str]) -> Callable[..., Any]:
    """A player's factory: the replies one after the other."""
    from .player import FixedPlayer

    def make(seat: Any) -> FixedPlayer:
        left = list(replies)
        return FixedPlayer(lambda turn: left.pop(0) if len(left) > 1 else left[0])

    return make
