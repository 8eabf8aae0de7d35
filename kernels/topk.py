"""Exact vector top-k by inner product, in blocks of rows, so that memory doesn't grow with the corpus."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels import topk_matmul, topk_triton
from graphmill.kernels.backend import NUMPY, Backend

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

CORPUS_BLOCK_BYTES = {"cpu": 32 << 20, "cuda": 1 << 30}  # float32 bytes of a block
FLOAT16_BLOCK_BYTES = {"cpu": 4 << 20, "cuda": 1 << 30}  # likewise, where float16 is converted: stays in the cache
SCORES_BLOCK_BYTES = {"cpu": 64 << 20, "cuda": 2 << 30}
RESCORE_PAIRS = {"numpy": 1 << 7, "cupy": 1 << 14}  # scored at a time in float64; on the CPU as many as L2 holds
NORM_ROWS = 256  # rows of a block whose norms stand for those of all


def topk(
    queries: Floats, corpus: Any, k: int, allowed: NDArray[np.bool_] | None = None, backend: Backend = NUMPY
) -> tuple[Floats, Ints]:
    """The k best rows of the corpus for each query, by inner product.

    queries  float32 [q, d], finite
    corpus   float32 or float16 [n, d], in memory, memory-mapped or an array of the backend; only read, block by block.
             float16 on a CUDA device is searched by the Triton programs of topk_triton, as far as they take it, and
             for more queries than these answer at once by topk_matmul
    allowed  bool [n], the rows to choose from, or None for all
    returns  scores float32 [q, m], descending; rows int64 [q, m]; ties go to the lower row. m is the least of k and
             the number of rows there are to choose from: there is no padding. A row that isn't finite is never chosen.

    Candidates are found by float32 products and ordered by float64 ones: equal rows score equally, and it doesn't
    matter which other queries, threads or blocks a query was computed with.
    """
    check(queries, corpus, k, allowed)
    if allowed is not None and bool(allowed.all()):
        allowed = None
    if len(queries) == 0:
        m = min(k, len(corpus) if allowed is None else int(np.count_nonzero(allowed)))
        return np.zeros((0, m), dtype=np.float32), np.zeros((0, m), dtype=np.int64)

    def in_blocks(some: Floats) -> tuple[Floats, Ints]:
        return _topk_in_blocks(some, corpus, k, allowed, backend)

    if len(queries) > topk_triton.MAX_QUERIES and topk_matmul.fits(corpus, allowed, backend):
        return topk_matmul.topk_matmul(queries, corpus, k, allowed, in_blocks, backend)
    if topk_triton.fits(corpus, k, allowed, backend):
        return topk_triton.topk_fused(queries, corpus, k, allowed, in_blocks)
    return in_blocks(queries)


def _topk_in_blocks(
    queries: Floats, corpus: Any, k: int, allowed: NDArray[np.bool_] | None, backend: Backend
) -> tuple[Floats, Ints]:
    xp = backend.xp
    queries = xp.asarray(queries, dtype=np.float32)
    picked = None if allowed is None else np.flatnonzero(allowed)
    n = len(corpus) if picked is None else len(picked)
    best = _Best(queries, k, xp)
    block_bytes = FLOAT16_BLOCK_BYTES if corpus.dtype == np.float16 else CORPUS_BLOCK_BYTES
    size = _block_rows(queries.shape[0], queries.shape[1], block_bytes, backend)
    for start in range(0, n, size):
        rows = np.arange(start, min(start + size, n)) if picked is None else picked[start : start + size]
        block = corpus[start : start + size] if picked is None else corpus[rows]
        best.add(_float32(xp.asarray(block), xp), xp.asarray(rows))
    return backend.asnumpy(best.scores), backend.asnumpy(best.rows)


def topk_reference(queries: Floats, corpus: Floats, k: int) -> tuple[Floats, Ints]:
    """Score each query against each row and keep the k best: what topk() must match.

    queries  float32 [q, d]        corpus  float32 [n, d]        k >= 1
    returns  scores float32 [q, min(k, n)], descending; rows int64 [q, min(k, n)]; ties go to the lower row
    """
    scores = queries @ corpus.T
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, rows, axis=1), rows.astype(np.int64)


class _Best:
    """The best rows so far of each query, [q, m], best first."""

    def __init__(self, queries: Any, k: int, xp: Any) -> None:
        self.xp, self.k, self.queries = xp, k, queries
        self.scores = xp.zeros((len(queries), 0), dtype=np.float32)
        self.rows = xp.zeros((len(queries), 0), dtype=np.int64)
        self.error = xp.zeros(len(queries), dtype=np.float32)

    def add(self, block: Any, rows: Any) -> None:
        xp = self.xp
        with np.errstate(invalid="ignore", over="ignore"):  # rows that aren't finite are dealt with here
            scores = self.queries @ block.T  # [q, b]
            total = float(scores.sum())
        if not math.isfinite(total):
            scores[:, ~xp.isfinite(scores).all(axis=0)] = -np.inf
        self.error = xp.maximum(self.error, _float32_error(self.queries, block, xp))
        chosen = scores >= self._floor()[:, None]
        if int(xp.count_nonzero(chosen)) > 4 * self.k * len(scores):
            kth = max(scores.shape[1] - self.k, 0)
            chosen &= scores >= (xp.partition(scores, kth, axis=1)[:, kth] - self.error)[:, None]
        place = xp.flatnonzero(chosen)
        query, column = place // scores.shape[1], place % scores.shape[1]
        self._merge(query, _rescored(self.queries, block, query, column, xp), rows[column])

    def _floor(self) -> Any:
        """The float32 score below which a row can't be among the k best any more, [q]."""
        if self.scores.shape[1] < self.k:
            return self.xp.full(len(self.queries), np.finfo(np.float32).min, dtype=np.float32)
        return self.scores[:, -1] - self.error

    def _merge(self, query: Any, scores: Any, rows: Any) -> None:
        xp, (q, m) = self.xp, self.scores.shape
        query = xp.concatenate([xp.arange(q * m) // max(m, 1), query])
        scores = xp.concatenate([self.scores.reshape(-1), scores])
        rows = xp.concatenate([self.rows.reshape(-1), rows])
        # One array of float64 keys, which hold rows and queries exactly: CuPy's lexsort takes no tuple.
        order = xp.lexsort(xp.stack([rows.astype(np.float64), -scores.astype(np.float64), query.astype(np.float64)]))
        query = query[order]
        place = xp.arange(len(query)) - xp.searchsorted(query, query)
        order = order[place < self.k]
        # Each query has the same number of rows: a row is left out for all queries or for none.
        self.scores, self.rows = scores[order].reshape(q, -1), rows[order].reshape(q, -1)


def _float32(block: Any, xp: Any) -> Any:
    """float16 to float32 by moving the bits, which NumPy does five times as fast as its own conversion."""
    if block.dtype != np.float16:
        return xp.asarray(block, dtype=np.float32)
    bits = block.view(np.int16).astype(np.int32)
    bits <<= 13  # sign, 3 copies of it, exponent, fraction
    bits &= ~0x70000000
    values = bits.view(np.float32)
    values *= np.float32(2.0**112)  # float32's exponents begin that much lower
    largest = np.float32(65504)
    finite = block.size == 0 or (float(values.max()) <= largest and float(values.min()) >= -largest)
    return values if finite else block.astype(np.float32)


def _rescored(queries: Any, block: Any, query: Any, column: Any, xp: Any) -> Any:
    """Inner products in float64 of pairs of a query and a row, rounded to float32."""
    parts = [xp.zeros(0, dtype=np.float32)]
    size = RESCORE_PAIRS[xp.__name__]
    for start in range(0, len(query), size):
        left = queries[query[start : start + size]].astype(np.float64)
        right = block[column[start : start + size]].astype(np.float64)
        parts.append(xp.einsum("pd,pd->p", left, right).astype(np.float32))
    return xp.concatenate(parts)


def _float32_error(queries: Any, block: Any, xp: Any) -> Any:
    """How far a float32 product may be off, [q]: four times the roundings of d terms, as a random walk adds them."""
    with np.errstate(over="ignore"):
        norms = xp.linalg.norm(block[:NORM_ROWS], axis=1)
    longest = float(xp.where(xp.isfinite(norms), norms, 0.0).max())
    return (4 * 2.0**-24 * queries.shape[1] ** 0.5 * longest * xp.linalg.norm(queries, axis=1)).astype(np.float32)


def _block_rows(q: int, d: int, block_bytes: dict[str, int], backend: Backend) -> int:
    rows = min(block_bytes[backend.name] // (4 * max(d, 1)), SCORES_BLOCK_BYTES[backend.name] // (4 * max(q, 1)))
    return max(rows // 64 * 64, 64)


def check(queries: Any, corpus: Any, k: int, allowed: Any = None) -> None:
    """Raises ValueError for what can't be searched: shapes that don't agree, k below 1, queries that aren't finite."""
    if queries.ndim != 2 or corpus.ndim != 2 or queries.shape[1] != corpus.shape[1]:
        raise ValueError(f"queries [q, d] and corpus [n, d] must agree in d, got {queries.shape} and {corpus.shape}")
    if k < 1:
        raise ValueError(f"k must be >= 1, got {k}")
    if allowed is not None and allowed.shape != (len(corpus),):
        raise ValueError(f"allowed must be bool [n={len(corpus)}], got shape {allowed.shape}")
    if not np.isfinite(queries).all():
        finite = np.isfinite(queries).all(axis=1)
        raise ValueError(f"queries must be finite, got a value in query {int(finite.argmin())} that is not")
