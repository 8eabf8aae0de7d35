from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.kernels import lists
from graphmill.kernels.backend import Backend
from graphmill.kernels.merge import (
    MENTIONS,
    MERGED_ENTITIES,
    MERGED_PAIRS,
    PAIRS,
    merge_mentions,
    merge_mentions_reference,
    merge_pairs,
    merge_pairs_reference,
)

Row = dict[str, Any]


@st.composite
def shuffled(draw: st.DrawFn, contents: st.SearchStrategy[Row]) -> tuple[list[Row], list[Row]]:
    """Records of several chunks, and the same ones in another order with some of them repeated."""
    rows = [
        {"order": order, "record": record, **draw(contents)}
        for order in draw(st.lists(st.sampled_from([0, 1, 2, 7, 10**9]), max_size=5, unique=True))
        for record in range(draw(st.integers(0, 5)))
    ]
    repeats = draw(st.lists(st.sampled_from(rows), max_size=5)) if rows else []
    return rows, draw(st.permutations(rows + repeats))


mentions = shuffled(
    st.fixed_dictionaries(
        {
            "entity": st.integers(0, 3),
            "type": st.sampled_from(["GEO", "PERSON", "ORGANIZATION", "UNKNOWN", ""]),
            "spelling": st.sampled_from(["Ada", "ADA", "ada"]),
            "description": st.sampled_from(["", "one", "two", "three", "Zwölf"]),
        }
    )
)
pairs = shuffled(
    st.fixed_dictionaries(
        {
            "source": st.integers(0, 2),
            "target": st.integers(3, 5),
            "strength": st.sampled_from([0.0, 1e-9, 0.1, 1.0, 7.5, 10.0, 1e9]),
            "description": st.sampled_from(["", "one", "two", "three"]),
            "keywords": st.lists(st.sampled_from(["", "a", "b", "cc"]), max_size=3),
        }
    )
)


def table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


def mention(entity: int, order: int, type_: str, spelling: str, description: str, record: int = 0) -> Row:
    place = {"entity": entity, "order": order, "record": record}
    return {**place, "type": type_, "spelling": spelling, "description": description}


def pair(order: int, strength: float, description: str = "", keywords: tuple[str, ...] = (), record: int = 0) -> Row:
    place = {"source": 0, "target": 1, "order": order, "record": record}
    return {**place, "strength": strength, "description": description, "keywords": keywords}


@given(drawn=mentions)
def test_merging_mentions_depends_neither_on_their_order_nor_on_repeats(
    drawn: tuple[list[Row], list[Row]], backend: Backend
) -> None:
    rows, again = drawn
    merged = merge_mentions(table(rows, MENTIONS), backend)
    assert merged.schema == MERGED_ENTITIES
    assert merged == merge_mentions(table(again, MENTIONS), backend)
    assert merged.to_pylist() == merge_mentions_reference(table(rows, MENTIONS))


@given(drawn=pairs)
def test_merging_pairs_depends_neither_on_their_order_nor_on_repeats(
    drawn: tuple[list[Row], list[Row]], backend: Backend
) -> None:
    rows, again = drawn
    merged = merge_pairs(table(rows, PAIRS), backend)
    assert merged.schema == MERGED_PAIRS
    assert merged == merge_pairs(table(again, PAIRS), backend)
    assert merged.to_pylist() == merge_pairs_reference(table(rows, PAIRS))


def test_an_entity_is_shown_under_its_most_frequent_spelling_and_among_equals_the_earliest(backend: Backend) -> None:
    rows = [
        mention(0, 0, "PERSON", "Alice Smith", "d1"),
        mention(0, 1, "PERSON", "ALICE  SMITH", "d2"),
        mention(0, 2, "PERSON", " alice smith ", "d1"),
        mention(1, 0, "GEO", "rome", "", 1),
        mention(1, 1, "GEO", "Rome", "", 1),
        mention(1, 2, "GEO", "Rome", "", 1),
    ]
    merged = merge_mentions(table(rows, MENTIONS), backend)
    assert merged["spelling"].to_pylist() == ["Alice Smith", "Rome"]
    assert merged["descriptions"].to_pylist() == [["d1", "d2"], []]
    assert merged["chunks"].to_pylist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["PERSON", "GEO", "GEO"], "GEO"),
        (["PERSON", "GEO"], "GEO"),
        (["UNKNOWN", "UNKNOWN", "", "", "", "PERSON"], "PERSON"),
        (["", "UNKNOWN"], "UNKNOWN"),
        ([""], "UNKNOWN"),
    ],
)
def test_the_majority_type_wins_but_none_at_all_never_does(types: list[str], expected: str, backend: Backend) -> None:
    rows = [mention(4, order, kind, "W", "") for order, kind in enumerate(types)]
    merged = merge_mentions(table(rows, MENTIONS), backend)
    assert merged["type"].to_pylist() == [expected]
    assert merged["entity"].to_pylist() == [4]


def test_a_pair_weighs_its_largest_strength_in_each_chunk(backend: Backend) -> None:
    rows = [pair(0, 5, "d1"), pair(1, 3, "d2"), pair(0, 5, "d1", record=1), pair(0, 2, "d3", record=2)]
    merged = merge_pairs(table(rows, PAIRS), backend).to_pylist()
    assert [(row["weight"], row["descriptions"], row["chunks"]) for row in merged] == [(8, ["d1", "d3", "d2"], [0, 1])]


def test_weights_that_would_overflow_together_are_bounded(backend: Backend) -> None:
    largest = [pair(order, 1e300) for order in range(3)]
    assert merge_pairs(table(largest, PAIRS), backend)["weight"].to_pylist() == [3 * 2.0**13]


def test_sums_that_wrap_on_the_way_come_out_right(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphmill.kernels.merge.MAX_STRENGTH", 2.0**41)
    rows = [{**pair(order, 2.0**41), "target": 1 + order // 2} for order in range(6)]
    assert merge_pairs(table(rows, PAIRS), backend)["weight"].to_pylist() == [2.0**42] * 3


def test_a_strength_that_is_no_number_is_refused(backend: Backend) -> None:
    with pytest.raises(ValueError, match="got NaN in row 1"):
        merge_pairs(table([pair(0, 1.0), pair(1, float("nan"))], PAIRS), backend)


def test_two_records_under_one_number_are_refused(backend: Backend) -> None:
    rows = [mention(0, 3, "GEO", "Rome", "a town"), mention(0, 3, "GEO", "Rome", "a city")]
    with pytest.raises(ValueError, match="two different records of one entity and chunk share a number"):
        merge_mentions(table(rows, MENTIONS), backend)


def test_codes_too_large_to_be_sorted_as_one_number_are_sorted_all_the_same(backend: Backend) -> None:
    rows = [
        mention(2**30, 2**30, "GEO", "b", "y", 2**30),
        mention(2**30, 5, "GEO", "a", "x", 1),
        mention(7, 9, "GEO", "c", "z"),
    ]
    merged = merge_mentions(table(rows, MENTIONS), backend)
    assert merged["spelling"].to_pylist() == ["c", "a"]
    assert merged["descriptions"].to_pylist() == [["z"], ["x", "y"]]


def test_nothing_merges_to_nothing(backend: Backend) -> None:
    assert merge_mentions(table([], MENTIONS), backend) == MERGED_ENTITIES.empty_table()
    assert merge_pairs(table([], PAIRS), backend) == MERGED_PAIRS.empty_table()


def test_text_columns_may_be_encoded_and_null(backend: Backend) -> None:
    rows = table([mention(0, 0, "GEO", "Rome", "a"), mention(0, 1, "GEO", "Rome", "b")], MENTIONS)
    encoded = rows
    for name in ("type", "spelling", "description"):
        encoded = encoded.set_column(encoded.schema.get_field_index(name), name, rows[name].dictionary_encode())
    assert merge_mentions(encoded, backend) == merge_mentions(rows, backend)
    nulls = table([{**pair(0, 1.0), "description": None, "keywords": None}], PAIRS)
    merged = merge_pairs(nulls, backend)
    assert merged["descriptions"].to_pylist() == merged["keywords"].to_pylist() == [[]]


def test_text_columns_in_pieces_hold_the_same_lists(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = [
        mention(int(rng.integers(0, 40)), order, "GEO", "x", f"text {rng.integers(0, 50)}", record)
        for order in range(60)
        for record in range(3)
    ]
    whole = merge_mentions(table(rows, MENTIONS), backend)
    monkeypatch.setattr(lists, "PIECE_BYTES", 64)
    pieces = merge_mentions(table(rows, MENTIONS), backend)
    assert pieces["descriptions"].num_chunks > 5
    assert pieces == whole
