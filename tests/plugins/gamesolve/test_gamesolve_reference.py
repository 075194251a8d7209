"""Reading files in the reference study's record schema: what is read, kept, audited and refused."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from harness.types import HarnessError
from harness_plugins.tasks.gamesolve.checks import problems
from harness_plugins.tasks.gamesolve.data import Source, read
from harness_plugins.tasks.gamesolve.reference import read_file, to_sample
from harness_plugins.tasks.gamesolve.task import GameSolve


def nash_record(**changes: object) -> dict[str, object]:
    """A record as the study's generator writes them; its label misses the mixed equilibrium."""
    record: dict[str, object] = {
        "id": "nash_2x2_general_0123456789",
        "task": "nash_equilibrium",
        "game_type": "general",
        "dimensions": [2, 2],
        "row_labels": ["A", "B"],
        "col_labels": ["A", "B"],
        "payoff_matrix_row": [[2, 0], [0, 1]],
        "payoff_matrix_col": [[1, 0], [0, 2]],
        "context": "market competition",
        "role_row": "Firm 1",
        "role_col": "Firm 2",
        "descriptions": {"abstract": "...", "story": "...", "compact": "..."},
        "ground_truth": {
            "equilibria": [
                {"sigma_row": [1.0, 0.0], "sigma_col": [1.0, 0.0], "is_pure": True},
                {"sigma_row": [0.0, 1.0], "sigma_col": [0.0, 1.0], "is_pure": True},
            ],
            "n_equilibria": 2,
            "equilibrium_class": "pure",
        },
        "metadata": {"difficulty": "easy", "generation_attempt": 1},
    }
    return record | changes


def response_record(**changes: object) -> dict[str, object]:
    record: dict[str, object] = {
        "id": "ood_br_2x3_non_integer_0123456789",
        "task": "best_response",
        "game_type": "general",
        "row_labels": ["A", "B"],
        "col_labels": ["A", "B", "C"],
        "payoff_matrix_row": [[2.5, 0, -0.07], [0.1, 1, 3]],
        "payoff_matrix_col": [[1, 0, 0], [0, 2, 0]],
        "opponent_sigma": [0.3333, 0.3333, 0.3333],
        "descriptions": {"abstract": "..."},
        "ground_truth": {"best_response_actions": [1], "is_unique": True},
        "metadata": {"difficulty": "ood", "ood_category": "non_integer"},
    }
    return record | changes


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))

    def write(*records: object) -> str:
        path = tmp_path / "records.jsonl"
        path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records))
        return str(path)

    return write


def test_a_nash_record_gets_the_exact_truth_and_keeps_its_label():
    sample = to_sample(nash_record(), line=1)
    assert sample.id == "nash_2x2_general_0123456789"
    assert sample.split == "test"
    assert sample.group == "nash/2x2/general/both"
    assert sample.data["context"] == "market"
    assert sample.data["format"] in ("abstract", "story", "compact")
    assert len(sample.truth["equilibria"]) == 3
    assert sample.data["reference_truth"]["n_equilibria"] == 2
    assert sample.data["difficulty"] == "medium"


def test_a_response_record_is_read_digit_by_digit():
    sample = to_sample(response_record(), line=1)
    assert sample.data["row"] == [["2.5", 0, "-0.07"], ["0.1", 1, 3]]
    assert sample.data["sigma"] == ["0.3333", "0.3333", "0.3333"]
    assert sample.data["responder"] == "row"
    assert Fraction(sample.truth["value"]) == Fraction("4.1") * Fraction("0.3333")
    assert sample.truth["best"] == [1]
    assert sample.group == "br/2x3/non_integer"
    assert sample.data["category"] == "non_integer"


@pytest.mark.parametrize(
    ("category", "size", "shown"),
    [
        ("novel_format_math", 2, "math"),
        ("novel_format_json", 2, "json"),
        ("novel_format_table", 2, "markdown"),
        ("combined_hard", 5, "math"),
        ("combined_hard", 6, "json"),
        ("large_matrix", 6, "abstract"),
    ],
)
def test_the_category_says_which_format_an_item_was_told_in(category, size, shown):
    names = [chr(65 + i) for i in range(size)]
    matrix = [[i * j % 7 for j in range(size)] for i in range(size)]
    record = nash_record(
        row_labels=names,
        col_labels=names,
        payoff_matrix_row=matrix,
        payoff_matrix_col=matrix,
        descriptions={"abstract": "..."},
        metadata={"ood_category": category},
    )
    assert to_sample(record, 1).data["format"] == shown


def test_a_file_is_a_source_like_any_other(file):
    path = file(nash_record(), response_record(), nash_record(id="b", split="train"))
    task = GameSolve({"data": path})
    assert [s.id for s in task.samples("train")] == ["b"]
    assert list(task.samples("validation")) == []
    assert len(list(task.samples("test"))) == 2
    assert len(list(task.samples("all"))) == 3
    assert len(task.data_identity()) == 64
    before = task.data_identity()
    file(nash_record())
    assert task.data_identity() != before
    assert [s.id for s in task.samples("all")] == ["nash_2x2_general_0123456789"]


def test_labels_that_are_not_the_whole_truth_are_reported(file):
    pytest.importorskip("nashpy")
    continuum = nash_record(
        id="c", payoff_matrix_row=[[1, 1], [0, 0]], payoff_matrix_col=[[1, 1], [0, 0]]
    )
    wrong = response_record(ground_truth={"best_response_actions": [0]})
    right = response_record(id="r")
    samples = read(Source("gamesolve", file=file(nash_record(), continuum, wrong, right)), "all")
    found = list(problems(samples, ""))
    assert len(found) == 6
    assert any("equilibrium 2 is none: the row player gains 1" in text for text in found)
    assert any("lists 2 of 3 extreme equilibria" in text for text in found)
    assert any("there is a continuum" in text for text in found)
    assert any("says pure, and the class is both" in text for text in found)
    assert any("says [0], and best are [1]" in text for text in found)
    assert not any(text.startswith("r:") for text in found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "chess"}, "line 2, task: 'chess' is none of"),
        ({"payoff_matrix_row": None}, "payoff_matrix_row: must be a list of rows"),
        ({"payoff_matrix_row": [[1, 2], [3]]}, "payoff_matrix_row: must have rows of one length"),
        ({"payoff_matrix_row": [[1, "2"], [3, 4]]}, "payoff_matrix_row: '2' is not a number"),
        ({"payoff_matrix_row": [[True, 2], [3, 4]]}, "payoff_matrix_row: True is not a number"),
        ({"payoff_matrix_col": [[1, 2]]}, "payoff_matrix_col: must have the shape of"),
        ({"row_labels": ["A"]}, "row_labels: must hold 2 different names"),
        ({"col_labels": ["A", "a"]}, "col_labels: must hold 2 different names"),
        ({"col_labels": "AB"}, "col_labels: must be a list of names"),
        ({"game_type": "odd"}, "game_type: 'odd' is none of"),
        ({"metadata": [1]}, "metadata: must be an object"),
        ({"split": "dev"}, "split: 'dev' is none of"),
        ({"payoff_matrix_row": [[0] * 13] * 2}, "payoff_matrix_row: has more than 12 actions"),
    ],
)
def test_errors_name_the_line_and_the_field(file, change, message):
    path = file(nash_record(id="first"), nash_record(**change))
    with pytest.raises(HarnessError) as error:
        read_file(path)
    assert message in str(error.value)
    assert f"{path}, line 2" in str(error.value)


@pytest.mark.parametrize(
    "sigma", [None, [0.5, 0.5], [0.5, 0.5, 0.5], [1.5, -0.5, 0.0], ["a", 0, 1]]
)
def test_strategies_that_are_none_are_refused(sigma):
    with pytest.raises(HarnessError, match="line 7, opponent_sigma: "):
        to_sample(response_record(opponent_sigma=sigma), line=7)


def test_broken_files_are_refused(file, tmp_path):
    twice = file(nash_record(), nash_record())
    with pytest.raises(HarnessError, match="line 2, id: the same as in line 1"):
        read_file(twice)
    broken = Path(file(nash_record()))
    broken.write_text(broken.read_text() + "{not json\n")
    with pytest.raises(HarnessError, match="line 2: not JSON"):
        read_file(str(broken))
    broken.write_text("\n\n")
    with pytest.raises(HarnessError, match="no records"):
        read_file(str(broken))
    with pytest.raises(HarnessError, match=r"line 1, record: must be a JSON object"):
        to_sample([], line=1)
    with pytest.raises(HarnessError, match="cannot read data file"):
        list(GameSolve({"data": str(tmp_path / "missing.jsonl")}).samples("test"))
