"""Answers that are kept: given to the same question, or to one that the model says they serve, and to no other."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import graphmill
from graphmill.engine import answer_cache
from graphmill.engine.answer_cache import AnswerCache, Kept
from graphmill.engine.cached_answer import read_score, score_messages
from graphmill.engine.config import CacheConfig, Config, ConfigError, load_config
from graphmill.engine.function_models import FunctionGenerator, HashingEmbedder
from graphmill.engine.models import Reply, Request
from graphmill.engine.rerank import FunctionReranker
from graphmill.engine.tokenizers import WordTokenizer

TEXTS = [(f"d{n}.txt", f"Ada Thornbury met Elias Wren at Saltmere Castle on day {n}.") for n in range(8)]
QUESTION = "Who met Ada Thornbury at Saltmere Castle?"
NEAR = "Who met Ada Thornbury at the Saltmere Castle?"


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("indexed") / "kb"
    graphmill.index(TEXTS, path, None, HashingEmbedder(64), WordTokenizer())
    return path


@pytest.fixture
def kb(indexed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(indexed, tmp_path / "kb"))


class Asking:
    """An index with a model that counts what it is asked, by kind."""

    def __init__(self, kb: Path, cache: CacheConfig, score: Any = 1.0, **model: Any) -> None:
        self.asked: list[str] = []

        def reply(request: Request) -> str | Reply:
            kind = request.id.split("/")[1].rstrip("0123456789-")
            self.asked.append(kind)
            if kind == "cache":
                return score if isinstance(score, str | Reply) else json.dumps({"score": score})
            return Reply("", f"Elias Wren [1], said {len(self.asked)}.", model.get("finish_reason", "stop"))

        generator = FunctionGenerator(reply, model=model.get("name", "m"))
        config = Config(cache=cache)
        self.kb = graphmill.open(kb, config, generator, HashingEmbedder(64), WordTokenizer())

    def __call__(self, question: str = QUESTION, **param: Any) -> graphmill.Answer:
        return self.kb.query(question, graphmill.QueryParam(**{"mode": "naive", **param}))


EXACT, SEMANTIC = CacheConfig("exact"), CacheConfig("semantic", min_similarity=0.9)


@pytest.mark.parametrize("again", ["open", "anew"])
def test_the_same_question_gets_the_answer_that_was_kept_with_all_that_came_of_it(kb: Path, again: str) -> None:
    ask = Asking(kb, EXACT)
    first = ask()
    assert first.cached == ""
    if again == "anew":
        ask.kb.close()
        ask = Asking(kb, EXACT)
    second = ask()
    assert ask.asked == (["answer"] if again == "open" else [])
    assert second.cached == QUESTION
    same = {"timings": 0, "cached": 0, "prompt": 0}
    assert second.document() | same == first.document() | same
    assert "".join(ask(stream=True)) == first.answer
    assert dict(ask.kb.query_each([(QUESTION, graphmill.QueryParam(mode="naive"))]))[0].cached == QUESTION


@pytest.mark.parametrize(
    "param",
    [
        {"mode": "local"},
        {"response_type": "Single Sentence"},
        {"top_k": 3},
        {"strict": False},
        {"conversation_history": [{"role": "user", "content": "Of Ada."}]},
        {"question": NEAR},
        {"user_prompt": "Be brief."},
        {"level": 1},
        {"max_total_tokens": 20_000},
    ],
)
def test_whatever_shapes_an_answer_makes_it_another(kb: Path, param: dict[str, Any]) -> None:
    ask = Asking(kb, EXACT)
    ask()
    assert ask(**param).cached == ""


def test_an_index_that_changed_and_another_model_have_answers_of_their_own(kb: Path) -> None:
    ask = Asking(kb, EXACT)
    ask()
    ask.kb.close()
    assert Asking(kb, EXACT, name="other")().cached == ""
    graphmill.index([*TEXTS, ("new.txt", "Bea Holt left.")], kb, None, HashingEmbedder(64), WordTokenizer())
    assert Asking(kb, EXACT)().cached == ""


@pytest.mark.parametrize("name", ["answer.en.toml", "answer.zh.toml", "keywords.en.toml", "cache.en.toml"])
def test_another_version_of_the_prompts_has_answers_of_its_own(
    kb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    prompts = tmp_path / "package" / "prompts"
    shutil.copytree(Path(answer_cache.__file__).with_name("prompts"), prompts)
    monkeypatch.setattr(answer_cache, "files", lambda package: prompts.parent)
    ask = Asking(kb, EXACT)
    assert ask().cached == ""
    ask.kb.close()
    (prompts / "summarise.en.toml").write_text("shapes no answer", "utf-8")
    again = Asking(kb, EXACT)
    assert again().cached == QUESTION
    again.kb.close()
    with (prompts / name).open("a", encoding="utf-8") as file:
        file.write("# changed")
    assert Asking(kb, EXACT)().cached == ""


def test_a_near_question_gets_it_where_the_model_says_that_it_serves(kb: Path) -> None:
    ask = Asking(kb, SEMANTIC, score=0.9)
    first = ask()
    found = ask(NEAR)
    assert ask.asked == ["answer", "cache"]
    assert (found.question, found.cached, found.answer) == (NEAR, QUESTION, first.answer)


@pytest.mark.parametrize("score", [0.3, "no idea", '{"score": 7}', '{"score": "NaN"}', Reply("", error="busy")])
def test_it_is_answered_anew_where_the_model_does_not_say_so(kb: Path, score: Any) -> None:
    ask = Asking(kb, SEMANTIC, score=score)
    ask()
    assert ask(NEAR).cached == ""
    assert ask.asked == ["answer", "cache", "answer"]


def test_a_question_that_is_not_near_asks_the_model_nothing_about_others(kb: Path) -> None:
    ask = Asking(kb, SEMANTIC)
    ask()
    ask("When was the lighthouse built?")
    assert ask.asked == ["answer", "answer"]


def test_an_answer_that_was_cut_off_is_not_kept_nor_one_that_went_by_less_than_there_was(kb: Path) -> None:
    ask = Asking(kb, EXACT, finish_reason="length")
    ask()
    assert ask().cached == ""
    failing = Asking(kb, EXACT)
    failing.kb.reranker = Broken()
    failing()
    assert failing().warnings
    assert failing().cached == ""


class Broken:
    model = "broken"

    def rank(self, question: str, texts: Any) -> Any:
        raise ValueError("no scores")


def test_an_answer_that_limits_left_something_out_of_is_kept_with_the_warning_of_it(kb: Path) -> None:
    ask = Asking(kb, EXACT)
    first, second = ask(mode="local", max_entity_tokens=3), ask(mode="local", max_entity_tokens=3)
    assert (first.cached, second.cached) == ("", QUESTION)
    assert "none of it fits the tokens there are for it: entities 3" in first.warnings[0]
    assert second.warnings == first.warnings


def test_those_that_were_not_given_for_longest_make_way(kb: Path) -> None:
    ask = Asking(kb, CacheConfig("semantic", min_similarity=1.0, max_answers=3))
    for number in range(3):
        ask(f"Question {number}?")
    assert ask("Question 0?").cached
    ask("Question 3?")
    assert ask("Question 0?").cached
    assert not ask("Question 1?").cached


def test_without_a_model_and_for_contexts_nothing_is_kept(kb: Path) -> None:
    ask = Asking(kb, EXACT)
    ask(only_need_context=True)
    assert ask(only_need_context=True).cached == ""
    with graphmill.open(kb, Config(cache=EXACT), None, HashingEmbedder(64), WordTokenizer()) as opened:
        assert opened.cache is None


def test_a_file_that_is_no_database_is_named_with_what_mends_it(kb: Path) -> None:
    (kb / "answers").mkdir()
    (kb / "answers" / "answers.sqlite").write_text("not a database, but long enough to be looked at " * 30)
    with pytest.raises(OSError, match=r"answers\.sqlite.*remove the file, or set cache\.answers to off"):
        Asking(kb, EXACT)


def test_functions_without_a_name_keep_nothing_since_they_can_not_be_told_apart(kb: Path) -> None:
    for nameless in ("model", "reranker"):
        ask = Asking(kb, EXACT, name="function" if nameless == "model" else "m")
        if nameless == "reranker":
            ask.kb.reranker = FunctionReranker(lambda question, texts: [0.0] * len(texts))
        ask()
        again = ask()
        assert again.cached == ""
        assert f"the {nameless} has no name of its own" in again.warnings[0]


def test_a_reranker_with_a_name_has_answers_of_its_own(kb: Path) -> None:
    ask = Asking(kb, EXACT)
    ask()
    ask.kb.reranker = FunctionReranker(lambda question, texts: [0.0] * len(texts), "flat")
    assert ask().cached == ""
    assert ask().cached == QUESTION


@pytest.mark.parametrize(("limit", "is_asked"), [(1000, False), (3000, True)])
def test_a_kept_answer_that_does_not_fit_into_a_prompt_is_not_asked_about(kb: Path, limit: int, is_asked: bool) -> None:
    ask = Asking(kb, SEMANTIC)
    first = ask(QUESTION + " again" * 400, max_total_tokens=limit)
    assert first.references
    ask(QUESTION + " again" * 401, max_total_tokens=limit)
    assert ask.asked == (["answer", "cache"] if is_asked else ["answer", "answer"])


def test_a_near_answer_is_kept_as_the_new_questions_too(kb: Path) -> None:
    ask = Asking(kb, SEMANTIC)
    ask()
    assert ask(NEAR).cached == QUESTION
    assert ask(NEAR).cached
    assert ask.asked == ["answer", "cache"]


def test_a_damaged_answer_is_made_anew_with_a_warning(kb: Path) -> None:
    ask = Asking(kb, EXACT)
    ask()
    with sqlite3.connect(kb / "answers" / "answers.sqlite") as database:
        database.execute("UPDATE answers SET answer = x'00'")
    again = ask()
    assert (again.cached, again.answer[:10]) == ("", "Elias Wren")
    assert "answers are not kept" in again.warnings[0]


def test_questions_with_half_a_character_are_kept_too(kb: Path) -> None:
    ask = Asking(kb, EXACT)
    ask("Who met Ada \ud83d?")
    assert ask("Who met Ada \ud83d?").cached == "Who met Ada \ufffd?"


def test_questions_of_a_batch_are_embedded_together(kb: Path) -> None:
    ask = Asking(kb, SEMANTIC)
    sizes: list[int] = []
    embedder = ask.kb.index.embedder
    embed = embedder.embed
    embedder.embed = lambda texts: (sizes.append(len(texts)), embed(texts))[1]  # type: ignore[method-assign]
    questions = [(f"What happened on day {n}?", graphmill.QueryParam(mode="naive")) for n in range(20)]
    assert len(list(ask.kb.query_each(questions))) == 20
    assert sizes == [20]


def test_settings_have_bounds() -> None:
    for values, says in (
        ({"min_score": 1.5}, r"cache.min_score must be in \[0, 1\], got 1.5"),
        ({"max_answers": 0}, "cache.max_answers must be at least 1, got 0"),
        ({"answers": "near"}, "cache.answers must be one of"),
    ):
        with pytest.raises(ConfigError, match=says):
            load_config(None, {f"cache.{name}": value for name, value in values.items()})


def test_answers_of_another_content_are_dropped_when_the_cache_is_opened(tmp_path: Path) -> None:
    answer = graphmill.Answer("q", "naive", "a")
    with AnswerCache(tmp_path, EXACT, "one") as cache:
        cache.put("frame", answer, None)
        assert cache.get("frame", "q") == replace(answer, cached="q")
    with AnswerCache(tmp_path, EXACT, "other") as cache:
        assert len(cache) == 0
    assert sqlite3.connect(tmp_path / "answers.sqlite").execute("SELECT count(*) FROM answers").fetchone() == (0,)


@pytest.mark.parametrize(
    ("text", "score"),
    [('{"score": 0.85}', 0.85), ("0.4", 0.4), ('```json\n{"score": "1"}\n```', 1.0), ("yes", 0.0), ("-1", 0.0)],
)
def test_a_score_is_read_or_is_none(text: str, score: float) -> None:
    assert read_score(text) == score


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_model_is_shown_both_questions_and_the_answer(language: str) -> None:
    system, user = score_messages(Kept("k", "old {question}?", "the answer {before}"), "new?", language)
    assert '{"score": 0.0}' in system["content"]
    positions = [user["content"].index(text) for text in ("old {question}?", "the answer {before}", "new?")]
    assert positions == sorted(positions)
