"""Documents to chunks: stretches of text of at most so many tokens of the model that will read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
"""Text of documents that are chunked together."""
CALL_CHARS = 4 << 20
"""Text that goes to the tokenizer in one call: a tokenizer may take some 200 bytes a character until it returns."""
UNIT_CHARS = 16 << 10
"""A longer document is tokenized in parts of about this size: in parallel, and in memory that does not grow with it."""
_WINDOW, _SYNC = 256, 16
_PROBE = "The old mill ran on the river"
_PROBE_CUTS = (len("The old mill"), len("The old mill "))
_PROBE_TAILS = [_PROBE[cut:] for cut in _PROBE_CUTS]


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
    sizes = np.cumsum(pc.utf8_length(documents["text"]).to_numpy())
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

    def starts_in(self, start: int, end: int) -> Ints:
        return self.starts[np.searchsorted(self.starts, start) : np.searchsorted(self.starts, end)]

    def tokens_in(self, start: int, end: int) -> int:
        return len(self.starts_in(start, end))


def _chunk_group(documents: pa.Table, tokenizer: Tokenizer, config: ChunkConfig) -> pa.Table:
    texts = _plan(documents["text"].to_pylist(), tokenizer, config)
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
    *unit_starts, whole, with_space, without = _token_starts(tokenizer, [*units, _PROBE, *_PROBE_TAILS])
    slack = _slack(whole, dict(zip(_PROBE_CUTS, (len(with_space), len(without)), strict=True)))
    planned = []
    unit = iter(unit_starts)
    for text, at in zip(texts, seams, strict=True):
        offsets = [next(unit) + start for start, _ in _between(at, len(text))]
        starts = np.concatenate(offsets)
        bounds = find_bounds(text, starts, config.tokens, config.separators if config.by == "separators" else None)
        chunks = plan_chunks(bounds, config.tokens, config.overlap, slack)
        planned.append(_Text(text, starts, at, bounds, chunks, [-1] * len(chunks)))
    return planned


def _token_starts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Ints]:
    """Character starts of each text's tokens, int64, ascending."""
    found: list[Ints] = []
    for group in _calls(texts):
        found += [np.maximum.accumulate(spans[:, 0].astype(np.int64)) for spans in tokenizer.spans(group)]
    return found


def _token_counts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    return [int(count) for group in _calls(texts) for count in tokenizer.count(group)]


def _calls(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in groups for one call each."""
    start = size = 0
    for i, text in enumerate(texts):
        if size and size + len(text) > CALL_CHARS:
            yield texts[start:i]
            start, size = i, 0
        size += len(text)
    if start < len(texts):
        yield texts[start:]


def _slack(starts: Ints, tails: Mapping[int, int]) -> int:
    """Tokens that a text costs for starting in the middle of another: 1 where a tokenizer puts a space before a text.

    tails  by the place of a cut that may be made, the tokens of what follows it when that is a text of its own
    """
    return max([0, *(count - int((starts >= cut).sum()) for cut, count in tails.items() if cut in starts)])


def _between(cuts: Sequence[int], length: int) -> list[Span]:
    return list(zip([0, *cuts], [*cuts, length], strict=True))


_LINE_START = re.compile(r"\n(?=\S)")
_WORD_GAP = re.compile(r"(?<=\w)(?=[ 、。，．！？；：]\w)")


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
    """Place of the last single space between two words, or of the last Chinese punctuation mark between two."""
    gaps = [match.start() for match in _WORD_GAP.finditer(text, low, high)]
    return gaps[-1] if gaps else None


def _fit(texts: Sequence[_Text], tokenizer: Tokenizer, config: ChunkConfig) -> None:
    """Counts the chunks, and shortens or cuts in two what is too long, until all are counted and fit."""
    while unknown := [(item, i) for item in texts for i, count in enumerate(item.counts) if count < 0]:
        spans = [item.chunks[i] for item, i in unknown]
        counts = _counts([(item, span) for (item, _), span in zip(unknown, spans, strict=True)], tokenizer)
        # From the last to the first, so that the places of those to come stay what they are.
        for (item, i), span, count in zip(reversed(unknown), reversed(spans), reversed(counts), strict=True):
            item.counts[i] = count
            if count > config.tokens:
                after = item.chunks[i + 1][0] if i + 1 < len(item.chunks) else None
                smaller = shrink(item.bounds, span, count - config.tokens, after, config.overlap)
                if smaller != [span]:
                    item.chunks[i : i + 1] = smaller
                    item.counts[i : i + 1] = [-1] * len(smaller)


def _counts(chunks: Sequence[tuple[_Text, Span]], tokenizer: Tokenizer) -> list[int]:
    """Tokens of each chunk, without a second pass over text whose tokens are known already.

    Cutting a chunk out of its document, or a document into units, changes tokens near the cuts only. So a window round
    each cut is tokenized by itself, up to a space between words on the inner side: where its tokens fall in with the
    document's again before that space, the chunk has the document's tokens with the window's in their place. Where
    they don't, or there is no such space near, the whole chunk is counted.
    """
    counts = [item.tokens_in(*span) for item, span in chunks]
    places: list[tuple[int, _Window]] = []
    whole: set[int] = set()
    for number, (item, span) in enumerate(chunks):
        windows = _windows(item, span)
        if windows is None:
            whole.add(number)
        else:
            places += [(number, window) for window in windows]
    found = _token_starts(tokenizer, [chunks[n][0].text[w.start : w.end] for n, w in places])
    for (number, window), starts in zip(places, found, strict=True):
        known = chunks[number][0].starts_in(window.start, window.end)
        alone = starts + window.start
        if window.agrees(known, alone):
            counts[number] += len(alone) - len(known)
        else:
            whole.add(number)
    again = sorted(whole)
    for number, count in zip(again, _token_counts(tokenizer, [_text(chunks[n]) for n in again]), strict=True):
        counts[number] = count
    return counts


def _text(chunk: tuple[_Text, Span]) -> str:
    item, (start, end) = chunk
    return item.text[start:end]


@dataclass(frozen=True, slots=True)
class _Window:
    """A stretch round a cut; ``open_left`` and ``open_right`` where the chunk goes on."""

    start: int
    end: int
    open_left: bool
    open_right: bool

    def agrees(self, known: Ints, alone: Ints) -> bool:
        """Whether the token starts are the same over the SYNC characters at each open side."""
        low, high = self.start + _SYNC, self.end - _SYNC
        left = not self.open_left or _equal(known[known < low], alone[alone < low])
        return left and (not self.open_right or _equal(known[known >= high], alone[alone >= high]))


def _equal(known: Ints, alone: Ints) -> bool:
    return len(known) > 0 and np.array_equal(known, alone)


def _windows(item: _Text, span: Span) -> list[_Window] | None:
    """Windows round the cuts that made a chunk; none for a text that was tokenized just so, None if one has no end."""
    start, end = span
    cuts = [cut for cut in (start, *item.seams, end) if start <= cut <= end and 0 < cut < len(item.text)]
    if cuts and end - start < 4 * _WINDOW:
        return None
    found: list[Span] = []
    for cut in dict.fromkeys(cuts):
        low = start if cut - start <= _WINDOW else _last_gap(item.text, cut - _WINDOW, cut - 2 * _SYNC)
        gap = _WORD_GAP.search(item.text, cut + 2 * _SYNC, cut + _WINDOW)
        high = end if end - cut <= _WINDOW else gap.start() if gap is not None else None
        if low is None or high is None:
            return None
        if found and low < found[-1][1]:  # two cuts near each other share a window, or their change would count twice
            low = found.pop()[0]
        found.append((low, high))
    return [_Window(low, high, low > start, high < end) for low, high in found]


def _with_something_new(item: _Text) -> Iterator[tuple[Span, int]]:
    covered = 0
    for (start, end), count in zip(item.chunks, item.counts, strict=True):
        if end > covered and not item.text[covered:end].isspace():
            yield (start, end), count
            covered = end
