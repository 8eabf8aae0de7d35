from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.kernels import topk_half as module
from graphmill.kernels.backend import Backend
from graphmill.kernels.topk import topk
from graphmill.kernels.topk_half import halve, topk_half


def unit_vectors(n: int, d: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@settings(deadline=None)
@given(
    n=st.integers(0, 120),
    k=st.integers(1, 60),
    scale=st.sampled_from([1e-7, 1e-3, 1.0, 1e5]),
    closeness=st.sampled_from([0.0, 1e-4, 1.0]),
    share=st.sampled_from([0.1, 1.0]),
    seed=st.integers(0, 99),
)
def test_the_result_is_that_of_the_rows_themselves(
    n: int, k: int, scale: float, closeness: float, share: float, seed: int, backend: Backend
) -> None:
    rng = np.random.default_rng(seed)
    # Rows so close to each other that float16 can't tell them apart, equal ones among them, some too large for it.
    rows = scale * (rng.standard_normal(5) + closeness * rng.standard_normal((n, 5)))
    rows = rows.astype(np.float32)[rng.integers(0, max(n // 2, 1), n)] if n else rows.astype(np.float32)
    rows[rng.random(n) < 0.1] = np.nan
    queries = rng.standard_normal((3, 5)).astype(np.float32)
    allowed = rng.random(n) < share
    expected = topk(queries, rows, k, allowed, backend)
    for got, wanted in zip(topk_half(queries, rows, halve(rows, backend), k, allowed, backend), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_rows_apart_from_each_other_are_settled_by_the_copy(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, queries = unit_vectors(5000, 64, seed=1), unit_vectors(20, 64, seed=2)
    half, expected = halve(vectors, backend), topk(queries, vectors, 10, None, backend)
    asked: list[np.dtype] = []

    def watched(*args: object) -> object:
        asked.append(args[1].dtype)  # type: ignore[attr-defined]
        return topk(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "topk", watched)
    for got, wanted in zip(topk_half(queries, vectors, half, 10, None, backend), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert asked == [np.float16]
