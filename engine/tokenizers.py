"""Tokenizers on this machine: a tokenizer.json, tiktoken, and plain words for where nothing else is at hand.

Each counts and places tokens, adds none of its own, and reads special-token text in the input as ordinary text. A text
is read in slices of at most SLICE_CHARS characters, cut where words meet, so that memory stays bounded; at such a cut a
tokenizer may give a token more or less than on the whole text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.interrupts import interrupts_wait

if TYPE_CHECKING:
    import tiktoken
    import tokenizers

Ints = NDArray[np.int64]
SLICE_CHARS = 100_000
CHARS_PER_THREAD = 20_000
"""Text for which starting a thread pays."""
RUN_CHARS = 100_000
"""Text of one call, where a call takes many pieces."""
LONG_PIECE = 1000
"""Characters from which a piece is worth a call."""
BATCH_CHARS = 2_000_000
"""Characters whose encodings, at some 150 bytes a token, are held at once."""
_LINE_START = re.compile(r"\n(?=\S)")
_WORD_END = re.compile(r"\S(?=\s)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CJK = r"\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"(?!\s)[{_CJK}]|[^\W{_CJK}]+|[^\w\s]")


class HFTokenizer:
    """The tokenizer of a Hugging Face model: a tokenizer.json, or a folder that holds one."""

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        with interrupts_wait():
            from tokenizers import Tokenizer

        file = Path(path)
        if file.is_dir():
            file = file / "tokenizer.json"
        try:
            content = file.read_bytes()
        except OSError as error:
            raise ValueError(f"no tokenizer at {path}: can't read {file}: {error.strerror}") from error
        try:
            self._tokenizer: tokenizers.Tokenizer = Tokenizer.from_str(content.decode("utf-8"))
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{file} is not a tokenizer.json that the tokenizers package reads: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        # The content's hash is part of the name, so that chunks cut with another vocabulary are not taken for these.
        self.name = f"{name or file.parent.name or 'tokenizer'}:{blake2b(content, digest_size=4).hexdigest()}"

    def count(self, texts: Sequence[str]) -> Ints:
        """Number of tokens of each text, int64 [n]."""
        counts = np.zeros(len(texts), np.int64)
        for batch in _batches(texts):
            encodings = self._tokenizer.encode_batch_fast(
                [_clean(piece) for _, _, piece in batch], add_special_tokens=False
            )
            for (row, _, _), encoding in zip(batch, encodings, strict=True):
                counts[row] += len(encoding)
        return counts

    def spans(self, texts: Sequence[str]) -> list[Ints]:
        """Character spans [start, end) of each text's tokens, int64 [num_tokens, 2]."""
        found: list[list[Ints]] = [[] for _ in texts]
        for batch in _batches(texts):
            encodings = self._tokenizer.encode_batch([_clean(piece) for _, _, piece in batch], add_special_tokens=False)
            for (row, start, _), encoding in zip(batch, encodings, strict=True):
                flat = np.fromiter(chain.from_iterable(encoding.offsets), np.int64, 2 * len(encoding))
                found[row].append(flat.reshape(-1, 2) + start)
        return [_join(pieces) for pieces in found]

    def token_ids(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        """The first ``max_tokens`` tokens of each text, by number; for texts of one slice."""
        encodings = self._tokenizer.encode_batch_fast(
            [_clean(text[:SLICE_CHARS]) for text in texts], add_special_tokens=False
        )
        return [encoding.ids[:max_tokens] for encoding in encodings]

    def special_ids(self) -> tuple[list[int], list[int]]:
        """The tokens that the model wants before and after a text."""
        bare = self._tokenizer.encode("a", add_special_tokens=False).ids
        whole = self._tokenizer.encode("a", add_special_tokens=True).ids
        start = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
        return whole[:start], whole[start + len(bare) :]


class TiktokenTokenizer:
    """One of tiktoken's encodings by name ("o200k_base"), which tiktoken fetches once, or an Encoding."""

    def __init__(self, encoding: str | tiktoken.Encoding) -> None:
        if isinstance(encoding, str):
            try:
                import tiktoken
            except ImportError as error:
                raise ImportError("tiktoken is not installed: pip install tiktoken") from error
            try:
                encoding = tiktoken.get_encoding(encoding)
            except Exception as error:  # an unknown name, or whatever keeps it from being fetched
                raise ValueError(f"tiktoken can't give the encoding {encoding!r}: {error}") from error
        self._encoding: Any = encoding
        self.name = f"tiktoken:{encoding.name}"

    def count(self, texts: Sequence[str]) -> Ints:
        """Number of tokens of each text, int64 [n]."""
        counts = np.zeros(len(texts), np.int64)
        for batch in _batches(texts):
            lengths = np.concatenate(_in_threads(self._count, list(_runs(batch)), _num_chars(batch)))
            np.add.at(counts, [row for row, _, _ in batch], lengths)
        return counts

    def _count(self, pieces: Sequence[str]) -> Ints:
        """Tokens of each piece. One call takes many, with a special token between them, across which nothing merges:
        a call a piece would wait for the GIL so often that counting hardly goes on beside other work."""
        mark = self._mark
        num_chars = sum(map(len, pieces))
        if mark is None or num_chars > LONG_PIECE * len(pieces) or any(mark[0] in piece for piece in pieces):
            return np.array([len(self._encoding.encode_ordinary(piece)) for piece in pieces], np.int64)
        joined = mark[0].join(pieces)
        tokens = np.array(self._encoding.encode(joined, allowed_special={mark[0]}, disallowed_special=()), np.int64)
        ends = np.flatnonzero(tokens == mark[1])
        return np.diff(ends, prepend=-1, append=len(tokens)) - 1

    @cached_property
    def _mark(self) -> tuple[str, int] | None:
        """A special token and its number, if the encoding has one."""
        special = sorted(self._encoding.special_tokens_set)
        return (special[0], self._encoding.encode_single_token(special[0])) if special else None

    def spans(self, texts: Sequence[str]) -> list[Ints]:
        """Character spans [start, end) of each text's tokens, int64 [num_tokens, 2]."""
        found: list[list[Ints]] = [[] for _ in texts]
        for batch in _batches(texts):
            encoded = _in_threads(
                self._encoding.encode_ordinary, [_clean(piece) for _, _, piece in batch], _num_chars(batch)
            )
            for (row, start, piece), tokens in zip(batch, encoded, strict=True):
                found[row].append(byte_spans(_clean(piece), self._bytes_of[np.array(tokens, np.int64)]) + start)
        return [_join(pieces) for pieces in found]

    @cached_property
    def _bytes_of(self) -> Ints:
        """Bytes of each token by number, so that placing tokens takes no call a token."""
        lengths = np.zeros(self._encoding.n_vocab, np.int64)
        # No public function gives all tokens with their numbers; one by one, 200,000 calls take half a second.
        ranks: dict[bytes, int] = self._encoding._mergeable_ranks
        lengths[np.fromiter(ranks.values(), np.int64, len(ranks))] = np.fromiter(map(len, ranks), np.int64, len(ranks))
        return lengths


class WordTokenizer:
    """A token is a word, a Chinese or Japanese character, or a punctuation mark; needs no vocabulary."""

    name = "words"

    def count(self, texts: Sequence[str]) -> Ints:
        """Number of tokens of each text, int64 [n]."""
        return np.array([sum(1 for _ in _WORD.finditer(text)) for text in texts], np.int64)

    def spans(self, texts: Sequence[str]) -> list[Ints]:
        """Character spans [start, end) of each text's tokens, int64 [num_tokens, 2]."""
        return [np.array([m.span() for m in _WORD.finditer(text)], np.int64).reshape(-1, 2) for text in texts]


def _num_chars(batch: Sequence[tuple[int, int, str]]) -> int:
    return sum(len(piece) for _, _, piece in batch)


def _runs(batch: Sequence[tuple[int, int, str]]) -> Iterator[list[str]]:
    """The pieces of a batch in runs of some RUN_CHARS characters."""
    run: list[str] = []
    size = 0
    for _, _, piece in batch:
        run.append(_clean(piece))
        size += len(piece)
        if size > RUN_CHARS:
            yield run
            run, size = [], 0
    if run:
        yield run


def _in_threads(encode: Callable[[Any], Any], pieces: Sequence[Any], num_chars: int) -> list[Any]:
    """What ``encode``, which lets go of the GIL, makes of each piece: a run of pieces a core, not a task a piece."""
    num_threads = min(os.cpu_count() or 1, 16, len(pieces), 1 + num_chars // CHARS_PER_THREAD)
    if num_threads <= 1:
        return [encode(piece) for piece in pieces]
    runs = [pieces[len(pieces) * n // num_threads : len(pieces) * (n + 1) // num_threads] for n in range(num_threads)]
    with ThreadPoolExecutor(num_threads) as pool:
        return list(chain.from_iterable(pool.map(lambda run: [encode(piece) for piece in run], runs)))


def byte_spans(text: str, lengths: Ints) -> Ints:
    """Character spans [start, end) of tokens that follow each other in UTF-8, int64 [n, 2].

    lengths  bytes of each token, int64 [n], which sum to the text's
    A token that holds part of a character spans the whole of it.
    """
    ends = np.cumsum(lengths)
    starts = ends - lengths
    if text.isascii():
        return np.stack([starts, ends], axis=1)
    octets = np.frombuffer(text.encode("utf-8"), np.uint8)
    character = np.append(np.cumsum((octets & 0xC0) != 0x80) - 1, len(text))  # of each byte
    last = character[np.maximum(ends - 1, 0)] + 1
    first = character[starts]
    return np.stack([first, np.where(lengths > 0, last, first)], axis=1)


def slices(text: str, max_chars: int = SLICE_CHARS) -> Iterator[tuple[int, str]]:
    """Pieces of at most ``max_chars`` characters, each with its start, cut at a line's start, else a word's end."""
    start = 0
    while len(text) - start > max_chars:
        middle, limit = start + max_chars // 2, start + max_chars
        cut = limit
        for boundary in (_LINE_START, _WORD_END):
            for near in (max(middle, limit - 2000), middle):
                found = [match.end() for match in boundary.finditer(text, near, limit)]
                if found:
                    break
            if found:
                cut = found[-1]
                break
        yield start, text[start:cut]
        start = cut
    if start < len(text):
        yield start, text[start:]


def _batches(texts: Sequence[str]) -> Iterator[list[tuple[int, int, str]]]:
    """(row, start, piece) of all texts but the empty ones, of which a tokenizer may make a token."""
    if sum(map(len, texts)) <= BATCH_CHARS and max(map(len, texts), default=0) <= SLICE_CHARS:
        if whole := [(row, 0, text) for row, text in enumerate(texts) if text]:
            yield whole
        return
    batch: list[tuple[int, int, str]] = []
    size = 0
    for row, text in enumerate(texts):
        for start, piece in slices(text) if len(text) > SLICE_CHARS else ((0, text),):
            if not piece:
                continue
            if batch and size + len(piece) > BATCH_CHARS:
                yield batch
                batch, size = [], 0
            batch.append((row, start, piece))
            size += len(piece)
    if batch:
        yield batch


def _clean(text: str) -> str:
    """A lone surrogate, which is no text, as one character that is."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _join(pieces: list[Ints]) -> Ints:
    return np.concatenate(pieces) if pieces else np.empty((0, 2), np.int64)
