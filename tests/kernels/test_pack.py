from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.kernels.backend import Backend
from graphmill.kernels.pack import pack, pack_bins, pack_bins_reference, pack_reference, segments

counts = st.lists(st.integers(0, 30), max_size=40)


@st.composite
def grouped(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    tokens = draw(counts)
    group = sorted(draw(st.lists(st.integers(0, 6), min_size=len(tokens), max_size=len(tokens))))
    return np.array(group, dtype=np.int64), np.array(tokens, dtype=np.int64)


@given(rows=grouped(), budget=st.integers(0, 60))
def test_packing_equals_taking_one_row_at_a_time(
    rows: tuple[np.ndarray, np.ndarray], budget: int, backend: Backend
) -> None:
    np.testing.assert_array_equal(pack(*rows, budget, backend), pack_reference(*rows, budget))


@given(rows=grouped(), budgets=st.lists(st.integers(0, 60), min_size=7, max_size=7))
def test_each_group_can_have_its_own_budget(
    rows: tuple[np.ndarray, np.ndarray], budgets: list[int], backend: Backend
) -> None:
    limit = np.array(budgets)
    keep = pack(*rows, limit, backend)
    np.testing.assert_array_equal(keep, pack_reference(*rows, limit))
    group, tokens = rows
    spent = np.bincount(group, weights=tokens * keep, minlength=7)
    assert (spent <= limit).all()


def test_a_first_row_that_exceeds_the_budget_keeps_the_rest_out_too() -> None:
    keep = pack(np.array([0, 0, 1, 1]), np.array([11, 1, 5, 6]), 10)
    assert keep.tolist() == [False, False, True, False]


def test_token_counts_beyond_32_bits_do_not_wrap() -> None:
    tokens = np.full(4, 2**31 - 1, dtype=np.int32)
    assert pack(np.zeros(4, dtype=np.int32), tokens, 2**32).tolist() == [True, True, False, False]


def test_negative_tokens_and_unsorted_groups_are_refused() -> None:
    with pytest.raises(ValueError, match=r"tokens must be >= 0, got -1 at row 1"):
        pack(np.array([0, 0]), np.array([1, -1]), 10)
    with pytest.raises(ValueError, match=r"group must ascend, but falls at row 2"):
        pack(np.array([0, 1, 0]), np.array([1, 1, 1]), 10)


@given(tokens=counts, budget=st.integers(0, 60))
def test_filling_bins_equals_filling_them_one_row_at_a_time(tokens: list[int], budget: int) -> None:
    rows = np.array(tokens, dtype=np.int64)
    bins = pack_bins(rows, budget)
    np.testing.assert_array_equal(bins, pack_bins_reference(rows, budget))
    placed = bins >= 0
    assert (np.bincount(bins[placed], weights=rows[placed]) <= budget).all()
    assert (np.diff(bins[placed]) >= 0).all()


def test_a_row_that_fits_no_bin_is_left_out_and_closes_none() -> None:
    assert pack_bins(np.array([4, 11, 5, 2]), 10).tolist() == [0, -1, 0, 1]


def test_segments_are_where_groups_begin() -> None:
    assert segments(np.array([2, 2, 5, 7, 7])).tolist() == [0, 2, 3]
    assert segments(np.array([], dtype=np.int64)).tolist() == []
