"""Answers to a file of questions: what was done stays done, and what is not these questions' is left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphmill.engine.answer_file import AnswerFile
from graphmill.engine.config import ConfigError
from graphmill.engine.question_file import QuestionRow

ROWS = [QuestionRow(f"What is {n}?", str(n), n, "naive") for n in range(1, 5)]
HOW = {"index": "i", "asked": {"llm": "here", "top_k": 3}}
MADE_WITH = {"model": "m"}


def row(number: int, **more: object) -> dict[str, object]:
    return {"id": str(number), "question": f"What is {number}?", "mode": "naive", **HOW, **MADE_WITH, **more}


def written(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_run_that_was_stopped_goes_on_after_the_last_whole_line_and_asks_again_what_failed(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with AnswerFile(path, ROWS, HOW) as answers:
        assert not answers.done
        answers.begin(MADE_WITH)
        answers.write(row(1, answer="é\u2028"))
        answers.write(row(2, error="busy"))
        answers.write(row(3, answer="x"))
    with path.open("a") as out:
        out.write('{"id": "4", "quest')
    with AnswerFile(path, ROWS, HOW) as answers:
        assert answers.done == {("1", "naive"), ("3", "naive")}
        answers.begin(MADE_WITH)
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
        (json.dumps(row(1, index="x")), "was made with index = 'x', this run has index = 'i';"),
        (
            json.dumps(row(1, asked={"llm": "there", "top_k": 3})),
            "was made with asked.llm = 'there', this run has asked.llm = 'here';",
        ),
        (
            json.dumps(row(1, asked={"llm": "here", "top_k": 3, "level": 1})),
            "was made with asked.level = 1, this run has asked.level = None;",
        ),
        (json.dumps({"id": "1", "question": "What is 1?"}), "was made with index = None, asked = None"),
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


@pytest.mark.parametrize("content", ["notes", '{"ids": 1}', "[1]", json.dumps(row(1)) + "\nnotes"])
def test_a_last_line_is_only_taken_for_one_that_was_cut_off_where_it_begins_as_one(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text(content)
    with pytest.raises(ConfigError, match="is no answer"):
        AnswerFile(path, ROWS, HOW)
    assert path.read_text() == content


def test_answers_of_another_model_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = written(tmp_path / "out.jsonl", row(1), row(2, error="busy"))
    before = path.read_bytes()
    with (
        AnswerFile(path, ROWS, HOW) as answers,
        pytest.raises(ConfigError, match="made with model = 'm', this run has model = 'n'"),
    ):
        answers.begin({"model": "n"})
    assert path.read_bytes() == before


def test_a_question_that_is_to_be_asked_in_another_mode_now_is_asked_again(tmp_path: Path) -> None:
    path = written(tmp_path / "out.jsonl", row(1), row(2, mode="local"), row(3))
    with AnswerFile(path, ROWS, HOW) as answers:
        assert answers.done == {("1", "naive"), ("3", "naive")}
        answers.begin(MADE_WITH)
        answers.write(row(2))
    assert [json.loads(line)["mode"] for line in path.read_text().splitlines()] == ["naive"] * 3


def test_nothing_is_written_before_the_run_begins(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with AnswerFile(path, ROWS, HOW):
        pass
    assert not list(tmp_path.iterdir())
    before = written(path, row(1, error="busy")).read_bytes() + b'{"id'
    path.write_bytes(before)
    with AnswerFile(path, ROWS, HOW) as answers:
        assert not answers.done
    assert path.read_bytes() == before


def test_a_second_process_is_refused_until_the_first_one_is_done(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    code = (
        "import sys; from pathlib import Path; from graphmill.engine.answer_file import AnswerFile\n"
        "with AnswerFile(Path(sys.argv[1]), [], {}) as answers: answers.begin({}); answers.write({'id': 'other'})"
    )
    (tmp_path / "link.jsonl").symlink_to(path)
    other = [sys.executable, "-c", code, str(tmp_path / "link.jsonl")]
    with AnswerFile(path, ROWS, HOW) as answers:
        answers.begin(MADE_WITH)
        answers.write(row(1))
        refused = subprocess.run(other, capture_output=True, text=True, check=False)
        assert f"another process is writing the answers to {path}; " in refused.stderr
        answers.write(row(2))
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["1", "2"]
    path.unlink()
    assert subprocess.run(other, check=False).returncode == 0
    assert json.loads(path.read_text()) == {"id": "other"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.jsonl", "out.jsonl"]


def test_a_link_is_followed_and_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    path, link, pipe = (tmp_path / name for name in ("out.jsonl", "link.jsonl", "pipe"))
    written(path, row(1))
    link.symlink_to(path)
    with AnswerFile(link, ROWS, HOW) as answers:
        assert answers.done == {("1", "naive")}
        answers.begin(MADE_WITH)
        answers.write(row(2))
    assert link.is_symlink()
    assert len(path.read_text().splitlines()) == 2
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        with pytest.raises(ConfigError, match=f"{place}: it is no regular file"):
            AnswerFile(place, ROWS, HOW)
    assert pipe.is_fifo()


def test_text_that_utf_8_has_no_bytes_for_does_not_end_a_run(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with AnswerFile(path, ROWS, HOW) as answers:
        answers.begin(MADE_WITH)
        answers.write(row(1, answer="a\ud83db"))
        answers.write(row(2))
    assert [json.loads(line).get("answer") for line in path.read_bytes().splitlines()] == ["a?b", None]


def test_a_place_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"can't write the answers to .*nowhere"):
        AnswerFile(tmp_path / "nowhere" / "out.jsonl", ROWS, HOW)
