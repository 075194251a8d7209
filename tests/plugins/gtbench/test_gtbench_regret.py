"""Move regret against independent solvers."""

from __future__ import annotations

from random import Random

import pyspiel
import pytest

from harness_plugins.tasks.gtbench.regret import LATE, PHASES, decisions, figures, four
from harness_plugins.tasks.gtbench.replay import steps


def plain_value(state):
    """Minimax without any cleverness, to the player to move."""
    if state.is_terminal():
        return None
    player = state.current_player()
    values = []
    for action in state.legal_actions():
        after = state.child(action)
        if after.is_terminal():
            values.append(after.returns()[player])
        else:
            values.append(-plain_value(after))
    return max(values)


def test_connect_four_from_late_positions_is_solved_as_by_plain_minimax():
    rng, game, seen = Random(5), pyspiel.load_game("connect_four"), set()
    for _ in range(4000):
        state = game.new_initial_state()
        while not state.is_terminal() and len(state.history()) < 42 - 6:
            state.apply_action(rng.choice(state.legal_actions()))
        if state.is_terminal():
            continue
        value = four(tuple(state.history()))
        assert value == plain_value(state)
        seen.add(value)
        if len(seen) == 3:
            break
    assert seen == {1, 0, -1}


def test_a_finished_connect_four_is_lost_for_the_player_to_move():
    assert four((0, 1, 0, 1, 0, 1, 0)) == -1
    assert four((0, 1, 0, 1, 0, 1)) == 1


@pytest.mark.parametrize("key", ["tictactoe", "nim", "pig"])
def test_perfect_players_have_no_regret_and_random_ones_have(roll, key):
    found = roll({"games": [key], "pairs": 40}, "perfect", "random")
    rows = [d for _, outcome in found for d in decisions(outcome.data)]
    assert rows
    assert all(d.optimal for d in rows)
    found = roll({"games": [key], "pairs": 40}, "random", "random")
    rows = [d for _, outcome in found for d in decisions(outcome.data)]
    share = sum(d.optimal for d in rows) / len(rows)
    expected = sum(d.random for d in rows) / len(rows)
    assert share == pytest.approx(expected, abs=0.1)
    assert sum(d.loss for d in rows) / len(rows) == pytest.approx(
        sum(d.random_loss for d in rows) / len(rows), abs=0.15
    )
    assert {d.phase for d in rows} <= set(PHASES)


@pytest.mark.parametrize("key", ["tictactoe", "nim"])
def test_losses_are_those_of_plain_minimax(roll, key):
    found = roll({"games": [key], "pairs": 12, "openings": 4}, "random", "random")
    for _, outcome in found:
        own = [s for s in steps(outcome.data) if s.seat == outcome.data["model_seat"]]
        asked = [s for s in own if s.how == "asked"]
        for step, decision in zip(asked, decisions(outcome.data), strict=True):
            state = step.position.state
            after = state.child(step.action)
            over = after.is_terminal()
            kept = after.returns()[step.seat] if over else -plain_value(after)
            assert decision.loss == pytest.approx(plain_value(state) - kept)


def test_giving_up_loses_all_that_is_there(roll, saying):
    found = roll({"games": ["nim"], "pairs": 6, "retries": 0}, lambda seat: saying("?"), "perfect")
    rows = [d for _, outcome in found for d in decisions(outcome.data)]
    assert {d.loss for d in rows} <= {0.0, 2.0}
    assert all(d.loss == 2.0 for d in rows if d.critical)


def test_connect_four_counts_late_decisions_only(roll):
    found = roll({"games": ["connect4"], "pairs": 12}, "random", "random")
    for _, outcome in found:
        own = [s for s in steps(outcome.data) if s.seat == outcome.data["model_seat"]]
        late = [s for s in own if s.how == "asked" and 42 - len(s.position.moves) <= LATE]
        assert len(decisions(outcome.data)) == len(late)


def test_figures_have_chance_levels_and_phases(roll):
    found = roll({"games": ["tictactoe"], "pairs": 30}, "greedy", "random")
    metrics = {m.name: m for m in figures("tictactoe", [(s.cluster, o.data) for s, o in found])}
    assert metrics["optimal"].value > metrics["random.optimal"].value
    assert metrics["regret"].value < metrics["random.regret"].value
    assert {"optimal.opening", "optimal.middle", "optimal.critical"} <= set(metrics)
    assert metrics["optimal"].clusters == 30


def test_games_without_a_solver_have_no_regret(roll):
    [(_, outcome), *_] = roll({"games": ["kuhn_poker"], "pairs": 1})
    assert decisions(outcome.data) == []
