"""Reading, filtering, sorting and searching records: against plain Python over the same records."""

from __future__ import annotations

import json
import math
import random

import orjson
import pytest
from board_runs import make_run

from harness.board.places import find_runs
from harness.store import JOURNAL, read_records
from harness.tables import batches, record_from_row, text_columns
from harness.types import CLASSES, HarnessError
from harness.viewer import queries, sources
from harness.viewer.catalogue import Catalogue
from harness.viewer.journal import JournalSource
from harness.viewer.queries import Browser, Query
from harness.viewer.sources import ParquetSource, short

COUNT = 230
WORDS = ["Zebra", "north", "SOUTH", "équilibre", "row"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of 230 records in row groups of 7, with groups, classes, texts and lengths drawn."""
    rng = random.Random(5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.tables.ROW_GROUP", 7)
        return make_run(
            tmp_path_factory.mktemp("runs"),
            "copy",
            "m",
            [rng.choice([0.0, 0.25, 1.0, rng.random()]) for _ in range(COUNT)],
            groups=[rng.choice(["nash/2x2", "nash/3x3", "br/2x2", ""]) for _ in range(COUNT)],
            classes=[rng.choice(CLASSES[:4]) for _ in range(COUNT)],
            texts=[" ".join(rng.choices(WORDS, k=3)) for _ in range(COUNT)],
            prompts=[f"What is {rng.choice(WORDS)}?" for _ in range(COUNT)],
        )


def source_of(folder, kind):
    if kind == "parquet":
        return ParquetSource(find_runs([str(folder)])[0])
    source = JournalSource(folder / JOURNAL)
    source.advance(60)
    return source


@pytest.fixture(params=["parquet", "journal"])
def source(request, folder):
    return source_of(folder, request.param)


def expected(records, query):
    """The indices that fit, in order, the slow way."""

    def fits(record):
        texts = [record.sample]
        if query.where == "replies":
            texts = [m.reply.text for m in record.outcome.moves]
        elif query.where == "prompts":
            texts = [m.content for move in record.outcome.moves for m in move.messages]
        return (
            (not query.cls or record.outcome.cls == query.cls)
            and (not query.group or query.group in (record.group, *record.group.split("/")))
            and query.low <= record.score.value <= query.high
            and (not query.text or any(query.text in text.lower() for text in texts))
        )

    keys = {
        "index": lambda r: r.index,
        "value": lambda r: r.score.value,
        "tokens": lambda r: sum(m.reply.completion_tokens for m in r.outcome.moves),
        "moves": lambda r: len(r.outcome.moves),
        "class": lambda r: r.outcome.cls,
        "group": lambda r: r.group,
    }
    found = sorted(filter(fits, records), key=keys[query.sort], reverse=query.down)
    return [record.index for record in found]


QUERIES = [
    {},
    {"sort": "value", "down": "1"},
    {"class": "unparsed", "sort": "group"},
    {"group": "2x2"},
    {"group": "nash/3x3", "low": "0.2", "high": "0.9"},
    {"q": "zebra"},
    {"q": "éQUI", "sort": "class"},
    {"q": "is north", "in": "prompts", "down": "1"},
    {"q": "S1", "in": "sample", "sort": "tokens"},
    {"q": "no such thing"},
    {"low": "2"},
]


@pytest.mark.parametrize("given", QUERIES, ids=str)
def test_selections_are_those_of_plain_python(folder, source, given):
    query = Query.of(given)
    wanted = expected(list(read_records(folder)), query)
    browser = Browser(source)
    found = []
    while True:
        page = browser.page(query, len(found), 40)
        assert page["scanned"] == page["total"] == COUNT
        assert page["matched"] == len(wanted)
        if not page["rows"]:
            break
        found += [row["index"] for row in page["rows"]]
    assert found == wanted


def test_neighbours_are_those_of_the_list(source):
    query = Query.of({"class": "illegal", "sort": "value"})
    browser = Browser(source)
    places = browser.select(query).places
    indices = [row["index"] for row in source.rows(places.tolist())]
    for k, place in enumerate(places.tolist()):
        found = browser.around(query, place)
        assert (found["position"], found["matched"]) == (k, len(places))
        assert found["previous"] == (indices[k - 1] if k else None)
        assert found["next"] == (indices[k + 1] if k + 1 < len(indices) else None)
    outside = browser.around(Query.of({"low": "2"}), 0)
    assert outside["position"] is None


def test_records_come_back_whole(folder, source):
    stored = list(read_records(folder))
    places = [source.place(index) for index in (0, 6, 7, COUNT - 1)]
    assert source.records(places) == [stored[i] for i in (0, 6, 7, COUNT - 1)]
    assert source.place(COUNT) is None
    assert [source.rows([p])[0]["sample"] for p in source.find("s41")] == ["s41"]
    assert source.find("s999") == []


def test_rows_of_the_table_are_the_records(folder):
    stored = list(read_records(folder))
    rows = [row for batch in batches(iter(stored)) for row in batch.to_pylist()]
    assert [record_from_row(row) for row in rows] == stored
    leaves = text_columns()
    assert "moves.list.element.messages.list.element.content" in leaves
    assert not {leaf.rpartition(".")[2] for leaf in leaves} & {"ids", "prompt_ids", "logprobs"}


def test_facets_count_everything(folder, source):
    stored = list(read_records(folder))
    found = queries.facets(source.figures())
    for row in found["classes"]:
        values = [r.score.value for r in stored if r.outcome.cls == row["name"]]
        assert row["count"] == len(values)
        assert row["mean"] == pytest.approx(math.fsum(values) / len(values))
    assert sum(row["count"] for row in found["groups"]) == COUNT
    assert sum(found["bins"]) == COUNT


def test_a_long_search_goes_on_where_it_stopped(folder, source, monkeypatch):
    monkeypatch.setattr(queries, "PATIENCE", -1.0)
    monkeypatch.setattr(sources, "_GROUPS_AT_ONCE", 2)
    monkeypatch.setattr("harness.viewer.journal._BLOCK", 14)
    browser, query = Browser(source), Query.of({"q": "zebra"})
    seen, pages = [], []
    for _ in range(100):
        page = browser.page(query, 0, 200)
        pages.append(page["matched"])
        seen.append(page["scanned"])
        if page["scanned"] >= page["total"]:
            break
    assert seen == sorted(set(seen))
    assert len(seen) > 5
    assert pages[-1] == len(expected(list(read_records(folder)), query))


def test_a_table_with_gaps_finds_records_by_their_index(tmp_path):
    folder = make_run(tmp_path, "copy", "m", [0.0, 0.5, 1.0])
    lines = (folder / JOURNAL).read_bytes().splitlines()
    rows = [orjson.loads(line) for line in lines]
    for row, index in zip(rows, (1, 4, 9), strict=True):
        row["i"] = row["r"]["index"] = index
    (folder / JOURNAL).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    from harness.store import write_records

    write_records(folder)
    source = ParquetSource(find_runs([str(folder)])[0])
    assert [source.place(i) for i in (1, 4, 9, 0, 5, 10)] == [0, 1, 2, None, None, None]


def test_a_journal_is_followed_as_it_grows(tmp_path, folder):
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    shuffled = lines[:40]
    random.Random(1).shuffle(shuffled)
    path = tmp_path / JOURNAL
    source = JournalSource(path)
    source.advance(1)
    assert (source.total, source.expected) == (0, 0)
    path.write_bytes(b"".join(shuffled[:10]) + shuffled[10][:30])
    source.advance(1)
    assert (source.total, source.expected) == (10, 10)
    with path.open("ab") as file:
        file.write(shuffled[10][30:] + b"".join(shuffled[11:]))
        file.write(shuffled[3])  # a record twice counts once
        fault = {"i": 99, "t": 1.5, "a": 3, "f": {"class": "provider_error", "error": "gone"}}
        file.write(orjson.dumps(fault) + b"\n")
    source.advance(1)
    assert (source.total, source.expected) == (40, 40)
    assert source.faults == [{"index": 99, "class": "provider_error", "error": "gone"}]
    page = Browser(source).page(Query(), 0, 100)
    assert [row["index"] for row in page["rows"]] == list(range(40))
    path.write_bytes(b"".join(lines[:3]))  # another run began in its place
    source.advance(1)
    assert (source.total, source.problem) == (3, "")
    with path.open("ab") as file:
        file.write(b"no journal line\n")
    source.advance(1)
    assert (source.total, source.expected) == (3, 3)
    assert "no journal line at byte" in source.problem


def test_reading_a_long_journal_says_how_far_it_is(folder):
    source = JournalSource(folder / JOURNAL)
    seen = []
    while not seen or source.expected > source.total:
        source.advance(-1.0)
        seen.append(source.expected)
    assert len(seen) == COUNT
    assert all(COUNT / 2 < guess < COUNT * 2 for guess in seen)


def test_the_catalogue_reads_what_is_newest(tmp_path):
    folder = make_run(tmp_path / "runs", "copy", "m", [0.0, 1.0])
    catalogue = Catalogue([str(tmp_path / "runs")])
    (entry,) = catalogue.entries()
    assert (entry.state, entry.journal) == ("complete", None)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "expected": 5}))
    catalogue._looked = -math.inf
    (entry,) = catalogue.entries()
    assert (entry.journal, entry.expected) == (folder / JOURNAL, 5)
    assert entry.state in ("running", "stopped")
    about = entry.about()
    assert (about["records"], about["mean"], about["score"]) == (2, 0.5, None)
    with pytest.raises(LookupError):
        catalogue.entry("../runs")
    with pytest.raises(HarnessError, match="no run folder"):
        Catalogue([str(tmp_path / "none")])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"in": "everything"}, "in=everything"),
        ({"sort": "__class__"}, "sort=__class__"),
        ({"low": "much"}, "low=much"),
        ({"high": "nan"}, "high=nan"),
    ],
)
def test_questions_that_make_no_sense_are_refused(given, reason):
    with pytest.raises(HarnessError, match=reason):
        Query.of(given)


@pytest.mark.parametrize("text", ["-1", "1e3", "²", "201"])
def test_numbers_in_addresses_are_whole_and_bounded(text):
    with pytest.raises(HarnessError, match="whole number"):
        queries.whole({"count": text}, "count", 50, 200)


def test_short_answers():
    assert short(None) == ""
    assert short(" a\n b ") == "a b"
    assert short({"pure": [], "mixed": []}) == '{"pure":[],"mixed":[]}'
    assert len(short("x" * 1000)) == sources.SHORT
