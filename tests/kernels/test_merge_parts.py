from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.kernels.backend import Backend
from graphmill.kernels.merge import MENTIONS, PAIRS, merge_mentions, merge_pairs
from graphmill.kernels.merge_parts import merge_in_parts, rows_that_fit


def mentions(entities: list[int]) -> pa.Table:
    """One record of an entity a chunk."""
    rows = np.arange(len(entities))
    words = [f"w{row % 3}" for row in rows]
    return pa.table(
        [np.array(entities, np.int64), rows // 2, (rows % 2).astype(np.int32), words, words, words], schema=MENTIONS
    )


@given(
    entities=st.lists(st.one_of(st.integers(0, 5), st.integers(0, 10**4)), max_size=60),
    num_rows=st.integers(1, 20),
)
def test_a_table_merged_in_parts_is_the_table_merged_whole(
    entities: list[int], num_rows: int, backend: Backend
) -> None:
    table = mentions(entities)
    sizes: list[int] = []

    def merge(part: pa.Table, backend: Backend) -> pa.Table:
        sizes.append(part.num_rows)
        assert part.num_rows <= num_rows or len(set(part["entity"].to_pylist())) == 1
        return merge_mentions(part, backend)

    row_bytes = next(n for n in range(1, 10**6) if rows_that_fit(table, n * num_rows) >= num_rows) if entities else 1
    merged = merge_in_parts(table, "entity", merge, backend, row_bytes * num_rows)
    assert merged == merge_mentions(table, backend)
    assert sum(sizes) == len(entities)
    if len(entities) > num_rows:
        assert len(sizes) > 1 or len(set(entities)) == 1


def test_pairs_are_merged_in_parts_by_their_source(backend: Backend) -> None:
    random = np.random.default_rng(0)
    num = 5000
    columns = [random.integers(0, 40, num), 40 + random.integers(0, 40, num), np.arange(num)]
    table = pa.table(
        [*columns, np.zeros(num, np.int32), random.random(num) * 9, ["d"] * num, [["k"]] * num], schema=PAIRS
    )
    whole = merge_pairs(table, backend)
    for max_bytes in (1, 10_000, 100_000, 10**9):
        assert merge_in_parts(table, "source", merge_pairs, backend, max_bytes) == whole


def test_no_limit_merges_whole(backend: Backend) -> None:
    calls: list[int] = []

    def merge(part: pa.Table, backend: Backend) -> pa.Table:
        calls.append(part.num_rows)
        return part

    assert merge_in_parts(mentions([3, 1, 2]), "entity", merge, backend, None) == mentions([3, 1, 2])
    assert calls == [3]


@pytest.mark.parametrize("max_bytes", [1, 0])
def test_however_little_fits_every_entity_is_merged(max_bytes: int, backend: Backend) -> None:
    table = mentions([5, 5, 0, 9])
    merged = merge_in_parts(table, "entity", merge_mentions, backend, max_bytes)
    assert merged["entity"].to_pylist() == [0, 5, 9]
