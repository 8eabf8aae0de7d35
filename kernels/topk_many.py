"""Exact top-k of many queries on a CPU: matrix products, and of each query's scores only the best are looked at again.

``topk`` goes block by block through rows that need not fit in memory, and keeps the best so far. Where they do, and
the scores of some queries with all rows do too, less is done with each score: the best of groups of rows say how high
the k-th best lies at least, and what reaches that, within what float32 may be off by, is scored again in float64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.topk import check, topk

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

SCORES_BYTES = 24 << 20
MAX_QUERIES, MIN_QUERIES = 256, 16
"""Queries whose scores are made at a time: as many as the bytes allow, and no fewer than a product is quick with."""
BLOCK_ROWS = 1 << 12
GROUPS = 8
"""Groups of rows, for each of the k rows that are wanted, of which the best are looked at."""
RESCORE_PAIRS = 1 << 7
"""Pairs of query and row scored at a time in float64: of more, the memory is fetched anew from the system each time,
which takes as long as all else."""


def topk_many(queries: Floats, vectors: Floats, k: int) -> tuple[Floats, Ints]:
    """What ``topk`` returns for the same vectors, float32 [n, d] in memory, whose rows are all finite."""
    n = len(vectors)
    check(queries, vectors, k)
    if k >= n or not len(queries):
        return topk(queries, vectors, k)
    longest = max(float(_lengths(vectors[at : at + BLOCK_ROWS]).max()) for at in range(0, n, BLOCK_ROWS))
    # Twice what a float32 product may be off by, as topk takes it: of a row, and of the k-th best.
    error = (8 * 2.0**-24 * vectors.shape[1] ** 0.5 * longest * _lengths(queries)).astype(np.float32)
    size = min(max(SCORES_BYTES // (4 * n), MIN_QUERIES), MAX_QUERIES)
    parts = [_best(queries[at : at + size], vectors, k, error[at : at + size]) for at in range(0, len(queries), size)]
    return np.concatenate([scores for scores, _ in parts]), np.concatenate([rows for _, rows in parts])


def _best(queries: Floats, vectors: Floats, k: int, error: Floats) -> tuple[Floats, Ints]:
    scores = queries @ vectors.T
    reaching = scores >= (_floor(scores, k) - error)[:, None]
    # Flat, since NumPy looks for what is set five times as fast along one axis as along two.
    query, row = np.divmod(np.flatnonzero(reaching.ravel()), len(vectors))
    scored = np.empty(len(row), np.float32)
    exact = queries.astype(np.float64)
    for at in range(0, len(row), RESCORE_PAIRS):
        pairs = slice(at, at + RESCORE_PAIRS)
        scored[pairs] = np.einsum("pd,pd->p", exact[query[pairs]], vectors[row[pairs]].astype(np.float64))
    order = np.lexsort((row, -scored, query))  # ties go to the lower row
    order = order[np.searchsorted(query, np.arange(len(queries)))[:, None] + np.arange(k)]
    return scored[order], row[order]


def _floor(scores: Floats, k: int) -> Floats:
    """What the k-th best of each query's scores is at least, float32 [q]: the k-th of the best of groups of rows.

    Hardly more than k rows reach it, and a partition of all scores would take ten times as long.
    """
    q, n = scores.shape
    size = max(n // (GROUPS * k), 1)
    groups = n // size
    best = scores[:, : size * groups].reshape(q, size, groups).max(axis=1)
    floor: Floats = np.partition(best, groups - k, axis=1)[:, groups - k]
    return floor


def _lengths(rows: Floats) -> Floats:
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return lengths
