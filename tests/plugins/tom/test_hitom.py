"""Hi-ToM: the official file, stories of our own, prompts and answers."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from harness.seeds import Streams
from harness.types import HarnessError, Reply
from harness_plugins.rewards.tom_process import create_reward
from harness_plugins.tasks.hitom import create_task
from harness_plugins.tasks.hitom.checks import agrees, problems, table
from harness_plugins.tasks.hitom.generator import Kind, draw, kinds
from harness_plugins.tasks.hitom.reader import read_file, read_story
from harness_plugins.tasks.hitom.rules import RULES
from harness_plugins.tasks.hitom.text import said
from harness_plugins.tasks.tom.oracle import Beliefs

STORY = """1 Al, Bea and Cy entered the hall.
2 The pear is in the red_box.
3 Al moved the pear to the blue_jar.
4 Al exited the hall.
5 Bea likes the red_box.
6 Bea exited the hall.
7 Cy moved the pear to the green_bag.
8 Cy exited the hall.
9 Al, Bea and Cy entered the waiting_room.
10 Bea publicly claimed that pear is in the white_can.
11 Cy privately told Al that the pear is in the grey_tub."""


@pytest.fixture
def official():
    folder = os.environ.get("HARNESS_DATA")
    if not folder:
        pytest.skip("HARNESS_DATA does not name the folder with the official Hi-ToM file")
    return Path(folder) / "hitom" / "Hi-ToM_data.json"


def test_the_oracle_agrees_with_the_official_labels(official):
    samples = read_file(official)
    assert len(samples) == 600
    right = Counter((s.data["deception"], s.truth["order"]) for s in samples if _right(s))
    assert [right[False, k] for k in range(5)] == [60, 60, 58, 58, 56]
    assert [right[True, k] for k in range(5)] == [60, 60, 57, 57, 57]
    assert sum(right.values()) == 583
    consistent = [s for s in samples if s.truth["labels_agree"]]
    assert (len(consistent), sum(map(_right, consistent))) == (462, 458)
    assert sum(map(_right, read_file(official, "VP"))) == 470


def test_the_table_of_beliefs_agrees_with_the_oracle_on_the_official_stories(official):
    assert [s.id for s in read_file(official) if agrees(s) != _right(s)] == []


def test_conflicting_labels_are_listed(official):
    made = create_task("hitom", {"data": str(official)})
    assert len(made.data_identity()) == 64
    samples = list(made.samples("test"))
    assert len(list(made.verify(samples))) == 17
    assert Counter(s.group for s in samples[:50]) == {f"order-{k}": 10 for k in range(5)}
    agreeing = create_task("hitom", {"data": str(official), "agree": True})
    assert len(list(agreeing.samples("test"))) == 462
    found = {(f.name, f.group): f for f in made.audit(samples)}
    assert found["labels of the two styles differ", ""].value == 138
    assert len(found["problems", ""].items) == 17
    assert all("the oracle's answer" in item for item in found["problems", ""].items)


def _right(sample):
    return sample.truth["answer"] == sample.truth["oracle"]


@pytest.mark.parametrize(
    ("chain", "place"),
    [
        ("", "green_bag"),
        ("Cy", "green_bag"),
        ("Bea", "blue_jar"),  # made up her own claim, and left before Cy
        ("Al", "grey_tub"),  # left first: believes Bea, and later Cy
        ("Al Cy", "grey_tub"),
        ("Bea Al", "white_can"),
        ("Bea Cy", "white_can"),  # takes it that all hearers believed her
        ("Cy Al", "grey_tub"),
        ("Cy Bea", "blue_jar"),
        ("Al Bea Cy", "blue_jar"),  # claims reach no third order
    ],
)
def test_rules_of_a_small_story(chain, place):
    events = read_story(STORY)
    people = ("Al", "Bea", "Cy")
    assert Beliefs(events, RULES).place("pear", chain.split()) == place
    assert table(events, people, "pear")[tuple(chain.split())] == place


def test_generated_stories_agree_with_the_table():
    cells = [*kinds("train", range(5)), *kinds("test", (5, 6))]
    samples = [draw(7, kind, k) for kind in cells for k in range(4)]
    assert list(problems(samples)) == []
    claimed = [s for s in samples if "claimed" in s.data["story"] or "told" in s.data["story"]]
    assert {s.data["deception"] for s in claimed} == {True}
    assert all(s.data["deception"] == (s in claimed) for s in samples)
    assert len({s.canonical for s in samples}) == len(samples)


def test_wrong_truths_are_found():
    from dataclasses import replace

    sample = draw(1, Kind("test", True, 2, 3), 0)
    bad = replace(sample, truth={**sample.truth, "answer": "nowhere_near"})
    assert len(list(problems([bad]))) == 2


def test_splits_and_their_order():
    made = create_task("hitom", {})
    found = list(made.samples("test"))
    assert len(found) == 600
    first = found[:60]
    assert Counter(s.group for s in first) == {f"order-{k}": 12 for k in range(5)}
    assert Counter(s.data["deception"] for s in first) == {True: 30, False: 30}
    assert list(made.samples("test")) == found
    ood = create_task("hitom-ood", {})
    assert ood.splits == ("test",)
    assert {s.truth["order"] for s in ood.samples("test")} == {5, 6}
    with pytest.raises(HarnessError, match="no split"):
        made.samples("dev")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Answer: red_box", "red_box"),
        ("So.\n**Answer:** B", "B"),
        ("Answer: a\nNo.\nAnswer: b_c", "b_c"),
        ("red_box", "red_box"),
        ("The red box.", "The red box."),
        ("C", "C"),
        ("C. red_box", "C. red_box"),
        ("He thinks that it is in the box that is red and large", None),
        ("", None),
        ("Answer:", None),
    ],
)
def test_committed_answers(text, answer):
    assert said(text) == answer


def test_a_megabyte_of_reply_is_read_in_linear_time():
    for piece in ("Answer: x\n", "a_", "The ", "*", "Answer:"):
        start = time.process_time()
        said(piece * (2**20 // len(piece)))
        assert time.process_time() - start < 2.0


def score(task, sample, text, matching="lenient"):
    class Player:
        async def act(self, turn):
            return Reply(text=text)

    outcome = asyncio.run(task.rollout(sample, [Player()], Streams(0)))
    return create_reward("tom-answer", {"matching": matching}).score(sample, outcome).value


def test_answers_by_text_and_by_letter():
    sample = draw(1, Kind("test", False, 1, 2), 0)
    gold = sample.truth["answer"]
    letter = chr(65 + sample.data["choices"].index(gold))
    choice, free = create_task("hitom", {}), create_task("hitom", {"form": "open"})
    for text in (f"Answer: {gold}", f"Answer: the {gold.replace('_', ' ')}."):
        assert score(choice, sample, text) == score(free, sample, text) == 1.0
    assert score(choice, sample, f"Answer: {letter}") == 1.0
    assert score(choice, sample, f"Answer: {letter}", "strict") == 0.0
    assert score(free, sample, f"Answer: {letter}") == 0.0
    assert score(choice, sample, "I cannot tell") == 0.0
    assert "Choices" not in free.messages(sample)[0].content
    assert (
        "step by step" not in create_task("hitom", {"style": "direct"}).messages(sample)[0].content
    )
    assert score(choice, sample, choice.target(sample)) == 1.0


def test_every_player_answers_every_order():
    from harness.player import Seat
    from harness.types import Turn

    made = create_task("hitom", {})
    for order in range(5):
        sample = draw(3, Kind("test", True, 3, order), 1)
        for name, factory in made.players().items():
            player = factory(Seat(made, sample, 0, 1))
            text = asyncio.run(player.act(Turn(0, (), truth=sample.truth, state=sample))).text
            if name == "oracle":
                assert score(made, sample, text) == 1.0


def test_files_that_are_something_else(tmp_path):
    bad = tmp_path / "bad.json"
    for text in ("{", "[]", '{"data": [{"x": 1}]}', json.dumps({"data": 3})):
        bad.write_text(text)
        with pytest.raises(HarnessError, match="not the official"):
            read_file(bad)
    with pytest.raises(HarnessError, match="No such file"):
        read_file(tmp_path / "missing.json")
    with pytest.raises(HarnessError, match="CoTP or VP"):
        read_file(bad, "MC")
