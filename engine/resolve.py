"""Extractions to a graph: one row an entity, one row a pair of entities, whatever chunks they were read in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.ids import content_ids
from graphmill.engine.rows import Lists, list_column, lists_by
from graphmill.kernels.backend import Backend
from graphmill.kernels.merge import MENTIONS, PAIRS, UNKNOWN, merge_mentions, merge_pairs
from graphmill.kernels.merge_parts import merge_in_parts
from graphmill.kernels.pagerank import pagerank
from graphmill.kernels.rank import degree

ENTITIES = pa.schema(
    [
        ("entity_id", pa.string()),
        ("key", pa.string()),
        ("name", pa.string()),
        ("type", pa.string()),
        ("descriptions", pa.list_(pa.string())),
        ("description", pa.string()),
        ("chunk_ids", pa.list_(pa.string())),
        ("num_chunks", pa.int32()),
        ("degree", pa.int32()),
        ("rank", pa.float64()),
        ("num_tokens", pa.int32()),
    ]
)
"""One row an entity, sorted by id.

``rank`` orders entities wherever only some fit; ``descriptions`` are all that were read, ``description`` the one that
is shown; ``num_tokens`` counts the entity's line in a context.
"""

RELATIONSHIPS = pa.schema(
    [
        ("relationship_id", pa.string()),
        ("source_id", pa.string()),
        ("target_id", pa.string()),
        ("source", pa.string()),
        ("target", pa.string()),
        ("descriptions", pa.list_(pa.string())),
        ("description", pa.string()),
        ("keywords", pa.list_(pa.string())),
        ("weight", pa.float64()),
        ("chunk_ids", pa.list_(pa.string())),
        ("combined_degree", pa.int32()),
        ("rank", pa.float64()),
        ("num_tokens", pa.int32()),
    ]
)
"""One row an undirected pair, sorted by id; the source is the end whose key sorts first. ``rank`` is the sum of both
ends' ranks."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ResolveConfig:
    """How records become entities."""

    max_per_entity: int = 16
    """Strongest co-occurrences that each entity keeps, where the phrase finder reads."""
    rank: Literal["degree", "pagerank"] = "degree"
    """What entities and relationships are ranked by."""
    max_merge_bytes: int = 0
    """Memory that merging may take at a time: larger tables are merged part by part. 0 is half of what the device has
    free, and no limit on the CPU."""

    def __post_init__(self) -> None:
        if self.max_per_entity < 1:
            raise ValueError(f"resolve.max_per_entity must be at least 1, got {self.max_per_entity}")
        if self.max_merge_bytes < 0:
            raise ValueError(f"resolve.max_merge_bytes must be at least 0, got {self.max_merge_bytes}")


DEFAULTS = ResolveConfig()


@dataclass(frozen=True)
class Graph:
    """Merged entities and relationships, their descriptions not yet made one."""

    entities: pa.Table = field(repr=False)
    """ENTITIES without description and num_tokens."""
    relationships: pa.Table = field(repr=False)
    """RELATIONSHIPS without description and num_tokens."""


def resolve(
    extractions: pa.Table,
    chunks: pa.Table,
    backend: Backend,
    weights: pa.Table | None = None,
    config: ResolveConfig = DEFAULTS,
) -> Graph:
    """EXTRACTIONS and the chunks they were read in -> merged entities and relationships.

    chunks   chunk_id and text_id of every chunk, in the order of documents; a text of two chunks counts in both
    weights  source_key, target_key, weight of every pair, where it isn't the sum of strengths that makes it

    The same for any order of the extractions. An end of a relationship that no record describes becomes an entity of
    type UNKNOWN with the relationship's description.
    """
    text_ids = pc.unique(chunks["text_id"])
    text_of_chunk = pc.index_in(chunks["text_id"].combine_chunks(), value_set=text_ids).to_numpy().astype(np.int64)
    places = lists_by(text_of_chunk, len(text_ids))
    extractions = extractions.filter(pc.is_in(extractions["text_id"], value_set=text_ids))
    extractions = _large(extractions)
    described = extractions.filter(pc.equal(extractions["kind"], "entity"))
    related = extractions.filter(pc.equal(extractions["kind"], "relationship"))
    keys = _sorted_keys(described["key"], related["key"], related["target_key"])
    limit = config.max_merge_bytes or backend.free_bytes(0.5)
    mentioned = _mentions(described, related, keys, text_ids, places)
    mentions = merge_in_parts(mentioned, "entity", merge_mentions, backend, limit)
    source, target = _codes(related["key"], keys), _codes(related["target_key"], keys)
    paired = _pairs(related, source, target, text_ids, places)
    pairs = merge_in_parts(paired, "source", merge_pairs, backend, limit)
    if weights is not None:
        pairs = _weighed(pairs, weights, keys)
    return _graph(mentions, pairs, keys, chunks["chunk_id"].combine_chunks(), config.rank, backend)


def _large(extractions: pa.Table) -> pa.Table:
    """EXTRACTIONS with texts that may be more than 2 GiB in one column: taking rows puts a column's pieces together."""
    for name in ("name", "type", "target", "description"):
        at = extractions.schema.get_field_index(name)
        extractions = extractions.set_column(at, name, extractions[name].cast(pa.large_string()))
    keywords = extractions["keywords"].cast(pa.list_(pa.large_string()))
    return extractions.set_column(extractions.schema.get_field_index("keywords"), "keywords", keywords)


def _sorted_keys(*columns: pa.ChunkedArray) -> pa.Array:
    """All keys, each once, sorted: a key's place is the code of its entity."""
    keys = pc.unique(pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string()))
    return keys.take(pc.sort_indices(keys))


def _codes(column: Any, values: pa.Array) -> Ints:
    codes = pc.index_in(column, value_set=values)
    codes = codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes
    return np.asarray(codes.to_numpy(zero_copy_only=False)).astype(np.int64)


def _expand(table: pa.Table, text_ids: pa.Array, places: Lists) -> tuple[Ints, Ints]:
    """Rows of a table of records, once for every chunk of their text, and the chunk of each."""
    text = _codes(table["text_id"], text_ids)
    return np.repeat(np.arange(len(text)), places.lengths(text)), places.gather(text)


def _mentions(described: pa.Table, related: pa.Table, keys: pa.Array, text_ids: pa.Array, places: Lists) -> pa.Table:
    """MENTIONS of all entity records, and of the ends of relationships that none of them describes."""
    known = np.zeros(len(keys), bool)
    known[_codes(described["key"], keys)] = True
    parts = [_mention_rows(described, "key", "name", described["type"], keys, text_ids, places)]
    for key, name in (("key", "name"), ("target_key", "target")):
        ends = related.filter(pa.array(~known[_codes(related[key], keys)]))
        parts.append(_mention_rows(ends, key, name, pa.array([UNKNOWN] * ends.num_rows), keys, text_ids, places))
    return pa.concat_tables(parts)


def _mention_rows(
    table: pa.Table, key: str, name: str, types: Any, keys: pa.Array, text_ids: pa.Array, places: Lists
) -> pa.Table:
    rows, order = _expand(table, text_ids, places)
    columns = [_codes(table[key], keys)[rows], order]
    columns += [column.take(rows) for column in (table["record"], types, table[name], table["description"])]
    return pa.table(columns, schema=MENTIONS)


def _pairs(related: pa.Table, source: Ints, target: Ints, text_ids: pa.Array, places: Lists) -> pa.Table:
    rows, order = _expand(related, text_ids, places)
    columns = [np.minimum(source, target)[rows], np.maximum(source, target)[rows], order]
    columns += [related[name].take(rows) for name in ("record", "strength", "description", "keywords")]
    return pa.table(columns, schema=PAIRS)


def _weighed(pairs: pa.Table, weights: pa.Table, keys: pa.Array) -> pa.Table:
    """Pairs with the weights given in the place of their own."""
    number = len(keys) * _codes(weights["source_key"], keys) + _codes(weights["target_key"], keys)
    order = np.argsort(number)
    wanted = len(keys) * pairs["source"].to_numpy() + pairs["target"].to_numpy()
    found = weights["weight"].to_numpy()[order[np.searchsorted(number[order], wanted)]]
    return pairs.set_column(pairs.schema.get_field_index("weight"), "weight", pa.array(found))


def _graph(
    mentions: pa.Table, pairs: pa.Table, keys: pa.Array, chunk_ids: pa.Array, rank: str, backend: Backend
) -> Graph:
    """Codes to ids and names, both tables sorted by id, with their ranks."""
    source, target = pairs["source"].to_numpy(), pairs["target"].to_numpy()
    degrees = degree(source, target, len(keys), backend)
    ranks = degrees.astype(np.float64)
    if rank == "pagerank":
        ranks = pagerank(source, target, pairs["weight"].to_numpy(), len(keys), backend)
    # Every code has a mention: an entity record, or the relationship whose end it is.
    entity_ids = content_ids("entity", keys)
    relationship_ids = content_ids("relationship", keys.take(pa.array(source)), keys.take(pa.array(target)))
    entities = pa.table(
        {
            "entity_id": entity_ids,
            "key": keys,
            "name": mentions["spelling"],
            "type": mentions["type"],
            "descriptions": mentions["descriptions"],
            "chunk_ids": _chunk_ids(mentions["chunks"], chunk_ids),
            "num_chunks": pc.list_value_length(mentions["chunks"]).cast(pa.int32()),
            "degree": pa.array(degrees.astype(np.int32)),
            "rank": ranks,
        }
    )
    names = mentions["spelling"]
    relationships = pa.table(
        {
            "relationship_id": relationship_ids,
            "source_id": entity_ids.take(pa.array(source)),
            "target_id": entity_ids.take(pa.array(target)),
            "source": names.take(pa.array(source)),
            "target": names.take(pa.array(target)),
            "descriptions": pairs["descriptions"],
            "keywords": pairs["keywords"],
            "weight": pairs["weight"],
            "chunk_ids": _chunk_ids(pairs["chunks"], chunk_ids),
            "combined_degree": pa.array((degrees[source] + degrees[target]).astype(np.int32)),
            "rank": ranks[source] + ranks[target],
        }
    )
    return Graph(entities.take(pc.sort_indices(entity_ids)), relationships.take(pc.sort_indices(relationship_ids)))


def _chunk_ids(chunks: Any, chunk_ids: pa.Array) -> pa.ChunkedArray:
    """Lists of chunk rows as lists of chunk ids."""
    parts = []
    for part in chunks.chunks if isinstance(chunks, pa.ChunkedArray) else [chunks]:
        lengths = pc.list_value_length(part).to_numpy(zero_copy_only=False).astype(np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        parts.append(list_column(Lists(offsets, part.flatten().to_numpy(zero_copy_only=False)), chunk_ids))
    return pa.chunked_array(parts, pa.list_(pa.string()))
