"""Exact top-k on a CPU by way of a copy of a byte a value: a quarter of the bytes to read, the same result.

One question reads all vectors and does little with each, so that memory is what it waits for. As with float16 on a
device (topk_half), what the copy brings up is scored again by the rows themselves, and how far it may be off tells
whether anything was missed; where it might have been, the query is answered from the rows.

Each dimension has a step and a middle: a value is the middle and a whole number of steps. A query is taken times the
steps, and rounded to whole numbers of its own, so that the scan multiplies bytes and adds integers, which it does twice
as fast as it turns bytes into floats. The lengths of both roundings bound what they may change a score by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.topk import check, topk

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK_ROWS = 1 << 12
ROUNDING = 2.0**-18
"""Of sums of float32 on both sides, relative to the lengths of query and row."""
ALONE_BYTES = 32 << 20
"""Bytes that are scanned by one thread: some 4 ms."""
TINY = np.finfo(np.float64).tiny
LEVELS = 127
"""Largest whole number of a query's value; faiss takes the values of a query as signed bytes, where it can."""


@dataclass(frozen=True)
class Bytes:
    """A copy of rows at a byte a value, and how far it may be off."""

    index: Any
    """faiss.IndexScalarQuantizer of signed bytes."""
    middle: Doubles
    step: Doubles
    error: float
    """The longest difference between a row and its copy."""
    longest: float
    """The length of the longest row of bytes."""


def to_bytes(vectors: Floats) -> Bytes | None:
    """The copy; None where a value isn't finite, which no byte stands for."""
    import faiss

    blocks = range(0, len(vectors), BLOCK_ROWS)
    if not len(vectors) or not all(np.isfinite(vectors[at : at + BLOCK_ROWS]).all() for at in blocks):
        return None
    low, high = vectors.min(axis=0).astype(np.float64), vectors.max(axis=0).astype(np.float64)
    step = (high - low) / 255
    middle = low + 128 * step
    index = faiss.IndexScalarQuantizer(
        vectors.shape[1], faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT
    )
    index.train(np.zeros((1, vectors.shape[1]), np.float32))  # faiss wants it, and learns nothing
    middle32, step32 = middle.astype(np.float32), step.astype(np.float32)
    divisor = np.where(step32 > 0, step32, np.float32(1))
    error = longest = 0.0
    for at in blocks:
        block = vectors[at : at + BLOCK_ROWS]
        codes = np.clip(np.rint((block - middle32) / divisor), -128, 127)
        index.add_sa_codes((codes + 128).astype(np.uint8))
        off = _lengths(block - (middle32 + step32 * codes)) + ROUNDING * _lengths(block)
        error, longest = max(error, float(off.max())), max(longest, float(_lengths(codes).max()))
    return Bytes(index, middle, step, error, longest)


def topk_bytes(queries: Floats, vectors: Floats, copy: Bytes, k: int) -> tuple[Floats, Ints]:
    """What ``topk`` returns for the same vectors, float32 [n, d]."""
    depth = 4 * k + 64
    if depth >= len(vectors) or not len(queries):
        return topk(queries, vectors, k)
    check(queries, vectors, k)
    exact = queries.astype(np.float64)
    times = exact * copy.step
    unit = np.maximum(np.abs(times).max(axis=1, keepdims=True) / LEVELS, TINY)
    whole = np.rint(times / unit)
    error = _lengths(exact) * copy.error + _lengths(times - whole * unit) * copy.longest
    near_scores, near = _nearest(copy.index, whole.astype(np.float32), depth)
    scores, rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    unsure = []
    for n in range(len(queries)):
        close = near_scores[n] * unit[n]  # less what the middles add, which is the same for every row
        # A row that far behind the k-th can't be before it, whatever both are off by.
        candidates = np.sort(near[n][close >= close[k - 1] - 2 * error[n]])
        scored = _scores(exact[n], vectors, candidates)
        order = np.argsort(-scored, kind="stable")[:k]  # rows ascend, so that ties go to the lower one
        scores[n], rows[n] = scored[order], candidates[order]
        if not scores[n, -1] > close[-1] + exact[n] @ copy.middle + error[n]:
            unsure.append(n)
    if unsure:
        scores[unsure], rows[unsure] = topk(queries[unsure], vectors, k)
    return scores, rows


def _nearest(index: Any, queries: Floats, depth: int) -> tuple[Floats, Ints]:
    """faiss's search, which shares queries among threads: where there is little to share, waking them takes longer, and
    on a busy machine ten times as long."""
    import faiss

    is_short = len(queries) == 1 or len(queries) * index.ntotal * index.d <= ALONE_BYTES
    before = faiss.omp_get_max_threads()
    if is_short:
        faiss.omp_set_num_threads(1)
    try:
        found: tuple[Floats, Ints] = index.search(queries, depth)
    finally:
        faiss.omp_set_num_threads(before)
    return found


def _scores(query: Doubles, vectors: Floats, rows: Ints) -> Floats:
    """As topk scores them: products in float64, each row's added up in the same order whichever others there are."""
    scored: Floats = np.einsum("pd,d->p", vectors[rows].astype(np.float64), query).astype(np.float32)
    return scored


def _lengths(rows: Any) -> Any:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))
