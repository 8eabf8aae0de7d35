"""What each mode finds, shows and asks, on a small graph that a scripted model has read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import graphmill
from graphmill.engine.build import OpenIndex
from graphmill.engine.chunk import ChunkConfig
from graphmill.engine.config import Config, ConfigError
from graphmill.engine.embed import EmbedConfig
from graphmill.engine.extract_claims import ClaimsConfig
from graphmill.engine.function_models import FunctionGenerator, HashingEmbedder
from graphmill.engine.lines import as_json
from graphmill.engine.models import Reply, Request
from graphmill.engine.points import AnswerError
from graphmill.engine.query_param import KEYWORD_MODES, MODES
from graphmill.engine.run_folder import IndexFolderError
from graphmill.engine.tokenizers import WordTokenizer

NAMES = ["Ada", "Bea", "Cyd", "Dov", "Eli", "Fay", "Gil", "Hal", "Ida", "Jon"]
TRADES = ["whaling", "glassmaking", "beekeeping", "printing", "weaving"]
CONFIG = Config(chunk=ChunkConfig(60, 0), claims=ClaimsConfig(enabled=True))
WITH_CONTEXT = [mode for mode in MODES if mode != "bypass"]


def documents() -> list[tuple[str, str]]:
    """Each document names a pair and its trade, on two lines, in words of its own."""
    return [
        (
            f"{'deep/' * (n % 7)}d{n:02d}.txt",
            f'{NAMES[n % 10]} taught {NAMES[(n + 3) % 10]} the art of {TRADES[n % 5]}.\n\t"Lesson {n}" was long.',
        )
        for n in range(30)
    ]


def reply(request: Request) -> str:
    kind, text = request.id.split("/")[0], request.messages[-1]["content"]
    if len(request.messages) > 1 and kind in ("extract", "claims"):
        return "<|COMPLETE|>"
    for n, (_, document) in enumerate(documents()):
        if document.partition("\n")[0] in text and kind in ("extract", "claims"):
            one, other, trade = NAMES[n % 10], NAMES[(n + 3) % 10], TRADES[n % 5]
            if kind == "claims":
                return f"({one}<|>NONE<|>FEE<|>TRUE<|>NONE<|>NONE<|>{one} asked a fee<|>he asked)<|COMPLETE|>"
            rows = [f'("entity"<|>{name}<|>person<|>{name} knows {trade})' for name in (one, other)]
            rows.append(f'("relationship"<|>{one}<|>{other}<|>{one} taught {other} {trade} {n}<|>{n % 9 + 1})')
            return "##".join(rows) + "<|COMPLETE|>"
    return '{"title": "Trades", "summary": "They teach.", "rating": 5, "rating_explanation": "x", "findings": []}'


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("modes") / "kb"
    graphmill.index(documents(), path, FunctionGenerator(reply), HashingEmbedder(64), WordTokenizer(), CONFIG)
    return path


@contextmanager
def opened(
    path: Path,
    answer: Callable[[Request], str] | None = None,
    tokenizer: Any = None,
    context_tokens: int = 32_768,
    **options: Any,
) -> Iterator[OpenIndex]:
    generator = None if answer is None else FunctionGenerator(answer, context_tokens=context_tokens)
    with graphmill.open(path, None, generator, HashingEmbedder(64), tokenizer or WordTokenizer(), **options) as kb:
        yield kb


def param(mode: str, **values: Any) -> graphmill.QueryParam:
    return graphmill.QueryParam(**{"mode": mode, "only_need_context": True, **values})


def lines_of(context: str) -> dict[str, list[dict[str, Any]]]:
    sections: dict[str, list[dict[str, Any]]] = {}
    for line in context.splitlines():
        if line.startswith("-----"):
            rows = sections.setdefault(line.strip("-"), [])
        elif line:
            rows.append(json.loads(line))
    return sections


class CharacterTokenizer(WordTokenizer):
    """Another tokenizer than the one the index was counted with: a token is a character."""

    name = "characters"

    def count(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([len(text) for text in texts], np.int64)


@pytest.mark.parametrize("tokenizer", [WordTokenizer(), CharacterTokenizer()], ids=["same", "other"])
@pytest.mark.parametrize("mode", WITH_CONTEXT)
@pytest.mark.parametrize("budget", [0, 90, 500])
def test_no_budget_is_exceeded_as_the_answering_models_tokenizer_counts(
    path: Path, mode: str, budget: int, tokenizer: WordTokenizer
) -> None:
    names = ["naive_max_token_for_text_unit", "local_max_token_for_local_context", "max_relation_tokens"]
    names += ["local_max_token_for_community_report", "global_max_token_for_community_report", "max_entity_tokens"]
    names += ["max_token_for_text_unit", "local_max_token_for_text_unit"]
    with opened(path, tokenizer=tokenizer) as kb:
        answer = kb.query("Who taught Ada the art of weaving?", param(mode, **dict.fromkeys(names, budget)))
    for section in answer.context.split("\n\n-----"):
        assert tokenizer.count(["\n".join(x for x in section.splitlines() if x.startswith("{"))])[0] <= budget


@pytest.mark.parametrize("tokenizer", [WordTokenizer(), CharacterTokenizer()], ids=["same", "other"])
@pytest.mark.parametrize("mode", WITH_CONTEXT)
def test_the_whole_prompt_is_within_the_total_and_within_the_models_context(
    path: Path, mode: str, tokenizer: WordTokenizer
) -> None:
    with opened(path, tokenizer=tokenizer) as kb:
        most = sum(tokenizer.count([m["content"] for m in kb.query("Who taught Ada?", param(mode)).prompt]))
        for total in (most - 1, most - 150, most - 400):
            answer = kb.query("Who taught Ada?", param(mode, max_total_tokens=int(total)))
            assert sum(tokenizer.count([m["content"] for m in answer.prompt])) <= total
        nothing = kb.query("Who taught Ada?", param(mode, max_total_tokens=20))
    assert (nothing.context, nothing.answer[-12:]) == ("", "[no-context]")
    assert "max_total_tokens = 20" in nothing.warnings[0]


@pytest.mark.parametrize("mode", ["local", "drift", *KEYWORD_MODES])
def test_where_room_is_short_every_section_has_some_of_it(path: Path, mode: str) -> None:
    tokenizer = WordTokenizer()
    with opened(path) as kb:
        whole = kb.query("Who taught Ada?", param(mode))
        tokens = sum(tokenizer.count([message["content"] for message in whole.prompt]))
        context_tokens = tokenizer.count([whole.context])[0]
        short = kb.query("Who taught Ada?", param(mode, max_total_tokens=int(tokens - context_tokens // 2)))
        little = kb.query("Who taught Ada?", param(mode, max_total_tokens=int(tokens - context_tokens + 70)))
    assert lines_of(short.context).keys() == lines_of(whole.context).keys()
    assert not short.warnings
    missing = [name for name, rows in whole.data.items() if rows and not little.data[name]]
    assert missing
    assert [name in little.warnings[0] for name in missing] == [True] * len(missing)


@pytest.mark.parametrize("mode", WITH_CONTEXT)
def test_prompts_of_a_small_model_leave_room_for_the_answer(path: Path, mode: str) -> None:
    sizes: list[int] = []

    def answer(request: Request) -> str:
        sizes.append(int(sum(WordTokenizer().count([m["content"] for m in request.messages]))) + request.max_tokens)
        return '{"points": [{"description": "p [1]", "score": 9}], "follow_ups": ["Who is Bea?"]}'

    with opened(path, answer, context_tokens=3200) as kb:
        kb.query("Who taught Ada?", param(mode, only_need_context=False))
    assert max(sizes) <= 3200


def test_low_level_keywords_find_entities_and_high_level_ones_relationships(path: Path) -> None:
    words = {"ll_keywords": ["Ida"], "hl_keywords": ["taught Fay printing 8"], "top_k": 1}
    with opened(path) as kb:
        low, high, both = (
            kb.query("What?", param(mode, **words)) for mode in ("keywords-local", "keywords-global", "hybrid")
        )
    assert [row["entity"] for row in low.data["entities"]] == ["Ida"]
    assert all("Ida" in (row["source"], row["target"]) for row in low.data["relationships"])
    assert len(high.data["relationships"]) == 1
    ends = {high.data["relationships"][0][end] for end in ("source", "target")}
    assert ends == {row["entity"] for row in high.data["entities"]}
    assert both.data["entities"][0]["entity"] == "Ida"
    assert {row["entity"] for row in both.data["entities"]} == {"Ida"} | ends
    ids = [row["relationship_id"] for row in both.data["relationships"]]
    assert len(ids) == len(set(ids))
    assert ids[1] == high.data["relationships"][0]["relationship_id"] or ids[1] in {
        row["relationship_id"] for row in low.data["relationships"]
    }
    assert low.keywords == {"high_level": ["taught Fay printing 8"], "low_level": ["Ida"]}


def test_relationships_come_by_rank_then_weight(path: Path) -> None:
    with opened(path) as kb:
        rows = kb.query("weaving", param("keywords-global")).data["relationships"]
    assert [(-row["rank"], -row["weight"]) for row in rows] == sorted((-r["rank"], -r["weight"]) for r in rows)


def test_a_vague_question_is_searched_for_itself(path: Path) -> None:
    with opened(path, lambda request: '{"high_level_keywords": [], "low_level_keywords": []}') as kb:
        vague = kb.query("weaving?", param("mix"))
    with opened(path) as kb:
        itself = kb.query("weaving?", param("mix", ll_keywords=["weaving?"], hl_keywords=["weaving?"]))
    assert vague.context == itself.context
    assert vague.keywords == {"high_level": [], "low_level": []}


@pytest.mark.parametrize("mode", KEYWORD_MODES)
def test_a_model_is_asked_for_keywords_once_and_sees_the_conversation(path: Path, mode: str) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        return '{"high_level_keywords": ["weaving"], "low_level_keywords": ["Ida"]}'

    history = [{"role": "user", "content": "Tell me of Ida."}, {"role": "assistant", "content": "She weaves."}]
    with opened(path, answer) as kb:
        found = kb.query("And whom did she teach?", param(mode, conversation_history=history))
    assert [request.id.split("/")[1].rstrip("0123456789") for request in asked] == ["keywords"]
    assert "Tell me of Ida." in asked[0].messages[-1]["content"]
    assert found.keywords["low_level"] == ["Ida"]


@pytest.mark.parametrize("mode", ["naive", "local", "drift", "hybrid"])
def test_a_question_is_searched_for_with_the_one_before_it(path: Path, mode: str) -> None:
    history = [{"role": "user", "content": "Who is Ida?"}, {"role": "assistant", "content": "A weaver."}]
    few = {"top_k": 1, "chunk_top_k": 1}
    with opened(path) as kb:
        found = kb.query("And since when?", param(mode, conversation_history=history, **few))
        alone = kb.query("And since when?", param(mode, conversation_history=history, history_turns=0, **few))
    assert "Ida" in found.context
    assert [m["content"] for m in found.prompt[1:-1]] == ["Who is Ida?", "A weaver."]
    assert len(alone.prompt) == 2


def test_mix_holds_the_nearest_chunks_and_those_of_the_graph_once_each(path: Path) -> None:
    with opened(path) as kb:
        naive = kb.query("Who taught Ada?", param("naive", chunk_top_k=4))
        mix = kb.query("Who taught Ada?", param("mix", chunk_top_k=8))
    ids = [row["chunk_id"] for row in mix.data["chunks"]]
    assert len(ids) == len(set(ids)) == 8
    assert {row["chunk_id"] for row in naive.data["chunks"]} <= set(ids)


@pytest.mark.parametrize("mode", ["naive", *KEYWORD_MODES])
def test_a_reranker_chooses_among_more_chunks_than_are_wanted(path: Path, mode: str) -> None:
    seen: list[str] = []

    def by_lesson(question: str, texts: list[str]) -> list[float]:
        seen.extend(texts)
        return [float(text.rpartition("Lesson ")[2].split('"')[0]) for text in texts]

    with opened(path, reranker=by_lesson) as kb:
        rows = kb.query("Who taught Ada the art of weaving?", param(mode, chunk_top_k=3)).data["chunks"]
    assert len(seen) > 3
    best = sorted(seen, key=lambda text: -float(text.rpartition("Lesson ")[2].split('"')[0]))[:3]
    assert [row["text"] for row in rows] == best


def test_a_short_room_is_left_to_those_who_need_it(path: Path) -> None:
    def tokens_of(texts: Sequence[str]) -> int:
        return int(WordTokenizer().count(texts).sum())

    with opened(path) as kb:
        whole = kb.query("Who taught Ada?", param("mix", chunk_top_k=1))
        context, prompt = tokens_of([whole.context]), tokens_of([message["content"] for message in whole.prompt])
        few = kb.query("Who taught Ada?", param("mix", chunk_top_k=1, max_total_tokens=prompt - 60))
        one = kb.query("Who taught Ada?", param("mix", max_total_tokens=prompt - context + 120))
    # One passage needs little of it: half of the room, were that kept, would stand empty.
    assert len(few.data["chunks"]) == 1
    assert tokens_of([few.context]) > 0.7 * context
    # Half of the room is less than a passage takes: one is shown all the same.
    assert len(one.data["chunks"]) == 1


def test_drift_tells_what_had_no_room_in_its_prompts(path: Path) -> None:
    def answer(request: Request) -> str:
        return '{"points": [{"description": "p [1]", "score": 9}], "follow_ups": ["Who is Bea?"]}'

    with opened(path, answer) as kb:
        found = kb.query("Who teaches?", param("drift", local_max_token_for_text_unit=5))
    assert found.warnings == ["something was found, but none of it fits the tokens there are for it: chunks 5"]


def test_a_reranker_reads_a_question_with_the_one_before_it(path: Path) -> None:
    asked: list[str] = []
    history = [{"role": "user", "content": "Who is Ida?"}, {"role": "assistant", "content": "A weaver."}]
    with opened(path, reranker=lambda question, texts: asked.append(question) or [1.0] * len(texts)) as kb:
        kb.query("And since when?", param("mix", conversation_history=history))
    assert asked == ["Who is Ida?\nAnd since when?"]


def test_a_reranker_that_fails_leaves_the_order_and_is_told_of(path: Path) -> None:
    with opened(path) as kb:
        plain = kb.query("Ada?", param("mix"))
    with opened(path, reranker=lambda question, texts: [1.0]) as kb:
        found = kb.query("Ada?", param("mix"))
    assert "could not be reranked" in found.warnings[0]
    assert {row["chunk_id"] for row in found.data["chunks"]} & {row["chunk_id"] for row in plain.data["chunks"]}


def test_claims_about_the_entities_are_part_of_the_local_context_and_can_be_cited(path: Path) -> None:
    with opened(path) as kb:
        found = kb.query("Ida?", param("local", top_k=1))
        none = kb.query("Ida?", param("local", top_k=1, local_max_token_for_local_context=0))
    claims = lines_of(found.context)["Claims"]
    assert {claim["subject"] for claim in claims} == {"IDA"}
    assert "object" not in claims[0]
    reference = next(r for r in found.references if r.number == claims[0]["reference"])
    assert (reference.kind, reference.label) == ("claim", "IDA")
    assert "Claims" not in lines_of(none.context)


def test_the_contexts_rows_come_back_as_tables_with_their_ids(path: Path) -> None:
    with opened(path) as kb:
        found = kb.query("Who taught Ada?", param("local"))
        tables = found.tables()
        assert list(tables) == ["reports", "entities", "relationships", "claims", "chunks"]
        assert set(tables["entities"]["entity_id"].to_pylist()) <= set(kb.index.entities["entity_id"].to_pylist())
        assert set(tables["chunks"]["chunk_id"].to_pylist()) <= set(kb.index.chunks["chunk_id"].to_pylist())
    shown = lines_of(found.context)
    for name, section in (("entities", "Entities"), ("relationships", "Relationships"), ("chunks", "Sources")):
        assert [row["reference"] for row in tables[name].to_pylist()] == [row["reference"] for row in shown[section]]
        assert tables[name].num_rows > 0
    document = json.loads(json.dumps(asdict(found), ensure_ascii=False))
    assert document["data"]["entities"][0]["entity"] == shown["Entities"][0]["entity"]


@pytest.mark.parametrize("mode", WITH_CONTEXT)
def test_references_stand_where_they_say_and_have_one_number_a_row(path: Path, mode: str) -> None:
    texts = dict(documents())
    with opened(path) as kb:
        found = kb.query("Who taught Ada the art of weaving?", param(mode))
    numbers = [row["reference"] for rows in lines_of(found.context).values() for row in rows]
    assert len(numbers) == len(set(numbers)) > 0
    assert {reference.number for reference in found.references} == set(numbers)
    for reference in found.references:
        assert texts[reference.document][reference.start : reference.end].strip()


def test_drift_draws_questions_from_reports_and_reduces_the_points_of_their_answers(path: Path) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        text = request.messages[-1]["content"]
        if request.id.startswith("query/answer"):
            return "In the end [1]."
        if "larger question" not in text:
            point = {"description": "from the reports [1]", "score": 10}
            return json.dumps({"points": [point], "follow_ups": ["Who is Ida?", "Who is Jon?", "Who is Ida?", 7]})
        point = {"description": f"of {'Ida' if 'Ida' in text else 'Jon'} [2]", "score": 50}
        return json.dumps({"points": [point, {"description": "nothing", "score": 0}]})

    with opened(path, answer) as kb:
        found = kb.query("Who teaches?", param("drift", only_need_context=False))
    assert found.follow_ups == ["Who is Ida?", "Who is Jon?"]
    assert len(asked) == 4
    points = [json.loads(line)["description"] for line in found.context.splitlines()]
    assert points == ["of Ida [2]", "of Jon [2]", "from the reports [1]"]
    assert found.answer.startswith("In the end [1].")
    assert [reference.number for reference in found.references] == [1]
    # A row has the same number in all prompts.
    names: dict[int, str] = {}
    for request in asked[1:3]:
        for row in lines_of(request.messages[0]["content"].partition("# Knowledge\n")[2])["Entities"]:
            assert names.setdefault(row["reference"], row["entity"]) == row["entity"]
    assert {"Ida", "Jon"} <= {row["entity"] for row in found.data["entities"]}


def test_drift_goes_on_with_the_titles_of_reports_where_the_model_gives_no_questions(path: Path) -> None:
    def answer(request: Request) -> str:
        text = request.messages[-1]["content"]
        return '{"points": [{"description": "p", "score": 5}]}' if "larger question" in text else "no JSON"

    with opened(path, answer) as kb:
        found = kb.query("Who teaches?", param("drift"))
    assert found.follow_ups == ["Trades"]
    assert any("no follow-up questions" in warning for warning in found.warnings)
    assert '"description": "p"' in found.context


def test_drift_answers_from_the_reports_where_no_follow_up_question_is_answered(path: Path) -> None:
    point = {"description": "from the reports [1]", "score": 90}

    def answer(request: Request) -> str:
        if "follow_ups" in request.messages[0]["content"]:
            return json.dumps({"points": [point], "follow_ups": ["Who is Ida?"]})
        return "no JSON" if request.id.startswith("query/map") else "They teach [1]."

    with opened(path, answer) as kb:
        found = kb.query("Who teaches?", param("drift", only_need_context=False))
    assert found.answer.startswith("They teach [1].")
    assert json.loads(found.context) == point
    assert "answered none of the 1 follow-up questions" in found.warnings[0]


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ('{"points": [{"description": "a", "score": "90%"}, {"description": "b", "score": "8/10"}]}', [90, 80]),
        ('{"points": [{"description": "a", "score": "8 out of 10"}]}', [80]),
        ('{"points": [{"description": "a", "score": "~90 points"}, {"description": "b", "score": 70.6}]}', [90, 71]),
        ('{"points": [{"description": "a", "score": 0.9}, {"description": "b", "score": 1}]}', [100, 90]),
        ('{"points": [{"description": "a", "score": 1}, {"description": "b", "score": 90}]}', [90, 1]),
        ('{"points": [{"description": "a", "score": 1e300}, {"description": "b", "score": -5}]}', [100]),
        ('[{"description": "a", "score": 50}, {"description": "b", "score": 60}]', [60, 50]),
        ('{"points": {"description": "a", "score": 50}}', [50]),
        ('{"points": []}', []),
        ("[]", []),
    ],
)
def test_scores_are_read_as_models_write_them(path: Path, reply: str, scores: list[int]) -> None:
    with opened(path, lambda request: reply) as kb:
        found = kb.query("Who teaches?", param("global"))
    assert [json.loads(line)["score"] for line in found.context.splitlines()] == scores
    assert not found.warnings


def test_points_without_a_text_or_a_score_are_counted_and_where_there_are_no_others_it_is_an_error(path: Path) -> None:
    bad = ["a point", {"description": "b", "score": "high"}, {"answer": "c", "score": 4}, {"description": "d"}]
    bad += [{"description": "e", "score": True}, {"description": "f", "score": [90]}]
    replies = [json.dumps({"points": points}) for points in ([*bad, {"description": "a", "score": 1}], bad)]
    with opened(path, lambda request: replies[0]) as kb:
        found = kb.query("Who teaches?", param("global"))
        replies.pop(0)
        with pytest.raises(AnswerError, match="no point of the reply has a text and a score"):
            kb.query("Who teaches?", param("global"))
    assert json.loads(found.context) == {"description": "a", "score": 1}
    assert found.warnings == ["6 points of groups of reports have no text or no score, and are left out"]


def test_a_conversation_is_shown_from_a_question_on_and_its_turns_are_counted_by_these(path: Path) -> None:
    said = [("assistant", "Welcome."), ("user", "one"), ("user", "two"), ("assistant", "2"), ("user", "three")]
    history = [{"role": role, "content": text} for role, text in said]
    with opened(path) as kb:
        all_of_it = kb.query("Who teaches?", param("naive", conversation_history=history))
        two = kb.query("Who teaches?", param("naive", conversation_history=history, history_turns=2))
        none = kb.query("Who teaches?", param("naive", conversation_history=history[:1]))
    assert [message["content"] for message in all_of_it.prompt[1:-1]] == ["one", "two", "2", "three"]
    assert [message["content"] for message in two.prompt[1:-1]] == ["two", "2", "three"]
    assert len(none.prompt) == 2
    assert [*all_of_it.warnings, *two.warnings, *none.warnings] == []


def test_bypass_puts_the_conversation_and_the_question_to_the_model_alone(path: Path) -> None:
    asked: list[Request] = []
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    with opened(path, lambda request: asked.append(request) or "Fine [1].") as kb:
        values = {"conversation_history": history, "user_prompt": "Be brief.", "only_need_context": False}
        found = kb.query("How are you?", param("bypass", **values))
        kb.query("How are you?", param("bypass"))
    assert [message["role"] for message in asked[0].messages] == ["user", "assistant", "user"]
    assert "Be brief." in asked[0].messages[-1]["content"]
    # Nothing was given to be cited, so brackets are the model's own.
    assert (found.answer, found.context, found.references) == ("Fine [1].", "", [])
    assert len(asked) == 1


def test_an_index_without_entities_says_what_can_still_be_searched(tmp_path: Path) -> None:
    texts = ["it is so and so it was."]
    graphmill.index(
        texts, tmp_path / "kb", FunctionGenerator(lambda request: "none"), HashingEmbedder(64), WordTokenizer()
    )
    with opened(tmp_path / "kb") as kb:
        found = [kb.query("Who was it?", param(mode)).warnings for mode in ("local", "global", "naive")]
        assert repr(kb) == f"<index {tmp_path / 'kb'}, no model>"
    assert ["mode naive searches its chunks" in " ".join(warnings) for warnings in found] == [True, True, False]


def test_bypass_without_a_model_is_an_error_of_its_own_question(path: Path) -> None:
    asked = param("bypass", only_need_context=False)
    with opened(path) as kb:
        with pytest.raises(ConfigError, match="no model is configured"):
            kb.query("How are you?", asked)
        answers = dict(kb.query_each([("How are you?", asked), ("Who teaches?", param("naive"))]))
        assert kb.query("How are you?", param("bypass")).context == ""
    assert "no model is configured" in answers[0].error
    assert not answers[1].error
    assert answers[1].context


def test_a_closed_index_answers_no_more(path: Path) -> None:
    with opened(path) as kb:
        before = kb.query("Who teaches?", param("naive"))
    kb.close()
    with pytest.raises(ValueError, match=f"{path} is closed"):
        kb.query("Who teaches?", param("naive"))
    with pytest.raises(ValueError, match=f"{path} is closed"):
        list(kb.query_each([("Who teaches?", param("naive"))]))
    assert before.references


def test_relationships_that_are_not_embedded_are_named_with_what_switches_them_on(tmp_path: Path) -> None:
    config = replace(CONFIG, embed=EmbedConfig(relationships=False))
    graphmill.index(
        documents(), tmp_path / "kb", FunctionGenerator(reply), HashingEmbedder(64), WordTokenizer(), config
    )
    with opened(tmp_path / "kb") as kb:
        with pytest.raises(IndexFolderError, match=r"embed\.relationships = true"):
            kb.query("weaving", param("keywords-global"))
        found = kb.query("weaving", param("hybrid"))
        assert found.data["relationships"]
        assert "embed.relationships = true" in found.warnings[0]


def test_relationships_of_co_occurrence_are_found_by_their_ends(tmp_path: Path) -> None:
    texts = [(f"{n}.txt", f"Ada Thornbury met Elias Wren at Saltmere Castle on day {n}.") for n in range(4)]
    graphmill.index(texts, tmp_path / "kb", None, HashingEmbedder(64), WordTokenizer())
    with opened(tmp_path / "kb") as kb:
        found = kb.query("Elias Wren", param("keywords-global", top_k=1))
    assert "Elias Wren" in (found.data["relationships"][0]["source"], found.data["relationships"][0]["target"])
    assert not found.warnings


def test_older_names_of_budgets_count_where_they_are_set() -> None:
    assert graphmill.QueryParam().entity_tokens == 6000
    older = graphmill.QueryParam(max_token_for_local_context=5, max_token_for_global_context=7)
    assert (older.entity_tokens, older.relation_tokens) == (5, 7)
    with pytest.raises(ValueError, match="hl_keywords must be a list of strings, got 'weaving'"):
        graphmill.QueryParam(hl_keywords="weaving")
    with pytest.raises(ValueError, match="max_token_for_text_unit must be at least 0, got -1"):
        graphmill.QueryParam(max_token_for_text_unit=-1)


def test_bypass_drops_the_oldest_turns_where_the_conversation_is_too_long(path: Path) -> None:
    history = [{"role": "user", "content": "old " * 500}, {"role": "user", "content": "new " * 20}]
    with opened(path, lambda request: "Fine.") as kb:
        found = kb.query("How are you?", param("bypass", conversation_history=history, max_total_tokens=200))
        with pytest.raises(AnswerError, match=r"has 60. tokens, more than the 200 that max_total_tokens = 200"):
            kb.query("Why? " * 300, param("bypass", conversation_history=history, max_total_tokens=200))
        answers = [{"role": "assistant", "content": "cut off"}, *history]
        late = kb.query("How are you?", param("bypass", conversation_history=answers))
        assert kb.query(" ", param("bypass")).answer.endswith("[no-context]")
    assert [message["content"][:3] for message in found.prompt] == ["new", "How"]
    assert not found.warnings
    assert [message["role"] for message in late.prompt] == ["user", "user", "user"]


def test_points_cite_what_they_were_made_from_and_the_answer_what_the_points_cite(path: Path) -> None:
    def reply(request: Request) -> str:
        if request.id.startswith("query/map"):
            return json.dumps({"points": [{"description": "They teach [1] [999].", "score": 90}]})
        return "All of them teach [1] [2] [999]."

    with opened(path, reply) as kb:
        found = kb.query("What do they do?", param("global", only_need_context=False))
    assert found.context == json.dumps({"description": "They teach [1].", "score": 90})
    assert found.answer.startswith("All of them teach [1].")
    assert {reference.number for reference in found.references} == {1}


def test_map_requests_are_held_to_their_schema_and_are_conversations_of_their_own(path: Path) -> None:
    asked: list[Request] = []

    def reply(request: Request) -> str:
        asked.append(request)
        return json.dumps({"points": [{"description": "They teach [1].", "score": 90}]})

    with opened(path, reply) as kb:
        kb.query("What?", param("global", only_need_context=False, global_max_token_for_community_report=60))
    maps = [request for request in asked if request.id.startswith("query/map")]
    assert len(maps) > 1
    assert len({request.id.split("/")[1] for request in maps}) == len(maps)
    assert all(request.schema and "response_format" not in request.options for request in maps)


def test_a_model_with_a_small_context_answers_all_the_same(path: Path) -> None:
    with opened(path, lambda request: "Ada [1].", context_tokens=2048) as kb:
        found = kb.query("Who taught Ada?", param("naive", only_need_context=False))
    assert found.references
    assert not found.warnings


def test_a_text_that_stands_in_many_chunks_takes_the_budget_of_one(tmp_path: Path) -> None:
    notice = "Ada wrote a notice that says the same everywhere, and it is long enough to count for something."
    texts = [(f"n{n:02d}.txt", notice) for n in range(40)]
    texts += [(f"x{n}.txt", f"Ada met Bea for the {n}. time, in the house on the hill.") for n in range(5)]

    def read(request: Request) -> str:
        if len(request.messages) > 1:
            return "<|COMPLETE|>"
        return '("entity"<|>Ada<|>person<|>Ada is named)##("entity"<|>Bea<|>person<|>Bea)<|COMPLETE|>'

    graphmill.index(texts, tmp_path / "kb", FunctionGenerator(read), HashingEmbedder(64), WordTokenizer(), CONFIG)
    with opened(tmp_path / "kb") as kb:
        found = kb.query("Ada", param("local", top_k=1, local_max_token_for_text_unit=400))
    assert len(found.data["chunks"]) == 6


def test_mix_shows_as_many_chunks_as_are_wanted(tmp_path: Path) -> None:
    texts = [(f"{n:03d}.txt", f"Note {n} of Ada.") for n in range(150)]
    graphmill.index(texts, tmp_path / "kb", None, HashingEmbedder(64), WordTokenizer(), CONFIG)
    with opened(tmp_path / "kb") as kb:
        assert len(kb.query("Ada", param("mix", chunk_top_k=140)).data["chunks"]) == 140


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(TEXT, st.one_of(TEXT, st.integers(0, 2**53), st.floats(0, 1e6)), max_size=4))
@example({"reference": 1, "text": '}\n{", "\u2028\x00'})
def test_a_line_reads_as_what_it_was_made_of_less_what_is_not_known(line: dict[str, Any]) -> None:
    written = as_json(line)
    assert "\n" not in written
    assert json.loads(written) == {name: value for name, value in line.items() if value != ""}


def test_a_context_that_is_shown_again_reads_the_same(path: Path) -> None:
    """The text of a line is kept but for its reference number, which is another in another context."""
    with opened(path) as kb:
        first = [kb.query("Who taught Ada?", param(mode)).context for mode in WITH_CONTEXT]
        kb.query("Who taught Jon weaving?", param("local"))
        assert [kb.query("Who taught Ada?", param(mode)).context for mode in WITH_CONTEXT] == first
        for mode in WITH_CONTEXT:
            answer = kb.query("Who taught Ada?", param(mode))
            rows = [row for _, rows in lines_of(answer.context).items() for row in rows]
            shown = [row for table in answer.data.values() for row in table]
            assert sorted(row["reference"] for row in rows) == sorted(row["reference"] for row in shown)
            assert len({row["reference"] for row in rows}) == len(rows)


@pytest.mark.parametrize("mode", ["naive", "local", "mix"])
def test_where_something_was_found_and_none_of_it_fits_that_is_told(path: Path, mode: str) -> None:
    small = dict.fromkeys(
        ["naive_max_token_for_text_unit", "local_max_token_for_text_unit", "local_max_token_for_local_context",
         "local_max_token_for_community_report", "max_entity_tokens", "max_relation_tokens", "max_token_for_text_unit"],
        3,
    )  # fmt: skip
    with opened(path) as kb:
        answer = kb.query("Who taught Ada the art of weaving?", param(mode, **small))
        assert answer.answer.endswith("[no-context]")
        assert "chunks 3" in answer.warnings[0]
        assert not kb.query("Who taught Ada the art of weaving?", param(mode)).warnings


@pytest.mark.parametrize("mode", ["naive", "mix"])
def test_a_huge_turn_leaves_the_questions_after_it_their_knowledge(path: Path, mode: str) -> None:
    turns = [("Who taught Bea?", "Ada did."), ("word " * 40_000, "That is long."), ("And Cyd?", "Dov did.")]
    history = [
        {"role": role, "content": text}
        for turn in turns
        for role, text in zip(("user", "assistant"), turn, strict=True)
    ]
    with opened(path, lambda request: '{"high_level_keywords": [], "low_level_keywords": []}') as kb:
        found = kb.query("And whom did she teach?", param(mode, conversation_history=history))
    assert [message["content"] for message in found.prompt[1:-1]] == ["And Cyd?", "Dov did."]
    assert "Sources" in found.context
    assert found.warnings == ["the oldest 4 messages of the conversation have no room in the prompt"]


def test_what_was_cut_off_is_told(path: Path) -> None:
    def cut(request: Request) -> Reply:
        return Reply("", '{"points": [{"description": "They teach [1].", "score": 9}, {"desc', "length")

    with opened(path, cut) as kb:
        answer = kb.query("What do they do?", graphmill.QueryParam(mode="global"))
    assert "were cut off at" in answer.warnings[0]
    assert "the answer was cut off at" in answer.warnings[1]


def test_blank_keywords_are_none(path: Path) -> None:
    with opened(path) as kb:
        given = kb.query("Who taught Ada weaving?", param("mix", hl_keywords=[" "], ll_keywords=[""]))
        assert given.keywords == kb.query("Who taught Ada weaving?", param("mix")).keywords


def test_one_question_that_can_not_be_embedded_leaves_the_others_their_answers(path: Path) -> None:
    class Picky(HashingEmbedder):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            vectors = super().embed(texts)
            vectors[["unheard" in text for text in texts]] = np.nan
            return vectors

    class Refusing(HashingEmbedder):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            if any("unheard" in text for text in texts):
                raise ValueError("that is no text")
            return super().embed(texts)

    questions = ["Who taught Ada?", "An unheard question?", "Who taught Bea?"]
    for embedder in (Picky(64), Refusing(64)):
        for mode in WITH_CONTEXT:
            with graphmill.open(path, None, None, embedder, WordTokenizer()) as kb:
                found = dict(kb.query_each([(question, param(mode)) for question in questions]))
            assert [bool(found[number].error) for number in range(3)] == [False, True, False], mode
            assert found[0].context
            assert found[2].context


def test_a_reranker_that_fails_in_its_own_way_is_told_of(path: Path) -> None:
    class Broken:
        def rank(self, question: str, texts: Sequence[str]) -> np.ndarray:
            raise RuntimeError("out of order")

    with opened(path, reranker=Broken()) as kb:
        answer = kb.query("Who taught Ada?", param("naive"))
    assert answer.context
    assert answer.warnings == ["the chunks could not be reranked: out of order"]


class Together:
    """Scores by how many letters a text has in common with the question; counts its calls."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def rank(self, question: str, texts: Sequence[str]) -> np.ndarray:
        (scores,) = self.rank_each([(question, texts)])
        if isinstance(scores, Exception):
            raise scores
        return scores

    def rank_each(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[np.ndarray | Exception]:
        self.calls.append(len(asked))
        return [
            ValueError("no")
            if "Bea" in question
            else np.array([len(set(question) & set(text)) for text in texts], np.float32)
            for question, texts in asked
        ]


def test_the_questions_of_a_batch_are_put_to_a_reranker_together(path: Path) -> None:
    asked = [(f"Who taught {name}?", param(mode)) for name in NAMES[:3] for mode in ("naive", "local", "mix")]
    reranker = Together()
    with opened(path, reranker=reranker) as kb:
        alone = [kb.query(*one) for one in asked]
        assert reranker.calls == [1] * 6  # local ranks nothing
        reranker.calls.clear()
        found = dict(kb.query_each(asked))
    assert reranker.calls == [6]
    assert [found[n].context for n in range(9)] == [answer.context for answer in alone]
    told = [bool(found[n].warnings) for n in range(9)]
    assert told == [bool(answer.warnings) for answer in alone] == [n in (3, 5) for n in range(9)]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (lambda n: [0.0] * (n + 3), r"must give \d+ scores, got shape"),
        (lambda n: [[0.0]] * n, r"must give \d+ scores, got shape"),
        (lambda n: ["good"] * n, "could not convert string to float"),
        (lambda n: None, r"must give \d+ scores, got shape \(\)"),
        (lambda n: [float("nan")] * n, "scored none of the texts"),
    ],
)
@pytest.mark.parametrize("is_together", [False, True])
def test_scores_that_are_none_are_told_of_and_stop_nothing(
    path: Path, given: Callable[[int], Any], why: str, is_together: bool
) -> None:
    class Wrong:
        def rank(self, question: str, texts: Sequence[str]) -> Any:
            return given(len(texts))

    def rank_each(self: Wrong, asked: Sequence[tuple[str, Sequence[str]]]) -> Any:
        return [self.rank(*one) for one in asked]

    if is_together:
        Wrong.rank_each = rank_each  # type: ignore[attr-defined]
    with opened(path) as kb:
        plain = kb.query("Who taught Ada?", param("naive", chunk_top_k=60)).data["chunks"]
    with opened(path, reranker=Wrong()) as kb:
        answers = [kb.query("Who taught Ada?", param("naive", chunk_top_k=60))]
        answers += [answer for _, answer in kb.query_each([("Who taught Ada?", param("naive", chunk_top_k=60))] * 2)]
    for answer in answers:
        assert answer.data["chunks"] == plain
        (warning,) = answer.warnings
        assert re.search(why, warning), warning


def test_a_reranker_that_dies_of_one_question_still_ranks_the_others(path: Path) -> None:
    class Dying(Together):
        def rank_each(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[np.ndarray | Exception]:
            if any("Bea" in question for question, _ in asked):
                raise RuntimeError("gone")
            return super().rank_each(asked)

    asked = [(f"Who taught {name}?", param("naive")) for name in NAMES[:4]]
    with opened(path, reranker=Dying()) as kb:
        found = dict(kb.query_each(asked))
    assert [found[n].warnings for n in range(4)] == [[], ["the chunks could not be reranked: gone"], [], []]
    short = Together()
    short.rank_each = lambda asked: Together.rank_each(short, asked)[:1]  # type: ignore[method-assign]
    with opened(path, reranker=short) as kb:
        assert not any(answer.warnings for n, answer in kb.query_each(asked) if n != 1)


def test_what_is_no_question_or_no_reranker_is_refused_as_such(path: Path) -> None:
    with opened(path) as kb:
        with pytest.raises(TypeError, match="takes a text and a QueryParam, got NoneType, NoneType"):
            kb.query(None)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="got str, dict"):
            kb.query("q", {"mode": "naive"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a function of a question and texts, got 'foo'"), opened(path, reranker="foo"):
        pass
