"""The reference protocol's 22 known defects: one test each that they are absent here."""

from __future__ import annotations

import asyncio
import json
from random import Random

import pytest

from harness.player import Player, Seat
from harness.seeds import Streams
from harness.types import (
    ILLEGAL,
    OK,
    REFUSED,
    UNPARSED,
    Message,
    Parsed,
    ProviderError,
    Record,
    Reply,
    Turn,
)
from harness_plugins.rewards.gtbench import GTBenchReward
from harness_plugins.tasks.gtbench import agents, answers
from harness_plugins.tasks.gtbench.episode import judge
from harness_plugins.tasks.gtbench.games import GAMES, skin
from harness_plugins.tasks.gtbench.opponents import PLAYERS, best_response, search
from harness_plugins.tasks.gtbench.task import GTBench
from harness_plugins.tasks.gtbench.view import View


def view_of(key, position, seat):
    look = skin(key, "plain")
    return View(look, position, seat, look.legal(position, seat))


def records(task, outcomes):
    reward = GTBenchReward()
    return [
        Record(
            index, task.name, sample.id, sample.split, 0, 0, sample.group, sample.cluster,
            sample.canonical, outcome, reward.score(sample, outcome),
        )
        for index, (sample, outcome) in enumerate(outcomes)
    ]  # fmt: skip


def figures(task, outcomes):
    found = task.metrics(records(task, outcomes))
    return {(metric.name, metric.group): metric for metric in found}


def test_defect_01_kuhn_moves_are_told_as_those_of_who_made_them(play, told):
    position = play("kuhn_poker", ["Bet"])
    text = told("kuhn_poker", position, 1)
    assert "1. Opponent: Bet" in text
    assert "You: Bet" not in text
    position = play("kuhn_poker", ["Pass", "Bet"])
    assert "1. You: Pass\n2. Opponent: Bet" in told("kuhn_poker", position, 0)


def test_defect_02_dilemma_history_and_payoffs_are_the_engines(told):
    position = next(
        p for seed in range(99) if not _played(p := GAMES["prisoners_dilemma"].start(seed)).over
    )
    first, second = told("prisoners_dilemma", position, 0), told("prisoners_dilemma", position, 1)
    assert "Round 1: you chose Silent and got 0; your opponent chose Testify and got 10" in first
    assert "Round 2: you chose Testify and got 10; your opponent chose Silent and got 0" in first
    assert "Round 1: you chose Testify and got 10; your opponent chose Silent and got 0" in second
    assert position.returns() == (10.0, 10.0)


def _played(position):
    for pair in ((0, 1), (1, 0)):
        if position.over:
            return position
        position.play(dict(enumerate(pair)))
    return position


def _reader(turn, reply):
    return answers.read(reply.text, skin("tictactoe", "plain"))


def test_defect_03_self_consistency_votes(saying):
    said = ["ANSWER: C1R1", "ANSWER: C2R2", "ANSWER: C3R3", "ANSWER: C2R2", "ANSWER: C1R2"]
    agent = agents.SelfConsistent(saying(*said), _reader, samples=5)
    reply = asyncio.run(agent.act(Turn(0, (Message("user", "Move."),))))
    assert reply.text == "ANSWER: C2R2"
    assert len(agent.said()) == 5


def test_defect_04_votes_read_whole_numbers_and_empty_plans_are_no_plans(saying):
    assert agents.vote(Reply("CHOICE: 10"), 12) == Parsed(10, OK)
    assert agents.vote(Reply("CHOICE: 10"), 5).cls == UNPARSED
    assert agents.vote(Reply("CHOICE: 1.5"), 5).cls == UNPARSED
    assert agents.vote(Reply("10 of 12 points for option 3"), 5).cls == UNPARSED
    agent = agents.TreeOfThought(saying("", "", "", "ANSWER: C2R2"), _reader)
    reply = asyncio.run(agent.act(Turn(0, (Message("user", "Move."),))))
    assert reply.text == "ANSWER: C2R2"


def test_defect_05_pig_tells_its_target_and_reads_the_answer_only(play, told):
    system = skin("pig", "plain").system.content
    assert "20 points" in system
    assert "100" not in system.replace("1000", "")
    assert "written roll or stop" in system
    place = Turn(0, (), ("roll", "stop"), None, view_of("pig", play("pig"), 0))
    assert judge(place, Reply("I will not stop, so <roll>")).cls in (UNPARSED, REFUSED)
    assert judge(place, Reply("because I do not want to roll\nstop")).value == "stop"
    assert judge(place, Reply("I will not stop here.\nANSWER: roll")).value == "roll"
    assert judge(place, Reply("<Action>")).cls == UNPARSED


def test_defect_06_negotiation_offers_are_legal_and_agreeing_needs_an_offer(roll):
    for _, outcome in roll({"games": ["negotiation"], "pairs": 40}):
        assert outcome.cls == OK
        assert not outcome.data["forfeits"]
    position = GAMES["negotiation"].start(0)
    assert "Agree" not in skin("negotiation", "plain").legal(position, 0)


def test_defect_07_illegal_values_stay_illegal(play):
    for key, text in (
        ("connect4", "ANSWER: C9"),
        ("first_sealed_auction", "ANSWER: 10"),
        ("negotiation", "ANSWER: Proposal: [6, 6, 6]"),
        ("negotiation", "ANSWER: Utterance: [7, 7, 7]"),
    ):
        position = play(key)
        legal = skin(key, "plain").legal(position, 0)
        parsed = judge(Turn(0, (), tuple(legal), None, view_of(key, position, 0)), Reply(text))
        assert parsed.cls == ILLEGAL
        assert parsed.value == text.removeprefix("ANSWER: ").strip()


def test_defect_08_liars_dice_tells_the_rules_all_bids_and_one_die(play, told):
    system = skin("liars_dice", "plain").system.content
    assert "6 is wild" in system
    assert "If the bid was true, the bidder wins" in system
    position = play("liars_dice", ["1 die, value 2", "2 dice, value 3"])
    text = told("liars_dice", position, 0)
    assert "1. You: 1 die, value 2\n2. Opponent: 2 dice, value 3" in text
    own, other = position.chance()
    assert f"Your die shows {own + 1}." in text
    assert text.count("shows") == 1
    rng = Random(5)
    twins = [view_of("liars_dice", position, 0).world(rng) for _ in range(5)]
    twin = next(twin for twin in twins if twin.chance()[1] != other)
    assert told("liars_dice", twin, 0) == text


def test_defect_09_breakthrough_tells_colour_and_direction(play, told):
    assert "your pieces are B and move down" in told("breakthrough", play("breakthrough"), 0)
    after = play("breakthrough", ["b7->b6"])
    assert "your pieces are W and move up" in told("breakthrough", after, 1)


@pytest.mark.parametrize(
    ("key", "text", "move"),
    [
        ("kuhn_poker", "<bet>", "Bet"),
        ("nim", "<pile: 1, take: 1>", "pile 1, take 1"),
        ("liars_dice", "<1 die, 3 value>", "1 die, value 3"),
        ("liars_dice", "<liar>", "Liar"),
        ("connect4", "C3", "C3"),
        ("tictactoe", "c1r2", "C1R2"),
    ],
)
def test_defect_10_spelling_does_not_matter(key, text, move):
    assert answers.read(text, skin(key, "plain")).value == move


def test_defect_11_thoughts_and_prose_are_not_played():
    words = skin("tictactoe", "plain")
    assert answers.read("<C2R2> is better than C1R1", words).value != "C1R1"
    assert answers.read("<think>ANSWER: C1R1</think>", words).cls == UNPARSED
    assert answers.read("<think>C1R1</think>ANSWER: C2R2", words).value == "C2R2"


def test_defect_12_failed_matches_stay_in_the_denominator(roll, saying):
    options = {"games": ["tictactoe"], "pairs": 25, "openings": 0, "retries": 0}

    def half(seat):
        bad = seat.sample.data["pair"] % 2
        return saying("no move" if bad else lambda turn: f"ANSWER: {_legal(turn)[0]}")

    outcomes = roll(options, half)
    found = figures(GTBench(options), outcomes)
    lost = [o for _, o in outcomes if o.cls == UNPARSED]
    assert len(outcomes) == 50
    assert len(lost) == 24
    assert found["return", "tictactoe"].n == 50
    assert found["forfeit", "tictactoe"].value == 24 / 50
    assert found["loss", "tictactoe"].value >= 24 / 50
    assert found["return.legal", "tictactoe"].n == 26
    assert all(o.returns[o.data["model_seat"]] == -1.0 for o in lost)


def _legal(turn):
    line = turn.messages[-1].content.split("Legal moves: ")[1].split("\n")[0]
    return line.split("; ")


def test_defect_13_the_auction_pays_profit_not_wins(roll):
    options = {"games": ["first_sealed_auction"], "pairs": 400}
    task = GTBench(options)
    over = figures(task, roll(options, "greedy"))
    best = figures(task, roll(options, "best-response"))
    key = "first_sealed_auction"
    assert over["win", key].value > best["win", key].value + 0.1
    assert best["return", key].value > over["return", key].value + 0.5
    # The means against a uniform bidder: v // 2 gives 2.02, v - 1 gives 0.73, 0 gives 0.81.
    profits = [
        sum(best_response.bid_profit(v, bid(v)) for v in range(1, 11)) / 10
        for bid in (lambda v: v // 2, lambda v: v - 1, lambda v: 0)
    ]
    assert [round(p, 2) for p in profits] == [2.02, 0.73, 0.81]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (key, name)
        for name in ("mcts-50", "mcts-200", "ismcts", "best-response", "cfr", "greedy")
        for key in sorted(search.HIDDEN & PLAYERS[name].plays)
        if (name, key) != ("cfr", "liars_dice")  # takes long to solve; reads the same information
    ],
)
def test_defect_14_no_player_sees_hidden_state(key, name, play):
    """The same information with another hidden deal: the same move."""
    moves = {"liars_dice": ["1 die, value 4"], "kuhn_poker": ["Bet"]}.get(key, [])
    options = {"games": [key], "pairs": 4}
    task = GTBench(options)
    changed = 0
    for sample in task.samples("test"):
        position = play(key, moves, sample.data["seed"])
        [seat] = position.seats()
        view = view_of(key, position, seat)
        twin = view.world(Random(sample.ordinal))
        changed += twin.chance() != position.chance()
        replies = []
        for place in (position, twin):
            legal = skin(key, "plain").legal(place, seat)
            turn = Turn(seat, (), tuple(legal), None, view_of(key, place, seat), len(moves))
            player = PLAYERS[name](Seat(task, sample, seat, 11))
            replies.append(asyncio.run(player.act(turn)).text)
        assert replies[0] == replies[1]
    assert changed


def test_defect_14_views_refuse_the_state_of_hidden_games(play):
    with pytest.raises(PermissionError):
        view_of("kuhn_poker", play("kuhn_poker"), 0).open_position()


def test_defect_15_search_in_the_dilemma_is_refused_with_a_reason(roll):
    from harness.types import HarnessError

    with pytest.raises(HarnessError, match="does not play prisoners_dilemma; it plays tictactoe"):
        roll({"games": ["prisoners_dilemma"], "pairs": 1}, "random", "mcts-50")


def test_defect_16_results_do_not_depend_on_scheduling():
    """One after another, or all at once in another order: the same outcomes."""
    task = GTBench({"games": ["tictactoe", "kuhn_poker", "liars_dice", "nim"], "pairs": 3})
    samples = list(task.samples("test"))

    async def one(sample):
        names = ["mcts-50" if who == "model" else "random" for who in task.lineup(sample)]
        players = [PLAYERS[n](Seat(task, sample, i, 7)) for i, n in enumerate(names)]
        return await task.rollout(sample, players, Streams(7))

    async def in_turn():
        return [await one(sample) for sample in samples]

    async def at_once():
        found = await asyncio.gather(*(one(sample) for sample in reversed(samples)))
        return list(reversed(found))

    first = asyncio.run(in_turn())
    assert asyncio.run(at_once()) == first
    assert asyncio.run(in_turn()) == first


def test_defect_17_samples_have_names_of_their_own_and_the_options_are_kept():
    task = GTBench({"pairs": 5, "variant": "both", "games": list(GAMES)})
    names = [sample.id for sample in task.samples("all")]
    assert len(set(names)) == len(names) == 3 * 5 * 2 * 2 * len(GAMES)
    assert [sample.id for sample in task.samples("all")] == names
    assert task.options["pairs"] == 5


def test_defect_18_results_are_by_seat(roll, saying):
    """Both seats the same player: one result a seat; forfeits carry no partial returns."""
    options = {"games": ["prisoners_dilemma"], "pairs": 5, "retries": 0}
    for sample, outcome in roll(options, "tit-for-tat", "tit-for-tat"):
        assert len(outcome.returns) == 2
        assert outcome.data["model_seat"] == sample.data["model_seat"]
    late = roll(options, lambda seat: saying("ANSWER: Testify", "nothing"), "cooperate")
    gone = [outcome for _, outcome in late if outcome.cls == UNPARSED]
    assert gone
    for outcome in gone:
        assert outcome.returns[outcome.data["model_seat"]] == 0.0
        score = GTBenchReward().score(None, outcome)
        assert (score.value, score.parts["loss"]) == (0.0, 1.0)


def test_defect_19_every_position_has_the_games_parameters():
    for key, parameters in (
        ("breakthrough", {"rows": 8, "columns": 3}),
        ("pig", {"winscore": 20}),
        ("liars_dice", {"numdice": 1}),
        ("first_sealed_auction", {"max_value": 10}),
    ):
        for seed in (0, 1):
            loaded = GAMES[key].start(seed).state.get_game().get_parameters()
            assert parameters.items() <= loaded.items()


def test_defect_20_both_seats_are_asked_in_a_simultaneous_round(saying):
    task = GTBench({"games": ["prisoners_dilemma"], "pairs": 1, "retries": 0})
    sample = next(iter(task.samples("test")))
    fails, answers_ = saying("no"), saying("ANSWER: Silent")
    outcome = asyncio.run(task.rollout(sample, [fails, answers_], Streams(0)))
    assert len(answers_.turns) == 1
    assert [(m.seat, m.cls) for m in outcome.moves] == [(0, UNPARSED), (1, OK)]
    assert outcome.data["forfeits"] == [0]


def test_defect_21_provider_faults_pass_through_and_blame_no_model(saying):
    class Down(Player):
        async def act(self, turn):
            raise ProviderError("connection lost")

    for key in ("tictactoe", "prisoners_dilemma"):
        task = GTBench({"games": [key], "pairs": 1})
        sample = next(iter(task.samples("test")))
        players = [Down(), saying(lambda turn: f"ANSWER: {turn.legal[0]}")]
        with pytest.raises(ProviderError, match="connection lost"):
            asyncio.run(task.rollout(sample, players, Streams(0)))


def test_defect_22_both_seats_of_a_pair_share_chance(roll):
    for key in ("kuhn_poker", "liars_dice", "first_sealed_auction", "negotiation", "pig"):
        outcomes = roll({"games": [key], "pairs": 10})
        for first, second in zip(outcomes[::2], outcomes[1::2], strict=True):
            assert first[0].cluster == second[0].cluster
            assert first[0].data["seed"] == second[0].data["seed"]
            shared = min(len(o.data["chance"]) for _, o in (first, second))
            if key == "first_sealed_auction":
                shared = 2  # the third event, the coin for equal bids, may not come
            assert first[1].data["chance"][:shared] == second[1].data["chance"][:shared]
        assert len({json.dumps(o.data["chance"]) for _, o in outcomes}) > 3
