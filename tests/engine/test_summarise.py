from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted, WordTokenizer

from graphmill.engine.models import Reply, Request
from graphmill.engine.sentences import cut_to_tokens, join_distinct, split_sentences, split_to_tokens
from graphmill.engine.summarise import SummariseConfig, summarise

CASES = {
    c["id"]: c for c in map(json.loads, Path(__file__).parent.with_name("cases.jsonl").read_text("utf-8").splitlines())
}
TOKENS = WordTokenizer()


def notes_of(request: Request) -> list[str]:
    return re.findall(r"^- (.*)$", request.messages[0]["content"].partition("Notes:\n")[2], re.M)


def test_a_hub_entity_is_summarised_in_few_rounds_of_bounded_prompts_that_use_every_description() -> None:
    given_, expected = CASES["S01"]["input"], CASES["S01"]["expected"]
    descriptions = [f"fact{n} " + "word " * 48 + "." for n in range(20000)]
    assert set(TOKENS.count(descriptions)) == {50}
    facts_in: dict[str, set[str]] = {}

    def answer(request: Request) -> str:
        facts: set[str] = set()
        for note in notes_of(request):
            name = note.split()[0]
            facts |= facts_in.get(name, {name})
        made = f"summary{len(facts_in)}"
        facts_in[made] = facts
        return f"{made} " + "long sentence. " * 400

    model = Scripted(answer)
    config = SummariseConfig(max_tokens=given_["max_tokens"], context_tokens=given_["context_tokens"])
    result = summarise([(given_["entity"], descriptions)], model, TOKENS, config)
    assert max(TOKENS.count(model.prompts())) <= expected["every_prompt_tokens<="]
    assert result.num_rounds <= expected["rounds<="]
    assert int(TOKENS.count(result.descriptions)[0]) <= expected["final_tokens<="]
    assert facts_in[result.descriptions[0].split()[0]] == {f"fact{n}" for n in range(20000)}
    assert result.num_calls == len(model.requests)
    assert result.num_failed == 0


def test_all_things_of_a_round_are_asked_about_in_one_batch() -> None:
    batches: list[int] = []

    class Watched(Scripted):
        def collect(self) -> list[Reply]:
            batches.append(len(self._open))
            return list(super().collect())

    things = [(f"thing{t}", [f"note {t} {n} " + "word " * 60 for n in range(40)]) for t in range(5)]
    config = SummariseConfig(max_tokens=100, context_tokens=1500)
    result = summarise(things, Watched(lambda r: "done.", max_in_flight=1000), TOKENS, config)
    assert len(batches) == result.num_rounds > 1
    assert batches[-1] == 5


def test_few_and_short_descriptions_are_joined_without_a_call() -> None:
    model = Scripted(lambda r: "never")
    things = [("A", ["One fact.", "Another fact. ONE  fact."]), ("B", ["Only one"]), ("C", [])]
    result = summarise(things, model, TOKENS, SummariseConfig())
    assert result.descriptions == ["One fact. Another fact.", "Only one", ""]
    assert model.requests == []


@pytest.mark.parametrize(
    "descriptions", [[f"Fact {n}." for n in range(9)], ["word " * 501], ["a. " * 251, "b. " * 251]]
)
def test_too_many_or_too_long_descriptions_are_summarised(descriptions: list[str]) -> None:
    model = Scripted(lambda r: "<think>hm</think>\nA summary.")
    result = summarise([("A", descriptions)], model, TOKENS, SummariseConfig())
    assert result.descriptions == ["A summary."]
    assert (result.num_summarised, result.num_calls, result.num_rounds) == (1, 1, 1)


def test_the_prompt_names_the_thing_the_language_and_the_limit() -> None:
    model = Scripted(lambda r: "ok")
    german, chinese = [f"Satz {n}." for n in range(9)], [f"这是关于银行的第{n}句话。" for n in range(9)]
    things = [("Bank {name}", german), ("银行", chinese), ("银行", chinese)]
    summarise(things, model, TOKENS, SummariseConfig(max_tokens=77), ["de", "zh", "auto"])
    first, second, third = model.prompts()
    assert "Subject: Bank {name}\n" in first
    assert "in German" in first
    assert "at most 77 tokens" in first
    assert "third person" in first
    assert "主题：银行" in second
    assert "用中文书写" in second
    assert second == third


def test_where_the_model_fails_the_joined_and_cut_descriptions_stand_in_and_are_counted() -> None:
    def answer(request: Request) -> str | Reply | None:
        name = re.findall(r"Subject: (\w)", request.messages[0]["content"])[-1]
        return {"A": None, "B": "<think>never ends", "C": "Good."}[name]

    things = [(name, [f"{name} did thing {n}." for n in range(9)]) for name in "ABC"]
    result = summarise(things, Scripted(answer), TOKENS, SummariseConfig(max_tokens=12))
    assert result.descriptions == ["A did thing 0. A did thing 1.", "B did thing 0. B did thing 1.", "Good."]
    assert result.num_failed == 2


def test_a_failed_group_costs_only_its_own_notes() -> None:
    def answer(request: Request) -> str | None:
        notes = notes_of(request)
        if notes[0].startswith("note 0 ") and notes[-1].startswith("note"):
            return None
        return "kept " + " ".join(word for note in notes for word in note.split() if "end" in word)

    notes = [f"note {n} " + "word " * 90 + f"end{n}" for n in range(30)]
    model = Scripted(answer)
    result = summarise([("A", notes)], model, TOKENS, SummariseConfig(max_tokens=200, context_tokens=1500))
    assert result.num_failed == 1
    assert "end29" in result.descriptions[0]


def test_a_description_longer_than_a_prompt_is_split_and_nothing_is_lost() -> None:
    text = " ".join(f"Sentence number{n} is here." for n in range(1000))
    model = Scripted(lambda r: "short.")
    summarise([("A", [text])], model, TOKENS, SummariseConfig(max_tokens=100, context_tokens=1200))
    seen = "\n".join(model.prompts())
    assert all(f"number{n} " in seen for n in range(1000))
    assert max(TOKENS.count(model.prompts())) <= 1200


def test_notes_that_pass_to_the_next_round_alone_are_not_cut() -> None:
    notes = ["word " * 300 + f"end{n}." for n in range(4)]
    model = Scripted(lambda r: "short.")
    summarise([("A", notes)], model, TOKENS, SummariseConfig(max_tokens=100, context_tokens=1500))
    seen = "\n".join(model.prompts())
    assert all(f"end{n}" in seen for n in range(4))


def test_without_a_model_descriptions_are_cut_at_a_sentences_end() -> None:
    things = [("A", ["One two three. Four five six.", "Seven eight nine."]), ("B", ["甲乙丙。丁戊己。"])]
    result = summarise(things, None, TOKENS, SummariseConfig(max_tokens=9))
    assert result.descriptions == ["One two three. Four five six.", "甲乙丙。丁戊己。"]
    assert summarise(things, None, TOKENS, SummariseConfig(max_tokens=7)).descriptions == ["One two three.", "甲乙丙。"]


def test_a_context_that_is_too_small_for_a_summary_is_refused_with_the_settings_to_change() -> None:
    model = Scripted(lambda r: "x", context_tokens=1024)
    with pytest.raises(ValueError, match=r"summarise\.context_tokens=8000 .* 1024"):
        summarise([("A", ["a."] * 9)], model, TOKENS, SummariseConfig())
    with pytest.raises(ValueError, match=r"summarise\.max_fragments must be at least 1, got 0"):
        SummariseConfig(max_fragments=0)


SENTENCES = st.lists(
    st.sampled_from(["Dr. A went.", "B!", "三。", "no stop", "x" * 50, "《书》", "\n", "1.5 m"]), max_size=12
)


@given(SENTENCES, st.integers(1, 20))
def test_cut_texts_keep_to_the_limit_and_are_beginnings_of_the_text(parts: list[str], limit: int) -> None:
    text = " ".join(parts)
    cut = cut_to_tokens([text], limit, TOKENS)[0]
    assert int(TOKENS.count([cut])[0]) <= limit
    assert text.strip().startswith(cut.removesuffix("…").strip())
    if int(TOKENS.count([text])[0]) <= limit:
        assert cut == text


@given(SENTENCES, st.integers(2, 9))
def test_splitting_loses_nothing_but_space(parts: list[str], limit: int) -> None:
    text = " ".join(parts)
    pieces = split_to_tokens(text, limit, TOKENS)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(count <= limit for count in TOKENS.count(pieces))


def test_sentences_end_at_stops_and_not_at_abbreviations() -> None:
    assert split_sentences("Dr. Smith met J. K. Low at 3.5 p.m. in the U.S. capital. He left! “Why?” she asked.") == [
        "Dr. Smith met J. K. Low at 3.5 p.m. in the U.S. capital.",
        "He left!",
        "“Why?” she asked.",
    ]
    assert split_sentences("他来了。“真的吗？”她问\n没人答") == ["他来了。", "“真的吗？”", "她问", "没人答"]


def test_joined_texts_hold_each_sentence_once_and_end_with_stops_between() -> None:
    assert join_distinct(["Engineer at Acme", "Born in 1970. ENGINEER  at Acme."]) == "Engineer at Acme. Born in 1970."
    assert join_distinct(["Ann runs.", "Bob sits. Ann runs."]) == "Ann runs. Bob sits."
    assert join_distinct(["他是工程师", "他是工程师。住在北京。"]) == "他是工程师。住在北京。"
