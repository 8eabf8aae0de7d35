"""Many queries by matrix products give what exact search gives, whatever the rows look like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.engine.vector_index import BYTES_FROM, FEW_QUERIES, VectorIndex
from graphmill.kernels import topk_many as kernel
from graphmill.kernels.topk import topk
from graphmill.kernels.topk_many import topk_many


def rows(seed: int, n: int, d: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((n, d)).astype(np.float32)
    if kind == "equal":
        vectors = np.repeat(vectors[: max(n // 50, 1)], 50, axis=0)[:n]
    elif kind == "near":
        vectors = (vectors[:1] + 1e-6 * vectors).astype(np.float32)
    elif kind == "uneven":
        vectors *= np.float32(10.0) ** rng.integers(-6, 6, d).astype(np.float32)
    elif kind == "zero":
        vectors[::2] = 0
    return vectors


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 900),
    q=st.integers(0, 40),
    d=st.sampled_from([1, 7, 64]),
    k=st.sampled_from([1, 5, 60]),
    kind=st.sampled_from(["random", "equal", "near", "uneven", "zero"]),
)
def test_the_result_is_that_of_exact_search(seed: int, n: int, q: int, d: int, k: int, kind: str) -> None:
    vectors = rows(seed, n, d, kind)
    queries = np.concatenate([vectors[:q:3], rows(seed + 1, q, d, "random")])
    for found, wanted in zip(topk_many(queries, vectors, k), topk(queries, vectors, k), strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype


def test_the_size_of_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, queries = rows(1, 700, 32, "equal"), rows(2, 50, 32, "random")
    wanted = topk_many(queries, vectors, 9)
    for name, value in (("SCORES_BYTES", 1), ("BLOCK_ROWS", 100), ("RESCORE_PAIRS", 7), ("MIN_QUERIES", 3)):
        monkeypatch.setattr(kernel, name, value)
        for found, expected in zip(topk_many(queries, vectors, 9), wanted, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_queries_are_checked() -> None:
    vectors = rows(0, 100, 8, "random")
    with pytest.raises(ValueError, match="must be finite"):
        topk_many(np.full((20, 8), np.nan, np.float32), vectors, 3)
    with pytest.raises(ValueError, match="k must be >= 1"):
        topk_many(vectors[:20], vectors, 0)


def test_an_index_answers_many_questions_as_it_answers_each() -> None:
    vectors = rows(3, BYTES_FROM, 16, "random")
    queries = rows(4, 5 * FEW_QUERIES, 16, "random")
    index = VectorIndex(vectors)
    scores, found = index.search(queries, 10)
    for n in range(len(queries)):
        one_scores, one = index.search(queries[n : n + 1], 10)
        np.testing.assert_array_equal(scores[n], one_scores[0])
        np.testing.assert_array_equal(found[n], one[0])
    vectors[7] = np.inf
    assert 7 not in VectorIndex(vectors).search(queries, 10)[1]
