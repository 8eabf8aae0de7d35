"""Merging: cases M01, M02, M03, M05 and M07, and that nothing depends on order."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.engine.extract import EXTRACTIONS
from graphmill.engine.names import name_key
from graphmill.engine.resolve import Graph, resolve
from graphmill.kernels.backend import backend


def entity(name: str, kind: str, description: str, text: str) -> dict[str, Any]:
    return {"text_id": text, "kind": "entity", "name": name, "type": kind.upper(), "description": description}


def edge(source: str, target: str, description: str, strength: float, text: str, *keywords: str) -> dict[str, Any]:
    return {
        "text_id": text, "kind": "relationship", "name": source, "target": target, "description": description,
        "strength": float(strength), "keywords": list(keywords),
    }  # fmt: skip


def graph(rows: list[dict[str, Any]], chunks: list[tuple[str, str]] | None = None) -> Graph:
    """Resolves records; chunks are (chunk id, text id) in order, by default one a text, of the same name."""
    number: dict[str, int] = {}
    full = []
    for row in rows:
        record = number[row["text_id"]] = number.get(row["text_id"], -1) + 1
        blank = {"record": record, "type": "", "target": "", "keywords": [], "strength": 0.0}
        full.append(blank | row | {"key": name_key(row["name"]), "target_key": name_key(row.get("target", ""))})
    chunks = chunks or [(text, text) for text in sorted({row["text_id"] for row in rows})]
    table = pa.table({"chunk_id": [c for c, _ in chunks], "text_id": [t for _, t in chunks]})
    return resolve(pa.Table.from_pylist(full, schema=EXTRACTIONS), table, backend("cpu"))


def by_name(table: pa.Table) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in table.to_pylist()}


def test_spellings_of_one_name_are_one_entity_under_the_most_frequent_or_earliest() -> None:
    rows = [
        entity("Alice Smith", "person", "d1", "c1"),
        entity("ALICE  SMITH", "person", "d2", "c2"),
        entity(" alice smith ", "Person", "d1", "c3"),
    ]
    (row,) = graph(rows).entities.to_pylist()
    assert (row["name"], row["type"]) == ("Alice Smith", "PERSON")
    assert row["descriptions"] == ["d1", "d2"]
    assert row["chunk_ids"] == ["c1", "c2", "c3"]


def test_a_pair_is_one_row_with_the_largest_strength_a_chunk_summed_over_chunks() -> None:
    rows = [edge("A", "B", "d1", 5, "c1"), edge("B", "A", "d2", 3, "c2"), edge("A", "B", "d1", 5, "c1")]
    (row,) = graph(rows).relationships.to_pylist()
    assert (row["source"], row["target"], row["weight"]) == ("A", "B", 8.0)
    assert row["descriptions"] == ["d1", "d2"]
    assert row["chunk_ids"] == ["c1", "c2"]


def test_the_majority_type_wins_and_no_description_is_lost() -> None:
    rows = [
        entity("Washington", "person", "first US president", "c1"),
        entity("Washington", "geo", "US capital", "c2"),
        entity("Washington", "geo", "seat of government", "c3"),
    ]
    (row,) = graph(rows).entities.to_pylist()
    assert row["type"] == "GEO"
    assert row["descriptions"] == ["first US president", "US capital", "seat of government"]
    assert row["chunk_ids"] == ["c1", "c2", "c3"]


def test_reading_the_same_chunk_twice_changes_nothing() -> None:
    rows = [entity("A", "t", "d1", "c1"), edge("A", "B", "e1", 1, "c1")]
    once, twice = graph(rows), graph(rows + rows)
    assert once.relationships.equals(twice.relationships)
    assert by_name(twice.entities)["A"]["descriptions"] == ["d1"]
    assert twice.relationships["weight"].to_pylist() == [1.0]
    assert twice.relationships["chunk_ids"].to_pylist() == [["c1"]]


def test_an_end_that_was_never_described_becomes_an_entity_with_the_relationships_description() -> None:
    found = graph([entity("A", "t", "d1", "c1"), edge("A", "Ghost", "A knows Ghost", 2, "c1")])
    ghost = by_name(found.entities)["Ghost"]
    assert (ghost["type"], ghost["descriptions"], ghost["chunk_ids"]) == ("UNKNOWN", ["A knows Ghost"], ["c1"])
    assert ghost["degree"] == 1
    assert found.relationships["source"].to_pylist() == ["A"]


def test_a_text_that_stands_in_two_documents_counts_in_both() -> None:
    found = graph(
        [entity("A", "t", "d", "text"), edge("A", "B", "e", 4, "text")], [("doc1-0", "text"), ("doc2-0", "text")]
    )
    assert by_name(found.entities)["A"]["chunk_ids"] == ["doc1-0", "doc2-0"]
    assert found.relationships["weight"].to_pylist() == [8.0]


def test_texts_that_no_document_holds_any_more_leave_nothing_behind() -> None:
    rows = [entity("A", "t", "d", "kept"), entity("Gone", "t", "d", "dropped"), edge("Gone", "A", "e", 1, "dropped")]
    found = graph(rows, [("c", "kept")])
    assert found.entities["name"].to_pylist() == ["A"]
    assert found.relationships.num_rows == 0


def test_degrees_count_distinct_neighbours_and_ranks_add_both_ends() -> None:
    found = graph([edge("A", "B", "", 1, "c1"), edge("A", "C", "", 1, "c1"), edge("B", "A", "", 1, "c2")])
    assert {row["name"]: row["degree"] for row in found.entities.to_pylist()} == {"A": 2, "B": 1, "C": 1}
    assert set(found.relationships["combined_degree"].to_pylist()) == {3}


def test_no_extractions_give_an_empty_graph() -> None:
    found = graph([], [("c", "t")])
    assert found.entities.num_rows == found.relationships.num_rows == 0


NAMES = st.sampled_from(["Ada", "ADA", " ada ", "Bob", "“Bob”", "Cy"])
RECORDS = st.one_of(
    st.builds(
        entity, NAMES, st.sampled_from(["person", "geo"]), st.sampled_from(["d1", "d2", ""]), st.sampled_from("xyz")
    ),
    st.builds(
        edge,
        st.just("Ada"),
        st.sampled_from(["Bob", "Cy", "Dee"]),
        st.sampled_from(["e", ""]),
        st.integers(1, 9),
        st.sampled_from("xyz"),
    ),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(RECORDS, max_size=12), st.integers(0, 2**32 - 1))
def test_merging_does_not_depend_on_the_order_in_which_texts_were_read(rows: list[dict[str, Any]], seed: int) -> None:
    texts = ["x", "y", "z"]
    random.Random(seed).shuffle(texts)
    mixed = sorted(rows, key=lambda row: texts.index(row["text_id"]))
    chunks = [(text, text) for text in "xyz"]
    one, two = graph(rows, chunks), graph(mixed, chunks)
    assert one.entities.equals(two.entities)
    assert one.relationships.equals(two.relationships)
