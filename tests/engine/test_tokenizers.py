from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, processors

from graphmill.engine import tokenizers
from graphmill.engine.minilm import minilm_folder
from graphmill.engine.models import Tokenizer
from graphmill.engine.tokenizers import HFTokenizer, TiktokenTokenizer, WordTokenizer, byte_spans, slices

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("🙂👩‍👩‍👧é \n\r\t　永和abc<|>"), max_size=60)


def byte_level_library() -> Library:
    """A byte-level vocabulary of the 256 bytes and a few merges, as GPT-2's is made."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: number for number, character in enumerate(alphabet)}
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("o", "n")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    library = Library(models.BPE(vocabulary, merges))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.post_processor = processors.ByteLevel(trim_offsets=False)
    library.add_special_tokens(["<|endoftext|>"])
    return library


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    folder = tmp_path_factory.mktemp("byte-level")
    byte_level_library().save(str(folder / "tokenizer.json"))
    return HFTokenizer(folder)


@pytest.fixture(scope="module")
def word_piece() -> HFTokenizer:
    return HFTokenizer(minilm_folder() / "tokenizer.json", name="minilm")


def tiny_tiktoken() -> TiktokenTokenizer:
    import tiktoken

    ranks = {bytes([byte]): byte for byte in range(256)} | {b"th": 256, b"the": 257, b" the": 258}
    return TiktokenTokenizer(
        tiktoken.Encoding("tiny", pat_str=r"\s?\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 259})
    )


def check_spans(tokenizer: Tokenizer, text: str) -> None:
    """What every tokenizer owes: as many spans as it counts, in order and inside the text."""
    (spans,) = tokenizer.spans([text])
    assert spans.dtype == np.int64
    assert spans.shape == (tokenizer.count([text])[0], 2)
    assert (spans[:, 0] <= spans[:, 1]).all()
    assert (np.diff(spans[:, 0]) >= 0).all()
    if len(spans):
        assert spans[0, 0] >= 0
        assert spans[-1, 1] <= len(text)


@settings(deadline=None)
@given(TEXTS)
@example("")
@example("a\ud800b")
def test_spans_are_as_many_as_tokens_and_lie_in_order_in_the_text(word_piece: HFTokenizer, text: str) -> None:
    for tokenizer in (word_piece, tiny_tiktoken(), WordTokenizer()):
        check_spans(tokenizer, text)


@settings(deadline=None)
@given(TEXTS)
def test_byte_level_tokens_cover_every_character(byte_level: HFTokenizer, text: str) -> None:
    for tokenizer in (byte_level, tiny_tiktoken()):
        check_spans(tokenizer, text)
        covered = np.zeros(len(text), np.bool_)
        for start, end in tokenizer.spans([text])[0]:
            covered[start:end] = True
        assert covered.all()


def test_the_pieces_of_an_emoji_each_span_the_whole_of_it(byte_level: HFTokenizer) -> None:
    for tokenizer in (byte_level, tiny_tiktoken()):
        assert tokenizer.spans(["a🙂b"])[0].tolist() == [[0, 1], [1, 2], [1, 2], [1, 2], [1, 2], [2, 3]]


def test_no_text_has_no_tokens(byte_level: HFTokenizer, word_piece: HFTokenizer) -> None:
    for tokenizer in (byte_level, word_piece, tiny_tiktoken(), WordTokenizer()):
        assert tokenizer.count([]).tolist() == []
        assert tokenizer.count(["", "the", ""]).tolist() == [0, 1, 0]
        assert [spans.shape for spans in tokenizer.spans(["", "the"])] == [(0, 2), (1, 2)]


def test_special_token_text_is_ordinary_text(byte_level: HFTokenizer, word_piece: HFTokenizer) -> None:
    assert byte_level.count(["<|endoftext|>"])[0] == len("<|endoftext|>")
    assert tiny_tiktoken().count(["<|endoftext|>"])[0] == len("<|endoftext|>")
    assert word_piece.count(["[CLS]"])[0] == 4


def test_a_long_text_is_neither_truncated_nor_padded(word_piece: HFTokenizer) -> None:
    assert word_piece.count(["word " * 1000, "word"]).tolist() == [1000, 1]


@pytest.mark.parametrize("unit", ["the cat sat on the mat\n", "the cat sat on the mat ", "the\n\n"])
def test_slicing_changes_no_token_where_words_meet(
    byte_level: HFTokenizer, word_piece: HFTokenizer, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = unit * 40
    for tokenizer in (byte_level, word_piece, tiny_tiktoken()):
        whole, spans = tokenizer.count([text]), tokenizer.spans([text])[0]
        monkeypatch.setattr(tokenizers.slices, "__defaults__", (50,))
        monkeypatch.setattr(tokenizers, "BATCH_CHARS", 120)
        assert tokenizer.count(["", text, "the"]).tolist() == [0, whole[0], 1]
        assert np.array_equal(tokenizer.spans(["", text, "the"])[1], spans)
        monkeypatch.undo()


@given(st.text(st.sampled_from("ab \n　é"), max_size=300), st.integers(2, 40))
def test_slices_put_together_are_the_text(text: str, max_chars: int) -> None:
    pieces = list(slices(text, max_chars))
    assert "".join(piece for _, piece in pieces) == text
    assert all(0 < len(piece) <= max_chars for _, piece in pieces)
    assert [start for start, _ in pieces] == [sum(len(p) for _, p in pieces[:n]) for n in range(len(pieces))]


def test_slices_are_cut_at_line_starts_before_word_ends() -> None:
    assert [piece for _, piece in slices("aaa bbb\nccc ddd", 12)] == ["aaa bbb\n", "ccc ddd"]
    assert [piece for _, piece in slices("aaa bbb ccc", 8)] == ["aaa bbb", " ccc"]


@given(TEXTS, st.randoms(use_true_random=False))
def test_byte_spans_name_the_characters_that_the_bytes_are_of(text: str, random: object) -> None:
    size = len(text.encode())
    cuts = sorted(random.choices(range(size + 1), k=5)) if size else []  # type: ignore[attr-defined]
    edges = [0, *cuts, size]
    spans = byte_spans(text, np.diff(edges).astype(np.int64))
    for (start, end), first, last in zip(spans, edges, edges[1:], strict=False):
        part = text.encode()[first:last]
        assert part in text[start:end].encode()
        if last > first:
            assert len(text[start:end].encode()) < len(part) + 7


def test_the_name_changes_with_the_vocabulary(tmp_path: Path, word_piece: HFTokenizer) -> None:
    assert word_piece.name.startswith("minilm:")
    shutil.copy(minilm_folder() / "tokenizer.json", tmp_path)
    assert HFTokenizer(tmp_path, name="minilm").name == word_piece.name
    byte_level_library().save(str(tmp_path / "tokenizer.json"))
    assert HFTokenizer(tmp_path, name="minilm").name != word_piece.name


def test_a_path_that_holds_no_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no tokenizer at .*tokenizer\.json"):
        HFTokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"is not a tokenizer\.json"):
        HFTokenizer(tmp_path)


def test_an_unknown_tiktoken_encoding_is_named() -> None:
    with pytest.raises(ValueError, match="no-such-encoding"):
        TiktokenTokenizer("no-such-encoding")


def test_words_and_chinese_characters_are_tokens() -> None:
    text = "Alice's 2nd 北岭大学。"
    assert [text[a:b] for a, b in WordTokenizer().spans([text])[0]] == [
        "Alice", "'", "s", "2nd", "北", "岭", "大", "学", "。",
    ]  # fmt: skip
