"""Exact top-k on a CPU by way of a copy of a byte a value: a quarter of the bytes to read, the same result.

One question reads all vectors and does little with each, so that memory is what it waits for. As with float16 on a
device (topk_half), what the copy brings up is scored again by the rows themselves, and how far it may be off tells
whether anything was missed; where it might have been, the query is answered from the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.rescore import rescore
from graphmill.kernels.topk import topk

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

BLOCK_ROWS = 1 << 14
ROUNDING = 2.0**-18
"""Of sums of float32 on both sides, relative to the lengths of query and row."""


@dataclass(frozen=True)
class Bytes:
    """A copy of rows at a byte a value, and how far it may be off."""

    index: Any
    """faiss.IndexScalarQuantizer."""
    error: float
    """The longest difference between a row and its copy."""


def to_bytes(vectors: Floats) -> Bytes | None:
    """The copy; None where a value isn't finite, which no byte stands for."""
    import faiss

    if not len(vectors) or not all(
        np.isfinite(vectors[start : start + BLOCK_ROWS]).all() for start in range(0, len(vectors), BLOCK_ROWS)
    ):
        return None
    index = faiss.IndexScalarQuantizer(vectors.shape[1], faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)  # the least and the largest value of each dimension
    error = 0.0
    for start in range(0, len(vectors), BLOCK_ROWS):
        block = np.ascontiguousarray(vectors[start : start + BLOCK_ROWS], dtype=np.float32)
        index.add(block)
        off = np.linalg.norm(block - index.reconstruct_n(start, len(block)), axis=1)
        error = max(error, float((off + ROUNDING * np.linalg.norm(block, axis=1)).max()))
    return Bytes(index, error)


def topk_bytes(queries: Floats, vectors: Floats, copy: Bytes, k: int) -> tuple[Floats, Ints]:
    """What ``topk`` returns for the same vectors, float32 [n, d]."""
    depth = 8 * k + 64
    if depth >= len(vectors) or not len(queries):
        return topk(queries, vectors, k)
    topk(queries, vectors[:0], k)  # refuses what exact search refuses
    near_scores, near = copy.index.search(np.ascontiguousarray(queries, dtype=np.float32), depth)
    scores, rows, found = rescore(queries, vectors, near, k)
    bound = near_scores[:, -1] + np.linalg.norm(queries, axis=1) * copy.error
    unsure = np.flatnonzero((found < k) | ~(scores[:, -1] > bound))
    if len(unsure):
        scores[unsure], rows[unsure] = topk(queries[unsure], vectors, k)
    return scores, rows
