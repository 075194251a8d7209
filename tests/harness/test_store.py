"""The run folder: torn journals, locks, full disks, and the same bytes again."""

from __future__ import annotations

import os

import orjson
import pytest

from harness import journal as journal_module
from harness.journal import Journal, record_from_json
from harness.store import RunFolder, read_records, spec_hash
from harness.tables import batches
from harness.types import HarnessError, Message, Move, Outcome, Record, Reply, Score


def record(index, text="hello"):
    reply = Reply(text, "stop", 3, 1, "because", (1, 2), (3,), (-0.5,))
    move = Move(0, reply, {"a": ["1/3"]}, "ok", (Message("user", "hi"),), 0, 1)
    outcome = Outcome((move,), "ok", (1.0, 0.0), {"board": "x"})
    score = Score(0.5, {"part": 0.5}, {"raw": 7}, (0.5,))
    return Record(index, "t", f"s{index}", "test", 0, 0, "g", "c", "k", outcome, score)


def test_records_survive_the_journal_whole(tmp_path):
    with Journal(tmp_path / "j") as journal:
        for index in (2, 0, 1):
            journal.append(record(index), 1.0, 0.1, 1)
        assert journal.commit() == [2, 0, 1]
        assert list(journal.records()) == [record(0), record(1), record(2)]
    assert record_from_json(orjson.loads(orjson.dumps(record(5)))) == record(5)


def test_a_record_counts_only_after_commit(tmp_path):
    with Journal(tmp_path / "j") as journal:
        journal.append(record(0), 1.0, 0.1, 1)
        assert not journal.has(0)
        journal.commit()
        assert journal.has(0)


def test_a_record_counts_once(tmp_path):
    with Journal(tmp_path / "j") as journal:
        for text in ("first", "second"):
            journal.append(record(0, text), 1.0, 0.1, 1)
            journal.commit()
        assert journal.finished == 1
        assert next(iter(journal.records())).outcome.moves[0].reply.text == "first"


@pytest.mark.parametrize("cut", [1, 5, 60, 300])
def test_a_torn_line_is_cut_off(tmp_path, cut):
    path = tmp_path / "j"
    with Journal(path) as journal:
        for index in range(3):
            journal.append(record(index), 1.0, 0.1, 1)
    os.truncate(path, path.stat().st_size - cut)
    with Journal(path) as journal:
        assert [r.index for r in journal.records()] == [0, 1]
        journal.append(record(2), 1.0, 0.1, 1)
    with Journal(path) as journal:
        assert [r.index for r in journal.records()] == [0, 1, 2]


def test_garbage_in_the_middle_is_named(tmp_path):
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.append(record(0), 1.0, 0.1, 1)
    path.write_bytes(b"garbage\n" + path.read_bytes())
    with pytest.raises(HarnessError, match="line 1"):
        Journal(path)


def test_faults_do_not_count_as_records(tmp_path):
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.append_fault(0, 1.0, "provider_error", "gone", 6)
    with Journal(path) as journal:
        assert (journal.finished, journal.faults, journal.has(0)) == (0, 1, False)


def test_a_full_disk_loses_nothing_that_was_finished(tmp_path, monkeypatch):
    path = tmp_path / "j"
    journal = Journal(path)
    journal.append(record(0), 1.0, 0.1, 1)
    journal.commit()
    real = os.pwrite

    def half_then_full(file, data, offset):
        if offset > journal._size:
            raise OSError(28, "No space left on device")
        return real(file, data[: len(data) // 2], offset)

    journal.append(record(1), 1.0, 0.1, 1)
    monkeypatch.setattr(journal_module.os, "pwrite", half_then_full)
    with pytest.raises(HarnessError, match="No space left on device; all 1 finished records"):
        journal.commit()
    monkeypatch.undo()
    journal.close()
    with Journal(path) as again:
        assert [r.index for r in again.records()] == [0]


def open_folder(root, spec=None, **more):
    return RunFolder.open(root, spec or {"a": 1}, "t--m", {"model_name": "m"}, **more)


def test_the_same_specification_finds_its_folder(tmp_path):
    first = open_folder(tmp_path)
    first.close()
    second = open_folder(tmp_path)
    assert second.path == first.path
    second.close()
    other = open_folder(tmp_path, {"a": 2})
    assert other.path != first.path
    other.close()


def test_two_runs_cannot_hold_one_folder(tmp_path):
    folder = open_folder(tmp_path)
    with pytest.raises(HarnessError, match=rf"another run \(process {os.getpid()}\)"):
        open_folder(tmp_path)
    folder.close()
    open_folder(tmp_path).close()


def test_resuming_another_specification_is_refused(tmp_path):
    folder = open_folder(tmp_path)
    folder.close()
    with pytest.raises(HarnessError, match="another specification"):
        open_folder(tmp_path, {"a": 2}, expect=folder.path)


def test_a_newer_format_is_refused_with_advice(tmp_path):
    folder = open_folder(tmp_path)
    folder.close()
    manifest = orjson.loads((folder.path / "manifest.json").read_bytes())
    (folder.path / "manifest.json").write_bytes(orjson.dumps({**manifest, "format": 99}))
    with pytest.raises(HarnessError, match="format 99"):
        RunFolder.read(folder.path)


def test_reading_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(HarnessError, match="no run folder"):
        RunFolder.read(tmp_path)


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(HarnessError, match="choose another --out"):
        open_folder(tmp_path / "taken")


def test_finish_writes_the_same_bytes_whatever_the_order(tmp_path):
    bytes_seen = set()
    for place, order in enumerate([(0, 1, 2), (2, 1, 0), (1, 2, 0)]):
        folder = open_folder(tmp_path / str(place))
        for index in order:
            folder.journal.append(record(index), place + 1.0, 0.1 * place, 1 + place)
        folder.journal.commit()
        folder.finish({"score": 0.5})
        names = ("records.parquet", "metrics.json")
        bytes_seen.add(tuple((folder.path / name).read_bytes() for name in names))
        assert [r.index for r in read_records(folder.path)] == [0, 1, 2]
        folder.close()
    assert len(bytes_seen) == 1


def test_arrow_rows_hold_what_records_hold():
    row = next(batches([record(4)])).to_pylist()[0]
    assert (row["index"], row["class"], row["value"]) == (4, "ok", 0.5)
    assert row["moves"][0]["messages"] == [{"role": "user", "content": "hi"}]
    assert orjson.loads(row["moves"][0]["parsed"]) == {"a": ["1/3"]}


def test_the_hash_ignores_the_order_of_keys():
    assert spec_hash({"a": 1, "b": 2}) == spec_hash({"b": 2, "a": 1})
