"""An episode shown move by move: the positions replayed agree with how it ended."""

from __future__ import annotations

import pytest

from harness_plugins.tasks.gtbench.task import GTBench


@pytest.fixture
def shown(roll):
    """``shown(options)``: (outcome, its steps) of each episode between random players."""

    def shown(options):
        task = GTBench(options)
        for sample, outcome in roll(options):
            (steps,) = task.exhibits(sample, outcome)
            yield outcome, steps

    return shown


def test_every_game_is_shown_to_its_end(shown):
    games = set()
    for outcome, steps in shown({"pairs": 2}):
        data = outcome.data
        games.add(data["game"])
        assert len(steps.steps) == len(data["line"]) + 1
        labels = [step.label.partition(": ")[2] for step in steps.steps[1:]]
        assert labels == [move or "gives up" for _, move, _, _ in data["line"]]
        for seat, value in enumerate(outcome.returns):
            assert f"seat {seat} ({'model' if seat == data['model_seat'] else 'opponent'}) " in (
                steps.note
            )
            assert f"{value:g}" in steps.note
        assert steps.steps[0].board
    assert len(games) == 10


def test_a_won_grid_shows_three_in_a_row(shown):
    """Read from the last board alone."""
    wins = 0
    for outcome, steps in shown({"games": ["tictactoe"], "pairs": 10}):
        rows = [line.split()[1:] for line in steps.steps[-1].board.splitlines()[2:]]
        lines = [*rows, *zip(*rows, strict=True)]
        lines += [[rows[i][i] for i in range(3)], [rows[i][2 - i] for i in range(3)]]
        full = {mark for mark in "XO" if any(set(line) == {mark} for line in lines)}
        first, second = outcome.returns
        assert full == ({"X"} if first > second else {"O"} if second > first else set())
        wins += bool(full)
    assert wins > 5


def test_both_hands_are_shown_where_cards_are_hidden(shown):
    for _, steps in shown({"games": ["kuhn_poker"], "pairs": 2}):
        assert steps.steps[0].board.startswith("Seat 0:\nYour card is the ")
        assert "Seat 1:\nYour card is the " in steps.steps[0].board
