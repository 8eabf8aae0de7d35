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
    (own, param), (other, general) = read(tmp_path / "q.jsonl", given, {"mode": "naive"}, level=1, mode="local")
    assert param == replace(QueryParam(mode="local"), **given)
    assert (own.mode, own.param) == ("local", given)
    assert general == QueryParam(mode="naive", level=1)
    assert (other.mode, other.param) == ("naive", {})


def test_null_is_a_field_that_is_not_there(tmp_path: Path) -> None:
    ((row, param),) = read(tmp_path / "q.jsonl", {"level": None, "lexical": None}, level=1, lexical=True)
    assert (param.level, param.lexical, row.param) == (1, True, {})


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"level": "hard"}, '"level" must be a whole number, got "hard"'),
        ({"level": 1.5}, '"level" must be a whole number, got 1.5'),
        ({"top_k": True}, '"top_k" must be a whole number, got true'),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
        ({"global_min_community_rating": "2"}, '"global_min_community_rating" must be a number, got "2"'),
        ({"strict": "yes"}, '"strict" must be true or false, got "yes"'),
        ({"user_prompt": ["short"]}, '"user_prompt" must be a text, got ["short"]'),
        ({"hl_keywords": "harbour"}, '"hl_keywords" must be a list of texts, got "harbour"'),
        ({"ll_keywords": ["a", 1]}, '"ll_keywords" must be a list of texts, got ["a", 1]'),
        ({"conversation_history": [{"role": "user"}]}, '"conversation_history" must be a list of {"role"'),
        ({"conversation_history": [{"role": "tool", "content": "x"}]}, "got [{"),
        ({"global_special_community_map_llm_kwargs": []}, "must be an object, got []"),
        ({"max_token_for_text_unit": "many"}, '"max_token_for_text_unit" must be a whole number, got "many"'),
    ],
)
def test_a_value_that_can_not_be_is_named_with_its_line_and_field(
    tmp_path: Path, own: dict[str, Any], says: str
) -> None:
    path = tmp_path / "q.jsonl"
    with pytest.raises(QuestionFileError) as raised:
        read(path, {}, own, {"level": 0})
    assert str(raised.value).startswith(f"{path} has 1 bad line:\n  line 2: ")
    assert says in str(raised.value)


def test_fields_that_nothing_reads_are_counted_and_many_of_them_cut_short(tmp_path: Path) -> None:
    rows = [row for row, _ in read(tmp_path / "q.jsonl", {"stream": True, "hl_keyword": ["x"]}, {"stream": False})]
    assert unused_fields(rows) == "hl_keyword (1 line; is hl_keywords meant?), stream (2 lines)"
    many = [replace(rows[0], extra={f"note {n}": 1 for n in range(12)})]
    assert unused_fields(many).endswith("note 9 (1 line) and 2 more")
    assert unused_fields([]) == ""
