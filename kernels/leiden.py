"""A tree of communities of a weighted undirected graph: those of a level that are too large are split into the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.backend import Backend
from graphmill.kernels.split import Floats, Ints, canonical_edges, split


@dataclass(frozen=True)
class Levels:
    """A tree of communities. Community numbers run through the levels, 0 being the largest of level 0.

    Within a level, larger communities come first, and of equal ones that with the smallest node.
    """

    membership: NDArray[np.int32]
    """int32 [num_levels, n]: each node's community at each level, -1 where its community was not split that far."""
    level: NDArray[np.int32]
    """int32 [c]: 0 is the coarsest."""
    parent: NDArray[np.int32]
    """int32 [c]: the community of the level above, -1 at level 0."""
    size: Ints
    """int64 [c]: number of nodes."""
    final: NDArray[np.bool_]
    """bool [c]: has no children."""
    unsplittable: NDArray[np.bool_]
    """bool [c]: larger than asked for, and final because Leiden finds no better than to keep it whole."""


def leiden_tree(
    source: Ints,
    target: Ints,
    weight: Floats,
    n: int,
    backend: Backend,
    max_cluster_size: int = 10,
    resolution: float = 1.0,
    seed: int = 0,
    max_levels: int = 32,
) -> Levels:
    """Splits a graph into communities, and those larger than ``max_cluster_size`` again, until none is left to split.

    source, target  int64 [m], in [0, n), in any order and orientation; a pair given twice has the sum of its weights
    weight          float64 [m], finite and >= 0; only their proportions count; an edge of weight 0 is no edge

    A node without an edge is a community of its own. Every node is in one community at each level up to its last.
    ``max_levels`` bounds the depth; communities that are still too large there are marked unsplittable as well.
    The same for any order of the edges, given one backend and seed.
    """
    if max_cluster_size < 1 or max_levels < 1 or not resolution > 0:
        raise ValueError(
            "max_cluster_size and max_levels must be >= 1 and resolution > 0, "
            f"got {max_cluster_size}, {max_levels} and {resolution}"
        )
    xp = backend.xp
    edges = canonical_edges(source, target, weight, n, backend)
    part = xp.zeros(n, dtype=np.int64)  # the part that each node belongs to; -1 where there is nothing to split
    number_of_part = xp.full(1, -1, dtype=np.int64)
    membership: list[Any] = []
    levels: list[tuple[Any, Any]] = []
    offset = 0
    too_large = xp.zeros(0, dtype=np.int64)
    while n and len(membership) < max_levels and bool((part >= 0).any()):
        label = split(*edges, part, resolution, seed, backend)
        member, part_of, sizes = _children(part, label, len(number_of_part), keep_whole=not membership, xp=xp)
        if len(sizes) == 0:
            break
        membership.append(xp.where(member >= 0, member + offset, -1))
        levels.append((number_of_part[part_of], sizes))
        large = xp.flatnonzero(sizes > max_cluster_size)
        index = xp.full(len(sizes) + 1, -1, dtype=np.int64)  # the last entry serves member -1
        index[large] = xp.arange(len(large))
        part, number_of_part = index[member], large + offset
        too_large = xp.concatenate([too_large, number_of_part])
        offset += len(sizes)
    return _levels(membership, levels, too_large, n, backend)


def _children(part: Any, label: Any, num_parts: int, keep_whole: bool, xp: Any) -> tuple[Any, Any, Any]:
    """Numbers the communities of a level: larger ones first, then by smallest node.

    returns  member int64 [n], -1 outside of the parts and, unless ``keep_whole``, in a part that stayed in one piece;
    the part of each community; its size
    """
    nodes = xp.flatnonzero(part >= 0)
    span = 2 * len(part)
    key, first, community, sizes = xp.unique(
        part[nodes] * span + label[nodes], return_index=True, return_inverse=True, return_counts=True
    )
    part_of = key // span
    pieces = xp.bincount(part_of, minlength=num_parts)
    whole = (pieces[part_of] < 2) & (not keep_whole)
    order = xp.argsort(first, kind="stable")
    order = order[xp.argsort(-sizes[order], kind="stable")]
    order = order[~whole[order]]
    number = xp.full(len(key), -1, dtype=np.int64)
    number[order] = xp.arange(len(order))
    member = xp.full(len(part), -1, dtype=np.int64)
    member[nodes] = number[community.reshape(-1)]
    return member, part_of[order], sizes[order]


def _levels(membership: list[Any], levels: list[Any], too_large: Any, n: int, backend: Backend) -> Levels:
    rows = [backend.asnumpy(row).astype(np.int32) for row in membership]
    parents = [backend.asnumpy(parent).astype(np.int32) for parent, _ in levels]
    sizes = [backend.asnumpy(size).astype(np.int64) for _, size in levels]
    parent = np.concatenate([np.zeros(0, dtype=np.int32), *parents])
    final = np.ones(len(parent), dtype=np.bool_)
    final[parent[parent >= 0]] = False
    unsplittable = np.zeros(len(parent), dtype=np.bool_)
    unsplittable[backend.asnumpy(too_large)] = True
    return Levels(
        membership=np.stack(rows) if rows else np.zeros((0, n), dtype=np.int32),
        level=np.repeat(np.arange(len(levels), dtype=np.int32), [len(size) for size in sizes]),
        parent=parent,
        size=np.concatenate([np.zeros(0, dtype=np.int64), *sizes]),
        final=final,
        unsplittable=unsplittable & final,
    )
