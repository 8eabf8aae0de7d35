"""PageRank of an undirected weighted graph.

S. Brin and L. Page, "The anatomy of a large-scale hypertextual Web search engine", 1998, by power iteration. What
flows in a step is counted in whole units of 2**-52, and sums of whole numbers below 2**53 are exact in float64: the
ranks are the same, bit for bit, in any order of the edges and on any device.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.backend import NUMPY, Backend
from graphmill.kernels.split import canonical_edges

UNIT = 2.0**-52


def pagerank(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    weight: NDArray[np.float64],
    n: int,
    backend: Backend = NUMPY,
    damping: float = 0.85,
    tolerance: float = 1e-6,
    max_iterations: int = 100,
) -> NDArray[np.float64]:
    """The rank of each node, float64 [n]; they sum to 1, but for some 1e-10 of rounding.

    source, target, weight  as for leiden_tree(): pairs in any orientation, weights finite and >= 0, self-loops no edge
    tolerance               the iteration ends when no rank changes by more than this part of the mean rank

    What a node without an edge holds is spread over all nodes.
    """
    if not 0 <= damping < 1:
        raise ValueError(f"damping must be in [0, 1), got {damping}")
    if n == 0:
        return np.zeros(0)
    xp = backend.xp
    low, high, weight = canonical_edges(source, target, weight, n, backend)
    start, end = xp.concatenate([low, high]), xp.concatenate([high, low])
    weight = xp.concatenate([weight, weight])
    strength = xp.bincount(start, weights=weight, minlength=n)
    share = weight / strength[start]
    alone = strength == 0
    rank = xp.full(n, 1.0 / n)
    for _ in range(max_iterations):
        flow = xp.bincount(end, weights=xp.rint(rank[start] * share / UNIT), minlength=n) * UNIT
        spread = float(xp.rint(rank[alone] / UNIT).sum()) * UNIT
        after = (1 - damping) / n + damping * (flow + spread / n)
        change = float(abs(after - rank).max())
        rank = after
        if change <= tolerance / n:
            break
    return backend.asnumpy(rank)


def pagerank_reference(
    source: NDArray[np.int64], target: NDArray[np.int64], weight: NDArray[np.float64], n: int, damping: float = 0.85
) -> NDArray[np.float64]:
    """What pagerank() comes near to: the solution of its equations, by a dense matrix [n, n]."""
    step = np.zeros((n, n))
    for a, b, value in zip(source.tolist(), target.tolist(), weight.tolist(), strict=True):
        if a != b:
            step[b, a] += value
            step[a, b] += value
    total = step.sum(axis=0)
    step = np.where(total > 0, step / np.where(total > 0, total, 1), 1 / n)
    found = np.linalg.solve(np.eye(n) - damping * step, np.full(n, (1 - damping) / n))
    return np.asarray(found)
