"""Documents to chunks: stretches of text of at most so many tokens of the model that will read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphmill.engine.cuts import piece_ends
from graphmill.engine.ids import content_id
from graphmill.engine.models import Tokenizer
from graphmill.engine.plan_chunks import Bounds, find_bounds, plan_chunks, shrink
from graphmill.engine.tokenized import Span, TokenizedText, between, count_spans, tokenize

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

MERGED_TOKENS = 8
"""Most tokens that two pieces lose when they are put together."""

SEPARATORS = ("\n\n", "\n", "。", "．", ".", "！", "!", "？", "?", " ", "\t", "\u3000", "\u200b")

GROUP_CHARS = 8 << 20
"""Text of documents that are chunked together."""


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
class _Plan:
    """A text's chunks, and their counts (-1: not known yet)."""

    item: TokenizedText
    bounds: Bounds
    slack: int
    chunks: list[Span]
    counts: list[int]
    is_second: bool = False

    @property
    def text(self) -> str:
        return self.item.text


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A text whose chunks are the pieces that it is made of."""

    text: str
    chunks: list[Span]
    counts: list[int]


def _chunk_group(documents: pa.Table, tokenizer: Tokenizer, config: ChunkConfig) -> pa.Table:
    texts = documents["text"].to_pylist()
    plans = _plan_pieces(texts, tokenizer, config)
    others = [number for number, plan in enumerate(plans) if plan is None]
    tokenized, slack = tokenize([texts[n] for n in others], tokenizer, cuts_tokens=config.by == "separators")
    planned = [_plan(item, slack, config) for item in tokenized]
    _fit(planned, tokenizer, config)
    for number, made in zip(others, planned, strict=True):
        plans[number] = made
    rows: list[tuple[object, ...]] = []
    names = zip(*(documents[name].to_pylist() for name in ("document_id", "path", "language")), strict=True)
    for (document_id, path, language), plan in zip(names, plans, strict=True):
        assert plan is not None
        for position, ((start, end), count) in enumerate(_with_something_new(plan)):
            text = plan.text[start:end]
            chunk_id = content_id(document_id, str(position))
            rows.append((chunk_id, document_id, path, position, start, end, count, content_id(text), language, text))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(CHUNKS)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, CHUNKS, strict=True)], schema=CHUNKS)


def _plan_pieces(texts: Sequence[str], tokenizer: Tokenizer, config: ChunkConfig) -> list[_Plan | _Pieces | None]:
    """The texts of which each piece between separators is a chunk, as of corpora that come cut; None for the others.

    Then one count a piece is all that there is to do. Pieces that are short beside a chunk will be merged: they are
    left to the plan that knows where the tokens are, and so are all where chunks overlap.
    """
    if config.by != "separators" or config.overlap:
        return [None] * len(texts)
    pieces: list[list[Span]] = []
    for text in texts:
        ends = piece_ends(text, config.separators)
        few = 2 * len(text) >= config.tokens * (len(ends) + 1)  # a token has seldom less than half a character
        pieces.append(between(ends.tolist(), len(text)) if few and text else [])
    counts = iter(tokenizer.count([text[a:b] for text, spans in zip(texts, pieces, strict=True) for a, b in spans]))
    plans: list[_Plan | _Pieces | None] = []
    for text, spans in zip(texts, pieces, strict=True):
        own = [int(next(counts)) for _ in spans]
        # Merged, two pieces may have a few tokens less than apart.
        apart = all(one + other > config.tokens + MERGED_TOKENS for one, other in pairwise(own))
        plans.append(_Pieces(text, spans, own) if spans and apart and max(own) <= config.tokens else None)
    return plans


def _plan(item: TokenizedText, slack: int, config: ChunkConfig) -> _Plan:
    separators = config.separators if config.by == "separators" else None
    bounds = find_bounds(item.text, item.starts, config.tokens, separators)
    chunks = plan_chunks(bounds, config.tokens, config.overlap, slack)
    return _Plan(item, bounds, slack, chunks, [-1] * len(chunks))


def _fit(plans: Sequence[_Plan], tokenizer: Tokenizer, config: ChunkConfig) -> None:
    """Counts the chunks, and makes smaller what is too long, until all are counted and fit."""
    while unknown := [(plan, i) for plan in plans for i, count in enumerate(plan.counts) if count < 0]:
        counts = count_spans([(plan.item, plan.chunks[i]) for plan, i in unknown], tokenizer)
        too_long: dict[int, list[int]] = {}
        for (plan, i), count in zip(unknown, counts, strict=True):
            plan.counts[i] = count
            if count > config.tokens:
                too_long.setdefault(id(plan), []).append(i)
        for plan in plans:
            if id(plan) in too_long:
                _make_smaller(plan, too_long[id(plan)], config)


def _make_smaller(plan: _Plan, too_long: Sequence[int], config: ChunkConfig) -> None:
    """Shortens chunks, or cuts them in two where the overlap can't make up for it; where that would be many, plans
    the text once more with more room left."""
    starts = [start for start, _ in plan.chunks]
    excess = {i: plan.counts[i] - config.tokens for i in too_long}
    smaller = {
        i: shrink(
            plan.bounds, plan.chunks[i], excess[i], starts[i + 1] if i + 1 < len(starts) else None, config.overlap
        )
        for i in too_long
    }
    num_cut = sum(len(parts) == 2 for parts in smaller.values())
    if num_cut > 1 and 20 * num_cut > len(plan.chunks) and not plan.is_second:
        slack = plan.slack + min(max(excess.values()), config.tokens // 8)
        plan.chunks = plan_chunks(plan.bounds, config.tokens, config.overlap, slack)
        plan.counts, plan.is_second = [-1] * len(plan.chunks), True
        return
    for i in reversed(too_long):  # so that the places of those to come stay what they are
        if smaller[i] != [plan.chunks[i]]:
            plan.chunks[i : i + 1] = smaller[i]
            plan.counts[i : i + 1] = [-1] * len(smaller[i])


def _with_something_new(plan: _Plan | _Pieces) -> Iterator[tuple[Span, int]]:
    covered = 0
    for (start, end), count in zip(plan.chunks, plan.counts, strict=True):
        if end > covered and not plan.text[covered:end].isspace():
            yield (start, end), count
            covered = end
