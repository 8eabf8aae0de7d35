"""Which stretches of a text become chunks: greedily, by token counts at the places where it may be cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphmill.engine.cuts import Bools, Ints, codepoints, piece_ends, safe_cuts, word_starts
from graphmill.engine.tokenized import Span

MAX_TOKEN_CHARS = 256
"""A token that stands for more characters (a long word unknown to WordPiece, the white space it leaves out) ..."""
SPREAD_CHARS = 16
"""... counts as one a SPREAD_CHARS when cuts are made, so that one token is never megabytes of text."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The places where a text may be cut, from 0 to its length, both included; all arrays are as long.

    position  int64, ascending      cost  int64: tokens that start before it
    end       a chunk may end here    piece  after a separator    word  not inside a word
    """

    position: Ints
    cost: Ints
    end: Bools
    piece: Bools
    word: Bools


def find_bounds(text: str, starts: Ints, size: int, separators: Sequence[str] | None) -> Bounds:
    """Bounds of a text from the starts of its tokens (int64, ascending); without separators each token ends a piece.

    Inside a piece of more than ``size`` tokens a chunk may end at any token.
    """
    starts = _spread(starts, len(text))
    codes = codepoints(text)
    ends = piece_ends(text, separators) if separators is not None else np.zeros(0, np.int64)
    inner = np.sort(np.concatenate([starts, ends]), kind="stable") if len(ends) else starts
    inner = inner[(np.diff(inner, prepend=0) > 0) & (inner < len(text))]
    inner = inner[safe_cuts(codes, inner)]
    position = np.concatenate([[0], inner, [len(text)]])
    cost = np.searchsorted(starts, position, "left")
    cost[0] = 0
    piece = np.isin(position, ends)
    word = np.concatenate([[True], word_starts(codes, inner), [True]])
    end = np.ones(len(position), np.bool_)
    if separators is not None:
        number: Ints = np.cumsum(piece) - piece  # of the piece that ends at or after each bound
        ends_at = np.append(np.flatnonzero(piece), len(position) - 1)
        is_long = np.diff(cost[ends_at], prepend=0) > size
        end = piece | is_long[np.minimum(number, len(is_long) - 1)]
        end[-1] = True
    return Bounds(position, cost, end, piece, word)


def plan_chunks(bounds: Bounds, size: int, overlap: int, slack: int = 0) -> list[Span]:
    """Greedy chunks of at most ``size`` tokens, each but the first starting ``overlap`` tokens before the last's end.

    Returns character spans. The overlap is made of whole pieces where any fits into it, and gives way to
    the next piece. A cut inside a word moves to the word's start where that is near: ends back, starts forward, so
    that the windows of ``size`` tokens stay where they are when the overlap is large enough for both. ``slack`` is
    left free in each chunk but the first, for a tokenizer that spends tokens on being started in the middle.
    """
    cost, last = bounds.cost, len(bounds.cost) - 1
    ends, pieces, words = (np.flatnonzero(mask) for mask in (bounds.end, bounds.piece, bounds.word))
    end_costs = cost[ends]
    reach = min(8, size // 16)
    chunks: list[Span] = []
    start = previous = begin = 0  # begin: tokens before the window, which the chunk need not fill
    budget = size
    while True:
        limit = begin + budget
        if cost[last] <= limit or start >= last:
            return _positions(bounds, [*chunks, (start, last)])
        end = int(ends[np.searchsorted(end_costs, limit, "right") - 1])
        if end <= max(previous, start):  # more tokens than the size before the next place to cut
            end = int(ends[np.searchsorted(ends, max(previous, start), "right")])
        elif not bounds.piece[end]:
            word = int(words[np.searchsorted(words, end, "right") - 1])
            if word > max(previous, start) and cost[end] - cost[word] <= reach:
                end = word
        chunks.append((start, end))
        if end == last:
            return _positions(bounds, chunks)
        budget = max(1, size - slack)
        following = int(ends[np.searchsorted(ends, end, "right")])
        kept = max(0, min(overlap, budget - int(cost[following] - cost[end])))
        keeps_windows = not len(pieces) and kept >= 2 * reach and limit - cost[end] <= reach
        begin = int(limit if keeps_windows else cost[end]) - kept
        start = max(start + 1, _overlap_start(bounds, begin, end, reach, pieces, words))
        if not keeps_windows:
            begin = int(cost[start])
        previous = end


def shrink(bounds: Bounds, chunk: Span, excess: int, covered_from: int | None, overlap: int) -> list[Span]:
    """A chunk that turned out ``excess`` tokens too long, cut down to one or two shorter ones.

    It is shortened where the next chunk, which starts at ``covered_from`` (None: there is none), covers what is lost,
    else cut in two: where a text may be cut if there is such a place inside, else between any two code points. One
    code point of more tokens than the size stays.
    """
    start, end = chunk
    inside = bounds.position[np.searchsorted(bounds.position, start, "right") : np.searchsorted(bounds.position, end)]
    if not len(inside):
        return [chunk] if end - start < 2 else [(start, (start + end) // 2), ((start + end) // 2, end)]
    first = int(np.searchsorted(bounds.position, inside[0]))
    costs = bounds.cost[first : first + len(inside)]
    end_cost = int(bounds.cost[np.searchsorted(bounds.position, end)])
    fits = (costs <= end_cost - excess) & (inside >= (end if covered_from is None else covered_from))
    if fits.any():
        at_end = fits & bounds.end[first : first + len(inside)]
        return [(start, int(inside[np.flatnonzero(at_end if at_end.any() else fits)[-1]]))]
    half = min(int(np.searchsorted(costs, (int(costs[0]) + end_cost) / 2, "left")), len(inside) - 1)
    kept = min(overlap, (end_cost - int(costs[0])) // 4)
    second = min(int(np.searchsorted(costs, costs[half] - kept, "left")), half)
    return [(start, int(inside[half])), (int(inside[second]), end)]


def _positions(bounds: Bounds, chunks: list[Span]) -> list[Span]:
    return [(int(bounds.position[start]), int(bounds.position[end])) for start, end in chunks]


def _overlap_start(bounds: Bounds, begin: int, end: int, reach: int, pieces: Ints, words: Ints) -> int:
    """First bound with at least ``begin`` tokens before it: that of a piece, else one near that is a word's start."""
    start = min(int(np.searchsorted(bounds.cost, begin, "left")), end)
    piece = np.searchsorted(pieces, start, "left")
    if piece < len(pieces) and pieces[piece] < end:
        return int(pieces[piece])
    word = int(words[np.searchsorted(words, start, "left")])
    return word if word <= end and bounds.cost[word] - bounds.cost[start] <= reach else start


def _spread(starts: Ints, length: int) -> Ints:
    """Token starts, with more of them inside what one token would otherwise stretch over."""
    if not len(starts) or starts[0] > MAX_TOKEN_CHARS:
        starts = np.concatenate([[0], starts])
    width = np.diff(starts, append=length)
    if width.max() <= MAX_TOKEN_CHARS:
        return starts
    parts = np.where(width > MAX_TOKEN_CHARS, -(-width // SPREAD_CHARS), 1)
    number = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    spread: Ints = np.repeat(starts, parts) + number * SPREAD_CHARS
    return spread
