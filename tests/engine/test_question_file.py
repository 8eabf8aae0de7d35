"""A file of questions is read whole, and every bad line of it is named."""

from __future__ import annotations

import codecs
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from graphmill.engine.question_file import QuestionFileError, QuestionRow, read_questions
from graphmill.jobs.errors import explain


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "questions.jsonl"


def reason(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines), "utf-8")
    with pytest.raises(QuestionFileError) as raised:
        read_questions(path)
    return str(raised.value)


def test_a_line_is_read_with_its_fields_and_keeps_the_rest(path: Path) -> None:
    row: dict[str, Any] = {"question": "Who?", "id": 7, "mode": "local", "facts": ["Ada", ["Ada L.", "Lovelace"]]}
    path.write_text(
        json.dumps(row | {"documents": ["a/b.txt"], "mode_hint": "naive", "level": None, "n": [1]}), "utf-8"
    )
    assert read_questions(path) == [
        QuestionRow(
            "Who?", "7", 1, "local", (("Ada",), ("Ada L.", "Lovelace")), ("a/b.txt",), {"mode_hint": "naive", "n": [1]}
        )
    ]


def test_a_question_alone_is_enough_and_its_id_is_its_line(path: Path) -> None:
    path.write_text('\n{"question": "One?"}\r\n\r\n  \n{"question": "Two?", "facts": null, "id": null}\n', "utf-8")
    assert read_questions(path) == [QuestionRow("One?", "2", 2), QuestionRow("Two?", "5", 5)]


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", codecs.BOM_UTF8), ("utf-16-le", codecs.BOM_UTF16_LE)])
def test_a_file_with_a_byte_order_mark_is_read(path: Path, encoding: str, mark: bytes) -> None:
    path.write_bytes(mark + '{"question": "灯塔在哪里？"}\n'.encode(encoding))
    assert [row.question for row in read_questions(path)] == ["灯塔在哪里？"]


def test_a_line_separator_inside_a_text_ends_no_line_and_half_a_character_is_mended(path: Path) -> None:
    path.write_text('{"question": "One\u2028line\u0085?", "facts": ["\\ud83d", "\\ud83d\\ude00"]}', "utf-8")
    (row,) = read_questions(path)
    assert row.question.startswith("One\u2028line")
    assert row.facts == (("\ufffd",), ("\U0001f600",))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"question": "Who?"', "not JSON: Expecting ',' delimiter at character 20"),
        ('["Who?"]', 'must be an object with a "question", got ["Who?"]'),
        ('{"query": "Who?"}', 'has no "question"'),
        ('{"question": " \\u200b"}', '"question" must be a text that asks something, got " \u200b"'),
        ('{"question": 3}', '"question" must be a text that asks something, got 3'),
        ('{"question": "Who?", "mode": "globall"}', '"mode" must be one of naive, local, global'),
        ('{"question": "Who?", "mode": ["local"]}', 'drift, bypass, got ["local"]'),
        ('{"question": "Who?", "facts": "Ada"}', '"facts" must be a list, got "Ada"'),
        ('{"question": "Who?", "facts": ["Ada", 1843]}', '"facts" must hold texts, got 1843'),
        ('{"question": "Who?", "facts": ["Ada", []]}', "got an empty list"),
        ('{"question": "Who?", "facts": [["Ada", ""]]}', '"facts" must hold texts, got ""'),
        ('{"question": "Who?", "documents": [["a.txt"]]}', '"documents" must hold texts, got ["a.txt"]'),
        ('{"question": "Who?", "id": true}', '"id" must be a text or a whole number, got true'),
        ('{"question": "Who?", "id": 1.5}', '"id" must be a text or a whole number, got 1.5'),
        ("[" * 100_000, "not JSON"),
        ('{"question": "Who?", "n": ' + "9" * 5000 + "}", "not JSON that can be read"),
    ],
)
def test_a_bad_line_is_named_with_its_reason(path: Path, line: str, words: str) -> None:
    message = reason(path, '{"question": "Good?"}', "", line)
    assert message.startswith(f"{path} has 1 bad line:\n  line 3: ")
    assert words in message


def test_all_bad_lines_are_named_up_to_ten_and_the_others_counted(path: Path) -> None:
    message = reason(path, *['{"question": ""}'] * 2, '{"question": "Good?"}', *["{"] * 10)
    assert f"{path} has 12 bad lines:\n  line 1: " in message
    assert [line.split(":")[0].strip() for line in message.splitlines()[1:-1]] == [
        f"line {n}" for n in (1, 2, 4, 5, 6, 7, 8, 9, 10, 11)
    ]
    assert message.endswith("\n  and 2 more")


def test_two_questions_with_one_id_are_refused_even_where_one_is_a_line_number(path: Path) -> None:
    assert "line 2: \"id\" must be its own, got 'x', which line 1 has too" in reason(
        path, '{"question": "One?", "id": "x"}', '{"question": "Two?", "id": "x"}'
    )
    assert "line 2: \"id\" must be its own, got '2', which line 1 has too" in reason(
        path, '{"question": "One?", "id": 2}', '{"question": "Two?"}'
    )


def test_a_file_that_is_missing_empty_or_binary_is_refused_as_bad_usage(path: Path, tmp_path: Path) -> None:
    for content, words in ((b"\n\n", "holds no question"), (b"\0\1\2", r"it is no JSONL file \(NUL bytes\)")):
        path.write_bytes(content)
        with pytest.raises(QuestionFileError, match=words) as raised:
            read_questions(path)
        assert explain(raised.value)[1] == 2
    with pytest.raises(QuestionFileError, match="No such file"):
        read_questions(tmp_path / "no-such.jsonl")
    with pytest.raises(QuestionFileError, match="Is a directory"):
        read_questions(tmp_path)


def test_the_samples_questions_are_read() -> None:
    rows = read_questions(Path(str(files("graphmill"))) / "sample" / "questions.jsonl")
    assert len(rows) >= 24
    assert all(row.facts and row.documents and row.extra["mode_hint"] for row in rows)
    assert rows[0].id == "en-01"
    assert ("Duncan Ure", "the mate's account") in rows[1].facts
