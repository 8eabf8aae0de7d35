"""Entities and relationships to a tree of communities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.rows import Lists, id_lists, list_column, rows_of
from graphmill.kernels.backend import Backend
from graphmill.kernels.leiden import leiden_tree

COMMUNITIES = pa.schema(
    [
        ("community_id", pa.string()),
        ("community", pa.int32()),
        ("level", pa.int32()),
        ("parent", pa.int32()),
        ("children", pa.list_(pa.int32())),
        ("entity_ids", pa.list_(pa.string())),
        ("relationship_ids", pa.list_(pa.string())),
        ("chunk_ids", pa.list_(pa.string())),
        ("size", pa.int32()),
        ("occurrence", pa.float64()),
    ]
)
"""One row a community, by number. Level 0 is the coarsest, parent is -1 there; chunks are in the order of documents.

``relationship_ids`` are those with both ends inside, ``occurrence`` its chunks over the most chunks of any community.
"""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ClusterConfig:
    """How finely the graph is cut."""

    max_cluster_size: int = 10
    resolution: float = 1.0
    seed: int = 0xDEADBEEF
    """nano-graphrag's and graphrag's default seed."""

    def __post_init__(self) -> None:
        if self.max_cluster_size < 1:
            raise ValueError(f"cluster.max_cluster_size must be at least 1, got {self.max_cluster_size}")
        if not 0 < self.resolution < math.inf:
            raise ValueError(f"cluster.resolution must be above 0 and finite, got {self.resolution}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"cluster.seed must be in [0, 2**32), got {self.seed}")


def cluster(
    entities: pa.Table, relationships: pa.Table, chunk_ids: pa.Array, config: ClusterConfig, backend: Backend
) -> pa.Table:
    """ENTITIES, RELATIONSHIPS -> COMMUNITIES. ``chunk_ids`` are all chunks in the order of their documents.

    Every entity is in one community at each level up to its last; one without a relationship is a community of its own.
    """
    entity_ids = entities["entity_id"].combine_chunks()
    source, target = (rows_of(relationships[name], entity_ids) for name in ("source_id", "target_id"))
    weight = relationships["weight"].to_numpy().astype(np.float64)
    tree = leiden_tree(
        source, target, weight, len(entity_ids), backend, config.max_cluster_size, config.resolution, config.seed
    )
    num = len(tree.level)
    members = _members(tree.membership, num)
    inner = _inner_edges(tree.membership, source, target, num)
    mentions = id_lists(entities["chunk_ids"], chunk_ids)
    edge_mentions = id_lists(relationships["chunk_ids"], chunk_ids)
    chunks = _chunks(members, inner, mentions, edge_mentions, len(chunk_ids))
    num_chunks = np.diff(chunks.offsets)
    child_order = np.flatnonzero(tree.parent >= 0)
    child_order = child_order[np.argsort(tree.parent[child_order], kind="stable")]
    child_offsets = np.searchsorted(tree.parent[child_order], np.arange(num + 1))
    return pa.table(
        {
            "community_id": _community_ids(members, entity_ids),
            "community": np.arange(num, dtype=np.int32),
            "level": tree.level,
            "parent": tree.parent,
            "children": pa.ListArray.from_arrays(child_offsets.astype(np.int32), child_order.astype(np.int32)),
            "entity_ids": list_column(members, entity_ids),
            "relationship_ids": list_column(inner, relationships["relationship_id"].combine_chunks()),
            "chunk_ids": list_column(chunks, chunk_ids),
            "size": tree.size.astype(np.int32),
            "occurrence": num_chunks / max(int(num_chunks.max(initial=0)), 1),
        },
        schema=COMMUNITIES,
    )


def _members(membership: NDArray[np.int32], num: int) -> Lists:
    """Entity rows of each community, ascending."""
    level, entity = np.nonzero(membership >= 0)
    return _grouped(membership[level, entity].astype(np.int64), entity.astype(np.int64), num)


def _inner_edges(membership: NDArray[np.int32], source: Ints, target: Ints, num: int) -> Lists:
    """Relationship rows with both ends in each community, ascending."""
    inside = (membership[:, source] == membership[:, target]) & (membership[:, source] >= 0)
    level, edge = np.nonzero(inside)
    return _grouped(membership[level, source[edge]].astype(np.int64), edge.astype(np.int64), num)


def _chunks(members: Lists, inner: Lists, mentions: Lists, edge_mentions: Lists, num_chunks: int) -> Lists:
    """Distinct chunk rows of the entities and inner relationships of each community, ascending."""
    keys = []
    for rows, chunks_of in ((members, mentions), (inner, edge_mentions)):
        community = np.repeat(np.arange(len(rows), dtype=np.int64), np.diff(rows.offsets))
        keys.append(np.repeat(community, chunks_of.lengths(rows.values)) * num_chunks + chunks_of.gather(rows.values))
    key = np.unique(np.concatenate(keys))
    offsets = np.searchsorted(key, np.arange(len(members) + 1, dtype=np.int64) * num_chunks)
    return Lists(offsets.astype(np.int64), key % max(num_chunks, 1))


def _grouped(group: Ints, values: Ints, num: int) -> Lists:
    order = np.lexsort((values, group))
    return Lists(np.searchsorted(group[order], np.arange(num + 1)).astype(np.int64), values[order])


def _community_ids(members: Lists, entity_ids: pa.Array) -> Any:
    """Sum of the members' ids as 128-bit numbers, half by half: of the members alone, in any order."""
    if not len(members):
        return pa.array([], pa.string())
    halves = np.frombuffer(bytes.fromhex("".join(entity_ids.to_pylist())), dtype=">u8").reshape(-1, 2)
    sums = np.add.reduceat(halves[members.values].astype(np.uint64), members.offsets[:-1], axis=0)
    digits = sums.astype(">u8").tobytes().hex()
    return pa.array([digits[i : i + 32] for i in range(0, len(digits), 32)], pa.string())


def largest_first(communities: pa.Table) -> pa.Table:
    """Communities by size, the largest first."""
    return communities.take(pc.sort_indices(communities, [("size", "descending"), ("community", "ascending")]))
