"""What is made of a model's answer: its thinking and its own references go, its citations are checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import graphmill
from graphmill.engine.cite import cite, render_references
from graphmill.engine.contexts import Reference
from graphmill.engine.function_models import FunctionGenerator, HashingEmbedder
from graphmill.engine.models import Request
from graphmill.engine.query import AnswerError
from graphmill.engine.tokenizers import WordTokenizer

REFERENCES = [Reference(n, "chunk", f"d{n}.txt", f"d{n}.txt", f"c{n}", 0, 9) for n in range(1, 9)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "kb"
    documents = [(f"d{n}.txt", f"Ada Thornbury met Elias Wren at Saltmere Castle on day {n}.") for n in range(8)]
    graphmill.index(documents, path, None, HashingEmbedder(16), WordTokenizer())
    return path


def ask(path: Path, reply: str | Callable[[Request], str], question: str = "Who met Ada?", mode: str = "naive") -> str:
    generator = FunctionGenerator(reply if callable(reply) else lambda request: reply)
    with graphmill.open(path, None, generator, HashingEmbedder(16), WordTokenizer()) as kb:
        return str(kb.query(question, graphmill.QueryParam(mode=mode)))


@pytest.mark.parametrize(
    ("text", "kept", "numbers"),
    [
        ("Right [1], wrong [99].", "Right [1], wrong.", [1]),
        ("A list [1, 2,3] and a range [4-5].", "A list [1][2][3] and a range [4][5].", [1, 2, 3, 4, 5]),
        ("A long range [2–8].", "A long range [2][3][4][5][6].", [2, 3, 4, 5, 6]),
        ("中文【1】和［2、3］。", "中文[1]和[2][3]。", [1, 2, 3]),
        ("Six [6][5][4][3][2][1], again [6].", "Six [6][5][4][3][2], again [6].", [6, 5, 4, 3, 2]),
        ("None [0] [x] [^y].", "None [0] [x] [^y].", []),
    ],
)
def test_citations_are_those_of_the_context_and_at_most_five(text: str, kept: str, numbers: list[int]) -> None:
    answer, references = cite(text, REFERENCES)
    assert (answer, [reference.number for reference in references]) == (kept, numbers)


@pytest.mark.parametrize(
    "own",
    [
        "### References\n\n- [KG] foo [1]\n- [DC] bar",
        "**References:**\n[1] d7.txt",
        "参考资料：\n1. 甲\n2. 乙",
        "References",
        "## Sources\n\n- [1] d7.txt",
        "References: [1], [2]",
    ],
)
def test_a_references_section_of_the_model_makes_way_for_ours(path: Path, own: str) -> None:
    answer = ask(path, f"Elias met her [2].\n\n{own}")
    assert answer.startswith("Elias met her [2].\n\n### References\n\n- [2] [DC] d")
    assert answer.count("References") == 1
    assert "[1]" not in answer


def test_text_after_the_word_references_is_kept(path: Path) -> None:
    assert "The end." in ask(path, "Elias [1].\n\n## References\n\nThey are few. The end.")


def test_thinking_is_no_part_of_an_answer(path: Path) -> None:
    assert ask(path, "<think>Is it [3]?</think>Elias [1].").startswith("Elias [1].\n\n### References\n\n- [1]")


@pytest.mark.parametrize("reply", ["", " \n", "<think>I wonder", "<think>so</think>"])
def test_an_answer_of_nothing_is_an_error_that_says_so(path: Path, reply: str) -> None:
    with pytest.raises(AnswerError, match="holds nothing"):
        ask(path, reply)


@pytest.mark.parametrize("mode", ["naive", "local", "global"])
def test_an_empty_question_gets_the_apology_without_a_call(path: Path, mode: str) -> None:
    calls: list[Request] = []
    answer = ask(path, lambda request: str(calls.append(request)), question=" \n", mode=mode)
    assert answer.endswith("[no-context]")
    assert not calls


def test_points_that_are_none_are_left_out(path: Path) -> None:
    values = [1, None, {"description": 5, "score": 3}, {"description": "good", "score": "80/100"}, {"description": "x"}]

    def reply(request: Request) -> str:
        return json.dumps({"points": values}) if request.id.startswith("query/map") else request.messages[0]["content"]

    answer = ask(path, reply, mode="global")
    assert '{"description": "good", "score": 80}' in answer
    assert '"x"' not in answer


@pytest.mark.parametrize("budget", [0, 60, 300, 1000])
def test_no_section_of_a_context_is_over_its_budget_as_it_is_written(tmp_path: Path, budget: int) -> None:
    folder = "/".join(f"part-{n}.of_a-path" for n in range(12))  # many tokens in every line beside the text's own
    names = ["Ada Thornbury", "Elias Wren", "Hugo Vance", "Nina Grimm"]
    documents = [
        (f"{folder}/d{n}.txt", f"{names[n % 4]} met {names[(n + 1) % 4]} at Saltmere Castle on day {n}.")
        for n in range(24)
    ]
    tokenizer, embedder = WordTokenizer(), HashingEmbedder(16)
    graphmill.index(documents, tmp_path / "kb", None, embedder, tokenizer)
    limits = {
        "naive": {"naive_max_token_for_text_unit": budget},
        "global": {"global_max_token_for_community_report": budget},
        "local": {
            "local_max_token_for_text_unit": budget,
            "local_max_token_for_local_context": budget,
            "local_max_token_for_community_report": budget,
            "max_entity_tokens": budget,
        },
    }
    with graphmill.open(tmp_path / "kb", None, None, embedder, tokenizer) as kb:
        for mode, limit in limits.items():
            param = graphmill.QueryParam(mode=mode, only_need_context=True, **limit)
            context = kb.query("Whom did Ada Thornbury meet?", param).context
            for section in context.split("\n\n-----"):
                body = "".join(line for line in section.splitlines() if line.startswith("{"))
                assert tokenizer.count([body])[0] <= budget
            assert 0 < budget < 1000 or bool(context) == (budget > 0)


def test_brackets_in_code_are_no_citations() -> None:
    references = [Reference(1, "chunk", "a.txt", "a.txt", "c", 0, 9)]
    text = "Use `a = [1, 2]` [1].\n```\nb[0] = [1]\n```\nSee [2]."
    kept, cited = cite(text, references)
    assert kept == "Use `a = [1, 2]` [1].\n```\nb[0] = [1]\n```\nSee."
    assert cited == references


@pytest.mark.parametrize(
    ("language", "others"),
    [("en", "d0.txt, d1.txt, d2.txt and 57 more"), ("zh", "d0.txt, d1.txt, d2.txt 和另外 57 处")],
)
def test_a_reference_to_many_places_names_a_few_and_counts_the_others(language: str, others: str) -> None:
    places = [Reference(1, "chunk", f"d{n}.txt", f"d{n}.txt", f"c{n}", 0, 9) for n in range(60)]
    assert render_references(places, language).endswith(f"- [1] [DC] {others}")
    assert "more" not in render_references(places[:3], "en")
    assert cite("Ada [1].", places)[1] == places
