"""Games against exact truth in large counts, and episodes a CPU second.

    python benchmarks/gtbench_exact.py [--pairs 500] [--perfect 1000] [--search 10] [--json]

1. Random against random, openings off: win rates of both seats beside published ones, in standard
   errors, and rollouts a CPU second without the engine's journal.
2. Perfect tic-tac-toe against random and MCTS: losses (none). Perfect nim from the winning side:
   losses (none).
3. Kuhn poker: the exact value of the CFR policy against itself (-1/18). Pig: best play against
   hold-at-20, played and exact.
4. Episodes a CPU second of mcts-1000 against random.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import time
from typing import NamedTuple

from harness.player import Seat
from harness.seeds import Streams, derive
from harness.types import Outcome, Sample
from harness_plugins.tasks.gtbench.deals import opened
from harness_plugins.tasks.gtbench.games import DEFAULT_GAMES, nim
from harness_plugins.tasks.gtbench.opponents import cfr, perfect, pig_table, search
from harness_plugins.tasks.gtbench.task import GTBench

PUBLISHED = {
    "tictactoe": (0.59, 0.29, 0.12),
    "connect4": (0.55, 0.45, 0.00),
    "breakthrough": (0.52, 0.48, 0.00),
    "nim": (0.50, 0.50, 0.00),
    "first_sealed_auction": (0.50, 0.50, 0.00),
    "kuhn_poker": (0.56, 0.44, 0.00),
    "liars_dice": (0.48, 0.52, 0.00),
    "negotiation": (0.115, 0.114, 0.77),
    "pig": (0.53, 0.47, 0.00),
    "prisoners_dilemma": (0.38, 0.36, 0.26),
}
"""First seat wins, second seat wins, draws; to two decimals."""


class Rates(NamedTuple):
    """Random against random in one game."""

    game: str
    first: float
    second: float
    draw: float
    worst: float
    """The largest deviation from the published rates, in standard errors of pairs."""
    per_second: float


async def roll(task: GTBench, model: str, opponent: str) -> list[tuple[Sample, Outcome]]:
    """All episodes of the test split, one after another."""
    players = task.players()
    found = []
    for sample in task.samples("test"):
        seed = derive(0, sample.id, 0)
        names = [model if who == "model" else opponent for who in task.lineup(sample)]
        seats = [players[name](Seat(task, sample, i, seed)) for i, name in enumerate(names)]
        found.append((sample, await task.rollout(sample, seats, Streams(seed))))
    return found


def rates(key: str, pairs: int) -> Rates:
    """Rates and speed of one game."""
    asyncio.run(roll(GTBench({"games": [key], "pairs": 2, "openings": 0}), "random", "random"))
    started = time.process_time()
    task = GTBench({"games": [key], "pairs": pairs, "openings": 0})
    outcomes = asyncio.run(roll(task, "random", "random"))
    seconds = time.process_time() - started
    signs = [(o.returns[0] > o.returns[1]) - (o.returns[0] < o.returns[1]) for _, o in outcomes]
    found = [signs.count(sign) / len(signs) for sign in (1, -1, 0)]
    # Both episodes of a pair share their chance events: the pair is the unit. Published figures
    # are rounded: half a hundredth is theirs.
    deviations = [
        max(0.0, abs(rate - truth) - 0.005) / math.sqrt(max(truth * (1 - truth), 1 / pairs) / pairs)
        for rate, truth in zip(found, PUBLISHED[key], strict=True)
    ]
    return Rates(key, *found, max(deviations), len(outcomes) / seconds)


def search_speed(key: str, pairs: int) -> float:
    """Episodes a CPU second (of all threads) of mcts-1000 against random."""
    started = time.process_time()
    outcomes = asyncio.run(roll(GTBench({"games": [key], "pairs": pairs}), "mcts-1000", "random"))
    return len(outcomes) / (time.process_time() - started)


def losses(key: str, opponent: str, pairs: int) -> tuple[int, int]:
    """Games that perfect play lost although it could have won or drawn, and games counted."""
    outcomes = asyncio.run(
        roll(GTBench({"games": [key], "pairs": pairs, "openings": 0 if key == "tictactoe" else 2}),
             "perfect", opponent)
    )  # fmt: skip
    lost = counted = 0
    for sample, outcome in outcomes:
        seat = sample.data["model_seat"]
        if key == "nim":
            position = opened(key, sample.data)
            ours = position.seats() == (seat,)
            if perfect.lost(nim.piles(position)) == ours:
                continue
        counted += 1
        lost += outcome.returns[seat] < 0
    return lost, counted


def kuhn_value() -> float:
    """The exact value of the CFR policy against itself to the first seat."""
    policy = cfr.policy("kuhn_poker").probabilities
    total = 0.0
    for first, second in ((a, b) for a in range(3) for b in range(3) if a != b):
        high = 1 if first > second else -1
        bets = policy(f"{first}")[1]
        after_pass, after_bet = policy(f"{second}p")[1], policy(f"{second}b")[1]
        calls = policy(f"{first}pb")[1]
        passed = (1 - after_pass) * high + after_pass * (calls * 2 * high - (1 - calls))
        total += (1 - bets) * passed + bets * (after_bet * 2 * high + 1 - after_bet)
    return total / 6


def pig_exact(sweeps: int = 400) -> float:
    """P(first seat wins) for best play against hold-at-20, by iterating the equations."""
    rolls = pig_table.best_rolls()
    policies = (lambda i, j, k: (i, j, k) in rolls, lambda i, j, k: k < 20 and i + k < 20)
    states = [(i, j, k) for i in range(20) for j in range(20) for k in range(20 - i)]
    value = [dict.fromkeys(states, 0.5) for _ in policies]

    def at(who: int, i: int, j: int, k: int) -> float:
        return 1.0 if i + k >= 20 else value[who][i, j, k]

    for _ in range(sweeps):
        change = 0.0
        for who, rolling in enumerate(policies):
            for i, j, k in states:
                if rolling(i, j, k):
                    new = (1 - at(1 - who, j, i, 0)) / 6
                    new += sum(at(who, i, j, k + face) for face in range(2, 7)) / 6
                else:
                    new = 1 - at(1 - who, j, i + k, 0)
                change = max(change, abs(new - value[who][i, j, k]))
                value[who][i, j, k] = new
        if change < 1e-12:
            break
    return value[0][0, 0, 0]


def pig_played(pairs: int) -> float:
    """The share of games that best play won in the first seat against hold-at-20."""
    outcomes = asyncio.run(
        roll(GTBench({"games": ["pig"], "pairs": pairs}), "perfect", "hold-at-20")
    )
    return sum(o.returns[0] > 0 for s, o in outcomes if s.data["model_seat"] == 0) / pairs


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--perfect", type=int, default=1000)
    parser.add_argument("--search", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = [rates(key, options.pairs) for key in DEFAULT_GAMES]
    result = {
        "random": [row._asdict() for row in table],
        "perfect tictactoe": {
            name: losses("tictactoe", name, options.perfect) for name in ("random", "mcts-200")
        },
        "perfect nim": {
            name: losses("nim", name, options.perfect) for name in ("random", "mcts-200")
        },
        "kuhn value": kuhn_value(),
        "pig": {"played": pig_played(2 * options.pairs), "exact": pig_exact()},
        "mcts-1000": {
            key: search_speed(key, options.search) for key in DEFAULT_GAMES if key in search.PLAYS
        },
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print("game                    first second   draw  worst/SE  episodes/CPU s")
    for row in table:
        print(f"{row.game:22s} {row.first:6.3f} {row.second:6.3f} {row.draw:6.3f} "
              f"{row.worst:9.2f} {row.per_second:15,.0f}")  # fmt: skip
    for name in ("perfect tictactoe", "perfect nim"):
        for opponent, (lost, counted) in result[name].items():
            print(f"{name} against {opponent}: {lost} of {counted} lost")
    print(f"kuhn value {result['kuhn value']:.5f} (-1/18 = {-1 / 18:.5f})")
    print("pig, first seat: played {played:.4f}, exact {exact:.4f}".format(**result["pig"]))
    speeds = (f"{key} {speed:,.0f}" for key, speed in result["mcts-1000"].items())
    print(f"mcts-1000 against random, episodes a CPU second: {', '.join(speeds)}")


if __name__ == "__main__":
    main()
