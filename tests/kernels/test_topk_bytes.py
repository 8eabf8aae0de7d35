"""The byte copy gives what exact search gives, whatever the rows look like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.engine.vector_index import BYTES_FROM, VectorIndex
from graphmill.kernels.topk import topk
from graphmill.kernels.topk_bytes import to_bytes, topk_bytes


def rows(seed: int, n: int, d: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((n, d)).astype(np.float32)
    if kind == "equal":
        vectors = np.repeat(vectors[: max(n // 50, 1)], 50, axis=0)[:n]
    elif kind == "near":
        vectors = (vectors[:1] + 1e-3 * vectors).astype(np.float32)
    elif kind == "uneven":
        vectors *= np.float32(10.0) ** rng.integers(-6, 6, d).astype(np.float32)
    elif kind == "constant":
        vectors[:, : d // 2] = 3.0
    return vectors


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 900),
    d=st.sampled_from([1, 7, 64]),
    k=st.sampled_from([1, 5, 60]),
    kind=st.sampled_from(["random", "equal", "near", "uneven", "constant"]),
)
def test_the_result_is_that_of_exact_search(seed: int, n: int, d: int, k: int, kind: str) -> None:
    vectors = rows(seed, n, d, kind)
    queries = np.concatenate([vectors[:1], rows(seed + 1, 2, d, "random")])
    copy = to_bytes(vectors)
    assert copy is not None
    scores, found = topk_bytes(queries, vectors, copy, k)
    wanted_scores, wanted = topk(queries, vectors, k)
    np.testing.assert_array_equal(scores, wanted_scores)
    np.testing.assert_array_equal(found, wanted)


def test_rows_that_are_not_finite_have_no_copy_and_queries_are_checked() -> None:
    vectors = rows(0, 500, 8, "random")
    copy = to_bytes(vectors)
    assert copy is not None
    with pytest.raises(ValueError, match="must be finite"):
        topk_bytes(np.full((1, 8), np.nan, np.float32), vectors, copy, 3)
    with pytest.raises(ValueError, match="k must be >= 1"):
        topk_bytes(vectors[:1], vectors, copy, 0)
    vectors[7, 3] = np.inf
    assert to_bytes(vectors) is None
    assert to_bytes(vectors[:0]) is None


def test_an_index_of_many_vectors_answers_as_exact_search_does() -> None:
    vectors = rows(3, BYTES_FROM, 16, "random")
    queries = rows(4, 3, 16, "random")
    index = VectorIndex(vectors)
    for few in (queries[:1], queries):
        for found, wanted in zip(index.search(few, 10), topk(few, vectors, 10), strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert index._bytes is not None
    vectors[0] = np.nan
    assert 0 not in VectorIndex(vectors).search(queries, 10)[1]
