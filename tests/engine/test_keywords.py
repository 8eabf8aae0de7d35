"""Keywords of a question: from a model's reply, and from the phrase finder."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from graphmill.engine.dialogue import Dialogue, Result
from graphmill.engine.function_models import FunctionGenerator
from graphmill.engine.keywords import Keywords, ask_keywords, keyword_messages, phrase_keywords, read_keywords
from graphmill.engine.models import Message, Reply, Request
from graphmill.engine.run_dialogues import run_each

HISTORY: Sequence[Message] = [
    {"role": "user", "content": "Who is\nAda?"},
    {"role": "assistant", "content": "A sailor {question}."},
]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"high_level_keywords": ["trade"], "low_level_keywords": ["Ada", "Ada", " "]}', (("trade",), ("Ada",))),
        ('```json\n{"low_level_keywords": ["罗 阿海"],}\n```', ((), ("罗 阿海",))),
        ('{"high_level_keywords": "a, b，c", "low_level_keywords": null}', (("a", "b", "c"), ())),
        ('<think>{"x": 1}</think>{"high_level_keywords": [], "low_level_keywords": []}', ((), ())),
        ('{"high_level_keywords": [1, "x"], "low_level_keywords": {}}', (("x",), ())),
        ("none", None),
        ('{"keywords": ["a"]}', None),
    ],
)
def test_a_reply_is_read_or_known_to_hold_none(reply: str, expected: tuple[tuple[str, ...], ...] | None) -> None:
    assert read_keywords(reply) == (None if expected is None else Keywords(*expected))


def asked(dialogue: Dialogue[Result], generator: FunctionGenerator) -> Result:
    (result,) = run_each([dialogue], generator, lambda steps: None)
    return result


@pytest.mark.parametrize("question", ["", " \n"])
def test_an_empty_question_has_no_keywords_and_asks_nothing(question: str) -> None:
    calls: list[Request] = []
    generator = FunctionGenerator(lambda request: str(calls.append(request)))
    assert asked(ask_keywords(question, "en", []), generator) == (Keywords(), "")
    assert not calls


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_conversation_comes_before_the_question(language: str) -> None:
    system, user = keyword_messages("When {history}?", language, HISTORY)
    assert "low_level_keywords" in system["content"]
    assert user["content"].index("Who is Ada?") < user["content"].index("A sailor {question}.")
    assert user["content"].endswith("When {history}?")
    alone = keyword_messages("When?", language)[-1]["content"]
    assert "\n" not in alone


def test_a_model_is_asked_and_where_it_fails_the_phrase_finder_gives_them() -> None:
    value = {"high_level_keywords": ["voyages"], "low_level_keywords": ["Ada Thornbury"]}
    question = "Where did Ada Thornbury sail?"
    answering = FunctionGenerator(lambda request: json.dumps(value))
    assert asked(ask_keywords(question, "en", []), answering) == (Keywords(("voyages",), ("Ada Thornbury",)), "")
    for broken in ("no idea", Reply("", error="busy")):
        failing = FunctionGenerator(lambda request, broken=broken: broken)
        found, warning = asked(ask_keywords(question, "en", []), failing)
        assert found == phrase_keywords(question, "en")
        assert "Ada Thornbury" in found.low_level
        assert "the model gave no keywords" in warning


def test_phrases_give_names_and_concepts_in_both_languages() -> None:
    english = phrase_keywords("How did Ingrid Halvorsen come to the lantern kelp?", "en")
    assert english == Keywords(("lantern kelp",), ("Ingrid Halvorsen",))
    chinese = phrase_keywords("北岭大学海洋学院历任院长是谁？", "zh")
    assert "北岭大学海洋学院" in chinese.low_level
    assert not phrase_keywords("What is it?", "en")
    assert not phrase_keywords("这是什么？", "zh")
