"""What is shown of an answer while it is being written is what the whole answer will say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.engine import shown_text
from graphmill.engine.cite import cite, held_to_numbers, only_citing, without_own_references
from graphmill.engine.contexts import Reference
from graphmill.engine.shown_text import STARTS_ANEW, ShownText
from graphmill.engine.strip_thoughts import strip_thoughts

REFERENCES = [Reference(n, "chunk", f"d{n}.txt", f"d{n}.txt", f"c{n}", 0, 9) for n in range(1, 9)]
TRICKY = [
    "Ada ", "met", " Elias", " [1]", " [99]", "[2, ", "3]", "[4-", "5] ", "[6][7]", "[", "]", "1", "\n", "\n\n", " ",
    "`x", "[1]`", "```\n", "a[0] = [2]\n", "# R", "### References\n", "References", "- [1] d1\n", "参考资料：\n",
    "refer", "Re", "**References:**\n", "<think>", "hm", "</think>", "<b>", "<", "end.", "【8】",
    "结束。", "* ", "\u2028", "[0, 1]", "[2018]", "[[", "]]", "x", "_", "(", ")", "(http", "[^1]", "[^", ": note", ":",
    "：", "reference 3", "[ref", " 9", "(reference", "参考", "†source】", "【1", " and ", " in ", "=", "$",
    "## Sources\n", "Sour", "Sources: ", "References: [1]", ", ", "a.md", "- **b.md**\n", "1. c.md\n", "---\n",
    "### 引用\n", " (2)", "参考编号", "和", " id", "**", "#", "Quellen", "[KG] Ada\n",
    "  more\n", "***\n", "6. ", "*References*\n", "```", "a[1]", "a[9]", "b ", "10 m", "- ", "x = ",
    "a[[1]]", "a[1-3]",
]  # fmt: skip


def whole(text: str) -> str:
    text = strip_thoughts(text, in_record="\0")[0].strip()
    return cite(without_own_references(text) or text, REFERENCES)[0]


def shown_of(pieces: list[str]) -> str:
    shown = ShownText({reference.number for reference in REFERENCES})
    parts = [shown.add(piece) for piece in pieces]
    return "".join(parts) + shown.rest(whole("".join(pieces)))


@given(st.lists(st.sampled_from(TRICKY), max_size=14), st.randoms())
def test_the_pieces_make_up_the_whole_answer_however_the_text_is_cut(parts: list[str], random: object) -> None:
    text = "".join(parts)
    cuts = sorted(random.randrange(len(text) + 1) for _ in range(6))  # type: ignore[attr-defined]
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert shown_of(pieces).endswith(whole(text))
    if "</think>" not in text:  # else thoughts may have been shown that were not known to be any
        assert shown_of(pieces) == shown_of(list(text)) == whole(text)


def test_text_is_shown_before_the_answer_is_whole_and_what_may_change_is_held_back() -> None:
    shown = ShownText({1})
    assert shown.add("Ada met ") == "Ada met"
    assert shown.add("Elias [") == " Elias"
    assert shown.add("1") == ""
    assert shown.add("]") == " [1]"
    assert shown.add(" and Bea [2], ") == " and Bea,"
    assert shown.add("\n\nRefer") == ""
    assert shown.add("ring to") == " \n\nReferring to"
    assert shown.add("\n### References\n- [1] me") == ""
    assert shown.rest("Ada met Elias [1] and Bea, \n\nReferring to\n\n### References\n\n- [1] d1") == (
        "\n\n### References\n\n- [1] d1"
    )


def test_thoughts_are_not_shown_and_where_they_show_late_the_answer_starts_anew() -> None:
    shown = ShownText({1})
    assert shown.add("<think>secret ") == ""
    assert shown.add("[1]</think>Ada. ") == "Ada."
    assert ShownText({1}).add("Ada\n**References:**\n\u2028<think>") == "Ada"
    late = ShownText({1})
    assert late.add("I wonder. ") == "I wonder."
    assert late.add("</think>Ada. ") == f"{STARTS_ANEW}Ada."
    shorter = ShownText({1})
    assert shorter.add("Ada met Bea. ") == "Ada met Bea."
    assert shorter.add("</think>Ada met") == ""  # as far as it goes, that is there
    assert shorter.rest("Ada met") == f"{STARTS_ANEW}Ada met"
    assert shorter.text == "Ada met"


@pytest.mark.parametrize("numbers", [None, set()])
def test_an_answer_without_a_context_keeps_its_brackets_only_where_there_is_nothing_to_cite(
    numbers: set[int] | None,
) -> None:
    shown = ShownText(numbers)
    assert shown.add("A list [1] of. ") == ("A list [1] of." if numbers is None else "A list of.")


def test_a_section_that_turns_out_to_be_none_is_shown_once_that_is_known() -> None:
    shown = ShownText({1})
    assert shown.add("Two lakes [1].\n\n## Sources\n- [1") == "Two lakes [1]."
    assert shown.add("] a.md\n") == ""
    assert shown.add("- Lake Victoria\n") == ""
    assert shown.add("- Lake") == "\n\n## Sources\n- [1] a.md\n- Lake Victoria\n- Lake"


def test_brackets_are_shown_once_nothing_can_make_a_citation_of_them() -> None:
    shown = ShownText({1})
    assert shown.add("It is [reference") == "It is"
    assert shown.add("d by") == " [referenced by"
    assert shown.add(" all [2018]") == " all"
    assert shown.add(" and [ref 1") == " [2018] and"
    assert shown.add("] [9]") == " [1]"
    assert shown.add("(http://a.b)") == " [9](http://a.b)"
    assert shown.add(" 【1†so") == ""
    assert shown.add("urce】") == " [1]"
    assert shown.add(" x[1]") == " x"
    assert shown.add(" = 2") == "[1] = 2"
    assert shown.add(" a[1") == " a"
    assert shown.add("](b)") == "[1](b)"


def test_lines_that_were_shown_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def counting(text: str, *others: Any) -> str:
        read.append(len(text))
        return held_to_numbers(text, *others)

    monkeypatch.setattr(shown_text, "held_to_numbers", counting)
    line = "Ada met Elias [1], [2018] and `a[0]` [9].\n"
    shown = ShownText({1})
    parts = [shown.add(line) for _ in range(400)]
    assert "".join(parts) + shown.rest(whole(line * 400)) == line.replace(" [9]", "") * 399 + line[:-6] + "."
    assert max(read) < 4 * len(line)
    in_code = ShownText({1})
    text = "A.\n```\n[9]\n" + "[9] = 2\n" * 30 + "```\n[9] [1].\n"
    assert "".join(map(in_code.add, text)) + in_code.rest(whole(text)) == whole(text) == text[:-9] + " [1]."


@pytest.mark.parametrize(
    ("part", "longest"),
    [
        ("Ada met Elias [1] in the year of the storm [9], ", 100),
        ("由她建立[1]，在风暴之年[9]。", 100),
        ("- a $[1] [9]\n", 100),
        ("[1]", 8000),
        ("[", 8000),
    ],
)
def test_what_is_read_for_citations_grows_no_faster_than_the_text(
    part: str, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def counting(text: str, *others: Any) -> str:
        read.append(len(text))
        return held_to_numbers(text, *others)

    monkeypatch.setattr(shown_text, "held_to_numbers", counting)
    text = part * (8000 // len(part))
    shown = ShownText({1})
    parts = [shown.add(text[start : start + 4]) for start in range(0, len(text), 4)]
    answer = only_citing(text, [1])
    assert "".join(parts) + shown.rest(answer) == answer
    assert sum(read) < 20 * len(text)  # looked at anew for each piece: 1,000 times
    assert max(read) <= longest
