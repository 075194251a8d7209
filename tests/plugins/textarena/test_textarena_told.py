"""What each seat is told: no reasoning, no hidden card, no early choice of the other side."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("textarena")

import textarena

from harness_plugins.tasks.textarena import text
from harness_plugins.tasks.textarena.adapters import adapter
from harness_plugins.tasks.textarena.session import Session


@pytest.mark.parametrize(
    ("name", "move"),
    [
        ("TicTacToe-v0", "[4]"),
        ("ConnectFour-v0", "[col 3]"),
        ("Nim-v0", "[0 1]"),
        ("KuhnPoker-v0", "[check]"),
        ("IteratedPrisonersDilemma-v0", "Let us cooperate."),
    ],
)
def test_trap_the_stock_wrappers_show_reasoning_to_the_opponent(name, move):
    env = textarena.make(name)
    state = random.getstate()
    env.reset(num_players=2, seed=0)
    env.get_observation()
    env.step(f"<think>I hold a king</think> {move}")
    _, told = env.get_observation()
    random.setstate(state)
    assert "I hold a king" in str(told)


def test_only_the_last_board_is_shown_and_the_rules_come_first():
    session = Session("ConnectFour-v0", 0, adapter("ConnectFour-v0"))
    session.step("[col 3]")
    system, user = text.prompt(session)
    assert "Connect Four" in system.content
    assert user.content.count("Board state:") == 1
    assert "X" in user.content
    assert user.content.rstrip().endswith("Reply with it in the form\n[col number]")
    assert text.prompt(session, show_legal=False)[1].content.count("Legal moves") == 0


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("IteratedPrisonersDilemma-v0", ("[Cooperate]", "[Defect]")),
        ("IteratedRockPaperScissors-v0", ("[rock]", "[paper]", "[scissors]")),
        ("IteratedMatchingPennies-v0", ("[heads]", "[tails]")),
        ("IteratedTwoThirdsAverage-v0", ("[0]", "[99]")),
        ("ColonelBlotto-v0-small", ("[A20]", "[B20]", "[A8 B7 C5]")),
        ("GameOfPureStrategy-v0", ("[A]", "[7]", "[K]")),
    ],
)
def test_what_the_second_seat_sees_does_not_depend_on_the_choice_of_the_first(name, choices):
    shown = set()
    for choice in choices:
        session = Session(name, 3, adapter(name))
        while session.adapter.talking(session.env):
            session.step("hello")
        first = session.seat
        session.step(choice)
        assert session.seat == 1 - first
        shown.add(tuple(m.content for m in text.prompt(session)))
    assert len(shown) == 1


def test_cards_and_dice_and_values_are_told_to_their_owner_only():
    cards = {0: "J", 1: "Q", 2: "K"}
    for seed in range(6):
        kuhn = Session("KuhnPoker-v0", seed, adapter("KuhnPoker-v0"))
        dice = Session("LiarsDice-v0", seed, adapter("LiarsDice-v0"))
        trade = Session("SimpleNegotiation-v0", seed, adapter("SimpleNegotiation-v0"))
        for seat in (0, 1):
            shown = text.view(kuhn, seat)[1].content
            own = cards[kuhn.env.state.game_state["player_cards"][seat]]
            assert shown.count("Your card is:") == 1
            assert f"Your card is: '{own}'" in shown
            shown = text.view(dice, seat)[1].content
            own = ", ".join(map(str, dice.env.state.game_state["dice_rolls"][seat]))
            assert shown.count("Dice are:") == 1
            assert f"Dice are: {own}" in shown
            system, user = (m.content for m in text.view(trade, seat))
            game = trade.env.state.game_state
            for good, value in game["player_values"][seat].items():
                assert f"[{good}]" in system
                assert f"Value: {value}" in system
            assert system.count("Value:") == 5
            assert "Value" not in user
            assert f"You now hold {game['player_resources'][seat]['Wheat']} Wheat" in user
