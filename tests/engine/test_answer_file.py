"""Answers to a file of questions: what was done stays done, and what is not these questions' is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphmill.engine.answer_file import AnswerFile
from graphmill.engine.config import ConfigError
from graphmill.engine.question_file import QuestionRow

ROWS = [QuestionRow(f"What is {n}?", str(n), n) for n in range(1, 5)]
HOW = {"model": "m"}


def row(number: int, **more: object) -> dict[str, object]:
    return {"id": str(number), "question": f"What is {number}?", "model": "m", **more}


def test_a_run_that_was_stopped_goes_on_after_the_last_whole_line_and_asks_again_what_failed(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with AnswerFile(path, ROWS, HOW) as answers:
        assert not answers.done
        answers.write(row(1, answer="é\u2028"))
        answers.write(row(2, error="busy"))
        answers.write(row(3, answer="x"))
    with path.open("a") as out:
        out.write('{"id": "4", "quest')
    with AnswerFile(path, ROWS, HOW) as answers:
        assert answers.done == {"1", "3"}
        answers.write(row(4, answer="y"))
    assert [json.loads(line)["id"] for line in path.read_text("utf-8").split("\n") if line] == ["1", "3", "4"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": "9", "question": "What is 9?"}', "line 1 answers a question with the id '9' that is not among these"),
        ('{"id": "1", "question": "What else?"}', "not among these"),
        ('{"id": ["1"], "question": "What is 1?"}', "not among these"),
        ("# notes", "line 1 is no answer"),
        ("[1]", "line 1 is no answer"),
        (json.dumps({**row(1), "model": "other"}), "was made with model = 'other', this run has model = 'm'"),
    ],
)
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text(f"{line}\n{json.dumps(row(2))}\n")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="--out") as raised:
        AnswerFile(path, ROWS, HOW)
    assert says in str(raised.value)
    assert path.read_bytes() == before


def test_a_place_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"can't write the answers to .*nowhere"):
        AnswerFile(tmp_path / "nowhere" / "out.jsonl", ROWS, HOW)
