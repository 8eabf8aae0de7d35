from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.engine.mend_json import ObjectReader
from graphmill.engine.read_object import find_objects, read_json_object
from graphmill.engine.read_reply import LAYOUTS, Reading, read_reply
from graphmill.jobs.parse import parse

ALICE = {"name": "Alice", "type": "person", "description": "Engineer at Acme"}
ACME = {"name": "Acme", "type": "organization", "description": "Maker of anvils"}
WORKS = {"source": "Alice", "target": "Acme", "description": "works at", "keywords": ["job", "Job"], "strength": 9}
GRAPH = {"entities": [ALICE, ACME], "relationships": [WORKS], "keywords": ["anvils"]}
READ: dict[str, Any] = {
    "entities": [["Alice", "PERSON", "Engineer at Acme"], ["Acme", "ORGANIZATION", "Maker of anvils"]],
    "relationships": [["Alice", "Acme", "works at", 9.0]],
    "keywords": ["anvils"],
    "complete": True,
    "rejected": 0,
    "reasons": {},
}
TEXT = json.dumps(GRAPH)


def read(text: str, finish_reason: str | None = None) -> Reading:
    return read_reply(text, LAYOUTS["json"], finish_reason)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        json.dumps(GRAPH, indent=2),
        f"Sure {{really}}! Here it is:\n```json\n{TEXT}\n```\nUse {{it}} well.",
        f'<think>maybe {{"entities": [{{"name": "Ghost"}}]}}</think>{TEXT}',
        f"[{TEXT}]",
        f'{{"result": {TEXT}}}',
        json.dumps(TEXT),
        TEXT.replace('"', '\\"'),
        TEXT.replace('"', "'"),
        TEXT.replace('"', "“"),
        TEXT.replace(",", "，").replace(":", "："),
        TEXT.replace("}", ",}").replace("]", ",]"),
        TEXT.replace('", "', '" "').replace("}, {", "} {").replace('], "', '] "'),
        TEXT.replace('"name"', "name").replace('"type"', "type").replace('"source"', "source"),
        TEXT.replace(": 9", ": '9/10'"),
        TEXT.replace("}, {", "}, // the next\n{").replace("[{", "[/* one */{"),
        TEXT.replace('], "relationships"', ', "relationships"'),
        TEXT.replace("}], ", "}}], "),
        TEXT.replace("]}", "]") + "\n}",
        TEXT.replace('"keywords": ["anvils"]', '"keywords": "anvils"'),
        TEXT.replace('], "relationships"', ']}, "relationships"'),
        TEXT.replace('], "relationships"', ']}\n{"relationships"'),
        TEXT.replace('"entities": [', '"entities": [..., ').replace("}]", "}, ...]"),
        TEXT.replace("entities", "nodes").replace("relationships", "edges").replace('"source"', '"src"'),
        TEXT + TEXT,
        "\ufeff" + TEXT.replace("{", "{\u200b\n"),
        json.dumps({**GRAPH, "entities": {member.pop("name"): member for member in (ALICE.copy(), ACME.copy())}}),
        json.dumps({"entities": [ALICE, ACME, WORKS], "keywords": ["anvils"]}),
        json.dumps({"entities": [], "relationships": []}) + " or rather " + TEXT,
    ],
)  # fmt: skip
def test_the_same_graph_is_read_from_every_shape(text: str) -> None:
    assert parse(text, "json") == READ


def test_members_are_checked_one_by_one() -> None:
    entities = [ALICE, "junk", None, 7, ["Acme", "place"], {"name": ""}, {"type": "person"}, {"name": "<entity_name>"}]
    relationships = [WORKS, {"source": "A"}, {**WORKS, "target": "ALICE"}]
    reading = parse(json.dumps({"entities": entities, "relationships": relationships}), "json")
    assert (len(reading["entities"]), len(reading["relationships"])) == (1, 1)
    assert reading["reasons"] == {"empty name": 3, "not an object": 4, "placeholder": 1, "self-loop": 1}


def test_values_of_other_kinds_are_taken_as_text() -> None:
    entity = {"name": 1984, "type": ["novel", "book"], "description": ["By Orwell", None, "of 1949"]}
    relationship = {"source": {"name": "Orwell"}, "target": 1984, "keywords": "a，b", "strength": True}
    reading = read(json.dumps({"entities": [entity, {"name": "Bob"}], "relationships": [relationship]}))
    assert [(r.name, r.type, r.description) for r in reading.records[:2]] == [
        ("1984", "NOVEL; BOOK", "By Orwell; of 1949"),
        ("Bob", "UNKNOWN", ""),
    ]
    last = reading.records[2]
    assert (last.name, last.target, last.description) == ("Orwell", "1984", "")
    assert (last.keywords, last.strength) == (["a", "b"], 1.0)


@pytest.mark.parametrize("length", range(1, len(TEXT)))
def test_a_reply_cut_anywhere_keeps_its_whole_members_and_no_others(length: int) -> None:
    reading = parse(TEXT[:length], "json")
    num_entities = sum(length > TEXT.index(end) + len(end) - 1 for end in ('at Acme"}', 'anvils"}'))
    assert reading["entities"] == READ["entities"][:num_entities]
    assert reading["relationships"] == (READ["relationships"] if length > TEXT.index("9}") + 1 else [])
    assert not reading["complete"]
    assert reading["rejected"] <= 1
    assert set(reading["reasons"]) <= {"cut off"}


def test_a_cut_member_is_counted() -> None:
    assert parse(TEXT[: TEXT.index("anvils") + 3], "json")["reasons"] == {"cut off": 1}
    assert parse(TEXT[: TEXT.index('], "rel')], "json")["reasons"] == {}


def test_a_reply_that_stopped_by_itself_only_forgot_its_brackets() -> None:
    text = TEXT[: TEXT.index("9}") + 1]
    reading = parse(text, "json", "stop")
    assert (len(reading["entities"]), reading["relationships"]) == (2, READ["relationships"])
    assert (reading["complete"], reading["rejected"]) == (True, 0)


def test_records_one_a_line_are_read_without_knowing_their_end() -> None:
    lines = "\n".join(json.dumps(member) for member in (ALICE, ACME, WORKS))
    assert parse(lines, "json") == {**READ, "keywords": [], "complete": False}
    assert parse(lines, "json", "stop") == {**READ, "keywords": []}
    assert parse(f"[{lines}]".replace("\n", ",\n"), "json") == {**READ, "keywords": []}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "The "pipe" operator, x", "b": 2}', {"a": 'The "pipe" operator, x', "b": 2}),
        ('{"a": "line one\nline two\ttab", "b": 2}', {"a": "line one\nline two\ttab", "b": 2}),
        ('{"a": "C:\\dir \\alpha \\n \\u00e9 \\ud83d\\ude00"}', {"a": "C:\\dir \\alpha \n é 😀"}),
        ('{"a": "\\ud83d half"}', {"a": "\ufffd half"}),
        ("{'it': 'Alice's dog', 'b': None, 'c': True}", {"it": "Alice's dog", "b": None, "c": True}),
        ('{"a": 1, "b": , "c": 3}', {"a": 1, "c": 3}),
        ('{"a": [1, 2, {"b": 3}, "x", 4.5, -6e2, 07]}', {"a": [1, 2, {"b": 3}, "x", 4.5, -600.0, 7]}),
        ('{"a": yes please, "b": 8/10}', {"a": "yes please", "b": "8/10"}),
        ('{"t": "T", "findings": [{"a": "f", "b": "e"}, {"a": "g", "b', {"t": "T", "findings": [{"a": "f", "b": "e"}]}),
        ('{"title": "T", "summary": "cut he', {"title": "T"}),
        ('{"a": {"b": {"c": 1}, "d": "cut', {"a": {"b": {"c": 1}}}),
        ('{"a": ["x", "y", "cut', {"a": ["x", "y"]}),
        ("no braces", None),
        ("{really}", None),
        ("{}", {}),
        ('{} and {"a": 1}', {"a": 1}),
        ('Give {"title"} as {"title": "T"}', {"title": "T"}),
        ('{"a": 1} {"b": 2}', {"a": 1}),
        ('<think>{"a": 1}</think>{"b": 2}', {"b": 2}),
        ('<think>{"a": 1}', None),
        ('｛“a”：“甲”，“b”：［1，2］｝', {"a": "甲", "b": [1, 2]}),
        ('{"a": "http://x.org/*y*/", "b": 1}', {"a": "http://x.org/*y*/", "b": 1}),
        ('{"a": [{"b": 1}, {"c": [1, 2}, {"d": 3}]}', {"a": [{"b": 1}, {"c": [1, 2]}, {"d": 3}]}),
        ('{"a": "x"\n"b": "y"}', {"a": "x", "b": "y"}),
        ('{"a": NaN, "b": undefined}', {"a": None, "b": None}),
    ],
)  # fmt: skip
def test_an_object_is_read_as_it_was_meant(text: str, value: dict[str, Any] | None) -> None:
    found = read_json_object(text)
    assert repr(found).replace("nan", "None") == repr(value)


def test_the_object_that_has_a_wanted_key_is_preferred() -> None:
    text = 'Format {"name": "..."}: {"report": {"title": "T"}} {"title": "U"}'
    assert read_json_object(text) == {"name": "..."}
    assert read_json_object(text, wanted=("title",)) == {"title": "T"}
    assert read_json_object(text, wanted=("points",)) == {"name": "..."}


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"a":[', "[{'b':", '{"a":"x","b":{'])
def test_nesting_of_any_depth_is_read(opening: str) -> None:
    deep = read_json_object('{"first": 1, "deep": ' + opening * 100_000)
    assert deep is not None
    assert deep["first"] == 1
    assert json.dumps(deep)


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
JSON_OBJECTS = st.dictionaries(TEXTS, JSON_VALUES, min_size=1, max_size=5)


@given(JSON_OBJECTS, st.booleans(), st.sampled_from([None, 2]))
@settings(max_examples=100)
def test_proper_json_is_read_to_the_letter_by_both_readers(
    value: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    (found,) = find_objects(text)
    assert (found.value, found.closed, found.num_cut) == (value, True, 0)
    mended = ObjectReader(text, keep_open=False).read(1)
    assert mended is not None
    assert (mended.value, mended.closed, mended.end) == (value, True, len(text))


@given(JSON_OBJECTS, st.data())
@settings(max_examples=80)
def test_a_cut_object_loses_only_what_was_cut(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    for found in find_objects(cut):
        assert not found.closed or "{" in cut[1 : found.end]
        if found.end == len(cut) and not found.closed and found.value.keys() <= value.keys():
            whole = list(found.value)[:-1]
            assert {key: found.value[key] for key in whole} == {key: value[key] for key in whole}


SCRAPS = st.sampled_from([*"{}[]\",:'\\/*`“”", '{"a":', "true", "\\u00", "//", "```", "1e9", '"b"', "\n", "，", "｛"])


@given(st.lists(st.one_of(SCRAPS, st.text(max_size=3))).map("".join))
@settings(max_examples=200)
def test_no_text_raises(text: str) -> None:
    value = read_json_object(text)
    assert value is None or isinstance(value, dict)
    json.dumps(value, ensure_ascii=False).encode()
