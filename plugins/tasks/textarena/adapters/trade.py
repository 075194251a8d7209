"""The adapter of the trading game.

>>> SimpleNegotiation().read("offer: I give 3 sheep, 2 Ore → 5 bricks")
'[Offer: 3 Sheep, 2 Ore -> 5 Brick]'
"""

from __future__ import annotations

import random
import re
from typing import Any

from ..adapter import Adapter

GOODS = ("Wheat", "Wood", "Sheep", "Brick", "Ore")
_NAMES = {name.lower() + ending: name for name in GOODS for ending in ("", "s")}
_ITEM = re.compile(r"(\d{1,6})\s{0,3}([a-z]{1,12})")
_JOINTS = re.compile(r"\s{0,3}(?:,|;|\band\b)\s{0,3}")
Goods = dict[str, int]


class SimpleNegotiation(Adapter):
    """Two players trade goods that they value differently; the larger gain wins.

    One token a turn: an offer also turns down the one on the table. As shipped, an offer that was
    turned down stays on the table, where its own maker may accept it; it is taken off here.
    """

    family = "SimpleNegotiation-v0"
    deals = True
    talks = True
    late_limit = late_told = True
    reward = "1 for the larger gain in value, 0 for equal gains, -1 for the smaller"
    note = "not trading at all is a draw: read the gains too"
    rules = (
        "The player whose goods gain more value, at that player's own values, wins; equal gains "
        "are a draw. A new offer also denies the one before it. You may request goods that the "
        "opponent does not hold, but then the offer can't be accepted."
    )
    form = "[Accept], [Deny] or [Offer: 3 Sheep, 2 Ore -> 5 Brick]"
    pattern = (
        r"(accept|deny)|offer\s{0,2}:?\s{0,2}(?:i\s{1,2}(?:give|offer)\s{1,2})?"
        r"([^\[\]>]{1,150}?)\s{0,3}-{1,2}>\s{0,3}([^\[\]>]{1,150}?)[\s.]{0,3}"
    )

    def read(self, inner: str) -> str | None:
        return super().read(inner) or None

    def canonical(self, found: re.Match[str]) -> str:
        if found[1]:
            return f"[{found[1].capitalize()}]"
        given, wanted = items(found[2]), items(found[3])
        return f"[Offer: {_list(given)} -> {_list(wanted)}]" if given and wanted else ""

    def legal(self, env: Any, seat: int) -> None:
        return None

    def permits(self, env: Any, seat: int, move: str) -> bool:
        game = env.state.game_state
        held = game["player_resources"][seat]
        if move == "[Deny]":
            return True
        if move == "[Accept]":
            offer = game["current_offer"]
            return bool(offer) and offer["to_player"] == seat and _covers(held, offer)
        given = items(move[1:].partition(":")[2].partition("->")[0].lower())
        return given is not None and all(held[name] >= number for name, number in given.items())

    def describe(self, env: Any, seat: int) -> str:
        accept = "[Accept], " if self.permits(env, seat, "[Accept]") else ""
        return (
            f"Legal moves: {accept}[Deny] (also to pass), or [Offer: goods you give -> goods you "
            f"get] with whole numbers of 1 or more, such as "
            "[Offer: 3 Sheep, 2 Ore -> 5 Brick]."
        )

    def view(self, env: Any, seat: int) -> str:
        game = env.state.game_state
        held = ", ".join(f"{n} {name}" for name, n in game["player_resources"][seat].items())
        gain = game["inventory_value"][seat]["change"]
        offer = game["current_offer"]
        table = "There is no offer on the table."
        if offer and offer["to_player"] == seat:
            table = (
                f"On the table: you get {_list(offer['offered_resources'])} and give "
                f"{_list(offer['requested_resources'])}."
            )
        turn = f"This is turn {env.state.turn + 1} of {env.state.max_turns + 1}."
        return f"You now hold {held}. Your gain so far: {gain}. {table} {turn}"

    def guess(self, env: Any, seat: int, rng: random.Random) -> str:
        """Deny, accept (if possible) or offer, each as likely; offers of things held."""
        kinds = ["[Deny]", "offer"]
        if self.permits(env, seat, "[Accept]"):
            kinds.append("[Accept]")
        kind = rng.choice(kinds)
        held = env.state.game_state["player_resources"][seat]
        own = [name for name in GOODS if held[name] > 0]
        if kind != "offer" or not own:
            return kind if kind != "offer" else "[Deny]"
        given, wanted = rng.choice(own), rng.choice(GOODS)
        numbers = rng.randint(1, held[given]), rng.randint(1, 10)
        return f"[Offer: {numbers[0]} {given} -> {numbers[1]} {wanted}]"

    def after(self, env: Any, seat: int, action: str, repair: bool) -> None:
        offer = env.state.game_state["current_offer"]
        if repair and offer and offer["to_player"] == seat:
            env.state.game_state["current_offer"] = None

    def figures(self, env: Any) -> dict[str, list[int]]:
        values = env.state.game_state["inventory_value"]
        return {"gain": [values[0]["change"], values[1]["change"]]}


def items(text: str) -> Goods | None:
    """The goods of a list such as ``3 sheep, 2 ore``; None if anything in it is no such item.

    >>> items("3 sheep and 2 ores"), items("3 gold")
    ({'Sheep': 3, 'Ore': 2}, None)
    """
    goods: Goods = {}
    for part in _JOINTS.split(text.strip()):
        found = _ITEM.fullmatch(part.strip())
        name = _NAMES.get(found[2]) if found else None
        if found is None or name is None or int(found[1]) < 1:
            return None
        goods[name] = goods.get(name, 0) + int(found[1])
    return goods


def _list(goods: Goods) -> str:
    return ", ".join(f"{number} {name}" for name, number in goods.items())


def _covers(held: Goods, offer: Any) -> bool:
    return all(held[name] >= number for name, number in offer["requested_resources"].items())
