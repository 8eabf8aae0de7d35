"""Questions that are looked up together get what each gets by itself, with one call to the embedder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill.engine.build import OpenIndex
from graphmill.engine.chunk import ChunkConfig
from graphmill.engine.config import Config
from graphmill.engine.contexts import UNLIMITED, Context
from graphmill.engine.embed import EmbedConfig
from graphmill.engine.function_models import FunctionGenerator, HashingEmbedder
from graphmill.engine.graph_rows import chunks_of
from graphmill.engine.index import Searchable
from graphmill.engine.keywords import phrase_keywords
from graphmill.engine.lexical import LexicalIndex
from graphmill.engine.models import Request
from graphmill.engine.modes import FEW_REPORTS, chunks_round, nearest_reports
from graphmill.engine.modes import MODES as RUN
from graphmill.engine.query_param import MODES
from graphmill.engine.question import Question
from graphmill.engine.retrieve_batch import look_up_each
from graphmill.engine.rows import first_of_each
from graphmill.engine.search import Search
from graphmill.engine.show_passages import show_passages
from graphmill.engine.tokenizers import WordTokenizer
from graphmill.engine.vector_index import VectorIndex
from graphmill.kernels.fuse import reciprocal_rank_fusion

PEOPLE = [f"{name} {family}" for name in ("Ada", "Bea", "Cyd", "Dov", "Eli") for family in ("Hart", "Moss", "Quill")]
TRADES = ["whaling", "glassmaking", "beekeeping", "printing"]
QUESTIONS = [
    "Who taught Ada Hart whaling?", "谁学过养蜂？", "Dov Quill and Eli Moss", "  ", "Who taught Ada Hart whaling?",
]  # fmt: skip


def documents() -> list[tuple[str, str]]:
    return [
        (f"d{n:02d}.txt", f"{PEOPLE[n % 15]} taught {PEOPLE[(n * 7 + 3) % 15]} the art of {TRADES[n % 4]} in year {n}.")
        for n in range(60)
    ]


def reply(request: Request) -> str:
    if request.id.split("/")[0] != "extract":
        return '{"title": "Trades", "summary": "They teach.", "rating": 5, "rating_explanation": "x", "findings": []}'
    if len(request.messages) > 1:
        return "<|COMPLETE|>"
    n = next(n for n, (_, text) in enumerate(documents()) if text in request.messages[-1]["content"])
    one, other, trade = PEOPLE[n % 15], PEOPLE[(n * 7 + 3) % 15], TRADES[n % 4]
    rows = [f'("entity"<|>{name}<|>person<|>{name} knows {trade} {n}' for name in (one, other)]
    rows.append(f'("relationship"<|>{one}<|>{other}<|>{one} taught {other} {trade} {n}<|>{n % 9 + 1}')
    return ")##".join(rows) + ")<|COMPLETE|>"


class Counting(HashingEmbedder):
    """Knows English alone, and tells how often it was asked."""

    def __init__(self) -> None:
        super().__init__(32)
        self.languages = frozenset({"en"})
        self.calls = 0

    def embed(self, texts: Any) -> Any:
        self.calls += 1
        return super().embed(texts)


@pytest.fixture(scope="module", params=["read by a model", "read by the phrase finder"])
def kb(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenIndex]:
    path = tmp_path_factory.mktemp("batch") / "kb"
    generator = FunctionGenerator(reply) if "model" in request.param else None
    graphmill.index(documents(), path, generator, Counting(), WordTokenizer(), Config(chunk=ChunkConfig(60, 0)))
    with graphmill.open(path, None, None, Counting(), WordTokenizer()) as opened:
        yield opened


def searches(kb: OpenIndex) -> list[Search]:
    """Every question in every mode and some more, in turn."""
    history = [{"role": "user", "content": "Who is Cyd Moss?"}, {"role": "assistant", "content": "A printer."}]
    variants: list[dict[str, Any]] = [
        {}, {"lexical": True}, {"lexical": False, "top_k": 3, "chunk_top_k": 2, "level": 0},
        {"conversation_history": history}, {"local_max_token_for_text_unit": 40, "max_entity_tokens": 60},
    ]  # fmt: skip
    found = []
    for question in QUESTIONS:
        for mode in MODES:
            for values in variants:
                param = graphmill.QueryParam(mode=mode, **values)
                asked = Question.of(question, param)
                keywords = phrase_keywords(asked.search_text, asked.language)
                found.append(Search(kb.index, asked, param, keywords=keywords))
    return found


def shown(search: Search) -> tuple[Any, ...]:
    context = Context(2000)
    if search.param.mode != "bypass" and not search.question.is_empty:
        passages = RUN[search.param.mode](search, context)
        if passages is not None:
            assert list(show_passages(search, context, passages)) == []  # there is no reranker to ask
    return context.render(), context.tables(), context.references(), context.follow_ups, search.warnings


def test_what_is_looked_up_together_is_what_each_question_finds_by_itself(
    kb: OpenIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [shown(search) for search in searches(kb)]
    assert len({context for context, *_ in alone}) > 40
    kb.index.found_by_titles.clear()
    together = searches(kb)
    embedder: Any = kb.index.embedder
    before = embedder.calls
    look_up_each(together)
    assert embedder.calls - before <= 2  # and once more for what drift goes on with
    monkeypatch.setattr(embedder, "embed", lambda texts: pytest.fail(f"{texts} were embedded again"))
    monkeypatch.setattr(kb.index, "search_each", lambda *_: pytest.fail("the index was searched again"))
    for search, wanted in zip(together, alone, strict=True):
        assert shown(search) == wanted, (search.question.text, search.param)


def test_many_reports_are_searched_and_not_all_scored(kb: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FEW_REPORTS > 0
    monkeypatch.setattr("graphmill.engine.modes.FEW_REPORTS", 0)
    test_what_is_looked_up_together_is_what_each_question_finds_by_itself(kb, monkeypatch)


def test_drift_finds_reports_of_a_level_however_many_deeper_ones_are_nearer(
    kb: OpenIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reports() -> list[list[int]]:
        param = graphmill.QueryParam(mode="drift", level=0)
        asked = [Question.of(text, param) for text in QUESTIONS if text.strip()]
        return [nearest_reports(Search(kb.index, question, param)).tolist() for question in asked]

    few = reports()
    monkeypatch.setattr("graphmill.engine.modes.FEW_REPORTS", 0)
    monkeypatch.setattr("graphmill.engine.modes.FEW_NEAREST", 6)
    kept = reports()
    assert any(few)
    assert [len(rows) for rows in kept] == [len(rows) for rows in few]


def test_a_question_that_cannot_be_embedded_stops_no_other(kb: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = kb.index.embedder.embed

    def broken(texts: list[str]) -> np.ndarray:
        vectors = np.array(whole(texts))
        vectors[["bad" in text for text in texts]] = np.nan
        return vectors

    monkeypatch.setattr(kb.index.embedder, "embed", broken)
    param = graphmill.QueryParam(mode="naive")
    good, bad = (Search(kb.index, Question.of(text, param), param) for text in ("Who is Ada Hart?", "a bad one"))
    look_up_each([good, bad])
    assert shown(good)[0]
    with pytest.raises(ValueError, match="no vector that is finite for 'a bad one'"):
        shown(bad)


def test_titles_of_reports_are_looked_up_once(kb: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder: Any = kb.index.embedder
    kb.index.found_by_titles.clear()
    param = graphmill.QueryParam(mode="drift")

    def asked() -> tuple[tuple[Any, ...], int]:
        before = embedder.calls
        return shown(Search(kb.index, Question.of("Who is Ada Hart?", param), param)), embedder.calls - before

    first, again = asked(), asked()
    assert first[0] == again[0]
    assert (first[1], again[1]) == (2, 1)
    assert first[0][3]
    with_words = graphmill.QueryParam(mode="drift", lexical=True)
    shown(Search(kb.index, Question.of("Who is Ada Hart?", with_words), with_words))
    kept = kb.index.found_by_titles
    assert {lexical for _, lexical in kept} == {None, True}
    monkeypatch.setattr("graphmill.engine.modes.MAX_TITLES", 0)
    shown(Search(kb.index, Question.of("Who is Bea Moss?", param), param))
    assert {lexical for _, lexical in kept} == {None}


def test_nothing_is_looked_up_for_no_question(kb: OpenIndex) -> None:
    look_up_each([])


@pytest.mark.parametrize("k", [1, 4, 20])
@pytest.mark.parametrize("few", [0, 3, 1000])
def test_chunks_round_entities_are_those_nearest_to_the_question(
    kb: OpenIndex, k: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphmill.engine.modes.FEW_AROUND", few)
    index, rng, param = kb.index, np.random.default_rng(k), graphmill.QueryParam(mode="keywords-local", chunk_top_k=k)
    for place in range(30):
        search = Search(index, Question.of(QUESTIONS[place % 2], param), param)
        entities = rng.permutation(index.entities.num_rows)[: rng.integers(0, 9)]
        texts = np.unique(index.text_of_chunk[index.chunks_of_entity.gather(entities)])
        vector = index.embed_question(search.question.search_text)
        order, _ = index.search(index.search_texts, search.question.search_text, vector, 10**6, None)
        nearest = order[np.isin(order, texts)]
        found = chunks_round(search, entities, k, UNLIMITED)
        num_compared = min(k, len(texts))
        np.testing.assert_array_equal(index.text_of_chunk[found[:num_compared]], nearest[:num_compared])


def test_chunks_past_the_ranked_ones_come_as_the_graph_puts_them(
    kb: OpenIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphmill.engine.modes.FEW_TEXTS", 0)
    monkeypatch.setattr("graphmill.engine.modes.RANKED_CHUNKS", 2)
    index, param = kb.index, graphmill.QueryParam(mode="hybrid", chunk_top_k=2)
    search = Search(index, Question.of(QUESTIONS[0], param), param)
    ranked = search.chunks(search.question.search_text, 2)
    for entities in np.array_split(np.random.default_rng(0).permutation(index.entities.num_rows), 6):
        every = chunks_of(index, entities, UNLIMITED)
        near = ranked[np.isin(index.text_of_chunk[ranked], index.text_of_chunk[every])]
        found = chunks_round(search, entities, 6, UNLIMITED)
        np.testing.assert_array_equal(found[:6], first_of_each(np.concatenate([near, every]))[:6])


def test_words_of_relationships_are_fused_with_their_vectors(tmp_path: Path) -> None:
    path, wanted = tmp_path / "kb", {"Bea Hart", "Dov Hart"}
    words = path / "words" / "relationships"

    def make(config: EmbedConfig) -> None:
        whole = Config(chunk=ChunkConfig(60, 0), embed=config)
        graphmill.index(documents(), path, FunctionGenerator(reply), HashingEmbedder(16), WordTokenizer(), whole)

    def found(lexical: bool) -> list[int]:
        with graphmill.open(path, None, None, HashingEmbedder(16), WordTokenizer()) as kb:
            index, asked = kb.index, ", ".join(sorted(wanted))
            what, vector = index.search_relationships, index.embed_question(asked)
            assert what is not None
            by_words, rows = what.by_words(asked, 9), index.search(what, asked, vector, 3, lexical)[0]
            if len(by_words):
                best = index.relationships.slice(int(by_words[0]), 1).to_pylist()[0]
                assert {best["source"], best["target"]} == wanted
                by_vector = index.search(what, asked, vector, 9, False)[0]
                fused = reciprocal_rank_fusion([by_vector, by_words], [1.0, 1.0], 3)[0]
                np.testing.assert_array_equal(rows, fused if lexical else by_vector[:3])
            return [len(by_words), *rows.tolist()]

    make(EmbedConfig())
    first = found(lexical=True)
    assert first[0] > 3
    shutil.rmtree(words)  # as in an index of an earlier version, which opens all the same
    assert found(lexical=True) == [0, *found(lexical=False)[1:]]
    make(EmbedConfig())
    assert found(lexical=True) == first
    make(EmbedConfig(relationships=False))
    assert not words.exists()


def test_rows_without_text_are_passed_over_by_their_words(tmp_path: Path) -> None:
    """Of relationships only those with a description have a text; the word index numbers texts, and not rows."""
    words = LexicalIndex.build(tmp_path / "words", [["red fish", "blue bird"]])
    what = Searchable(VectorIndex(np.eye(2, dtype=np.float32)), np.array([1, 4]), words, np.array([1, 4]))
    assert what.by_words("bird", 5).tolist() == [4]
