"""describe: one description a row, and the tokens of its line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from graphmill.engine.context_rows import entity_lines, line_tokens, relationship_lines
from graphmill.engine.describe import describe
from graphmill.engine.function_models import FunctionGenerator
from graphmill.engine.resolve import Graph
from graphmill.engine.summarise import SummariseConfig
from graphmill.engine.tokenizers import WordTokenizer


def _graph() -> Graph:
    entities = pa.table(
        {
            "entity_id": ["a", "b", "c"],
            "key": ["ada", "babbage", "engine"],
            "name": ["Ada", "Babbage", "Engine"],
            "type": ["PERSON", "PERSON", "TECHNOLOGY"],
            "descriptions": [[f"Fact number {n} about Ada." for n in range(9)], ["He built it."], []],
            "chunk_ids": [["x"], ["x"], ["y"]],
            "num_chunks": [1, 1, 1],
            "degree": [1, 2, 1],
            "rank": [1.0, 2.0, 1.0],
        }
    )
    relationships = pa.table(
        {
            "relationship_id": ["r"],
            "source_id": ["a"],
            "target_id": ["b"],
            "source": ["Ada"],
            "target": ["Babbage"],
            "descriptions": [[f"Letter {n} went to and fro." for n in range(9)]],
            "keywords": [["letters"]],
            "weight": [9.0],
            "combined_degree": [3],
            "rank": [3.0],
            "chunk_ids": [["x"]],
        }
    )
    return Graph(entities, relationships)


def test_token_counts_are_those_of_the_lines_as_they_end_up() -> None:
    model = FunctionGenerator(lambda request: f"A summary of some words for {request.id}.")
    tokens = WordTokenizer()
    entities, relationships, made = describe(_graph(), model, tokens, SummariseConfig(), lambda ids: ["en"] * len(ids))
    assert made.num_summarised == 2
    assert entities["description"].to_pylist()[1:] == ["He built it.", ""]
    assert entities["description"][0].as_py().startswith("A summary")
    assert relationships["description"][0].as_py().startswith("A summary")
    np.testing.assert_array_equal(entities["num_tokens"], line_tokens(entity_lines(entities), tokens))
    np.testing.assert_array_equal(relationships["num_tokens"], line_tokens(relationship_lines(relationships), tokens))


def test_an_empty_graph_has_no_rows() -> None:
    graph = _graph()
    entities, relationships, _ = describe(
        Graph(graph.entities.slice(0, 0), graph.relationships.slice(0, 0)),
        None,
        WordTokenizer(),
        SummariseConfig(),
        lambda ids: [],
    )
    assert entities.num_rows == relationships.num_rows == 0
