"""Documents to chunks: stretches of text of at most so many tokens of the model that will read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from graphmill.engine.cuts import Ints
from graphmill.engine.ids import content_id
from graphmill.engine.models import Tokenizer
from graphmill.engine.plan_chunks import Bounds, Span, find_bounds, plan_chunks, shrink

CHUNKS = pa.schema(
    [
        ("chunk_id", pa.string()),
        ("document_id", pa.string()),
        ("path", pa.string()),
        ("position", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("num_tokens", pa.int32()),
        ("text_id", pa.string()),
        ("language", pa.string()),
        ("text", pa.string()),
    ]
)

SEPARATORS = ("\n\n", "\n", "。", "．", ".", "！", "!", "？", "?", " ", "\t", "\u3000", "\u200b")

GROUP_CHARS = 32 << 20
"""Text that goes to the tokenizer in one call."""
UNIT_CHARS = 16 << 10
"""A longer document is tokenized in parts of about this size: in parallel, and in memory that does not grow with it."""
_WINDOW = 256
_PROBE, _PROBE_CUT = "The old mill ran on the river", len("The old mill")


@dataclass(frozen=True)
class ChunkConfig:
    """How documents are cut."""

    tokens: int = 1200
    """Most tokens of a chunk."""
    overlap: int = 100
    """Tokens at the end of a chunk that the next one starts with."""
    by: Literal["tokens", "separators"] = "tokens"
    separators: tuple[str, ...] = SEPARATORS
    """Where pieces end, for by = "separators"; "\\n" stands for any line break."""

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"chunk.tokens must be at least 1, got {self.tokens}")
        if not 0 <= self.overlap < self.tokens:
            raise ValueError(f"chunk.overlap must be in [0, chunk.tokens={self.tokens}), got {self.overlap}")
        if self.by not in ("tokens", "separators"):
            raise ValueError(f'chunk.by must be "tokens" or "separators", got {self.by!r}')
        if isinstance(self.separators, str) or not self.separators or not all(self.separators):
            raise ValueError(f"chunk.separators must be a list of strings that are not empty, got {self.separators!r}")


def chunk(documents: pa.Table, tokenizer: Tokenizer, config: ChunkConfig) -> pa.Table:
    """DOCUMENTS -> CHUNKS, in the order of the documents and of the text.

    A chunk is its document's text from start to end, of num_tokens <= config.tokens tokens (but one character of more
    tokens is a chunk). Each character that is not white space is in a chunk; a chunk of only white space, or with
    nothing new but white space, is not made. By separators, pieces are kept with the separators after them and merged
    while they fit.
    """
    tables = [_chunk_group(group, tokenizer, config) for group in _groups(documents)]
    return pa.concat_tables(tables) if tables else CHUNKS.empty_table()


def _groups(documents: pa.Table) -> Iterator[pa.Table]:
    sizes = np.cumsum([len(text) for text in documents["text"].to_pylist()])
    start = 0
    while start < documents.num_rows:
        filled = int(sizes[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(sizes, filled + GROUP_CHARS, "right")))
        yield documents.slice(start, stop - start)
        start = stop


@dataclass(slots=True)
class _Text:
    """A document's text on its way: its token starts, the seams of its units, its chunks and their counts (-1: not
    known yet)."""

    text: str
    starts: Ints
    seams: list[int]
    bounds: Bounds
    chunks: list[Span]
    counts: list[int]

    def tokens_in(self, start: int, end: int) -> int:
        return int(np.searchsorted(self.starts, end) - np.searchsorted(self.starts, start))


def _chunk_group(documents: pa.Table, tokenizer: Tokenizer, config: ChunkConfig) -> pa.Table:
    texts = _plan(documents["text"].to_pylist(), tokenizer, config)
    _count(texts, tokenizer)
    _fit(texts, tokenizer, config)
    rows: list[tuple[object, ...]] = []
    names = zip(*(documents[name].to_pylist() for name in ("document_id", "path", "language")), strict=True)
    for (document_id, path, language), item in zip(names, texts, strict=True):
        for position, ((start, end), count) in enumerate(_with_something_new(item)):
            text = item.text[start:end]
            chunk_id = content_id(document_id, str(position))
            rows.append((chunk_id, document_id, path, position, start, end, count, content_id(text), language, text))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(CHUNKS)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, CHUNKS, strict=True)], schema=CHUNKS)


def _plan(texts: Sequence[str], tokenizer: Tokenizer, config: ChunkConfig) -> list[_Text]:
    """Cuts each text by the tokens found in one pass over all of them."""
    seams = [_seams(text) for text in texts]
    units = [text[a:b] for text, at in zip(texts, seams, strict=True) for a, b in _between(at, len(text))]
    *spans, whole, tail = tokenizer.spans([*units, _PROBE, _PROBE[_PROBE_CUT:]])
    # Tokens that a text costs for starting in the middle of another: 1 where a tokenizer puts a space before each text.
    slack = max(0, len(tail) - int((whole[:, 0] >= _PROBE_CUT).sum()))
    planned = []
    unit = iter(spans)
    for text, at in zip(texts, seams, strict=True):
        offsets = [next(unit)[:, 0] + start for start, _ in _between(at, len(text))]
        starts = np.maximum.accumulate(np.concatenate(offsets)) if offsets else np.zeros(0, np.int64)
        bounds = find_bounds(text, starts, config.tokens, config.separators if config.by == "separators" else None)
        chunks = plan_chunks(bounds, config.tokens, config.overlap, slack)
        planned.append(_Text(text, starts, at, bounds, chunks, [-1] * len(chunks)))
    return planned


def _between(cuts: Sequence[int], length: int) -> list[Span]:
    return list(zip([0, *cuts], [*cuts, length], strict=True))


_LINE_START = re.compile(r"\n(?=\S)")
_WORD_GAP = re.compile(r"(?<=\w) (?=\w)")


def _seams(text: str) -> list[int]:
    """Where a text longer than a unit is cut to be tokenized: at a line's start, else a space, else anywhere."""
    seams: list[int] = []
    at = 0
    while len(text) - at > UNIT_CHARS:
        low, high = at + UNIT_CHARS // 2, at + UNIT_CHARS
        lines = [match.end() for match in _LINE_START.finditer(text, low, high)]
        at = lines[-1] if lines else _last_gap(text, low, high) or high
        seams.append(at)
    return seams


def _last_gap(text: str, low: int, high: int) -> int | None:
    """Place of the last single space between two words."""
    gaps = [match.start() for match in _WORD_GAP.finditer(text, max(low, 0), high)]
    return gaps[-1] if gaps else None


def _count(texts: Sequence[_Text], tokenizer: Tokenizer) -> None:
    """Fills in the counts without a second pass over the text where its tokens are known already.

    Cutting a chunk out of its document, or a document into units, can change the tokens near the cuts only: those
    between a cut and the next space between words. Where those, counted by themselves, are as many as before, the
    chunk's tokens are as many as its part of the document has; else, or without such a space near, it is counted.
    """
    windows: list[tuple[int, int, Span]] = []
    for number, item in enumerate(texts):
        for index, span in enumerate(item.chunks):
            around = _windows(item, span)
            if around is not None:
                item.counts[index] = item.tokens_in(*span)
                windows += [(number, index, window) for window in around]
    counts = tokenizer.count([texts[n].text[a:b] for n, _, (a, b) in windows]) if windows else []
    for (number, index, window), count in zip(windows, counts, strict=True):
        if texts[number].tokens_in(*window) != count:
            texts[number].counts[index] = -1


def _windows(item: _Text, span: Span) -> list[Span] | None:
    """Stretches around the cuts that made a chunk, from space to space; none for one that was tokenized just so."""
    start, end = span
    cuts = [cut for cut in (start, *item.seams, end) if start <= cut <= end and 0 < cut < len(item.text)]
    if cuts and end - start < 4 * _WINDOW:
        return None
    found: list[Span] = []
    for cut in dict.fromkeys(cuts):
        low = start if cut - start <= _WINDOW else _last_gap(item.text, cut - _WINDOW, cut - 16)
        gap = _WORD_GAP.search(item.text, cut + 16, cut + _WINDOW)
        high = end if end - cut <= _WINDOW else gap.start() if gap is not None else None
        if low is None or high is None:
            return None
        found.append((low, high))
    return found


def _fit(texts: Sequence[_Text], tokenizer: Tokenizer, config: ChunkConfig) -> None:
    """Counts what is not known, and shortens or cuts in two what is too long, until all is known and fits."""
    while unknown := [(item, i) for item in texts for i, count in enumerate(item.counts) if count < 0]:
        spans = [item.chunks[i] for item, i in unknown]
        counts = tokenizer.count([item.text[a:b] for (item, _), (a, b) in zip(unknown, spans, strict=True)])
        # From the last to the first, so that the places of those to come stay what they are.
        for (item, i), span, count in zip(reversed(unknown), reversed(spans), reversed(counts.tolist()), strict=True):
            item.counts[i] = count
            if count > config.tokens:
                after = item.chunks[i + 1][0] if i + 1 < len(item.chunks) else None
                smaller = shrink(item.bounds, span, count - config.tokens, after, config.overlap)
                if smaller != [span]:
                    item.chunks[i : i + 1] = smaller
                    item.counts[i : i + 1] = [-1] * len(smaller)


def _with_something_new(item: _Text) -> Iterator[tuple[Span, int]]:
    covered = 0
    for (start, end), count in zip(item.chunks, item.counts, strict=True):
        if end > covered and not item.text[covered:end].isspace():
            yield (start, end), count
            covered = end
