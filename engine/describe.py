"""One description a node and an edge, and the tokens of the line that a prompt shows of it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.context_rows import entity_lines, line_tokens, relationship_lines
from graphmill.engine.models import Generator, Tokenizer
from graphmill.engine.resolve import ENTITIES, RELATIONSHIPS, Graph
from graphmill.engine.summarise import Summaries, SummariseConfig, draft, summarise


def describe(
    graph: Graph,
    generator: Generator | None,
    tokenizer: Tokenizer,
    config: SummariseConfig,
    languages: Sequence[str],
) -> tuple[pa.Table, pa.Table, Summaries]:
    """A Graph's tables with one description a row -> ENTITIES, RELATIONSHIPS; and what the summaries took.

    languages  of the entities' descriptions, then of the relationships'

    The descriptions of both tables go to the model in one batch. Lines are counted meanwhile as drafted, since few
    descriptions need the model; only the lines that it changed are counted again.
    """
    tables = (graph.entities, graph.relationships)
    names = (
        graph.entities["name"].to_pylist()
        + pc.binary_join_element_wise(graph.relationships["source"], graph.relationships["target"], " - ").to_pylist()
    )
    things = list(zip(names, (notes for table in tables for notes in table["descriptions"].to_pylist()), strict=True))
    drafts = draft(things, tokenizer, config, generator is not None)
    with ThreadPoolExecutor(1) as aside:
        counting = aside.submit(line_tokens, _lines(graph, drafts.descriptions), tokenizer)
        made = summarise(things, generator, tokenizer, config, languages, drafts)
        num_tokens = counting.result()
    changed = np.array(
        [row for row in drafts.unsettled if made.descriptions[row] != drafts.descriptions[row]], np.int64
    )
    num_tokens[changed] = line_tokens(_lines(graph, made.descriptions).take(pa.array(changed)), tokenizer)
    num_entities = graph.entities.num_rows
    return (
        _complete(graph.entities, made.descriptions[:num_entities], num_tokens[:num_entities], ENTITIES),
        _complete(graph.relationships, made.descriptions[num_entities:], num_tokens[num_entities:], RELATIONSHIPS),
        made,
    )


def _lines(graph: Graph, descriptions: Sequence[str]) -> pa.ChunkedArray:
    num_entities = graph.entities.num_rows
    entities = graph.entities.append_column("description", pa.array(descriptions[:num_entities], pa.string()))
    relationships = graph.relationships.append_column("description", pa.array(descriptions[num_entities:], pa.string()))
    return pa.chunked_array([entity_lines(entities), relationship_lines(relationships)], pa.string())


def _complete(table: pa.Table, descriptions: list[str], num_tokens: NDArray[np.int32], schema: pa.Schema) -> pa.Table:
    table = table.append_column("description", pa.array(descriptions, pa.string()))
    return table.append_column("num_tokens", pa.array(num_tokens, pa.int32())).select(schema.names).cast(schema)
