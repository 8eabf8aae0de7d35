"""Rankings of different channels to one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RRF_CONSTANT = 60
"""Cormack, Clarke and Büttcher, SIGIR 2009: large enough that the top ranks of one channel don't decide alone."""


def reciprocal_rank_fusion(
    rankings: Sequence[NDArray[np.int64]], weights: Sequence[float], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k rows with the largest sum of weight / (60 + rank) over the rankings, rank counted from 1.

    rankings  int64 [<=n] each, best first, no row twice in one
    returns   rows int64 [<=k], scores float32 [<=k], descending; ties go to the lower row
    """
    rows = np.concatenate([*rankings, np.empty(0, np.int64)])
    shares = np.concatenate(
        [w / (RRF_CONSTANT + np.arange(1, len(r) + 1)) for r, w in zip(rankings, weights, strict=True)] + [np.empty(0)]
    )
    distinct, place = np.unique(rows, return_inverse=True)
    scores = np.bincount(place, weights=shares, minlength=len(distinct))
    order = np.lexsort((distinct, -scores))[:k]
    return distinct[order], scores[order].astype(np.float32)
