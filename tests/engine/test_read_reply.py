from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from graphmill.engine.read_reply import LAYOUTS, Layout, read_reply
from graphmill.engine.strength import read_strength
from graphmill.engine.strip_thoughts import strip_thoughts
from graphmill.jobs.parse import parse, render

CASES = [json.loads(line) for line in (Path(__file__).parents[1] / "cases.jsonl").read_text("utf-8").splitlines()]
EXTRACTIONS = {case["id"]: case for case in CASES if case["kind"] == "extraction"}
STRENGTHS = next(case for case in CASES if case["kind"] == "strength")

ALICE, ACME, WORKS = (
    ["Alice", "PERSON", "Engineer at Acme"],
    ["Acme", "ORGANIZATION", "Maker of anvils"],
    ["Alice", "Acme", "Alice works at Acme", 9.0],
)


def rows(text: str, profile: str = "graphrag", finish_reason: str | None = None) -> dict[str, Any]:
    return parse(text, profile, finish_reason)


@pytest.mark.parametrize("case_id", EXTRACTIONS)
def test_every_extraction_case_reads_as_stated(case_id: str) -> None:
    case = EXTRACTIONS[case_id]
    profile = {"ms": "graphrag"}.get(case["input"]["format"], case["input"]["format"])
    reading = parse(case["input"]["raw"], profile)
    assert {key: reading[key] for key in case["expected"]} == case["expected"]
    assert sum(reading["reasons"].values()) == reading["rejected"]


def test_every_strength_case_reads_as_stated() -> None:
    assert [read_strength(value) for value in STRENGTHS["input"]["values"]] == STRENGTHS["expected"]["weights"]


SHAPES = json.loads(Path(__file__).with_name("reply_shapes.json").read_text("utf-8"))
"""The baseline reply of case E01 in shapes that models give it, by name."""


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_records_are_read_from_every_shape(shape: str) -> None:
    assert rows(SHAPES[shape]) == {
        "entities": [ALICE, ACME],
        "relationships": [WORKS],
        "keywords": [],
        "complete": True,
        "rejected": 0,
        "reasons": {},
    }


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        ("Known as C## or ## lang", "Known as C## or ## lang"),
        ("Joins a <|> b and c <|> d", "Joins a <|> b and c <|> d"),
        ("Pipes with |> and <| as in F#", "Pipes with |> and <| as in F#"),
        ("Engineer (senior (very)) at Acme (US)", "Engineer (senior (very)) at Acme (US)"),
        ("Steps: a) forge b) sell", "Steps: a) forge b) sell"),
        ("Smiles :) a lot", "Smiles :) a lot"),
        ("First line\nsecond line (still)\n\nthird", "First line second line (still) third"),
        ("Writes <think> and </think> tags", "Writes <think> and </think> tags"),
        ("Ends texts with <|COMPLETE|> marks", "Ends texts with <|COMPLETE|> marks"),
        ("Ends texts with <|endoftext|> too", "Ends texts with <|endoftext|> too"),
        ("Is an entity", "Is an entity"),
        ("Described as relationship", "Described as relationship"),
        ("", ""),
    ],
)
def test_a_description_may_hold_what_looks_like_structure(description: str, shown: str) -> None:
    records = [
        f'("entity"<|>X<|>concept<|>{description})',
        f'("relationship"<|>X<|>Y<|>{description or "d"}<|>4)',
        '("entity"<|>Y<|>concept<|>Z)\n<|COMPLETE|>',
    ]
    reply = "##\n".join(records)
    reading = rows(reply)
    assert reading["entities"] == [["X", "CONCEPT", shown], ["Y", "CONCEPT", "Z"]]
    assert reading["relationships"] == [["X", "Y", shown or "d", 4.0]]
    assert (reading["rejected"], reading["complete"]) == (0, True)


def test_a_name_may_look_like_a_tag_or_a_delimiter() -> None:
    records = [
        '("entity"<|>entity<|>concept<|>a)',
        '("entity"<|>"relationship"<|>concept<|>b)',
        '("entity"<|>|> operator<|>concept<|>c)',
        '("entity"<|><think><|>concept<|>d)',
        '("relationship"<|>entity<|>relationship<|>e<|>2)\n<|COMPLETE|>',
    ]
    reading = rows("##\n".join(records))
    assert [name for name, _, _ in reading["entities"]] == ["entity", "relationship", "|> operator", "<think>"]
    assert reading["relationships"] == [["entity", "relationship", "e", 2.0]]


FIRST = '("entity"<|>Alice<|>person<|>Engineer at Acme)'
SECOND = '("entity"<|>Acme<|>organization<|>Maker of anvils)'
CUT = f'{FIRST}##\n{SECOND}##\n("relationship"<|>Alice<|>Acme<|>Alice works at Acme<|>9)'


@pytest.mark.parametrize("length", range(1, len(CUT) + 1))
def test_a_reply_cut_anywhere_keeps_its_whole_records_and_no_others(length: int) -> None:
    """No half description is kept, nothing is complete, and the record that was cut is counted."""
    reading = rows(CUT[:length])
    ends = [CUT.index(")##"), CUT.index(")##", CUT.index(")##") + 1), len(CUT) - 1]
    num_whole = sum(length > end for end in ends)
    assert [*reading["entities"], *reading["relationships"]] == [ALICE, ACME, WORKS][:num_whole]
    assert not reading["complete"]
    begun = CUT[:length].rstrip("#\n").endswith(")") is False
    assert reading["rejected"] == (1 if begun else 0), reading
    assert set(reading["reasons"]) <= {"cut off"}


@pytest.mark.parametrize("length", range(1, len(CUT)))
def test_a_reply_that_stopped_by_itself_is_complete_wherever_it_ends(length: int) -> None:
    assert rows(CUT[:length], finish_reason="stop")["complete"]


def test_a_last_record_without_brackets_is_cut_where_the_reply_ran_into_its_limit() -> None:
    bare = "entity<|>Alice<|>person<|>Engineer at Acme\nentity<|>Acme<|>organization<|>Maker of anv"
    assert rows(bare, finish_reason="length")["entities"] == [ALICE]
    assert rows(bare, finish_reason="length")["reasons"] == {"cut off": 1}
    assert len(rows(bare)["entities"]) == len(rows(bare, finish_reason="stop")["entities"]) == 2
    assert len(rows(bare + "ils\n", finish_reason="length")["entities"]) == 2
    assert not rows(bare + "ils\n")["complete"]


def test_a_last_record_whose_ending_is_unlike_the_others_is_cut() -> None:
    closed = '("entity"<|>Alice<|>person<|>Engineer at Acme)\n"entity"<|>Acme<|>organization<|>Maker of anv'
    assert rows(closed)["reasons"] == {"cut off": 1}
    sentences = "entity<|>A<|>person<|>One.\nentity<|>B<|>person<|>Two.\nentity<|>C<|>person<|>Thr"
    assert rows(sentences)["reasons"] == {"cut off": 1}
    never_closed = '("entity"<|>A<|>person<|>One##\n("entity"<|>B<|>person<|>Two'
    assert len(rows(never_closed)["entities"]) == 2


def test_a_record_cut_off_after_the_mark_makes_the_reply_incomplete() -> None:
    whole = '("entity"<|>Alice<|>person<|>Engineer at Acme)\n<|COMPLETE|>'
    assert rows(whole + "\nAnything else (really)?")["complete"]
    cut = rows(whole + '\n("relationship"<|>Alice<|>Acme<|>Alice wor')
    assert (cut["entities"], cut["complete"], cut["reasons"]) == ([ALICE], False, {"cut off": 1})


def test_a_mark_that_was_cut_itself_leaves_the_last_record_whole() -> None:
    for end in ("<|C", "<|COMPLETE", "<|COMPLETE|"):
        reading = rows(f"entity<|>Alice<|>person<|>Engineer at Acme{end}", finish_reason="length")
        assert (reading["entities"], reading["complete"], reading["rejected"]) == ([ALICE], False, 0)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ('("entity"<|>Bob)', "too few fields"),
        ('("entity"<|>Bob<|>person)', "too few fields"),
        ('("relationship"<|>Bob<|>Acme)', "too few fields"),
        ('("relationship"<|>Bob<|>Acme<|>9)', "too few fields"),
        ("(Bob<|>person<|>Baker)", "unknown tag"),
        ('("claim"<|>Bob<|>person<|>Baker)', "unknown tag"),
        ('("entity"<|>{entity_name}<|>{entity_type}<|>{entity_description})', "placeholder"),
        ('("entity"<|>[Entity Name]<|>person<|>x)', "placeholder"),
        ('("entity"<|>name<|>type<|>description)', "placeholder"),
        ('("entity"<|>...<|>person<|>x)', "placeholder"),
        ('("relationship"<|><source_entity><|><target_entity><|>x<|>1)', "placeholder"),
        ('("relationship"<|>Bob<|><|>x<|>1)', "empty name"),
        ('("entity"<|>""<|>person<|>x)', "empty name"),
        ('("entity"<|>\u200b<|>person<|>x)', "empty name"),
        ('("relationship"<|>Bob<|>“BOB”<|>x<|>1)', "self-loop"),
    ],
)
def test_what_is_no_record_is_rejected_and_counted(reply: str, reason: str) -> None:
    reading = rows(f"{FIRST}##\n{reply}##\n{SECOND}\n<|COMPLETE|>")
    assert reading["entities"] == [ALICE, ACME]
    assert reading["relationships"] == []
    assert (reading["reasons"], reading["complete"]) == ({reason: 1}, True)


def test_prose_about_the_format_is_no_record() -> None:
    reading = rows("I will put <|> between the fields and <|> again.\nThere are no entities.", finish_reason="stop")
    assert (reading["rejected"], reading["complete"], reading["entities"]) == (0, True, [])


def test_an_empty_reply_is_not_complete() -> None:
    for text in ("", " \n", "I cannot help with that."):
        assert rows(text) == {
            "entities": [],
            "relationships": [],
            "keywords": [],
            "complete": False,
            "rejected": 0,
            "reasons": {},
        }


@pytest.mark.parametrize(
    ("profile", "reply", "relationship"),
    [
        ("graphrag", '("relationship"<|>A<|>B<|>d<|>high)', ["A", "B", "d", 1.0]),
        ("graphrag", '("relationship"<|>A<|>B<|>d)', ["A", "B", "d", 1.0]),
        ("graphrag", '("relationship"<|>A<|>B<|>d<|>d2<|>-3)', ["A", "B", "d<|>d2", 1.0]),
        ("graphrag", '("entity"<|>A<|>B<|>d<|>8/10)', ["A", "B", "d", 8.0]),
        ("lightrag-classic", '("relationship"<|>A<|>B<|>d<|>k, l<|>8)', ["A", "B", "d", 8.0]),
        ("lightrag-classic", '("relationship"<|>A<|>B<|>d<|>8)', ["A", "B", "d", 8.0]),
        ("lightrag-classic", '("relationship"<|>A<|>B<|>d <|> e<|>k<|>8)', ["A", "B", "d <|> e", 8.0]),
        ("lightrag-classic", '("entity"<|>A<|>B<|>d<|>k<|>8)', ["A", "B", "d", 8.0]),
        ("lightrag", "(relation<|>A<|>B<|>k<|>d)", ["A", "B", "d", 1.0]),
        ("lightrag", "(relation<|>A<|>B<|>k<|>d <|> e)", ["A", "B", "d <|> e", 1.0]),
        ("lightrag", "(relation<|>A<|>B<|>d<|>9)", ["A", "B", "d", 1.0]),
        ("lightrag", "(relationship<|>A<|>B<|>k<|>d<|>9)", ["A", "B", "d", 1.0]),
        ("lightrag", "(entity<|>A<|>B<|>k<|>d)", ["A", "B", "d", 1.0]),
        ("graphgen", '("relationship"<|>A<|>B<|>d)', ["A", "B", "d", 1.0]),
        ("graphgen", '("relationship"<|>A<|>B<|>d <|> e)', ["A", "B", "d <|> e", 1.0]),
        ("graphgen", '("relationship"<|>A<|>B<|>d<|>9)', ["A", "B", "d", 1.0]),
        ("json", '("relationship"<|>A<|>B<|>d<|>9)', ["A", "B", "d", 9.0]),
    ],
)
def test_a_relationship_is_read_by_the_fields_of_its_profile(
    profile: str, reply: str, relationship: list[object]
) -> None:
    reading = rows(f"{reply}\n<|COMPLETE|>", profile)
    assert reading["relationships"] == [relationship]
    assert (reading["entities"], reading["rejected"], reading["complete"]) == ([], 0, True)


@pytest.mark.parametrize("profile", ["graphrag", "lightrag-classic", "lightrag", "graphgen"])
def test_an_entity_with_a_delimiter_in_its_description_stays_an_entity(profile: str) -> None:
    reading = rows('("entity"<|>pipe<|>concept<|>joins a <|> b)\n<|COMPLETE|>', profile)
    assert reading["entities"] == [["pipe", "CONCEPT", "joins a <|> b"]]
    assert reading["relationships"] == []


def test_an_own_type_tells_an_entity_from_a_relationship() -> None:
    reply = '("entity"<|>anvil<|>gadget<|>weighs <|> 90)\n<|COMPLETE|>'
    layout = dataclasses.replace(LAYOUTS["graphrag"], types=frozenset({"gadget"}))
    assert [record.kind for record in read_reply(reply, layout).records] == ["entity"]
    assert [record.kind for record in read_reply(reply, LAYOUTS["graphrag"]).records] == ["relationship"]
    told = '("entity"<|>hammer<|>gadget<|>hits)\n' + reply
    assert [record.kind for record in read_reply(told, LAYOUTS["graphrag"]).records] == ["entity", "entity"]


def test_an_entity_tagged_as_a_relationship_is_an_entity() -> None:
    reading = rows(f'{FIRST}##("relationship"<|>Acme<|>organization<|>Maker of anvils)<|COMPLETE|>')
    assert (reading["entities"], reading["relationships"]) == ([ALICE, ACME], [])


def test_keywords_are_split_cleaned_and_told_apart() -> None:
    layout = LAYOUTS["lightrag-classic"]
    reply = '("relationship"<|>A<|>B<|>d<|>"power", trade；贸易、Power<|>8)##\n'
    reply += '("content_keywords"<|>anvils，iron, , Iron)\n<|COMPLETE|>'
    first, second = read_reply(reply, layout).records
    assert first.keywords == ["power", "trade", "贸易"]
    assert (second.kind, second.keywords) == ("keywords", ["anvils", "iron"])
    assert rows(reply, "lightrag-classic")["keywords"] == ["anvils", "iron"]


def test_a_missing_type_is_unknown_and_a_placeholder_leaves_nothing_behind() -> None:
    reading = rows('("entity"<|>Alice<|><|>x)##\n("entity"<|>Bob<|><entity_type><|><entity_description>)\n<|COMPLETE|>')
    assert reading["entities"] == [["Alice", "UNKNOWN", "x"], ["Bob", "UNKNOWN", ""]]


def test_repairs_are_counted_by_kind() -> None:
    reply = "<think>hm</think>entity<|#|>Alice<|#|>person<|#|>&lt;b&gt;\n"
    reply += '("relationship"<|>Alice<|>A\u200bcme<|>a <|> b<|>9)'
    repairs = read_reply(reply, LAYOUTS["graphrag"]).repairs
    assert repairs == {
        "reasoning": 1,
        "delimiter": 1,
        "brackets": 1,
        "cleaned": 1,
        "delimiter in description": 1,
        "invisible characters": 1,
    }


@pytest.mark.parametrize(
    ("text", "answer", "is_open"),
    [
        ("<think>a</think>b", "b", False),
        ("<THINKING>\na</thinking>\nb", "\nb", False),
        ("a</think>b", "b", False),
        ("<think>a</think>b</think>c", "c", False),
        ("<think>a <think> b</think>c", "c", False),
        ("b<think>a", "b", True),
        ("<think>", "", True),
        ("◁think▷a◁/think▷b", "b", False),
        ("[THINK]a[/THINK]b", "b", False),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", "b", False),
        ("x<|>the <think> tag", "x<|>the <think> tag", False),
        ("x<|>the </think> tag", "x<|>the </think> tag", False),
        ("no reasoning", "no reasoning", False),
    ],
)
def test_reasoning_is_no_answer(text: str, answer: str, is_open: bool) -> None:
    assert strip_thoughts(text) == (answer, is_open)


def test_a_reply_that_thinks_to_the_end_is_never_complete() -> None:
    text = '<think>I could say ("entity"<|>Ghost<|>person<|>x)\n<|COMPLETE|>'
    assert rows(text) == rows("<think>")
    assert not rows(text, finish_reason="stop")["complete"]


def test_other_delimiters_can_be_set() -> None:
    layout = Layout("own", tuple_delimiter="::", record_delimiter="\n", completion="[DONE]")
    reply = '("entity"::Alice::person::Engineer at Acme)\n("relationship"::Alice::Acme::a :: b::9)\n[DONE]'
    reading = read_reply(reply, layout)
    assert [(record.name, record.description) for record in reading.records] == [
        ("Alice", "Engineer at Acme"),
        ("Alice", "a :: b"),
    ]
    assert reading.complete
    with pytest.raises(ValueError, match="completion must not be empty"):
        Layout("own", completion="")


def test_parse_names_the_profiles_it_knows() -> None:
    with pytest.raises(ValueError, match="graphrag, lightrag-classic"):
        parse("", "nothing")
    with pytest.raises(ValueError, match="stop or length"):
        parse("", "graphrag", "eos")


def test_parse_can_be_read_by_a_person() -> None:
    lines = render(rows(SHAPES["CRLF"] + '\n("entity"<|>...<|>x<|>y)')).splitlines()
    assert lines[0] == "Alice (PERSON): Engineer at Acme"
    assert lines[2] == "Alice - Acme [9]: Alice works at Acme"
    assert lines[-1] == "entities: 2, relationships: 1, rejected: 1 (1 placeholder), complete"
