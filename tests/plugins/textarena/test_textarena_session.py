"""The traps of the library, each shown as it ships and as it is played here."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

pytest.importorskip("textarena")

import textarena

from harness.types import HarnessError
from harness_plugins.tasks.textarena import library
from harness_plugins.tasks.textarena.adapters import LISTED, adapter
from harness_plugins.tasks.textarena.session import Session

DRAWING = ("KuhnPoker-v0", "PigDice-v0", "LiarsDice-v0", "Blackjack-v0")
"""Environments that draw random numbers while they are played."""


def moves(session, number, rng):
    """Play some random legal moves; the line of play."""
    line = []
    for _ in range(number):
        if session.done:
            break
        made, env, seat = session.adapter, session.env, session.seat
        move = (
            "hello" if made.talking(env) else made.forced(env, seat) or made.guess(env, seat, rng)
        )
        session.step(move)
        line.append((seat, move))
    return line


def course(session):
    """All that an episode has told anyone."""
    return [list(events) for events in session.events]


def alone(name, seed):
    session = Session(name, seed, adapter(name))
    moves(session, 400, random.Random(seed))
    return course(session)


# Random numbers (the library seeds and uses the one global generator)


@pytest.mark.parametrize("name", DRAWING)
def test_trap_interleaved_episodes_change_each_other_in_the_library_but_not_here(name):
    def shipped(others):
        """Two raw environments in turns, the second one drawing in between."""
        random.seed(99)
        env = textarena.make(f"{name}-raw")
        env.reset(num_players=adapter(name).seats, seed=5)
        rng = random.Random(1)
        for _ in range(12):
            if env.state.done:
                break
            env.step(adapter(name).guess(env, env.state.current_player_id, rng))
            if others:
                random.random()
        return env.state.logs

    assert shipped(False) != shipped(True)

    sessions = [Session(name, seed, adapter(name)) for seed in range(8)]
    rngs = [random.Random(seed) for seed in range(8)]
    while not all(session.done for session in sessions):
        for session, rng in zip(sessions, rngs, strict=True):
            moves(session, 1, rng)
            random.random()
    assert [course(s) for s in sessions] == [alone(name, seed) for seed in range(8)]


@pytest.mark.parametrize("name", LISTED)
def test_the_same_seed_gives_the_same_episode_and_leaves_the_global_generator_alone(name):
    random.seed(1234)
    before = random.getstate()
    first = alone(name, 11)
    assert random.getstate() == before
    random.random()
    assert alone(name, 11) == first


def test_another_seed_gives_another_deal():
    for name in ("SimpleNegotiation-v0", "KuhnPoker-v0", "LightsOut-v0", "GameOfPureStrategy-v0"):
        starts = {repr(Session(name, seed, adapter(name)).events) for seed in range(6)}
        assert len(starts) > 1


def test_the_global_state_is_put_back_after_an_error():
    session = Session("TicTacToe-v0", 0, adapter("TicTacToe-v0"))
    state = random.getstate()
    with pytest.raises(RuntimeError, match="rejected"):
        session.step("[9]")
    assert random.getstate() == state


# Environments and wrappers


def test_trap_a_wrapper_keeps_the_transcript_of_an_earlier_episode():
    env = textarena.make("TicTacToe-v0")
    env.reset(num_players=2, seed=0)
    env.get_observation()
    env.step("[4]")
    env.reset(num_players=2, seed=0)
    _, told = env.get_observation()
    assert told.count("You are Player 0 in Tic Tac Toe") == 2

    first, second = (Session("TicTacToe-v0", 0, adapter("TicTacToe-v0")) for _ in range(2))
    first.step("[4]")
    assert first.env is not second.env
    assert sum(event.kind == "PROMPT" for event in second.events[0]) == 1


def test_trap_a_refusal_becomes_a_move_in_the_stock_wrapper_and_no_wrapper_is_used_here():
    assert textarena.make("TicTacToe-v0").action("I refuse") == "[I refuse]"
    assert not isinstance(library.make("TicTacToe-v0"), textarena.core.Wrapper)
    with pytest.raises(HarnessError, match="wrappers are not used here"):
        adapter("TicTacToe-v0-raw")


def test_an_unknown_name_is_an_error_with_the_nearest_ones():
    with pytest.raises(HarnessError, match="near it: TicTacToe-v0"):
        library.make("TicTacTo-v0")
    with pytest.raises(HarnessError, match="near it: TicTacToe-v0"):
        library.make("tictactoe-v0")


def test_trap_word_lists_are_not_downloaded_unasked(monkeypatch):
    import nltk

    calls = []
    monkeypatch.setattr(nltk, "download", lambda *_, **__: calls.append(1))
    monkeypatch.setattr(nltk.data, "path", [])
    patched = nltk.download
    with pytest.raises(HarnessError, match=r"python -m nltk\.downloader words"):
        library.make("Hangman-v0")
    assert calls == []
    assert nltk.download is patched


@pytest.mark.skipif(
    __import__("sys").version_info >= (3, 12), reason="the file parses from 3.12 on"
)
def test_trap_a_file_that_does_not_parse_says_so():
    with pytest.raises(HarnessError, match="does not parse on this Python"):
        library.make("Chess-v0")


# Turn limits


@pytest.mark.parametrize(
    ("name", "announced"),
    [
        ("SimpleNegotiation-v0-short", 6),
        ("SimpleNegotiation-v0", 10),
        ("SimpleNegotiation-v0-long", 30),
    ],
)
def test_trap_turn_limit_of_negotiation(name, announced):
    def turns(repair):
        session = Session(name, 1, adapter(name), repair)
        while not session.done:
            session.step("[Deny]")
        return [session.env.state.game_info[seat]["turn_count"] for seat in (0, 1)]

    session = Session(name, 1, adapter(name))
    assert f"lasts for {announced} turns in total" in session.events[0][0].text
    assert turns(repair=False) == [announced // 2 + 1, announced // 2]
    assert turns(repair=True) == [announced // 2, announced // 2]


def test_trap_turn_limit_of_pig_dice():
    def turns(repair):
        session = Session("PigDice-v0", 1, adapter("PigDice-v0"), repair)
        while not session.done:
            session.step("[hold]")
        return session.env.state.turn, adapter("PigDice-v0").told(session.env)

    count, told = turns(repair=False)
    assert count == 101
    assert "101 rolls and holds" in told
    count, told = turns(repair=True)
    assert count == 100
    assert "100 rolls and holds" in told


def test_trap_turn_limits_of_chopsticks_and_the_puzzles():
    def played(name, line, repair):
        session = Session(name, 0, adapter(name), repair)
        count = 0
        while not session.done:
            session.step(line(session, count))
            count += 1
        return count

    def swap(session, count):
        own = session.env.state.game_state["hands"][session.seat]
        return "[split 0 2]" if own != [0, 2] else "[split 2 0]"

    def wrong(session, count):
        numbers = [n for n in range(1, 21) if n != session.env.game_number]
        return f"[{numbers[count]}]"

    for repair, extra in ((False, 1), (True, 0)):
        assert played("Chopsticks-v0", swap, repair) == 40 + extra
        assert played("GuessTheNumber-v0", wrong, repair) == 10 + extra


def test_trap_a_light_pattern_that_cancels_itself_out_divides_by_zero():
    made = adapter("LightsOut-v0")
    bad = None
    for seed in range(60_000):
        rng = random.Random(seed)
        odd = set()
        for _ in range(rng.randint(5, 15)):
            odd ^= {(rng.randint(0, 4), rng.randint(0, 4))}
        if not odd:
            bad = seed
            break
    assert bad is not None
    env = library.make("LightsOut-v0")
    state = random.getstate()
    with pytest.raises(ZeroDivisionError):
        env.reset(num_players=1, seed=bad)
    random.setstate(state)
    session = Session("LightsOut-v0", bad, made)
    assert session.env._initial_on > 0


# Rules


def test_trap_kuhn_bets_never_reach_the_pot_and_seat_1_starts_the_odd_rounds():
    name = "KuhnPoker-v0"
    session = Session(name, 2, adapter(name))
    starters, seen = [], 0
    while not session.done:
        game = session.env.state.game_state
        if game["current_round"] != seen:
            seen = game["current_round"]
            starters.append(session.seat)
        assert game["pot"] == 2
        assert session.env.state.game_state["pot"] == 2
        session.step(
            "[bet]" if "[bet]" in adapter(name).legal(session.env, session.seat) else "[call]"
        )
    assert starters == [1, 0, 1]
    # In Kuhn poker a bet that is called makes a pot of 4.
    assert "wins pot of 2 chips" in "".join(event.text for event in session.events[0])
    assert adapter(name).wrong
    assert adapter("KuhnPoker-v0-medium").wrong


def test_trap_kuhn_short_is_longer_than_the_base_and_all_variants_are_odd():
    rounds = {
        name: library.make(name).max_rounds
        for name in library.base_ids()
        if name.startswith("KuhnPoker-v0")
    }
    assert rounds["KuhnPoker-v0-short"] > rounds["KuhnPoker-v0"]
    assert all(number % 2 for number in rounds.values())


def test_trap_twelve_of_thirty_payoffs_differ_from_kuhn_poker():
    pyspiel = pytest.importorskip("pyspiel")
    game = pyspiel.load_game("kuhn_poker")
    histories = {
        "pp": ["check", "check"],
        "pbp": ["check", "bet", "fold"],
        "pbb": ["check", "bet", "call"],
        "bp": ["bet", "fold"],
        "bb": ["bet", "call"],
    }
    differ = 0
    for cards in permutations(range(3), 2):
        for line, words in histories.items():
            state = game.new_initial_state()
            for action in (*cards, *("pb".index(letter) for letter in line)):
                state.apply_action(action)
            env = library.make("KuhnPoker-v0")
            env.reset(num_players=2, seed=0)
            first = env.state.current_player_id
            chips = env.state.game_state["player_chips"]
            env.state.game_state["player_cards"] = {first: cards[0], 1 - first: cards[1]}
            for word in words:
                env.step(f"[{word}]")
            # The ante of the next round has been taken already.
            differ += chips[first] + 1 != state.returns()[0]
    assert differ == 12


@pytest.mark.parametrize("reply", ["", "I refuse.", "[Def", "I can't decide"])
def test_trap_the_dilemma_takes_anything_for_cooperation(reply):
    env = library.make("IteratedPrisonersDilemma-v0")
    env.reset(num_players=2, seed=0)
    env.step("hello")
    env.step("hello")
    env.step(reply)
    assert env.state.game_state["decisions"][0] == "cooperate"
    # Here no such text reaches it: it is no move of the adapter.
    made = adapter("IteratedPrisonersDilemma-v0")
    assert made.read(reply.strip("[]")) is None


def test_trap_no_trade_is_a_draw_and_a_reply_without_an_offer_is_legal():
    made = adapter("SimpleNegotiation-v0")
    session = Session("SimpleNegotiation-v0", 4, made)
    while not session.done:
        session.step("[Deny]")
    assert session.rewards() == (0.0, 0.0)
    assert made.figures(session.env) == {"gain": [0, 0]}


def test_trap_a_denied_offer_stays_on_the_table_as_shipped():
    def accepts_its_own(repair):
        made = adapter("SimpleNegotiation-v0")
        session = Session("SimpleNegotiation-v0", 4, made, repair)
        session.step("[Offer: 1 Wood -> 1 Ore]")
        assert made.permits(session.env, 1, "[Accept]")
        session.step("[Deny]")
        offer = session.env.state.game_state["current_offer"]
        assert not made.permits(session.env, 0, "[Accept]")
        return offer is not None

    assert accepts_its_own(repair=False)
    assert not accepts_its_own(repair=True)


def test_trap_an_accept_within_reasoning_trades_in_the_library():
    env = library.make("SimpleNegotiation-v0")
    env.reset(num_players=2, seed=4)
    env.step("[Offer: 1 Wood -> 1 Ore]")
    env.step("<think>should I [Accept]? no.</think>[Deny]")
    assert env.state.game_state["trade_history"][-1]["outcome"] == "Accepted"


def test_trap_frozen_lake_pays_for_falling_in_and_lights_out_may_pay_less_than_nothing():
    made = adapter("FrozenLake-v0")
    assert made.payoff(0.6) == 0.6
    assert adapter("LightsOut-v0").payoff(-0.4) == 0.0


def test_rewards_are_read_from_finished_episodes_only():
    session = Session("TicTacToe-v0", 0, adapter("TicTacToe-v0"))
    with pytest.raises(RuntimeError, match="finished episodes only"):
        session.rewards()
    for move in (0, 3, 1, 4, 2):
        session.step(f"[{move}]")
    assert session.rewards() == (1.0, -1.0)
    session.env.state.rewards = None
    with pytest.raises(RuntimeError, match="without rewards"):
        session.rewards()


def test_an_environment_that_takes_too_long_is_a_fault_not_a_result():
    session = Session("TicTacToe-v0", 0, adapter("TicTacToe-v0"), seconds=1e-9 + 60)
    session.seconds = 0.0
    with pytest.raises(RuntimeError, match="processor time"):
        session.step("[0]")


def test_an_environment_without_an_adapter_that_hangs_is_interrupted():
    import time

    session = Session("Minesweeper-v0-small", 0, adapter("Minesweeper-v0-small"), seconds=0.3)
    session.env.step = lambda action: time.sleep(30)
    with pytest.raises(RuntimeError, match="did not answer"):
        session.step("[0 0]")


def test_numpy_draws_of_environments_without_an_adapter_are_their_own():
    numpy = pytest.importorskip("numpy")
    name = "Minesweeper-v0-small"

    def drawing(seed):
        session = Session(name, seed, adapter(name))
        session.drawn = []

        def step(action):
            session.drawn.append(float(numpy.random.rand()))
            return False, {}

        session.env.step = step
        return session

    numpy.random.seed(3)
    before = numpy.random.get_state()[1].tolist()
    first, second, other = drawing(1), drawing(1), drawing(2)
    for _ in range(3):
        first.step("[0 0]")
    for _ in range(3):
        second.step("[0 0]")
        other.step("[0 0]")
    assert first.drawn == second.drawn
    assert first.drawn != other.drawn
    assert numpy.random.get_state()[1].tolist() == before
