"""Many questions in one call: how they may be given, and that a fault of one is none of the others'."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import graphmill
from graphmill import QueryParam
from graphmill.engine.build import OpenIndex
from graphmill.engine.function_models import FunctionGenerator, HashingEmbedder
from graphmill.engine.models import Request
from graphmill.engine.server import ServerError
from graphmill.engine.tokenizers import WordTokenizer

NAIVE = QueryParam(mode="naive")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("each") / "kb"
    texts = [(f"d{n}.txt", f"Ada Thornbury met Elias Wren at Saltmere Castle on day {n}.") for n in range(8)]
    graphmill.index(texts, path, None, HashingEmbedder(32), WordTokenizer())
    return path


@pytest.fixture
def asked() -> list[Request]:
    """What the model is asked."""
    return []


@pytest.fixture
def kb(path: Path, asked: list[Request]) -> Iterator[OpenIndex]:
    def reply(request: Request) -> str:
        asked.append(request)
        is_map = request.id.startswith("query/map")
        return '{"points": [{"description": "They met [1].", "score": 50}]}' if is_map else "Ada met Elias [1]."

    with graphmill.open(path, None, FunctionGenerator(reply), HashingEmbedder(32), WordTokenizer()) as kb:
        yield kb


def test_a_question_is_a_text_or_a_pair_of_which_the_second_may_be_none(kb: OpenIndex) -> None:
    given = ["Who met Ada?", ("Who met Ada?", None), ("Who met Ada?", NAIVE), ["Who met Ada?", NAIVE], "ab"]
    answers = dict(kb.query_each(given))  # type: ignore[arg-type]
    assert [answers[n].mode for n in range(5)] == ["global", "global", "naive", "naive", "global"]
    assert answers[4].question == "ab"
    assert not any(answer.error for answer in answers.values())


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        (None, "None"),
        (7, "7"),
        (b"Who?", "b'Who?'"),
        ((), "()"),
        (("Who?",), "('Who?',)"),
        (("Who?", "naive"), "('Who?', 'naive')"),
        (("Who?", {"mode": "naive"}), "('Who?', {'mode': 'naive'})"),
        (("Who?", NAIVE, 1), "('Who?', QueryParam("),
        ((NAIVE, "Who?"), "(QueryParam("),
        ({"question": "Who?"}, "{'question': 'Who?'}"),
    ],
)
def test_what_is_no_question_is_refused_with_its_place_before_any_is_asked(
    kb: OpenIndex, asked: list[Request], wrong: Any, shown: str
) -> None:
    questions = [("Who met Ada?", NAIVE), "Who?", wrong]
    says = re.escape(f"query_each() takes texts, and pairs of a text and a QueryParam; question 2 is {shown}")
    with pytest.raises(TypeError, match=says):
        kb.query_each(questions)
    assert not asked
    with pytest.raises(TypeError, match=says):
        list(kb.query_each(iter(questions)))


@pytest.mark.parametrize("given", ["Who met Ada?", b"x", None, 5, {"Who met Ada?": NAIVE}, NAIVE])
def test_what_holds_no_questions_is_refused(kb: OpenIndex, given: Any) -> None:
    with pytest.raises(TypeError, match="takes a list of questions, got "):
        kb.query_each(given)


def test_a_fault_in_one_question_is_an_error_of_that_one(kb: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphmill.engine import query as module

    whole = module.find_context

    def find_context(search: Any, answer: Any) -> Any:
        if "Bea" in answer.question:
            raise KeyError("content")
        return (yield from whole(search, answer))

    monkeypatch.setattr(module, "find_context", find_context)
    answers = dict(kb.query_each([(f"Who met {name}?", NAIVE) for name in ("Ada", "Bea", "Cyd")]))
    assert [answers[n].error for n in range(3)] == ["", "KeyError: 'content'", ""]
    assert answers[0].answer.startswith("Ada met Elias [1].")
    assert answers[2].answer.startswith("Ada met Elias [1].")

    def gone(search: Any, answer: Any) -> Any:
        raise ServerError("the embedding server is gone")

    monkeypatch.setattr(module, "find_context", gone)
    with pytest.raises(ServerError, match="is gone"):
        list(kb.query_each([("Who met Ada?", NAIVE)]))


@pytest.mark.parametrize(
    "text", ["Who \ud800 met?", "\x00", "\ud800", "x" * 100_000, "?" * 3000, "[1] {question} %s", "\u200b"]
)
@pytest.mark.parametrize("mode", ["naive", "local", "mix", "drift"])
def test_whatever_the_text_of_a_question_the_others_are_answered(kb: OpenIndex, text: str, mode: str) -> None:
    param = QueryParam(mode=mode, lexical=True)
    answers = dict(kb.query_each([("Who met Ada?", param), (text, param), ("Who met Elias?", param)]))
    assert len(answers) == 3
    assert [bool(answers[n].answer) for n in (0, 2)] == [True, True]
