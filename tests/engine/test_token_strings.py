from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphmill.engine.token_strings import spans_from_strings, spread


def words(text: str, strings: list[str]) -> list[str]:
    return [text[start:end] for start, end in spans_from_strings(text, strings)]


@pytest.mark.parametrize(
    ("text", "strings", "expected"),
    [
        ("Hello the world\n", ["Hello", "Ġthe", "Ġworld", "Ċ"], ["Hello", " the", " world", "\n"]),
        ("né €", ["n", "Ã©", "Ġ", "âĤ", "¬"], ["n", "é", " ", "€", "€"]),
        ("a🙂b", ["a", "ðŁĻ", "Ĥ", "b"], ["a", "🙂", "🙂", "b"]),
        ("x<|im_end|>y", ["x", "<|im_end|>", "y"], ["x", "<|im_end|>", "y"]),
        ("x<｜end▁of▁text｜>é", ["x", "<｜end▁of▁text｜>", "Ã©"], ["x", "<｜end▁of▁text｜>", "é"]),
        ("Hello the 北", ["▁Hello", "▁the", "▁", "北"], ["Hello", " the", " ", "北"]),
        ("Hello", ["▁", "Hello"], ["", "Hello"]),
        ("é🙂", ["▁", "é", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>"], ["", "é", "🙂", "🙂", "🙂", "🙂"]),
        ("plain text", ["plain", " text"], ["plain", " text"]),
        ("", [], []),
    ],
)
def test_strings_that_spell_the_text_out_are_placed_exactly(text: str, strings: list[str], expected: list[str]) -> None:
    assert words(text, strings) == expected


def test_word_pieces_are_placed_though_they_are_lower_case_and_leave_spaces_out() -> None:
    assert words("Embeddings of  Graphs", ["em", "##bed", "##ding", "##s", "of", "graphs"]) == [
        "Em", "bed", "ding", "s", "of", "Graphs",
    ]  # fmt: skip


def test_unknown_tokens_share_what_lies_between_known_ones() -> None:
    assert words("the ☃☄ storm", ["the", "[UNK]", "storm"]) == ["the", " ☃☄ ", "storm"]
    assert words("the abcd storm", ["▁the", "<unk>", "<unk>", "▁storm"]) == ["the", " ab", "cd ", "storm"]


def test_a_text_that_was_normalised_is_still_placed() -> None:
    decomposed = "cafe\u0301 in Paris"  # the vocabulary has the composed form
    assert words(decomposed, ["c", "af", "Ã©", "Ġin", "ĠParis"])[-1] == "Paris"


@given(
    st.text(st.sampled_from("ab é北🙂\ud800\n"), max_size=40),
    st.lists(st.text(st.sampled_from("ab é北Ġ▁#ð<x0>"), max_size=5), max_size=40),
)
@example("abc", ["", "", ""])
def test_whatever_the_strings_there_is_a_span_for_each_in_order_inside_the_text(text: str, strings: list[str]) -> None:
    spans = spans_from_strings(text, strings)
    assert spans.shape == (len(strings), 2)
    assert (spans[:, 0] <= spans[:, 1]).all()
    assert (np.diff(spans[:, 0]) >= 0).all()
    assert not len(spans) or (spans[0, 0] >= 0 and spans[-1, 1] <= len(text))


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 80))
def test_spread_covers_the_stretch_evenly(start: int, length: int, num_tokens: int) -> None:
    spans = spread(start, start + length, num_tokens)
    assert spans.shape == (num_tokens, 2)
    if num_tokens and length:
        assert (spans[0, 0], spans[-1, 1]) == (start, start + length)
        assert (spans[:, 1] > spans[:, 0]).all()
        assert (spans[1:, 0] <= spans[:-1, 1]).all()
        assert np.ptp(spans[:, 1] - spans[:, 0]) <= 2
