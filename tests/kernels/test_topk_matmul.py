from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from graphmill.kernels import topk_matmul
from graphmill.kernels.backend import NUMPY, Backend, backend
from graphmill.kernels.topk import topk, topk_reference
from graphmill.kernels.topk_matmul import GROUP, fits, search

Found = tuple[np.ndarray, np.ndarray, np.ndarray]
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def find(
    queries: np.ndarray,
    corpus: np.ndarray,
    k: int,
    allowed: np.ndarray | None = None,
    kind: str = "float16",
    scores_bytes: int = 1 << 30,
    device: str = "cpu",
) -> Found:
    matrix = torch.as_tensor(corpus, device=device).to(DTYPES[kind])
    mask = None if allowed is None else torch.as_tensor(allowed, device=device)
    found = search(torch.as_tensor(queries, device=device), matrix, k, mask, scores_bytes)
    scores, rows, lost = (part.cpu().numpy() for part in found)
    return scores, rows, lost


def held(vectors: np.ndarray, kind: str) -> np.ndarray:
    """float32, of values that the kind holds exactly."""
    return torch.as_tensor(vectors).to(DTYPES[kind]).float().numpy()


def unit_vectors(n: int, d: int, seed: int, kind: str = "float16") -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)
    return held(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), kind)


def assert_same(found: Found, expected: tuple[np.ndarray, np.ndarray]) -> None:
    scores, rows, lost = found
    assert not lost.any()
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_allclose(scores, expected[0], rtol=2e-7)
    assert (scores.dtype, rows.dtype) == (np.float32, np.int64)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("block_rows", [GROUP, 640, 20_000])
@pytest.mark.parametrize(("n", "k"), [(1, 3), (70, 128), (9001, 1), (9001, 10)])
def test_the_result_is_that_of_the_reference_whatever_the_blocks(n: int, k: int, block_rows: int, kind: str) -> None:
    corpus, queries = unit_vectors(n, 48, 1, kind), unit_vectors(70, 48, 2) * np.float32(1.001)
    found = find(queries, corpus, k, kind=kind, scores_bytes=4 * len(queries) * block_rows)
    np.testing.assert_array_equal(found[1], topk_reference(queries, corpus, k)[1])
    assert_same(found, topk(queries, corpus, k))


def test_more_queries_than_go_at_once_are_answered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk_matmul, "MAX_QUERIES", 30)
    monkeypatch.setattr(topk_matmul, "RESCORE_BYTES", 1 << 15)
    corpus, queries = unit_vectors(3000, 32, 3), unit_vectors(100, 32, 4)
    assert_same(find(queries, corpus, 7), topk(queries, corpus, 7))


def test_equal_rows_come_in_their_order() -> None:
    corpus, queries = unit_vectors(6000, 16, 5), unit_vectors(65, 16, 6)
    corpus[[5999, 17, 2048, 100, 4097]] = held(queries[:1], "float16")
    queries[0] = corpus[17]
    scores, rows, lost = find(queries, corpus, 4, scores_bytes=4 * 65 * 1024)
    assert not lost[0]
    assert rows[0].tolist() == [17, 100, 2048, 4097]
    assert len(set(scores[0].tolist())) == 1


def test_a_query_with_more_equal_rows_than_are_kept_is_lost_and_the_others_are_not() -> None:
    corpus, queries = unit_vectors(4000, 16, 7), unit_vectors(65, 16, 8)
    corpus[100:400] = queries[3]
    scores, rows, lost = find(queries, corpus, 5)
    assert lost[3]
    assert lost.sum() < 10
    expected = topk(queries[~lost], corpus, 5)
    assert_same((scores[~lost], rows[~lost], lost[~lost]), expected)


def test_rows_closer_than_the_rounding_of_the_query_are_told_apart_or_the_query_is_lost() -> None:
    corpus = np.repeat(unit_vectors(1, 40, 9), 400, axis=0)
    corpus[np.arange(400), np.arange(400) % 40] *= (1 + 2.0**-9 * (np.arange(400) % 3)).astype(np.float32)
    corpus = held(corpus, "float16")
    queries = unit_vectors(66, 40, 10) + np.float32(3e-4) * unit_vectors(66, 40, 11)
    scores, rows, lost = find(queries, corpus, 60)
    expected = topk(queries, corpus, 60)
    np.testing.assert_array_equal(rows[~lost], expected[1][~lost])
    np.testing.assert_allclose(scores[~lost], expected[0][~lost], rtol=2e-7)


def test_queries_of_any_size_are_answered() -> None:
    corpus = unit_vectors(3000, 20, 12)
    sizes = np.array([0, 1e-37, 1e-20, 1e-3, 1e15, 1e18], np.float32)
    queries = unit_vectors(66, 20, 13) * np.tile(sizes, 11)[:, None]
    scores, rows, lost = find(queries, corpus, 7)
    assert lost.tolist() == (queries == 0).all(axis=1).tolist()  # to a zero query all rows are equal
    expected = topk(queries[~lost], corpus, 7)
    assert_same((scores[~lost], rows[~lost], lost[~lost]), expected)


@pytest.mark.parametrize("n", [100, 9000])
def test_rows_that_are_not_finite_are_never_returned(n: int) -> None:
    corpus = unit_vectors(n, 8, 14)
    corpus[[0, 10]] = np.nan
    corpus[20, 3], corpus[30, 3], corpus[40, :2] = np.inf, -np.inf, (np.inf, -np.inf)
    queries = unit_vectors(65, 8, 15)
    scores, rows, lost = find(queries, corpus, 100)
    assert rows.shape == (65, min(n - 5, 100))
    assert not np.isin(rows, [0, 10, 20, 30, 40]).any()
    assert np.isfinite(scores).all()
    expected = topk(queries, corpus, 100)
    np.testing.assert_array_equal(rows[~lost], expected[1][~lost])


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.5, 1.0])
def test_only_allowed_rows_are_returned(share: float) -> None:
    corpus, queries = unit_vectors(7000, 16, 16), unit_vectors(66, 16, 17)
    allowed = np.random.default_rng(0).random(7000) < share
    found = find(queries, corpus, 20, allowed, scores_bytes=4 * 66 * 1024)
    assert_same(found, topk(queries, corpus, 20, allowed))


def test_whole_numbers_are_scored_exactly() -> None:
    rng = np.random.default_rng(18)
    queries, corpus = (rng.integers(-9, 10, (count, 12)).astype(np.float32) for count in (70, 500))
    scores, rows, lost = find(queries, corpus, 250)
    expected = topk_reference(queries, corpus, 250)
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_array_equal(scores, expected[0])
    assert not lost.any()


def test_the_cpu_is_left_to_the_search_in_blocks() -> None:
    assert not fits(np.zeros((5, 4), np.float16), None, NUMPY)


def test_lost_queries_are_answered_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, queries = unit_vectors(4000, 16, 19).astype(np.float16), unit_vectors(65, 16, 20)
    corpus[100:400] = queries[3]
    asked: list[int] = []

    def in_blocks(some: np.ndarray) -> Any:
        asked.append(len(some))
        return topk(some, corpus, 5)

    scores, rows = topk_matmul.topk_matmul(queries, corpus, 5, None, in_blocks, NUMPY)
    assert 0 < sum(asked) < 10
    expected = topk(queries, corpus, 5)
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_array_equal(scores, expected[0])


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize(("q", "k"), [(65, 10), (300, 128), (1500, 10)])
@pytest.mark.parametrize("filtered", [False, True])
def test_on_the_device_the_result_is_that_of_the_cpu(q: int, k: int, filtered: bool, kind: str) -> None:
    corpus, queries = unit_vectors(100_003, 384, 21, kind), unit_vectors(q, 384, 22) * np.float32(1.001)
    corpus[5] = np.nan
    corpus[50_000:50_007] = corpus[3]
    allowed = np.random.default_rng(1).random(len(corpus)) < 0.5 if filtered else None
    scores, rows, lost = find(queries, corpus, k, allowed, kind, scores_bytes=1 << 26, device="cuda")
    expected = topk(queries, corpus, k, allowed)
    np.testing.assert_array_equal(rows[~lost], expected[1][~lost])
    np.testing.assert_allclose(scores[~lost], expected[0][~lost], rtol=2e-7)
    assert lost.mean() < (0.05 if kind == "float16" else 1)


@pytest.mark.gpu
def test_topk_takes_it_for_many_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda: Backend = backend("cuda")
    corpus, queries = unit_vectors(20_000, 64, 23), unit_vectors(65, 64, 24)
    taken: list[int] = []

    def watched(some: Any, *rest: Any) -> Any:
        taken.append(len(some))
        return search(some, *rest)

    monkeypatch.setattr(topk_matmul, "search", watched)
    found = topk(queries, cuda.xp.asarray(corpus.astype(np.float16)), 10, None, cuda)
    expected = topk(queries, corpus, 10)
    np.testing.assert_array_equal(found[1], expected[1])
    assert taken == [65]
