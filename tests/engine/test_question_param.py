"""What a line of a file of questions sets for its own question, and what is said where it can't be set."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from graphmill.engine.query_param import QueryParam
from graphmill.engine.question_file import QuestionFileError, QuestionRow, read_questions
from graphmill.engine.question_param import unused_fields, with_own_param

VALUES: dict[str, Any] = {
    "response_type": "One sentence",
    "local_community_single_one": True,
    "global_min_community_rating": 2.5,
    "global_special_community_map_llm_kwargs": {},
    "hl_keywords": ["harbour"],
    "conversation_history": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Ada."}],
    "max_token_for_text_unit": 100,
    "lexical": False,
}


def read(path: Path, *rows: dict[str, Any], **general: Any) -> list[tuple[QuestionRow, QueryParam]]:
    path.write_text("\n".join(json.dumps({"question": "Who?", **row}) for row in rows), "utf-8")
    return with_own_param(path, read_questions(path), general)


def test_a_line_can_set_every_field_but_the_stream_and_what_it_leaves_is_what_is_set_for_all(tmp_path: Path) -> None:
    defaults = {f.name: getattr(QueryParam(), f.name) for f in fields(QueryParam)}
    given = {name: value for name, value in defaults.items() if name not in ("mode", "stream") and value is not None}
    given = json.loads(json.dumps(given)) | VALUES
    rows = {"param": given}, {"mode": "naive"}
    (own, param), (other, general) = read(tmp_path / "q.jsonl", *rows, level=1, mode="local")
    assert param == replace(QueryParam(mode="local"), **given)
    assert (own.mode, own.param) == ("local", given)
    assert general == QueryParam(mode="naive", level=1)
    assert (other.mode, other.param) == ("naive", {})


def test_null_is_what_is_set_for_all_and_a_line_s_own_fields_set_nothing(tmp_path: Path) -> None:
    lines = {"param": {"level": None, "lexical": None}}, {"param": None}, {"level": "hard", "top_k": 3}
    for row, param in read(tmp_path / "q.jsonl", *lines, level=1, lexical=True):
        assert (param.level, param.top_k, param.lexical, row.param) == (1, 20, True, {})


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"level": "hard"}, "level must be a whole number, got 'hard'"),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
        ({"strict": "yes"}, "strict must be True or False, got 'yes'"),
        ({"hl_keywords": "harbour"}, "hl_keywords must be a list of strings, got 'harbour'"),
        (
            {"conversation_history": [{"role": "tool", "content": "x"}]},
            "conversation_history must be a list of messages",
        ),
        ({"mode": "naive"}, '"param" can\'t set "mode"; it stands beside it'),
        ({"stream": True}, '"param" can\'t set "stream"'),
        ({"hl_keyword": ["x"]}, '"param" can\'t set "hl_keyword"; is hl_keywords meant?'),
        (["top_k"], '"param" must be an object, got ["top_k"]'),
        (3, '"param" must be an object, got 3'),
    ],
)
def test_a_value_that_can_not_be_is_named_with_its_line_and_field(tmp_path: Path, own: Any, says: str) -> None:
    path = tmp_path / "q.jsonl"
    with pytest.raises(QuestionFileError) as raised:
        read(path, {}, {"param": own}, {"param": {"level": 0}})
    assert str(raised.value).startswith(f"{path} has 1 bad line:\n  line 2: ")
    assert says in str(raised.value)


def test_fields_that_nothing_reads_are_counted_and_many_of_them_cut_short(tmp_path: Path) -> None:
    lines = {"stream": True, "hl_keyword": ["x"], "level": "hard"}, {"stream": False, "params": {}}
    rows = [row for row, _ in read(tmp_path / "q.jsonl", *lines)]
    assert unused_fields(rows) == (
        'hl_keyword (1 line; is "param": {"hl_keywords": …} meant?), level (1 line; is "param": {"level": …} meant?), '
        "params (1 line; is param meant?), stream (2 lines)"
    )
    many = [replace(rows[0], extra={f"note {n}": 1 for n in range(12)})]
    assert unused_fields(many).endswith("note 9 (1 line) and 2 more")
    assert unused_fields([]) == ""
