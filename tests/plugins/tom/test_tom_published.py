"""The published files: events read from the English alone against the files' own gold."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from pathlib import Path

import pytest

from harness.types import HarnessError
from harness_plugins.tasks.counterfactual_tom.english import read_story
from harness_plugins.tasks.counterfactual_tom.published import read_rows, sample_of
from harness_plugins.tasks.tom.oracle import Beliefs

OURS = Path(__file__).with_name("stories.jsonl")
"""A few stories of our own in the published schema."""

FILES = {
    "train": (3200, "b150f4b621075d156b34e3908ebaaa7b8a017fb969bb40d5359e8e2d7ff1c024"),
    "val": (400, "824d28903ec782e12cfb708c2d3bca14ba0440b6aa3b1919ff56ebd4f28320ea"),
    "test": (600, "7df5b07750641a7dc072804146d94929629d99e64e6b9214f36de7cea7225b77"),
}


def published(split):
    folder = os.environ.get("HARNESS_DATA")
    if not folder:
        pytest.skip("HARNESS_DATA does not name the folder with the published data")
    return Path(folder) / "robusttom" / f"compact_{split}.full.jsonl.gz"


def agreement(row):
    """Whether events, trace, answer and answer event follow from the English."""
    moves = read_story(row["story"], row["object"])
    latent = row["latent_events"]
    read = [(m.event.kind, m.origin, m.event.to, set(sum(m.event.groups, ()))) for m in moves]
    gold = [
        (e["visibility"], e["from_location"], e["to_location"], set(e["observers"])) for e in latent
    ]
    beliefs = Beliefs([m.event for m in moves])
    trace = beliefs.trace(row["object"], row["belief_chain"])
    lines = [row[f"story_index_e{i + 1}"] for i in range(len(latent))]
    return (
        read == gold,
        [m.line for m in moves] == lines,
        [s.place for s in trace] == [s["location"] for s in row["process_target"]["belief_trace"]],
        trace[-1].place == row["answer"],
        latent[trace[-1].event]["event_id"] == row["answer_event_id"],
        beliefs.place(row["object"]) == row["latent_state"]["world_state"],
    )


@pytest.mark.parametrize("split", FILES)
def test_all_published_rows_agree(split):
    path = published(split)
    count, digest = FILES[split]
    raw = gzip.decompress(path.read_bytes())
    assert hashlib.sha256(raw).hexdigest() == digest
    rows = [json.loads(line) for line in raw.splitlines()]
    assert len(rows) == count
    assert [r["sample_id"] for r in rows if not all(agreement(r))] == []
    samples = list(read_rows(path))
    assert [s.id for s in samples] == [r["sample_id"] for r in rows]
    assert [s.truth["answer"] for s in samples] == [r["answer"] for r in rows]
    split = {"train": "train", "val": "validation", "test": "ood"}[split]
    assert {s.split for s in samples} == {split}


def test_our_stories_in_the_same_form_agree():
    rows = [json.loads(line) for line in OURS.read_text().splitlines()]
    assert len(rows) >= 6
    assert all(all(agreement(row)) for row in rows)
    assert {row["question_order"] for row in rows} == {1, 2, 3, 4}
    for row, sample in zip(rows, read_rows(OURS), strict=True):
        assert sample.truth["answer"] == row["answer"]
        assert sample.cluster == row["pair_id"]


def test_a_wrong_story_breaks_the_agreement():
    row = json.loads(OURS.read_text().splitlines()[0])
    assert not all(agreement({**row, "answer": "nowhere_else"}))
    swapped = row["story"].replace(row["belief_chain"][0], "Zoltan")
    with pytest.raises(HarnessError):
        agreement({**row, "story": swapped})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": "Who has it?"}, "no question"),
        ({"choices": "jar, box"}, "no list of options"),
        ({"story": "Nothing happened."}, "no first move"),
    ],
)
def test_bad_rows_are_refused(change, message):
    row = json.loads(OURS.read_text().splitlines()[0])
    with pytest.raises(HarnessError, match=message):
        sample_of({**row, **change}, 0)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(HarnessError, match="No such file"):
        list(read_rows(tmp_path / "missing.jsonl"))
    bad = tmp_path / "bad.jsonl"
    bad.write_text(OURS.read_text().splitlines()[0] + "\n{oops\n")
    with pytest.raises(HarnessError, match="line 2"):
        list(read_rows(bad))
    bad.write_text('{"story": "x"}\n')
    with pytest.raises(HarnessError, match="line 1: no 'question' field"):
        list(read_rows(bad))
