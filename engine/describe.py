"""One description a node and an edge, and the tokens of the line that a prompt shows of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.context_rows import entity_lines, line_tokens, relationship_lines
from graphmill.engine.models import Generator, Tokenizer
from graphmill.engine.resolve import ENTITIES, RELATIONSHIPS, Graph
from graphmill.engine.summarise import Summaries, SummariseConfig, draft, summarise

_COLUMNS = ("descriptions", "chunk_ids")


def describe(
    graph: Graph,
    generator: Generator | None,
    tokenizer: Tokenizer,
    config: SummariseConfig,
    languages: Callable[[Any], list[str]],
) -> tuple[pa.Table, pa.Table, Summaries]:
    """A Graph's tables with one description a row -> ENTITIES, RELATIONSHIPS; and what the summaries took.

    languages  of rows with these lists of chunk ids

    The descriptions of both tables go to the model in one batch. Lines are counted meanwhile as drafted, since few
    descriptions need the model; only the lines that it changed are counted again.
    """
    rows = pa.concat_tables([_named(graph.entities), _named(graph.relationships)])
    # Most edges are described once, in a sentence: that is their description, and Python needn't see them.
    texts, several = _single(rows["descriptions"], config.max_tokens)
    notes = rows.take(pa.array(several))
    things = list(zip(notes["name"].to_pylist(), notes["descriptions"].to_pylist(), strict=True))
    drafts = draft(things, tokenizer, config, generator is not None)
    drafted = _replaced(texts, several, drafts.descriptions)
    with ThreadPoolExecutor(1) as aside:
        counting = aside.submit(lambda: line_tokens(_lines(graph, drafted), tokenizer))
        made = summarise(things, generator, tokenizer, config, languages(notes["chunk_ids"]), drafts)
        num_tokens = counting.result()
    descriptions = _replaced(texts, several, made.descriptions)
    changed = np.flatnonzero(pc.not_equal(drafted, descriptions).to_numpy(zero_copy_only=False))
    num_tokens[changed] = line_tokens(_lines(graph, descriptions, changed), tokenizer)
    num_entities = graph.entities.num_rows
    return (
        _complete(graph.entities, descriptions[:num_entities], num_tokens[:num_entities], ENTITIES),
        _complete(graph.relationships, descriptions[num_entities:], num_tokens[num_entities:], RELATIONSHIPS),
        made,
    )


def _named(table: pa.Table) -> pa.Table:
    """What a summary is made from, of either table."""
    pair = "source" in table.column_names
    name = pc.binary_join_element_wise(table["source"], table["target"], " - ") if pair else table["name"]
    return table.select(_COLUMNS).append_column("name", name)


def _single(lists: pa.ChunkedArray, max_tokens: int) -> tuple[pa.Array, NDArray[np.int64]]:
    """The description of each row that has just one, which is sure to be short enough, string [n]; "" for the others;
    and the others' rows."""
    lengths = pc.list_value_length(lists)
    first = pc.list_element(pc.if_else(pc.equal(lengths, 1), lists, pa.scalar([""], lists.type)), 0).combine_chunks()
    short = pc.less_equal(pc.binary_length(first), max_tokens)  # a token is a byte at least
    single = pc.and_(pc.equal(lengths, 1), short).combine_chunks()
    texts = pc.utf8_trim_whitespace(pc.if_else(single, first, ""))
    return texts, np.flatnonzero(~single.to_numpy(zero_copy_only=False))


def _replaced(texts: pa.Array, rows: NDArray[np.int64], descriptions: list[str]) -> pa.Array:
    """The texts with these descriptions in their rows."""
    mask = np.zeros(len(texts), bool)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(descriptions, pa.string()))


def _lines(graph: Graph, descriptions: pa.Array, rows: NDArray[np.int64] | None = None) -> pa.ChunkedArray:
    """Lines of all entities and relationships, or of those of these ascending rows."""
    entities, relationships = graph.entities, graph.relationships
    split = entities.num_rows
    of_entities, of_relationships = descriptions[:split], descriptions[split:]
    if rows is not None:
        first, second = pa.array(rows[rows < split]), pa.array(rows[rows >= split] - split)
        entities, of_entities = entities.take(first), of_entities.take(first)
        relationships, of_relationships = relationships.take(second), of_relationships.take(second)
    lines = [
        entity_lines(entities.append_column("description", of_entities)),
        relationship_lines(relationships.append_column("description", of_relationships)),
    ]
    return pa.chunked_array(lines, pa.string())


def _complete(table: pa.Table, descriptions: pa.Array, num_tokens: NDArray[np.int32], schema: pa.Schema) -> pa.Table:
    table = table.append_column("description", descriptions)
    return table.append_column("num_tokens", pa.array(num_tokens, pa.int32())).select(schema.names).cast(schema)
