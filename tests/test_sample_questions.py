"""The sample corpus, indexed without a model: its questions find the facts that their answers need."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import graphmill
from graphmill.engine.build import OpenIndex
from graphmill.engine.query_param import MODES

SAMPLE = Path(str(files("graphmill"))) / "sample"
QUESTIONS = [json.loads(line) for line in (SAMPLE / "questions.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenIndex]:
    """The sample corpus indexed as `make demo` does, with the packaged embedder."""
    path = tmp_path_factory.mktemp("sample") / "index"
    summary = graphmill.index(SAMPLE / "corpus", path)
    assert summary["status"] == "complete"
    with graphmill.open(path) as opened:
        yield opened


def missing_facts(question: dict[str, Any], context: str) -> list[list[str]]:
    folded = context.casefold()
    return [fact for fact in question["facts"] if not any(form.casefold() in folded for form in fact)]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])
def test_the_context_of_a_question_holds_the_facts_of_its_answer(sample: OpenIndex, question: dict[str, Any]) -> None:
    param = graphmill.QueryParam(mode=question["mode_hint"], only_need_context=True)
    answer = sample.query(question["question"], param)
    assert missing_facts(question, answer.context) == []


@pytest.mark.parametrize("mode", ["naive", "keywords-local", "keywords-global", "hybrid", "mix", "drift"])
def test_modes_that_search_chunks_find_the_facts_of_every_question(sample: OpenIndex, mode: str) -> None:
    param = graphmill.QueryParam(mode=mode, only_need_context=True)
    answers = [(question, sample.query(question["question"], param)) for question in QUESTIONS]
    missing = {question["id"]: missing_facts(question, answer.context) for question, answer in answers}
    assert {question: facts for question, facts in missing.items() if facts} == {}
    assert not any(answer.warnings for _, answer in answers)


@pytest.mark.parametrize("question", QUESTIONS[::3], ids=lambda question: question["id"])
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "bypass"])
def test_an_answer_without_a_model_quotes_passages_that_stand_where_it_says(
    sample: OpenIndex, question: dict[str, Any], mode: str
) -> None:
    answer = sample.query(question["question"], graphmill.QueryParam(mode=mode))
    assert 1 <= len({reference.number for reference in answer.references}) <= 5
    documents = {row["path"]: row["text"] for row in sample.index.folder.read("documents").to_pylist()}
    for reference in answer.references:
        assert f"[{reference.number}]" in answer.answer
        text = documents[reference.document][reference.start : reference.end]
        assert text.strip()
        if reference.kind == "chunk":
            # As they stand there, but for the marks of emphasis: a passage may hold one half of a pair.
            assert " ".join(re.sub(r"[*`]+(?=\S)|(?<=\S)[*`]+", "", text).split()) in answer.answer
    assert ("### 参考资料" if question["language"] == "zh" else "### References") in answer.answer


def test_the_graph_holds_the_people_places_and_things_of_the_world_with_their_types(sample: OpenIndex) -> None:
    types = {row["name"]: row["type"] for row in sample.index.entities.to_pylist()}
    expected = {
        "Ingrid Halvorsen": "PERSON", "Konrad Hartvig": "PERSON", "Oona Tarrant": "PERSON", "陈望舒": "PERSON",
        "Kvarra Marine Institute": "ORGANIZATION", "Port Merrow Harbour Trust": "ORGANIZATION",
        "北岭大学海洋学院": "ORGANIZATION", "Port Merrow": "GEO", "Sollavik": "GEO", "Lamp Night": "EVENT",
    }  # fmt: skip
    assert {name: types.get(name) for name in expected} == expected


def test_stop_words_pronouns_and_months_are_no_entities_and_variants_are_together(sample: OpenIndex) -> None:
    names = {name.casefold() for name in sample.index.entities["name"].to_pylist()}
    junk = set("the he she it they this january march monday first 的 我们 他们 一个 今天".split())
    assert names & junk == set()
    assert "halvorsen" not in names
    assert "dr. ingrid halvorsen" not in names
    assert not any(name.startswith("the ") for name in names)
