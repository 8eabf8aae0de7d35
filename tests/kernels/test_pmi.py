"""Weights of co-occurrences against the plain Python reference."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.kernels.backend import Backend
from graphmill.kernels.pmi import pmi, pmi_reference

Row = tuple[int, int, int]
ROWS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(1, 9)).filter(lambda row: row[0] != row[1]),
    max_size=60,
)


def weighed(backend: Backend, rows: list[Row], max_per_entity: int) -> list[tuple[int, int, int, float]]:
    frame = backend.xd.DataFrame(
        {
            "source": pd.Series([row[0] for row in rows], dtype="int64"),
            "target": pd.Series([row[1] for row in rows], dtype="int64"),
            "count": pd.Series([row[2] for row in rows], dtype="int64"),
        }
    )
    result = pmi(backend.xd, frame, max_per_entity)
    result = result if isinstance(result, pd.DataFrame) else result.to_pandas()
    return list(result.itertuples(index=False, name=None))


@given(rows=ROWS, max_per_entity=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_it_matches_the_reference(backend: Backend, rows: list[Row], max_per_entity: int) -> None:
    found = weighed(backend, rows, max_per_entity)
    expected = pmi_reference(rows, max_per_entity)
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    assert [row[3] for row in found] == pytest.approx([row[3] for row in expected], abs=1e-12)


@given(rows=ROWS, seed=st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_it_does_not_depend_on_the_order_of_rows_or_ends(backend: Backend, rows: list[Row], seed: object) -> None:
    other = [(two, one, count) if seed.random() < 0.5 else (one, two, count) for one, two, count in rows]  # type: ignore[attr-defined]
    seed.shuffle(other)  # type: ignore[attr-defined]
    assert weighed(backend, other, 2) == weighed(backend, rows, 2)


@given(rows=ROWS, max_per_entity=st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_weights_lie_between_0_and_1_and_each_pair_is_among_the_strongest_of_an_end(
    backend: Backend, rows: list[Row], max_per_entity: int
) -> None:
    found = weighed(backend, rows, max_per_entity)
    everything = weighed(backend, rows, 1000)
    assert all(0.0 < row[3] < 1.0 for row in found)
    for source, target, _, weight in found:
        stronger = [sum(row[3] > weight for row in everything if end in row[:2]) for end in (source, target)]
        assert min(stronger) < max_per_entity
    assert len(found) <= max_per_entity * len({end for row in rows for end in row[:2]})


def test_pairs_no_likelier_than_chance_are_dropped(backend: Backend) -> None:
    # 0 goes with everything alike, 1 and 2 only with each other.
    rows = [(0, other, 1) for other in range(3, 9)] + [(1, 2, 5)] + [(3, other, 1) for other in range(4, 9)]
    weights = {row[:2]: row[3] for row in weighed(backend, rows, 16)}
    assert weights[1, 2] == max(weights.values())
    assert (0, 3) not in weights


def test_of_two_exclusive_pairs_the_one_seen_more_often_weighs_more(backend: Backend) -> None:
    weights = {row[:2]: row[3] for row in weighed(backend, [(0, 1, 9), (2, 3, 1), (4, 5, 3), (4, 6, 3)], 16)}
    assert weights[0, 1] > weights[2, 3]


def test_ties_go_to_the_lower_id(backend: Backend) -> None:
    rows = [(0, other, 1) for other in range(1, 6)]
    kept = [row[:2] for row in weighed(backend, [*rows, (8, 9, 30)], 1)]
    assert kept == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (8, 9)]


def test_no_pairs_give_no_pairs_and_a_bound_below_one_is_refused(backend: Backend) -> None:
    assert weighed(backend, [], 3) == []
    with pytest.raises(ValueError, match="max_per_entity must be at least 1, got 0"):
        weighed(backend, [(0, 1, 1)], 0)
