from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reply_texts import ODD_FIELDS, PIECES, PLAIN_LAYOUTS, well_formed

from graphmill.engine.read_delimited import read_delimited
from graphmill.engine.read_exact import read_exact
from graphmill.engine.read_reply import LAYOUTS, Layout, Reading, read_reply
from graphmill.engine.strip_thoughts import strip_thoughts


@given(well_formed())
def test_a_well_formed_reply_comes_back_to_the_letter(reply: tuple[Layout, list[dict[str, Any]], str]) -> None:
    layout, records, text = reply
    reading = read_reply(text, layout)
    assert (reading.complete, reading.rejected, len(reading.repairs)) == (True, 0, 0)
    for record, expected in zip(reading.records, records, strict=True):
        assert record.kind == expected["tag"]
        assert record.name == expected["source"]
        assert record.target == expected.get("target", "")
        assert record.type == expected.get("type", "").upper()
        assert record.description == expected["description"]
        assert record.keywords == (["kw a", "kw b"] if "keywords" in expected else [])
        assert record.strength == (0.0 if record.kind == "entity" else float(expected.get("strength", 1)))


@given(well_formed())
def test_the_fast_path_takes_well_formed_replies(reply: tuple[Layout, list[dict[str, Any]], str]) -> None:
    layout, _, text = reply
    assert read_exact(text, layout) is not None


# fmt: off
UNITS = [
    "<|", "<", "|", "|>", "<|>", "(", ")", ")(", "{", '{"', "{'{\"", '{"a":', '{"a":[', '"', '\\"', "`", "#", "&amp;",
    "&#38;", "<think>", "</think>", "<|COMPLETE|>", "x<|COMPLETE|>x", "COMPLETE\n", "entity<|>",
    '("entity"<|>a<|>b<|>c', "entity<|>a<|>b<|>c<|>9 ", "\n", " ", "\t", "\u200b", '"a",', "/*", '"a"/*',
    "9", "**", "“", "（", "'", ":)",
    '{"entities":[{"name":"a"},', "},", "\\u0041", "entity ",
]
# fmt: on


@given(
    st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=40).map("".join),
    st.sampled_from(list(LAYOUTS.values())),
    st.sampled_from([None, "stop", "length"]),
)
@settings(max_examples=150)
def test_no_text_raises_and_every_record_is_sound(text: str, layout: Layout, finish_reason: str | None) -> None:
    check_sound(read_reply(text, layout, finish_reason))


@given(well_formed(), st.data())
@settings(max_examples=150)
def test_no_mutation_of_a_reply_raises(reply: tuple[Layout, list[dict[str, Any]], str], data: st.DataObject) -> None:
    layout, _, text = reply
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.one_of(PIECES, st.just(""))) + text[at + data.draw(st.integers(0, 5)) :]
    check_sound(read_reply(text, layout))
    assert_paths_agree(text, layout)


def check_sound(reading: Reading) -> None:
    assert reading.rejected == sum(reading.reasons.values())
    for record in reading.records:
        assert record.kind in ("entity", "relationship", "keywords")
        assert bool(record.name) == (record.kind != "keywords")
        assert bool(record.type) == (record.kind == "entity")
        assert bool(record.target) == (record.kind == "relationship")
        assert (record.strength > 0) == (record.kind == "relationship")
        "".join([record.name, record.type, record.target, record.description, *record.keywords]).encode()


def assert_paths_agree(text: str, layout: Layout) -> None:
    """Wherever the fast path takes a reply, the tolerant one reads it the same way."""
    fast = read_exact(text, layout)
    if fast is not None:
        answer, is_open = strip_thoughts(text)
        assert (answer, is_open) == (text, False)
        assert read_delimited(text, layout, None) == fast


@given(well_formed())
def test_both_paths_read_a_well_formed_reply_the_same_way(reply: tuple[Layout, list[dict[str, Any]], str]) -> None:
    assert_paths_agree(reply[2], reply[0])


@given(
    st.lists(st.lists(ODD_FIELDS, min_size=1, max_size=6), min_size=1, max_size=4),
    st.lists(st.sampled_from(["entity", "relationship", "content_keywords"]), min_size=4, max_size=4),
    PLAIN_LAYOUTS,
    st.sampled_from(["##\n", "\n", "##"]),
)
@settings(max_examples=200)
def test_both_paths_read_odd_fields_the_same_way(
    fields: list[list[str]], tags: list[str], layout: Layout, separator: str
) -> None:
    text = separator.join(f'("{tag}"<|>{"<|>".join(values)})' for tag, values in zip(tags, fields, strict=False))
    assert_paths_agree(text + "\n<|COMPLETE|>", layout)
    assert_paths_agree(text, layout)


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_run_of_anything_is_read_to_its_end(unit: str) -> None:
    # Quadratic work, or a regular expression that backtracks, would take minutes and more.
    for prefix in ("", '("entity"<|>a<|>b<|>', '{"entities":[{"name":"'):
        text = prefix + unit * (50_000 // len(unit))
        check_sound(read_reply(text, LAYOUTS["graphrag"]))
        check_sound(read_reply(text, LAYOUTS["json"]))
