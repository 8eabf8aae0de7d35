from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.kernels import topk as module
from graphmill.kernels.backend import Backend
from graphmill.kernels.topk import topk, topk_reference


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 rows a block, the least there is."""
    for name in ("CORPUS_BLOCK_BYTES", "FLOAT16_BLOCK_BYTES", "SCORES_BLOCK_BYTES"):
        monkeypatch.setattr(module, name, {"cpu": 1, "cuda": 1})


def unit_vectors(n: int, d: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@given(n=st.integers(0, 200), k=st.integers(1, 250), q=st.integers(0, 4), seed=st.integers(0, 99))
def test_whole_numbers_full_of_ties_come_out_as_from_the_reference(
    n: int, k: int, q: int, seed: int, backend: Backend
) -> None:
    rng = np.random.default_rng(seed)
    queries = rng.integers(-2, 3, (q, 3)).astype(np.float32)
    corpus = rng.integers(-2, 3, (n, 3)).astype(np.float32)
    scores, rows = topk(queries, corpus, k, None, backend)
    expected_scores, expected_rows = topk_reference(queries, corpus, k)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(scores, expected_scores)
    assert scores.dtype == np.float32
    assert rows.dtype == np.int64


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("n", "k", "q"), [(1000, 1, 1), (1000, 10, 7), (999, 100, 2), (130, 500, 3), (64, 64, 1)])
def test_blocks_do_not_show_in_the_result(n: int, k: int, q: int, backend: Backend) -> None:
    corpus = unit_vectors(n, 24, seed=n)
    queries = unit_vectors(q, 24, seed=1)
    scores, rows = topk(queries, corpus, k, None, backend)
    expected_scores, expected_rows = topk_reference(queries, corpus, k)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(scores, expected_scores, atol=1e-6)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("order", ["rising", "falling"])
def test_scores_that_rise_or_fall_along_the_rows_lose_none(order: str, backend: Backend) -> None:
    corpus = np.linspace(-1, 1, 1000, dtype=np.float32).reshape(-1, 1)[:: 1 if order == "rising" else -1]
    _, rows = topk(np.ones((1, 1), np.float32), np.ascontiguousarray(corpus), 5, None, backend)
    assert rows.tolist() == [[999, 998, 997, 996, 995] if order == "rising" else [0, 1, 2, 3, 4]]


def test_equal_rows_score_equally_wherever_they_lie_and_the_lower_comes_first(backend: Backend) -> None:
    vector = unit_vectors(1, 77, seed=5)
    corpus = unit_vectors(5003, 77, seed=6) * np.float32(0.5)
    places = [3, 64, 1001, 4999, 5002]
    corpus[places] = vector
    scores, rows = topk(vector, corpus, 5, None, backend)
    assert rows.tolist() == [places]
    assert len(set(scores[0].tolist())) == 1


def test_a_query_has_the_same_result_alone_and_among_others(backend: Backend) -> None:
    corpus = unit_vectors(3000, 50, seed=7)
    queries = unit_vectors(33, 50, seed=8)
    scores, rows = topk(queries, corpus, 20, None, backend)
    for place in (0, 17, 32):
        alone_scores, alone_rows = topk(queries[place : place + 1], corpus, 20, None, backend)
        np.testing.assert_array_equal(alone_scores[0], scores[place])
        np.testing.assert_array_equal(alone_rows[0], rows[place])


def test_more_results_than_rows_are_not_padded(backend: Backend) -> None:
    scores, rows = topk(unit_vectors(2, 4, seed=0), unit_vectors(3, 4, seed=1), 60, None, backend)
    assert scores.shape == rows.shape == (2, 3)
    assert sorted(rows[0].tolist()) == [0, 1, 2]


def test_rows_that_are_not_finite_are_never_returned(backend: Backend) -> None:
    corpus = unit_vectors(100, 8, seed=2)
    corpus[[0, 10]] = np.nan
    corpus[20, 3] = np.inf
    corpus[30, 3] = -np.inf
    scores, rows = topk(unit_vectors(3, 8, seed=3), corpus, 100, None, backend)
    assert rows.shape == (3, 96)
    assert not np.isin(rows, [0, 10, 20, 30]).any()
    assert np.isfinite(scores).all()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_only_allowed_rows_are_returned(share: float, backend: Backend) -> None:
    corpus, queries = unit_vectors(700, 16, seed=4), unit_vectors(2, 16, seed=5)
    allowed = np.random.default_rng(0).random(700) < share
    _, rows = topk(queries, corpus, 20, allowed, backend)
    picked = np.flatnonzero(allowed)
    expected = picked[topk_reference(queries, corpus[picked], 20)[1]]
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_memory_mapped_corpus_is_searched_in_place(dtype: type, tmp_path: Path, backend: Backend) -> None:
    vectors = unit_vectors(3000, 32, seed=9).astype(dtype)
    np.save(tmp_path / "vectors.npy", vectors)
    corpus = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    queries = unit_vectors(2, 32, seed=10)
    _, rows = topk(queries, corpus, 10, None, backend)
    np.testing.assert_array_equal(rows, topk_reference(queries, vectors.astype(np.float32), 10)[1])


def test_every_float16_is_converted_exactly() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(64, -1)
    np.testing.assert_array_equal(module._float32(halves, np), halves.astype(np.float32))
    finite = halves[np.isfinite(halves).all(axis=1)]
    np.testing.assert_array_equal(module._float32(finite, np), finite.astype(np.float32))


def test_queries_that_cannot_be_answered_are_refused(backend: Backend) -> None:
    corpus = unit_vectors(3, 4, seed=0)
    with pytest.raises(ValueError, match=r"agree in d, got \(1, 5\) and \(3, 4\)"):
        topk(np.ones((1, 5), np.float32), corpus, 1, None, backend)
    with pytest.raises(ValueError, match="k must be >= 1, got 0"):
        topk(corpus, corpus, 0, None, backend)
    with pytest.raises(ValueError, match="query 1 that is not"):
        topk(np.array([[0, 0, 0, 0], [0, np.nan, 0, 0]], np.float32), corpus, 1, None, backend)
