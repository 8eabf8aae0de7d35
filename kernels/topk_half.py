"""Exact top-k of float32 rows by way of a float16 copy: half the bytes to hold and read on a device, the same result.

Halving a row changes its score by no more than the query's length times that of the difference, so that a row which the
copy leaves out scores below a known bound. What the copy brings up is scored again by the rows themselves: where the
k-th score of that is above the bound nothing was missed, and where it isn't the query is answered from the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.backend import Backend
from graphmill.kernels.rescore import rescore
from graphmill.kernels.topk import topk

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

BLOCK_ROWS = 1 << 18
ROUNDING = 2.0**-22
"""Of a score to float32, on both sides, relative to the lengths of query and row."""


@dataclass(frozen=True)
class Half:
    """A float16 copy of rows, and how far it may be off."""

    rows: Any
    """float16 [n, d], an array of the backend."""
    error: float
    """The longest difference between a finite row and its copy; infinite where a value has none in float16."""


def halve(vectors: Floats, backend: Backend) -> Half:
    """The copy, block by block, so that no second float32 matrix is made."""
    xp = backend.xp
    rows = xp.empty(vectors.shape, dtype=np.float16)
    error = 0.0
    for start in range(0, len(vectors), BLOCK_ROWS):
        block = xp.asarray(vectors[start : start + BLOCK_ROWS])
        with np.errstate(over="ignore", invalid="ignore"):
            half = block.astype(np.float16)
            off = xp.linalg.norm(block - half.astype(np.float32), axis=1) + ROUNDING * xp.linalg.norm(block, axis=1)
        finite = xp.isfinite(block).all(axis=1)
        rows[start : start + BLOCK_ROWS] = half
        error = max(error, float(xp.where(finite, off, 0.0).max()))
    return Half(rows, error)


def topk_half(
    queries: Floats, vectors: Floats, half: Half, k: int, allowed: NDArray[np.bool_] | None, backend: Backend
) -> tuple[Floats, Ints]:
    """What ``topk`` returns for the same vectors, float32 [n, d]."""
    depth = 2 * k + 16
    near_scores, near = topk(queries, half.rows, depth, allowed, backend)
    covers_all = near.shape[1] < depth and np.isfinite(half.error)
    k = min(k, near.shape[1]) if covers_all else k
    scores, rows, found = rescore(queries, vectors, near, k, allowed)
    if covers_all or not len(queries):
        return scores[:, :k], rows[:, :k]
    bound = np.full(len(queries), np.inf)
    if near.shape[1]:
        bound = near_scores[:, -1] + np.linalg.norm(queries, axis=1) * half.error
    unsure = np.flatnonzero((found < k) | ~(scores[:, -1] > bound))
    if len(unsure) == len(queries):
        return topk(queries, vectors, k, allowed, backend)
    if len(unsure):
        scores[unsure], rows[unsure] = topk(queries[unsure], vectors, k, allowed, backend)
    return scores, rows
