"""What an evaluation measures: facts that are found, references that bear on a question, tokens, and failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import graphmill
from graphmill.engine.build import OpenIndex
from graphmill.engine.evaluate import DEFAULT_MODES, EVALUATION, evaluate, summarise, unknown_documents
from graphmill.engine.find_facts import folded, folded_points, holds
from graphmill.engine.function_models import FunctionEmbedder, FunctionGenerator, HashingEmbedder
from graphmill.engine.models import Reply, Request
from graphmill.engine.question_file import QuestionRow
from graphmill.engine.tokenizers import WordTokenizer
from graphmill.engine.vllm_process import EngineGone

DOCUMENTS = [
    ("ada.txt", 'Ada Thornbury founded the Harbour\nTrust in 1911. She said: "Never again."'),
    ("edwin.txt", "Edwin Carrow kept Gull Rock Light from 1902 until the Great Storm."),
    ("ferry.txt", "The Marrowport ferry sails on Mondays, past Gull Rock Light."),
    ("notes.jsonl#n1", "Nina Grimm mended the bell of Gull Rock Light in 1930."),
    ("c#.txt", "Hugo Vance wrote programs in Marrowport."),
]
Open = Callable[..., OpenIndex]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "kb"
    graphmill.index(DOCUMENTS, path, None, HashingEmbedder(32), WordTokenizer())
    return path


@pytest.fixture
def opened(path: Path) -> Iterator[Open]:
    made: list[OpenIndex] = []

    def make(reply: Callable[[Request], str | Reply] | None = None) -> OpenIndex:
        generator = None if reply is None else FunctionGenerator(reply)
        made.append(graphmill.open(path, None, generator, HashingEmbedder(32), WordTokenizer()))
        return made[-1]

    yield make
    for one in made:
        one.close()


def row(question: str, *facts: str | tuple[str, ...], documents: tuple[str, ...] = (), name: str = "q") -> QuestionRow:
    return QuestionRow(question, name, 1, None, tuple((f,) if isinstance(f, str) else f for f in facts), documents)


def results(opened: OpenIndex, *rows: QuestionRow, modes: tuple[str, ...] = ("naive",)) -> list[dict[str, Any]]:
    found = list(evaluate(opened, rows, modes))
    pa.Table.from_pylist(found, EVALUATION).validate(full=True)
    assert all(result.keys() == set(EVALUATION.names) for result in found)
    return found


def test_a_fact_is_found_whatever_its_case_its_line_breaks_and_its_quotation_marks(opened: Open) -> None:
    facts = ("harbour TRUST", 'said: "never again."', ("1910", "1911"), "1912")
    (result,) = results(opened(), row("Who founded the Harbour Trust?", *facts))
    assert (result["num_facts"], result["context_facts"], result["missing_facts"]) == (4, 3, ["1912"])


def test_a_reference_bears_on_a_question_by_the_documents_that_are_named(opened: Open) -> None:
    reply = "Ada [1], Edwin [2], Nina [3], Ada again [1]."
    index = opened(lambda request: reply)
    (one,) = results(index, row("Gull Rock Light?", documents=("edwin.txt", "ada.txt", "notes.jsonl")))
    cited = {reference["number"]: reference["document"] for reference in one["references"]}
    right = [document for document in cited.values() if document != "ferry.txt" and document != "c#.txt"]
    assert (one["num_references"], one["right_references"]) == (3, len(right))
    (other,) = results(index, row("Gull Rock Light?", documents=("notes",)))
    assert other["right_references"] == 0  # the beginning of a name is not the name


def test_a_reference_bears_on_a_question_by_the_facts_in_its_chunk_where_no_document_is_named(opened: Open) -> None:
    index = opened(lambda request: "All of them [1][2][3][4][5].")
    (result,) = results(index, row("Gull Rock Light?", ("1902", "the great storm"), "1930"))
    assert (result["num_references"], result["right_references"]) == (5, 2)


def test_a_question_with_neither_facts_nor_documents_is_not_judged_and_in_no_recall(opened: Open) -> None:
    found = results(opened(lambda request: "It does [1]."), row("Does the ferry sail?"), row("Who?", "1911", "1999"))
    assert found[0]["right_references"] is None
    (mode,) = summarise(found)
    assert (mode["num_questions"], mode["num_with_facts"], mode["num_judged"]) == (2, 1, 1)
    assert mode["context_recall"] == 0.5
    assert mode["num_references"] == 1


def test_labels_of_references_are_no_part_of_the_answer(opened: Open) -> None:
    (result,) = results(opened(lambda request: "On Mondays [1]."), row("When does the ferry sail?", "txt", "mondays"))
    assert result["answer"] == "On Mondays [1]."
    assert result["references"][0]["document"].endswith((".txt", "n1"))
    assert result["answer_facts"] == 1


def test_a_question_that_fails_is_told_of_and_counts_in_no_mean(opened: Open) -> None:
    def reply(request: Request) -> str:
        if "bell" in request.messages[-1]["content"]:
            raise RuntimeError("too hot")
        return "In 1911 [1]."

    found = results(opened(reply), row("When?", "1911", name="a"), row("The bell?", "1930", name="b"), modes=("naive",))
    assert [result["error"] for result in found] == [None, "the model gave no answer: RuntimeError: too hot"]
    (mode,) = summarise(found)
    assert (mode["num_questions"], mode["num_failed"], mode["num_with_facts"]) == (2, 1, 1)
    assert (mode["answer_recall"], mode["complete"]) == (1.0, 1.0)
    (none,) = summarise(found[1:])
    assert (none["num_failed"], none["context_recall"], none["seconds"]) == (1, None, None)


def test_an_engine_that_is_gone_ends_the_evaluation_and_keeps_what_was_done(opened: Open) -> None:
    index = opened(lambda request: "Fine [1].")
    asked = evaluate(index, [row("One?"), row("Two?")], ["naive"])
    assert next(asked)["error"] is None

    def gone() -> Any:
        raise EngineGone("the engine is gone")

    assert index.generator is not None
    index.generator.collect = gone  # type: ignore[method-assign]
    with pytest.raises(EngineGone):
        next(asked)


def test_tokens_are_the_context_the_prompt_and_all_that_the_model_read_and_wrote(opened: Open) -> None:
    def reply(request: Request) -> Reply:
        text = '{"high_level_keywords": ["ferry"], "low_level_keywords": ["Marrowport"]}'
        is_keywords = request.schema is not None
        return Reply("", text if is_keywords else "Mondays [1].", "stop", 100 if is_keywords else 1000, 7)

    naive, mix = results(opened(reply), row("When does the ferry sail?"), modes=("naive", "mix"))
    assert (naive["model_tokens"], mix["model_tokens"]) == (1007, 1114)
    assert 0 < naive["context_tokens"] < naive["prompt_tokens"]
    (alone,) = results(opened(), row("When does the ferry sail?"))
    assert alone["model_tokens"] is None
    assert alone["context_tokens"] == naive["context_tokens"]


def test_bypass_has_no_context_to_find_facts_in(opened: Open) -> None:
    found = results(opened(lambda request: "In 1911."), row("When?", "1911"), modes=("bypass",))
    (mode,) = summarise(found)
    assert (mode["context_recall"], mode["complete"], mode["answer_recall"]) == (None, None, 1.0)
    assert mode["context_tokens"] == 0


def test_every_mode_asks_every_question_in_order_and_without_a_model_answers_are_passages(opened: Open) -> None:
    rows = row("Who kept Gull Rock Light?", "Edwin Carrow", name="a"), row("Who founded the Trust?", "Ada", name="b")
    found = results(opened(), *rows, modes=DEFAULT_MODES)
    assert [(result["mode"], result["id"]) for result in found] == [(m, i) for m in DEFAULT_MODES for i in "ab"]
    modes = {mode["mode"]: mode for mode in summarise(found)}
    assert list(modes) == list(DEFAULT_MODES)
    assert modes["naive"]["context_recall"] == modes["naive"]["answer_recall"] == 1.0
    assert all(0 < mode["reference_precision"] <= 1 for name, mode in modes.items() if name != "global")


def test_ratios_are_over_all_facts_and_all_references_and_time_is_a_median() -> None:
    def result(facts: int, found: int, references: int, right: int, seconds: float) -> dict[str, Any]:
        counts = {"num_facts": facts, "context_facts": found, "answer_facts": 0, "num_references": references}
        tokens = {"context_tokens": 10, "prompt_tokens": 20, "model_tokens": None}
        other = {"right_references": right, "seconds": seconds, "error": None, "warnings": ["w"] if facts == 1 else []}
        return {"mode": "mix"} | counts | tokens | other

    (mode,) = summarise([result(1, 1, 1, 1, 0.1), result(9, 2, 4, 0, 0.2), result(2, 2, 0, 0, 99.0)])
    assert mode["context_recall"] == pytest.approx(5 / 12)
    assert mode["complete"] == pytest.approx(2 / 3)
    assert mode["reference_precision"] == pytest.approx(1 / 5)
    assert (mode["answer_recall"], mode["seconds"], mode["num_warned"]) == (0.0, 0.2, 1)
    assert (mode["context_tokens"], mode["model_tokens"]) == (10, None)
    assert summarise([]) == []


def test_documents_that_the_index_does_not_have_are_named(opened: Open) -> None:
    known = row("?", documents=("ada.txt", "notes.jsonl", "notes.jsonl#n1", "c#.txt"))
    other = row("?", documents=("ada", "notes.jsonl#n2", "ada"))
    assert unknown_documents(opened().index, [known, other]) == ["ada", "notes.jsonl#n2"]


@pytest.mark.parametrize(
    ("fact", "text", "is_there"),
    [
        ("19 metres", "at 19\nMetres.", True),
        ("19 metres", "at 119 metres", False),
        ("rank", "They drank.", False),
        ("caf", "a café", False),
        ("1860", "赔偿1860万元", True),
        ("万元", "赔偿1860万元整", True),
        ("-30", "at -30 degrees", True),
        ("-30", "at 5-300 degrees", False),
        ("Gdańsk", "to Gdańsk's yard", True),
        ("(a+b)", "it is (A+B)", True),
    ],
)
def test_a_fact_stands_between_borders_of_words_where_it_is_made_of_ascii(fact: str, text: str, is_there: bool) -> None:
    assert holds(folded(text), (fact,)) is is_there
    assert holds(folded("nothing here", text), ("no such", fact)) is is_there


def test_no_fact_reaches_from_one_value_into_the_next() -> None:
    assert not holds(folded("Ada met", "Edwin."), ("met Edwin",))


@pytest.mark.parametrize("mode", ["naive", "local", "mix"])
def test_what_the_json_of_a_context_adds_is_no_fact(opened: Open, mode: str) -> None:
    scaffolding = ("reference", "created_at", "rank", "ada.txt", "-----Sources-----", "description", "PERSON", "path")
    (result,) = results(opened(), row("Who kept Gull Rock Light?", "1902", *scaffolding, "1"), modes=(mode,))
    assert result["missing_facts"] == [*scaffolding, "1"]


def test_numbers_of_citations_are_no_part_of_the_answer(opened: Open) -> None:
    (result,) = results(opened(lambda request: "On Mondays [1][2]."), row("When?", "1", "2", "mondays"))
    assert result["answer_facts"] == 1


@pytest.mark.parametrize("mode", ["global", "drift"])
def test_with_a_model_the_facts_of_points_count_and_not_those_that_no_point_holds(opened: Open, mode: str) -> None:
    def reply(request: Request) -> str:
        if request.schema is None:
            return "It did [1]."
        return '{"points": [{"description": "The bell\\u2028rang in 1930 [1].", "score": 80}], "follow_ups": []}'

    facts = ("1930", "bell rang", "1", "80", "score", "Edwin Carrow")
    (result,) = results(opened(reply), row("Gull Rock Light?", *facts), modes=(mode,))
    assert result["missing_facts"] == ["1", "80", "score", "Edwin Carrow"]
    assert folded_points("") == ""


def test_a_reference_to_the_graph_bears_on_a_question_by_the_row_that_was_shown_too(opened: Open) -> None:
    index = opened(lambda request: "".join(f"[{n}]" for n in range(1, 6)))
    plain = index.query("Gull Rock Light?", graphmill.QueryParam(mode="local"))
    light = next(row for row in plain.data["entities"] if row["entity"] == "Gull Rock Light")
    (number,) = [r.number for r in plain.references if r.kind == "entity" and r.label == light["entity"]]
    chunk_id = next(r.chunk_id for r in plain.references if r.number == number)
    chunk = next(row["text"] for row in index.index.chunks.to_pylist() if row["chunk_id"] == chunk_id)
    (fact,) = [fact for fact in ("1902", "1930") if fact in light["description"] and fact not in chunk][:1]
    (result,) = results(index, row("Gull Rock Light?", fact), modes=("local",))
    by_chunk = {r["number"] for r in result["references"] if fact in chunk_text(index, r["chunk_id"])}
    assert number not in by_chunk
    assert result["right_references"] > len(by_chunk)


def chunk_text(opened: OpenIndex, chunk_id: str) -> str:
    return next(row["text"] for row in opened.index.chunks.to_pylist() if row["chunk_id"] == chunk_id)


def test_a_reference_bears_on_a_question_by_its_document_or_by_a_fact(opened: Open) -> None:
    index = opened(lambda request: "All of them [1][2][3][4][5].")
    (result,) = results(index, row("Gull Rock Light?", "1930", documents=("ferry.txt",)))
    assert (result["num_references"], result["right_references"]) == (5, 2)


def test_a_question_that_can_not_be_embedded_fails_and_the_others_go_on(path: Path) -> None:
    hashing = HashingEmbedder(32)

    def embed(texts: list[str]) -> Any:
        return np.where(np.array([["bad" in text] for text in texts]), np.nan, hashing.embed(texts))

    embedder = FunctionEmbedder(embed, 32, model=hashing.model)
    with graphmill.open(path, None, None, embedder, WordTokenizer()) as index:
        found = results(index, row("bad?", "1911"), row("Who founded the Harbour Trust?", "1911"))
    assert "no vector that is finite for 'bad?'" in found[0]["error"]
    assert (found[1]["error"], found[1]["context_facts"]) == (None, 1)


def test_questions_of_another_thread_do_not_mix_with_an_evaluation(opened: Open) -> None:
    def reply(request: Request) -> str:
        return f"{'Others' if 'others' in request.messages[-1]['content'] else 'Ours'} [1]."

    index, said = opened(reply), list[str]()
    generator = index.generator
    assert generator is not None
    collect = generator.collect

    def collect_late() -> Any:
        time.sleep(0.005)  # in which the other thread submits
        return collect()

    generator.collect = collect_late  # type: ignore[method-assign]

    def ask() -> None:
        said.extend(index.query("What of others?", graphmill.QueryParam(mode="naive")).answer[:6] for _ in range(20))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    found = results(index, *(row(f"Ours, number {n}?", "ours", name=str(n)) for n in range(20)))
    thread.join(30)
    assert said == ["Others"] * 20
    assert [result["answer_facts"] for result in found] == [1] * 20
