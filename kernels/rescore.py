"""Candidates in the order of their exact scores, and how many of the right ones an approximate search brings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

RESCORE_PAIRS = 1 << 7  # pairs of query and row scored at a time in float64, as in topk
MOVED_COSINE = 0.8  # of a sampled row and the query made of it
SCORE_ERROR = 2.0**-22  # two float32 roundings of a score near 1 on two devices


def rescore(
    queries: Floats, corpus: Any, candidates: Ints, k: int, allowed: NDArray[np.bool_] | None = None
) -> tuple[Floats, Ints, Ints]:
    """The k best of each query's candidates, scored and ordered as topk does: float64 products, ties to the lower row.

    queries     float32 [q, d]          corpus  float32 or float16 [n, d], in host memory or memory-mapped
    candidates  int64 [q, m], rows of the corpus in any order, repeated or not; -1 stands for none
    returns     scores float32 [q, k], rows int64 [q, k], and how many of them there are, int64 [q]; what is past
                those is -inf and -1
    """
    q = len(queries)
    query = np.repeat(np.arange(q), candidates.shape[1])
    row = candidates.reshape(-1)
    wanted = row >= 0 if allowed is None else (row >= 0) & allowed[np.maximum(row, 0)]
    pairs = np.unique(query[wanted] * np.int64(len(corpus)) + row[wanted])
    query, row = np.divmod(pairs, max(len(corpus), 1))
    scored = _scores(queries, corpus, query, row)
    order = np.lexsort((row, -scored, query))
    query, row, scored = query[order], row[order], scored[order]
    place = np.arange(len(query)) - np.searchsorted(query, query)
    kept = place < k
    scores = np.full((q, k), -np.inf, dtype=np.float32)
    rows = np.full((q, k), -1, dtype=np.int64)
    scores[query[kept], place[kept]] = scored[kept]
    rows[query[kept], place[kept]] = row[kept]
    return scores, rows, np.bincount(query[kept], minlength=q).astype(np.int64)


def _scores(queries: Floats, corpus: Any, query: Ints, row: Ints) -> Floats:
    parts = [np.zeros(0, dtype=np.float32)]
    for start in range(0, len(query), RESCORE_PAIRS):
        left = queries[query[start : start + RESCORE_PAIRS]].astype(np.float64)
        right = np.asarray(corpus[row[start : start + RESCORE_PAIRS]]).astype(np.float64)
        parts.append(np.einsum("pd,pd->p", left, right).astype(np.float32))
    return np.concatenate(parts)


def sample_queries(vectors: Any, num_queries: int, seed: int) -> dict[str, Floats]:
    """Queries to measure an index with, float32 [q, d] each, made of seeded rows that are finite and not zero.

    rows   the rows themselves: each lies in the index, and a graph leads right up to it, so that this alone flatters
    moved  each turned in a random direction until its cosine with the row is MOVED_COSINE, about what a question has
           with the passage that answers it: such a query lies beside the rows, where no edge leads on purpose

    Of 40,000 package descriptions as MiniLM embeds them, ones that were held out were found with a recall between the
    two, for every breadth of an HNSW search: the lesser of the two is on the safe side.
    """
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(vectors), min(num_queries, len(vectors)), replace=False))
    rows = np.asarray(vectors[chosen]).astype(np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    good = np.isfinite(norms[:, 0]) & (norms[:, 0] > 0)
    rows, norms = rows[good], norms[good]
    aside = rng.standard_normal(rows.shape, dtype=np.float32)
    aside -= np.einsum("ij,ij->i", aside, rows)[:, None] / norms**2 * rows  # at right angles to the row
    aside *= norms / np.maximum(np.linalg.norm(aside, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    moved = MOVED_COSINE * rows + np.float32((1 - MOVED_COSINE**2) ** 0.5) * aside
    return {"rows": rows, "moved": moved.astype(np.float32)}


def recall(found: Floats, exact: Floats) -> float:
    """Share of the k best that were found, by score: which of several equal rows it is doesn't matter.

    found, exact  float32 [q, k], scores of the k found and of the k best, descending
    """
    return float((found >= exact[:, -1:] - SCORE_ERROR).mean()) if exact.size else 1.0
