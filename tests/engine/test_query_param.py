"""What a question may set: every field takes what it is declared as, and says so where it is given something else."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from graphmill import QueryParam

TURNS = [{"role": "user", "content": "Who met Ada?"}, {"role": "assistant", "content": "Elias did."}]


def param(**values: Any) -> QueryParam:
    return QueryParam(**values)


@pytest.mark.parametrize("name", [f.name for f in fields(QueryParam)])
def test_every_field_refuses_what_is_of_no_type_it_knows_and_names_itself_and_the_value(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be .*, got 3j$"):
        param(**{name: 3j})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("top_k", 2.5, "a whole number, got 2.5"),
        ("top_k", float("nan"), "a whole number, got nan"),
        ("top_k", True, "a whole number, got True"),
        ("top_k", "20", "a whole number, got '20'"),
        ("top_k", 0, "at least 1, got 0"),
        ("top_k", None, "a whole number, got None"),
        ("chunk_top_k", 0, "at least 1, got 0"),
        ("chunk_top_k", np.int64(-1), "at least 1, got -1"),
        ("level", None, "a whole number, got None"),
        ("level", np.int64(-1), "at least 0, got -1"),
        ("max_total_tokens", None, "a whole number, got None"),
        ("max_token_for_text_unit", 1.0, "a whole number or None, got 1.0"),
        ("history_turns", -1, "at least 0, got -1"),
        ("global_min_community_rating", float("nan"), "at least 0, got nan"),
        ("global_min_community_rating", True, "a number, got True"),
        ("stream", 1, "True or False, got 1"),
        ("strict", None, "True or False, got None"),
        ("lexical", "no", "True, False or None, got 'no'"),
        ("response_type", None, "a text, got None"),
        ("user_prompt", ["be brief"], "a text, got ['be brief']"),
        ("hl_keywords", "weaving", "a list of strings, got 'weaving'"),
        ("ll_keywords", ["Ada", 3], "a list of strings, got ['Ada', 3]"),
        ("global_special_community_map_llm_kwargs", [], "a mapping of names to values, got []"),
        ("global_special_community_map_llm_kwargs", {1: 2}, "a mapping of names to values, got {1: 2}"),
        ("conversation_history", "hello", "got 'hello'"),
        ("conversation_history", {"role": "user", "content": "x"}, "got {'content': 'x', 'role': 'user'}"),
        ("conversation_history", [*TURNS, {"role": "user"}], "got {'role': 'user'}"),
        ("conversation_history", [{"role": "tool", "content": "x"}], "got {'content': 'x', 'role': 'tool'}"),
        ("conversation_history", [{"role": [], "content": "x"}], "got {'content': 'x', 'role': []}"),
        ("conversation_history", [{"role": "assistant", "content": None}], "got {'content': None"),
        ("conversation_history", [("Who met Ada?", "Elias did.")], "got ('Who met Ada?', 'Elias did.')"),
        ("mode", "globl", "drift, bypass, got 'globl'"),
    ],
)
def test_what_a_field_does_not_take_is_refused_with_what_it_takes(name: str, value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be ") as raised:
        param(**{name: value})
    assert said in str(raised.value)
    assert len(str(raised.value)) < 300


def test_messages_are_refused_with_the_roles_that_they_may_have() -> None:
    with pytest.raises(
        ValueError, match=r'each a mapping with a "role" \(system, user, assistant\) and a text as "con'
    ):
        param(conversation_history=[{"content": "x"}])


def test_none_is_taken_where_users_of_others_pass_it() -> None:
    names = ["hl_keywords", "ll_keywords", "conversation_history", "user_prompt"]
    kwargs = "global_special_community_map_llm_kwargs"
    found = param(top_k=7, chunk_top_k=None, **dict.fromkeys([*names, kwargs]))
    assert found.chunk_top_k == 7
    assert replace(found, top_k=3).chunk_top_k == 7
    assert found == QueryParam(top_k=7, chunk_top_k=7, global_special_community_map_llm_kwargs={})
    assert not found.history


def test_numbers_and_flags_of_numpy_are_kept_as_those_of_python() -> None:
    found = param(top_k=np.int64(5), level=np.uint8(1), global_min_community_rating=np.float32(2.5), strict=np.False_)
    assert found == param(top_k=5, level=1, global_min_community_rating=2.5, strict=False)
    assert {type(found.top_k), type(found.level)} == {int}
    assert json.dumps(asdict(found)) == json.dumps(
        asdict(param(top_k=5, level=1, global_min_community_rating=2.5, strict=False))
    )


def test_what_is_given_is_copied_so_that_it_may_change_while_a_question_is_under_way() -> None:
    history, words, options = [dict(turn, metadata={"title": None}) for turn in TURNS], ["weaving"], {"seed": 1}
    found = param(
        conversation_history=history,
        hl_keywords=(word for word in words),
        global_special_community_map_llm_kwargs=MappingProxyType(options),
    )
    history[0]["content"] = "changed"
    history.clear()
    options.clear()
    assert list(found.conversation_history) == TURNS
    assert found.hl_keywords == ("weaving",)
    assert found.global_special_community_map_llm_kwargs == {"seed": 1}


def test_all_defaults_are_taken_when_they_are_given() -> None:
    default = QueryParam()
    given = param(**{f.name: getattr(default, f.name) for f in fields(QueryParam)})
    assert given == default
    anew = param(naive_max_token_for_text_unit=int("12000"), response_type="".join(["Multiple", " Paragraphs"]))
    assert anew == default
