"""What an answer holds on demand: it reads, compares and is copied as if it had been there from the start."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import graphmill
from graphmill.engine.answer import Answer
from graphmill.engine.contexts import Reference
from graphmill.engine.function_models import HashingEmbedder
from graphmill.engine.tokenizers import WordTokenizer


def test_a_value_is_made_once_and_only_when_it_is_read() -> None:
    made: list[int] = []

    def data() -> dict[str, list[dict[str, Any]]]:
        made.append(1)
        return {"chunks": []}

    answer = Answer("q", "naive")
    answer.data = data
    assert not made
    assert answer.data is answer.data
    assert made == [1]
    assert Answer("q", "naive").data == {}
    assert Answer("q", "naive").references is not Answer("q", "naive").references
    assert Answer("q", "naive", references=[Reference(1, "chunk", "a", "a", "c", 0, 1)]).references[0].number == 1


def test_only_the_fields_that_are_wanted_are_put_together() -> None:
    answer = Answer("q", "naive")
    answer.data = lambda: pytest.fail("made")
    assert answer.document(["answer", "references"]) == {"answer": "", "references": []}


def test_an_answer_is_whole_after_its_index_was_closed(tmp_path: Path) -> None:
    texts = [(f"d{n}.txt", f"Ada Thornbury met Elias Wren at Saltmere Castle on day {n}.") for n in range(8)]
    graphmill.index(texts, tmp_path / "kb", None, HashingEmbedder(32), WordTokenizer())

    def ask() -> Answer:
        with graphmill.open(tmp_path / "kb", None, None, HashingEmbedder(32), WordTokenizer()) as kb:
            return kb.query("Who met Ada?", graphmill.QueryParam(mode="mix", only_need_context=True))

    first = ask()
    first.timings.clear()
    for make in (copy.copy, copy.deepcopy, replace, lambda one: pickle.loads(pickle.dumps(one))):
        answer = ask()
        answer.timings.clear()
        other = make(answer)
        assert other == answer == first
        assert other.data["chunks"]
        assert {row["reference"] for rows in other.data.values() for row in rows} >= {
            r.number for r in other.references
        }
    assert json.loads(json.dumps(first.document())) == first.document()
    assert asdict(first)["data"] == first.data


def test_an_answer_that_is_still_being_written_says_why_it_cannot_be_copied() -> None:
    answer = Answer("q", "naive")
    answer.stream(iter(["a"]))
    with pytest.raises(TypeError, match="still being written"):
        pickle.dumps(answer)


def test_an_answer_is_shown_by_one_short_line() -> None:
    references = [Reference(n, "chunk", "a", "a", "c", 0, 1) for n in (1, 2)]
    answer = Answer("Who met Ada?", "mix", "Elias did [1].\n" + "x" * 500, references, "k" * 200_000)
    assert repr(answer) == (
        f"<Answer to 'Who met Ada?' (mix): 'Elias did [1].\\n{'x' * 84}…', 2 references, 200,000 characters of context>"
    )
    failed = Answer("q" * 1000, "naive", error="the model gave no answer: " + "e" * 1000)
    assert repr(failed).startswith(f"<Answer to '{'q' * 99}…' (naive): failed: the model gave no answer: ee")
    assert len(repr(failed)) < 300


def test_showing_an_answer_has_nothing_put_together_and_reads_no_stream() -> None:
    answer = Answer("q", "naive", context="knowledge")
    answer.references = answer.data = answer.prompt = lambda: pytest.fail("made")
    assert repr(answer) == "<Answer to 'q' (naive): '', 9 characters of context>"
    assert answer._repr_markdown_() is None
    answer.stream(iter(["a", "b"]))
    assert repr(answer) == "<Answer to 'q' (naive): '', still being written, 9 characters of context>"
    assert answer._repr_markdown_() is None
    assert list(answer) == ["a", "b"]


def test_a_notebook_shows_the_text_of_a_finished_answer_as_markdown() -> None:
    assert Answer("q", "naive", "**Elias** did.")._repr_markdown_() == "**Elias** did."
    assert Answer("q", "naive", error="gone")._repr_markdown_() is None
