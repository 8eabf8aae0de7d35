"""Degrees of a graph, which rank its nodes and edges, and its adjacency lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.backend import NUMPY, Backend

Ints = NDArray[np.int64]


def degree(source: Ints, target: Ints, n: int, backend: Backend = NUMPY) -> Ints:
    """Number of distinct neighbours of each node, int64 [n].

    source, target  int64 [m], node numbers in [0, n), in any orientation. A self-loop makes no neighbour, and a pair
    given twice counts once.
    """
    xp = backend.xp
    low, high = _pairs(source, target, n, xp)
    key = xp.unique(low * n + high)
    counts = xp.bincount(key // max(n, 1), minlength=n) + xp.bincount(key % max(n, 1), minlength=n)
    return backend.asnumpy(counts).astype(np.int64)


def combined_degree(source: Ints, target: Ints, n: int, backend: Backend = NUMPY) -> Ints:
    """Sum of the degrees of both ends of each edge, int64 [m]."""
    degrees = degree(source, target, n, backend)
    return degrees[np.asarray(source)] + degrees[np.asarray(target)]


def adjacency(source: Ints, target: Ints, n: int, backend: Backend = NUMPY) -> tuple[Ints, Ints, Ints]:
    """Neighbours of every node in CSR form: those of node v are neighbour[indptr[v]:indptr[v + 1]].

    source, target  int64 [m]
    returns  indptr int64 [n + 1]; neighbour int64 [2m]; edge int64 [2m], the row of the edge that leads there. The
    neighbours of a node ascend, those of several edges by edge. Self-loops are left out.
    """
    xp = backend.xp
    source, target = _checked(source, target, n, xp)
    edge = xp.flatnonzero(source != target)
    source, target = source[edge], target[edge]
    start = xp.stack([source, target], axis=1).reshape(-1)  # both ways of an edge side by side, so that edges ascend
    end = xp.stack([target, source], axis=1).reshape(-1)
    edge = edge[xp.arange(len(start)) // 2]
    order = xp.argsort(start * n + end, kind="stable")
    counts = xp.bincount(start, minlength=n)
    indptr = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(counts)])
    return backend.asnumpy(indptr), backend.asnumpy(end[order]), backend.asnumpy(edge[order])


def _pairs(source: Any, target: Any, n: int, xp: Any) -> tuple[Any, Any]:
    source, target = _checked(source, target, n, xp)
    apart = source != target
    source, target = source[apart], target[apart]
    return xp.minimum(source, target), xp.maximum(source, target)


def _checked(source: Any, target: Any, n: int, xp: Any) -> tuple[Any, Any]:
    source, target = xp.asarray(source, dtype=np.int64), xp.asarray(target, dtype=np.int64)
    if source.shape != target.shape or source.ndim != 1:
        raise ValueError(f"source and target must be of one length, got shapes {source.shape} and {target.shape}")
    if n >= 1 << 31:
        raise ValueError(f"n must be below 2**31, so that a pair of nodes fits 64 bits, got {n}")
    if source.size:
        lowest = int(min(source.min(), target.min()))
        highest = int(max(source.max(), target.max()))
        if lowest < 0 or highest >= n:
            raise ValueError(f"node numbers must be in [0, n={n}), got {lowest if lowest < 0 else highest}")
    return source, target
