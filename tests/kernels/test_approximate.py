"""Approximate search: what it finds is measured, and what it finds is scored as exact search scores it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.kernels.approximate import Approximate, build_approximate, ladder, measure, yardstick
from graphmill.kernels.backend import NUMPY, Backend
from graphmill.kernels.hnsw import build_hnsw, graph_bytes, open_cagra_graph, open_hnsw, search_hnsw
from graphmill.kernels.rescore import MOVED_COSINE, recall, rescore, sample_queries
from graphmill.kernels.topk import topk, topk_reference


def embeddings(n: int, d: int, seed: int) -> np.ndarray:
    """Unit vectors that lie like those of texts: topics of very unequal size which run into each other."""
    rng = np.random.default_rng(seed)
    topics = rng.standard_normal((64, d))
    of_row = np.minimum(rng.zipf(1.5, n) - 1, 63)
    vectors = topics[of_row] + 1.2 * rng.standard_normal((n, d)) + 0.5
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return embeddings(3000, 32, seed=1)


@settings(deadline=None)
@given(n=st.integers(1, 40), m=st.integers(1, 60), k=st.integers(1, 12), seed=st.integers(0, 99))
def test_candidates_are_scored_and_ordered_as_exact_search_does(n: int, m: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    corpus = rng.integers(-2, 3, (n, 3)).astype(np.float32)  # full of ties
    queries = rng.integers(-2, 3, (3, 3)).astype(np.float32)
    candidates = rng.integers(-1, n, (3, m))
    allowed = rng.random(n) < 0.7
    scores, rows, found = rescore(queries, corpus, candidates, k, allowed)
    for query in range(3):
        among = np.zeros(n, np.bool_)
        among[candidates[query][candidates[query] >= 0]] = True
        expected_scores, expected_rows = topk(queries[query : query + 1], corpus, k, among & allowed)
        assert found[query] == expected_rows.shape[1]
        np.testing.assert_array_equal(rows[query, : found[query]], expected_rows[0])
        np.testing.assert_array_equal(scores[query, : found[query]], expected_scores[0])
        assert (rows[query, found[query] :] == -1).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rescored_scores_are_those_of_exact_search_to_the_bit(vectors: np.ndarray, dtype: type) -> None:
    corpus, queries = vectors.astype(dtype), embeddings(5, 32, seed=2)
    exact_scores, exact_rows = topk(queries, corpus, 20)
    scores, rows, _ = rescore(queries, corpus, np.tile(np.arange(len(corpus)), (5, 1)), 20)
    np.testing.assert_array_equal(rows, exact_rows)
    np.testing.assert_array_equal(scores, exact_scores)


def test_sampled_queries_are_rows_and_rows_moved_by_a_fixed_angle(vectors: np.ndarray) -> None:
    queries = sample_queries(vectors, 100, seed=3)
    assert {name: made.shape for name, made in queries.items()} == {"rows": (100, 32), "moved": (100, 32)}
    cosines = np.einsum("ij,ij->i", queries["rows"], queries["moved"])
    np.testing.assert_allclose(cosines, MOVED_COSINE, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(queries["moved"], axis=1), 1, atol=1e-5)
    again = sample_queries(vectors, 100, seed=3)
    assert all((again[name] == made).all() for name, made in queries.items())


def test_rows_that_are_not_finite_or_are_zero_make_no_query() -> None:
    vectors = embeddings(10, 4, seed=0)
    vectors[2], vectors[5], vectors[7, 1] = np.nan, 0, np.inf
    assert all(len(made) == 7 and np.isfinite(made).all() for made in sample_queries(vectors, 50, seed=0).values())


def test_recall_counts_a_row_as_good_as_the_last_whichever_of_the_equal_ones_it_is() -> None:
    exact = np.array([[0.9, 0.5, 0.5]], np.float32)
    assert recall(exact, exact) == 1
    assert recall(np.array([[0.9, 0.5, 0.4]], np.float32), exact) == pytest.approx(2 / 3)
    assert recall(np.array([[0.5, 0.4, -np.inf]], np.float32), exact) == pytest.approx(1 / 3)
    assert recall(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)) == 1


def test_a_graph_holds_the_recall_on_rows_and_beside_them(vectors: np.ndarray) -> None:
    by = yardstick(vectors, 200, 20, 0, NUMPY)
    found, trials = build_approximate("hnsw", vectors, 0.95, by, NUMPY)
    assert found is not None
    assert set(trials[-1].recall) == {"rows", "moved"}
    assert trials[-1].worst >= 0.95
    held_out = embeddings(200, 32, seed=9)
    scores, _, _ = rescore(held_out, vectors, found.find(held_out, 20), 20)
    assert recall(scores, topk_reference(held_out, vectors, 20)[0]) >= 0.93


def test_a_deeper_search_than_was_measured_gets_wider(vectors: np.ndarray) -> None:
    by = yardstick(vectors, 100, 10, 0, NUMPY)
    found, _ = build_approximate("hnsw", vectors, 0.95, by, NUMPY)
    assert found is not None
    deep = yardstick(vectors, 100, 200, 1, NUMPY)
    assert min(measure(found, vectors, deep).values()) >= 0.95


def test_parameters_are_raised_until_the_recall_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    # Random directions have no structure for a graph to follow, so that a narrow search misses many.
    rng = np.random.default_rng(4)
    vectors = rng.standard_normal((1500, 64), dtype=np.float32)
    by = yardstick(vectors, 100, 10, 0, NUMPY)
    narrow = [({"links": 4}, [{"breadth": 10}, {"breadth": 40}, {"breadth": 1500}])]
    monkeypatch.setattr("graphmill.kernels.approximate.ladder", lambda kind, d: narrow)
    found, trials = build_approximate("hnsw", vectors, 0.95, by, NUMPY)
    assert found is not None
    assert found.search == {"breadth": 1500}
    assert [trial.worst >= 0.95 for trial in trials] == [False, False, True]
    monkeypatch.setattr("graphmill.kernels.approximate.ladder", lambda kind, d: [(narrow[0][0], narrow[0][1][:2])])
    assert build_approximate("hnsw", vectors, 0.95, by, NUMPY)[0] is None


@pytest.mark.parametrize("kind", ["hnsw", "cagra", "ivf_pq"])
@pytest.mark.parametrize("d", [4, 384, 1024])
def test_ladders_rise(kind: str, d: int) -> None:
    rungs = [(build, search) for build, searches in ladder(kind, d) for search in searches]
    for before, after in pairwise(rungs):
        assert before != after or d < 16
        assert sum(after[0].values()) >= sum(before[0].values())
    assert all(build.get("pq_dim", 0) <= d for build, _ in rungs)


def test_equal_vectors_give_equal_graphs_on_any_number_of_threads(vectors: np.ndarray) -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    try:
        graphs = []
        for threads in (1, 2, 2):
            faiss.omp_set_num_threads(threads)
            graphs.append(graph_bytes(build_hnsw(vectors[:1500], 8)).tobytes())
    finally:
        faiss.omp_set_num_threads(before)
    assert len(set(graphs)) == 1


def test_a_graph_is_stored_without_its_vectors_and_finds_the_same_again(vectors: np.ndarray) -> None:
    graph, queries = build_hnsw(vectors, 4), embeddings(20, 32, seed=5)
    content = graph_bytes(graph)
    assert len(content) < vectors.nbytes / 2
    opened = open_hnsw(content, vectors)
    np.testing.assert_array_equal(search_hnsw(opened, queries, 10, 64), search_hnsw(graph, queries, 10, 64))


def test_a_search_for_more_rows_than_there_are_says_so(vectors: np.ndarray) -> None:
    rows = search_hnsw(build_hnsw(vectors[:5], 16), embeddings(2, 32, seed=5), 9, 64)
    assert sorted(rows[0].tolist()) == [-1, -1, -1, -1, 0, 1, 2, 3, 4]


def test_a_graph_of_near_rows_that_a_device_made_is_searched_on_the_cpu(vectors: np.ndarray) -> None:
    neighbours = topk_reference(vectors, vectors, 33)[1][:, 1:].astype(np.uint32)
    by = yardstick(vectors, 200, 10, 0, NUMPY)
    graph = open_cagra_graph(neighbours, vectors)
    found = measure(Approximate("hnsw", graph, {"breadth": 256}, 10, NUMPY), vectors, by)
    assert min(found.values()) >= 0.95
    queries = embeddings(20, 32, seed=6)
    np.testing.assert_array_equal(search_hnsw(graph, queries, 10, 64), search_hnsw(graph, queries, 10, 64))
    for rows in search_hnsw(graph, queries, 10, 64):
        assert len(set(rows.tolist())) == 10


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["cagra", "ivf_pq"])
def test_an_index_on_the_device_holds_the_recall(kind: str, backend: Backend) -> None:
    if backend.name != "cuda":
        pytest.skip("needs a CUDA device")
    vectors = embeddings(50_000, 100, seed=7)
    by = yardstick(vectors, 200, 20, 0, backend)
    found, trials = build_approximate(kind, vectors, 0.95, by, backend)
    assert found is not None, trials
    assert trials[-1].worst >= 0.95
    held_out = embeddings(200, 100, seed=8)
    scores, _, _ = rescore(held_out, vectors, found.find(held_out, 20), 20)
    assert recall(scores, topk(held_out, vectors, 20)[0]) >= 0.93
