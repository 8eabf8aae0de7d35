"""One level of communities: every part of a graph split in a single Leiden call.

Why one call is enough: drop the edges between the parts, scale each part's weights so that they sum to 1, and run
Leiden once on the disjoint union of the C parts with resolution gamma * C. A community of inner weight L and degree sum
K adds L/C - gamma * C * (K / 2C)^2 to the union's modularity, which is 1/C times L - gamma * (K/2)^2, what it adds to
the modularity of its own part at gamma. Parts share no edge, so no community gains by spanning two.

Weights are whole numbers of a unit small enough to keep 50 bits of their sum, held in float64. Every sum that a Leiden
makes of them is exact, so it is the same in any order of the edges and of a GPU's atomic additions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.backend import Backend
from graphmill.kernels.rank import adjacency

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

UNIT_BITS = 50  # sums of both directions of all edges stay below 2**53, where float64 still counts in ones
MAX_PARTS = 1 << 17  # more are done in several unions: each part keeps 2**33 units; cuGraph may bound the resolution
RANDOMNESS = 0.001  # graspologic's default; it is measured against weights whose mean is about 1
ITERATIONS = 2  # the second adds 1.2 % modularity on small random graphs, a third 0.2 %
CUGRAPH_MAX_LEVEL = 100  # cuGraph's own default, as is theta
CUGRAPH_THETA = 1.0


def canonical_edges(source: Ints, target: Ints, weight: Floats, n: int, backend: Backend) -> tuple[Any, Any, Any]:
    """One row a pair of nodes, source < target, ascending, weights in whole units; self-loops are dropped.

    returns  source int64 [e], target int64 [e], weight float64 [e], as arrays of the backend
    """
    xp = backend.xp
    source, target, weight = xp.asarray(source), xp.asarray(target), xp.asarray(weight, dtype=np.float64)
    if not (source.shape == target.shape == weight.shape and source.ndim == 1):
        raise ValueError(f"edges must be of one length, got shapes {source.shape}, {target.shape}, {weight.shape}")
    if source.size and (int(min(source.min(), target.min())) < 0 or int(max(source.max(), target.max())) >= n):
        raise ValueError(f"node numbers of edges must be in [0, n={n})")
    if n >= 1 << 31:
        raise ValueError(f"n must be below 2**31, got {n}")
    if source.size and not bool((xp.isfinite(weight) & (weight >= 0)).all()):
        raise ValueError("weights must be finite and >= 0")
    edge = xp.flatnonzero((source != target) & (weight > 0))
    source, target, weight = source[edge].astype(np.int64), target[edge].astype(np.int64), weight[edge]
    key = xp.minimum(source, target) * n + xp.maximum(source, target)
    key, pair = xp.unique(key, return_inverse=True)
    weight = xp.bincount(pair.reshape(-1), weights=_units(weight, xp), minlength=len(key))
    return key // max(n, 1), key % max(n, 1), weight


def split(source: Any, target: Any, weight: Any, part: Any, resolution: float, seed: int, backend: Backend) -> Any:
    """Splits every part into communities, in one Leiden call on the disjoint union of the parts (see above).

    source, target, weight  canonical_edges() of the whole graph
    part                    int64 [n], the part that each node belongs to, -1 for none
    returns                 int64 [n], a label for each node of a part; those of different parts have nothing to do
                            with each other. A node without an edge inside its part has a label of its own.
    """
    xp = backend.xp
    n, num_parts = len(part), int(part.max()) + 1
    label = len(part) + xp.arange(n)
    for first in range(0, num_parts, MAX_PARTS):
        edge_part = xp.where(part[source] == part[target], part[source], -1) - first
        inside = xp.flatnonzero((edge_part >= 0) & (edge_part < MAX_PARTS))
        if len(inside) == 0:
            continue
        start, end, edge_part = source[inside], target[inside], edge_part[inside]
        total = xp.bincount(edge_part, weights=weight[inside])
        num_edged = int((total > 0).sum())
        share = weight[inside] * (2.0**UNIT_BITS / num_edged) / total[edge_part]
        seen = xp.zeros(n, dtype=np.bool_)
        seen[start] = True
        seen[end] = True
        nodes = xp.flatnonzero(seen)
        place = xp.cumsum(seen) - 1
        run = _leiden_cpu if backend.name == "cpu" else _leiden_cuda
        mean_one = 2.0 ** (len(inside).bit_length() - UNIT_BITS)  # a power of two, so that nothing is rounded
        share = xp.maximum(xp.rint(share), 1.0) * mean_one
        label[nodes] = run(place[start], place[end], share, len(nodes), resolution * num_edged, seed)
    return label


def split_reference(source: Ints, target: Ints, weight: Floats, part: Ints, resolution: float, seed: int) -> Ints:
    """What split() must equal in modularity: a Leiden run for each part on its own."""
    import graspologic_native

    label = len(part) + np.arange(len(part))
    for number in range(int(part.max()) + 1):
        neighbours: dict[int, dict[int, float]] = {}
        for start, end, value in zip(source.tolist(), target.tolist(), weight.tolist(), strict=True):
            if part[start] == part[end] == number:
                neighbours.setdefault(start, {})[end] = value
                neighbours.setdefault(end, {})[start] = value
        nodes = sorted(neighbours)
        if not nodes:
            continue
        place = {node: row for row, node in enumerate(nodes)}
        rows = [neighbours[node] for node in nodes]
        data = np.array([value for row in rows for value in row.values()])
        indices = np.array([place[end] for row in rows for end in row], dtype=np.int32)
        indptr = np.cumsum([0, *map(len, rows)])
        _, found = graspologic_native.leiden_csr(
            indptr, indices, data / data.mean(), len(nodes), resolution, RANDOMNESS, ITERATIONS, seed=seed
        )
        label[nodes] = [found[row] for row in range(len(nodes))]
    return label


def modularity(source: Ints, target: Ints, weight: Floats, label: Ints, resolution: float = 1.0) -> float:
    """Sum over communities of L/m - resolution * (K/2m)^2: L inner weight, K degree sum, m weight of all edges."""
    source, target, total = np.asarray(source), np.asarray(target), float(np.sum(weight))
    if total == 0:
        return 0.0
    _, label = np.unique(label, return_inverse=True)
    inner = np.bincount(label[source], weights=weight * (label[source] == label[target]), minlength=label.max() + 1)
    degrees = sum(np.bincount(label[ends], weights=weight, minlength=label.max() + 1) for ends in (source, target))
    return float(np.sum(inner / total - resolution * (degrees / (2 * total)) ** 2))


def _units(weight: Any, xp: Any) -> Any:
    """Weights as whole numbers of a unit that is a power of two: exact where they have few bits, and never below 1."""
    if weight.size == 0:
        return weight
    weight = xp.ldexp(weight, -math.frexp(float(weight.max()))[1])
    total = float(xp.sort(weight).sum())  # sorted, so that the sum is that of any order
    return xp.maximum(xp.rint(weight * 2.0 ** (UNIT_BITS - math.frexp(total)[1])), 1.0)


def _leiden_cpu(source: Any, target: Any, weight: Any, n: int, resolution: float, seed: int) -> Any:
    import graspologic_native

    indptr, neighbour, edge = adjacency(source, target, n)
    _, found = graspologic_native.leiden_csr(
        indptr, neighbour.astype(np.int32), weight[edge], n, resolution, RANDOMNESS, ITERATIONS, seed=seed
    )
    label = np.empty(n, dtype=np.int64)
    label[np.fromiter(found.keys(), dtype=np.int64, count=n)] = np.fromiter(found.values(), dtype=np.int64, count=n)
    return label


def _leiden_cuda(source: Any, target: Any, weight: Any, n: int, resolution: float, seed: int) -> Any:
    import cupy
    import pylibcugraph

    handle = pylibcugraph.ResourceHandle()
    graph = pylibcugraph.SGGraph(
        resource_handle=handle,
        graph_properties=pylibcugraph.GraphProperties(is_symmetric=True, is_multigraph=False),
        src_or_offset_array=cupy.concatenate([source, target]).astype(cupy.int32),
        dst_or_index_array=cupy.concatenate([target, source]).astype(cupy.int32),
        weight_array=cupy.concatenate([weight, weight]),
        store_transposed=False,
        renumber=True,  # cuGraph wants its vertices by degree
        do_expensive_check=False,
    )
    vertices, found, _ = pylibcugraph.leiden(
        resource_handle=handle,
        random_state=seed,
        graph=graph,
        max_level=CUGRAPH_MAX_LEVEL,
        resolution=resolution,
        theta=CUGRAPH_THETA,
        do_expensive_check=False,
    )
    label = cupy.empty(n, dtype=cupy.int64)
    label[vertices] = found
    return label
