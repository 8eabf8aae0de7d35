"""Reciprocal rank fusion."""

from __future__ import annotations

import numpy as np

from graphmill.kernels.fuse import reciprocal_rank_fusion


def ranking(*rows: int) -> np.ndarray:
    return np.array(rows, np.int64)


def test_a_row_that_is_second_in_both_channels_beats_one_that_is_first_in_one() -> None:
    rows, scores = reciprocal_rank_fusion([ranking(1, 5), ranking(2, 5)], [1.0, 1.0], 3)
    assert rows.tolist() == [5, 1, 2]
    assert scores[0] == np.float32(2 / 62)
    assert scores[1] == np.float32(1 / 61)


def test_ties_go_to_the_lower_row_and_k_bounds_the_result() -> None:
    rows, _ = reciprocal_rank_fusion([ranking(9, 4), ranking(4, 9)], [1.0, 1.0], 1)
    assert rows.tolist() == [4]


def test_a_light_channel_only_breaks_ties() -> None:
    rows, _ = reciprocal_rank_fusion([ranking(7, 8, 9), ranking(1, 2)], [0.25, 1.0], 3)
    assert rows.tolist() == [1, 2, 7]


def test_no_hits_at_all_give_no_rows() -> None:
    rows, scores = reciprocal_rank_fusion([ranking(), ranking()], [1.0, 1.0], 5)
    assert rows.shape == scores.shape == (0,)
