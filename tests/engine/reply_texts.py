"""Replies to try readers with: to the letter of a profile, nearly so, and made of whatever means anything to one."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from graphmill.engine.read_reply import LAYOUTS, Layout

WORDS = st.text(st.characters(categories=["Lu", "Ll", "Lo", "Nd"]), min_size=1, max_size=8)
NAMES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
SENTENCES = st.lists(
    st.one_of(WORDS, st.sampled_from(["(US)", "C#", "and/or", "(a (b) c)", "x,", "5%", "→"])), min_size=1, max_size=8
).map(lambda words: "A " + " ".join(words) + " b.")
PLAIN_LAYOUTS = st.sampled_from([layout for layout in LAYOUTS.values() if layout.format == "delimited"])


@st.composite
def well_formed(draw: st.DrawFn) -> tuple[Layout, list[dict[str, Any]], str]:
    """A reply to the letter of a profile, with its records."""
    layout = draw(PLAIN_LAYOUTS)
    separator = draw(st.sampled_from(["##\n", "\n", "##"]))
    records, texts = [], []
    for _ in range(draw(st.integers(1, 6))):
        source, target = f"s {draw(NAMES)}", f"t {draw(NAMES)}"
        values = {
            "source": source, "target": target, "description": draw(SENTENCES), "keywords": "kw a, kw b",
            "strength": str(draw(st.integers(1, 10))), "type": draw(st.sampled_from(["person", "geo", "event"])),
        }  # fmt: skip
        is_entity = draw(st.booleans())
        fields = ("source", "type", "description") if is_entity else layout.relationship
        tag = "entity" if is_entity else "relationship"
        records.append({"tag": tag, **{name: values[name] for name in fields}})
        quote = '"' if layout.quoted_tag else ""
        texts.append("(" + "<|>".join([f"{quote}{tag}{quote}", *(values[name] for name in fields)]) + ")")
    return layout, records, separator.join(texts) + draw(st.sampled_from(["\n<|COMPLETE|>", "<|COMPLETE|>"]))


# fmt: off
PIECES = st.sampled_from([
    '("entity"<|>', '("relationship"<|>', "(entity<|>", "relation<|>", '"content_keywords"<|>', "<|>", "<|#|>", "|>",
    "<|", "##", "\n", ")", "(", ")##\n", "<|COMPLETE|>", "COMPLETE", "<think>", "</think>", '"', "'", "“", "（", "）",
    "[", "]", "{", "}", "&amp;", "&lt;", "&", "\u200b", "\x00", "\r\n", "\\", "**", "```", "1. ", "- ", "|", "#", "<",
    ">",
    "entity", "relationship", "实体", "关系", "9", "8/10", "high", "Alice", "Acme", "person", "a b", " ", ".", ",", ":",
    '{"entities":[', '{"name":"A"', '"source":', "...", "<entity_name>", "[THINK]", "<|im_end|>", "\ud800",
    "＜｜＞", "é",
])
# fmt: on

ODD_FIELDS = st.one_of(
    SENTENCES,
    st.lists(
        st.one_of(PIECES.filter(lambda piece: "<" not in piece and "|" not in piece), WORDS), min_size=1, max_size=5
    ).map("".join),
    st.text(max_size=8),
)
