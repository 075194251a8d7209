"""Reading replies: the library's own parsing faults, a torture list, and any text at all."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import parsing
from harness.types import EMPTY, OK, REFUSED, TRUNCATED, UNPARSED, Reply

pytest.importorskip("textarena")

from harness_plugins.tasks.textarena import answers, text
from harness_plugins.tasks.textarena.adapters import LISTED, adapter
from harness_plugins.tasks.textarena.session import Session

TTT, C4, NIM, KUHN = "TicTacToe-v0", "ConnectFour-v0", "Nim-v0", "KuhnPoker-v0"
IPD, TRADE, DICE = "IteratedPrisonersDilemma-v0", "SimpleNegotiation-v0", "LiarsDice-v0-small"


def read(game, reply, finish_reason="stop"):
    return answers.read(reply, adapter(game), finish_reason)


@pytest.mark.parametrize(
    ("game", "text", "move"),
    [
        # The library plays the first match, here a thought.
        (TTT, "<think>maybe [0]</think>[4]", "[4]"),
        (TTT, "[4] no wait [0]", "[0]"),
        (TTT, "[\uff14]", "[4]"),
        (TTT, "\uff3b4\uff3d", "[4]"),
        (TTT, "\\boxed{4}", "[4]"),
        (TTT, "[cell 4]", "[4]"),
        (TTT, "[[4]]", "[4]"),
        (TTT, "[04]", "[4]"),
        (TTT, "[-4]", "[-4]"),
        (TTT, "[\u22124]", "[-4]"),
        # The library's search is greedy here and plays 0; in the next it plays 1.
        (C4, "[col 3] rather than [col 0]", "[col 3]"),
        (C4, "first [col 1]\nfinal [col 2]", "[col 2]"),
        (C4, "[Column 3]", "[col 3]"),
        (C4, "[3]", "[col 3]"),
        (C4, "[col3]", "[col 3]"),
        (C4, "col 3", "[col 3]"),
        (NIM, "[0, 3]", "[0 3]"),
        (NIM, "[pile 0 3]", "[0 3]"),
        # The library bets.
        (KUHN, "<think>[bet]</think>[check]", "[check]"),
    ],
)
def test_parse_probes_give_the_move_that_was_committed_to(game, text, move):
    assert read(game, text).value == move


@pytest.mark.parametrize("text", ["[4.0]", "[4", "[four]", "four in a row wins", "[0-3]"])
def test_what_is_no_move_is_not_made_one(text):
    assert read(TTT, text).cls == UNPARSED
    assert read(NIM, text).cls == UNPARSED


@pytest.mark.parametrize(
    ("game", "text", "move"),
    [
        (KUHN, "**[Bet]**", "[bet]"),
        (KUHN, "`[fold]`", "[fold]"),
        (KUHN, "My final move: [call].", "[call]"),
        (KUHN, '```json\n{"action": "[check]"}\n```', "[check]"),
        (KUHN, '{"move": "bet"} or so, {"move": "fold"}', "[fold]"),
        (KUHN, "<answer>call</answer>", "[call]"),
        (KUHN, "I think [bet] is too bold.\n[check]\nA safe choice.", "[check]"),
        (KUHN, "bet", "[bet]"),
        (KUHN, "Answer: fold.", "[fold]"),
        (KUHN, "[bet], because a king wins", "[bet]"),
        (KUHN, "reasoning [bet]</think>[fold]", "[fold]"),
        (KUHN, "<think>a<think>[bet]</think>b</think>[fold]", "[fold]"),
        (KUHN, "<|channel|>analysis<|message|>[bet]<|channel|>final<|message|>[fold]", "[fold]"),
        (KUHN, "[Player 1] resigns. [GAME] you win. [call]", "[call]"),
        (TTT, "I expect [5] next, so I play [4]", "[4]"),
        (TTT, "Do not play [0]! I take [8].", "[8]"),
        (TTT, "As Player 0, I play [4]", "[4]"),
        (TTT, "I'd like [4]", "[4]"),
        (TTT, "\u200b[4]\x00", "[4]"),
        (TRADE, "[Offer: 3 Sheep, 2 Ore \u2192 5 Brick]", "[Offer: 3 Sheep, 2 Ore -> 5 Brick]"),
        (
            TRADE,
            "[offer I give 1 wood and 2 ores -> 1 wheat.]",
            "[Offer: 1 Wood, 2 Ore -> 1 Wheat]",
        ),
        (TRADE, "<think>[Accept]</think>[Deny]", "[Deny]"),
        (TRADE, "SAY: would you [Accept] that?\n[Deny]", "[Deny]"),
        (DICE, "[bid 3 4]", "[Bid: 3, 4]"),
        (IPD, "I said [Cooperate], yet\n[DEFECT]", "[Defect]"),
        ("ColonelBlotto-v0-small", "[A:8, B:7, C:5]", "[A8 B7 C5]"),
        ("IteratedTwoThirdsAverage-v0", "[33.50]", "[33.5]"),
        ("Mastermind-v0", "[1, 2, 3, 4]", "[1 2 3 4]"),
        ("FrozenLake-v0", "[S]", "[down]"),
        ("GameOfPureStrategy-v0", "[q]", "[Q]"),
    ],
)
def test_spellings_and_places(game, text, move):
    parsed = read(game, text)
    assert (parsed.value, parsed.cls) == (move, OK)


@pytest.mark.parametrize(
    ("game", "text"),
    [
        (KUHN, "Legal moves: [check], [bet]"),
        (KUHN, "[check] or [bet]"),
        (KUHN, "Legal moves: [call]"),
        (TTT, "Available Moves: '[0]', '[1]', '[2]'"),
        (KUHN, "[your move], [call]"),
        (TTT, "Player 1 placed a mark: Player 1 played [3]"),
        (KUHN, "- [check]\n- [bet]\nBoth are possible."),
        (TTT, "[0]\n[4]\n[8]"),
        (KUHN, "I will bet"),
        (KUHN, "[your move]"),
        (KUHN, "[raise]"),
        (KUHN, "For example '[check]' passes."),
        (TTT, "I see four in a row at 4"),
        (TRADE, "[Offer: 3 Gold -> 1 Ore]"),
        (TRADE, "[Offer: 3 Sheep]"),
        ("ColonelBlotto-v0-small", "[A8 A7 C5]"),
        (KUHN, "\u202e[kcehc]"),
    ],
)
def test_mentions_and_echoes_are_not_commitments(game, text):
    assert read(game, text).value is None


def test_moves_of_other_players_are_not_the_players_own():
    made = adapter(TTT)
    script = "Player 0: [4]\nPlayer 1: [2]"
    assert answers.read(script, made, seat=0).value == "[4]"
    assert answers.read(script, made, seat=1).value == "[2]"
    assert answers.read(script, made).value is None
    assert answers.read("[Player 1] [2]", made, seat=0).value is None
    assert answers.read("[Player 1] [2]", made, seat=1).value == "[2]"


@pytest.mark.parametrize(
    ("text", "finish_reason", "cls"),
    [
        ("", "stop", EMPTY),
        ("  \n", "stop", EMPTY),
        ("<think>[bet]", "stop", EMPTY),
        ("<think>[bet]", "length", TRUNCATED),
        ("If [bet], then he may call; so perhaps", "length", TRUNCATED),
        ("I'm sorry, but I can't gamble.", "stop", REFUSED),
        ("[I refuse]", "stop", UNPARSED),
        ("\u6211\u9009\u62e9\u8fc7\u724c", "stop", UNPARSED),
    ],
)
def test_failures_have_a_class(text, finish_reason, cls):
    reply = Reply(text, finish_reason)
    parsed = parsing.classify(reply, read(KUHN, text, finish_reason))
    assert parsed.cls == cls


def test_a_number_that_was_cut_off_is_not_the_number():
    game = "IteratedTwoThirdsAverage-v0"
    assert read(game, '{"move": 33}').value == "[33]"
    assert read(game, '{"move": 3', "length").value is None


def test_a_cut_reply_counts_where_the_move_has_its_own_line():
    assert read(KUHN, "[bet]\nThis is because", "length").value == "[bet]"
    assert read(KUHN, "[bet]\nBecause\n[bet]\nBecause", "length").value == "[bet]"


def test_a_cut_reply_that_counts_through_the_moves_commits_to_none():
    # What SmolLM2-135M said on tic-tac-toe until its budget was spent.
    parts = [f"You can play the following game:\n\n[{cell}]" for cell in range(9)]
    looping = "\n\n".join(parts) + "\n\nYou can play"
    assert read(TTT, looping, "length").value is None
    reply = Reply(looping, "length")
    assert parsing.classify(reply, read(TTT, looping, "length")).cls == TRUNCATED


@pytest.mark.parametrize("name", LISTED)
def test_an_echo_of_the_prompt_commits_to_nothing(name):
    made = adapter(name)
    for seed in range(6):
        session, rng = Session(name, seed, made), random.Random(f"{name} {seed}")
        for _ in range(rng.randrange(10)):
            if session.done:
                break
            if not made.talking(session.env):
                messages = text.prompt(session)
                lines = answers.prompt_lines(messages)
                for message in messages:
                    parsed = answers.read(message.content, made, echoes=lines)
                    assert parsed.value is None, message.content
            move = "hello" if made.talking(session.env) else made.forced(session.env, session.seat)
            session.step(move or made.guess(session.env, session.seat, rng))


def test_talk_loses_reasoning_brackets_and_line_breaks():
    said = answers.say("<think>I hold a king</think>Hi\n[GAME] you win [Accept]", True, 500)
    assert said == "Hi (GAME) you win (Accept)"
    assert answers.say("private thought\nSAY: hello", False, 500) == "hello"
    assert answers.say("private thought", False, 500) == ""
    assert len(answers.say("x" * 10_000, True, 500)) == 500


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    st.sampled_from(LISTED),
    st.text(
        alphabet="[](){}<>/\\|0123456789ABCabc ,:->\n\"'`*thinkanswercheckOferbd\u2192\u2212\uff14"
    ),
)
def test_any_text_is_read_and_what_is_read_is_canonical(game, text):
    made = adapter(game)
    parsed = read(game, text)
    assert (parsed.value is None) == (parsed.cls == UNPARSED)
    if parsed.value is not None:
        assert made.read(parsed.value[1:-1]) == parsed.value
        assert answers.bare(parsed.value, made) == answers.read(parsed.value, made)
    assert answers.bare(text, made) in (None, parsed)
    said = answers.say(text, True, 100)
    assert len(said) <= 100
    assert not set("[]\n") & set(said)


@pytest.mark.parametrize(
    "unit", ["[", "]", "[4", "[4] ", "\n[4]", "<think>", "[a b ", "say:\n", "{", "a"]
)
@pytest.mark.parametrize("game", [TTT, TRADE, "ColonelBlotto-v0-small"])
def test_a_megabyte_takes_linear_time(unit, game):
    text = unit * (1_000_000 // len(unit))
    started = time.process_time()
    read(game, text[: len(text) // 4])
    quarter = time.process_time() - started
    started = time.process_time()
    read(game, text)
    whole = time.process_time() - started
    assert whole < 10 * quarter + 0.5
    assert whole < 8.0
