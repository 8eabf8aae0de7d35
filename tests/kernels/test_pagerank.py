from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.kernels.backend import Backend
from graphmill.kernels.pagerank import pagerank, pagerank_reference


@st.composite
def graphs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    n = draw(st.integers(1, 20))
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40))
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
    weight = draw(st.lists(st.sampled_from([0.25, 1.0, 7.0]), min_size=len(edges), max_size=len(edges)))
    return pairs[:, 0], pairs[:, 1], np.array(weight, dtype=np.float64), n


@settings(deadline=None)
@given(graph=graphs())
def test_ranks_solve_the_equations_of_pagerank(
    graph: tuple[np.ndarray, np.ndarray, np.ndarray, int], backend: Backend
) -> None:
    found = pagerank(*graph, backend, tolerance=1e-9, max_iterations=300)
    np.testing.assert_allclose(found, pagerank_reference(*graph), rtol=1e-6)
    assert found.sum() == pytest.approx(1, abs=1e-9)


@settings(deadline=None)
@given(graph=graphs(), seed=st.integers(0, 100))
def test_ranks_are_the_same_to_the_last_bit_for_any_order_of_the_edges(
    graph: tuple[np.ndarray, np.ndarray, np.ndarray, int], seed: int, backend: Backend
) -> None:
    source, target, weight, n = graph
    random = np.random.default_rng(seed)
    order, turned = random.permutation(len(source)), random.random(len(source)) < 0.5
    start, end = np.where(turned, target, source)[order], np.where(turned, source, target)[order]
    np.testing.assert_array_equal(pagerank(start, end, weight[order], n, backend), pagerank(*graph, backend))


def test_a_hub_ranks_above_its_leaves_and_a_node_alone_below_them(backend: Backend) -> None:
    hub, leaves = np.zeros(5, np.int64), np.arange(1, 6)
    ranks = pagerank(hub, leaves, np.ones(5), 7, backend)
    assert ranks[0] > ranks[1] > ranks[6] > 0
    assert len(set(ranks[1:6].tolist())) == 1


def test_limits_are_named_and_nothing_has_no_ranks(backend: Backend) -> None:
    nothing = np.zeros(0, np.int64)
    assert pagerank(nothing, nothing, np.zeros(0), 0, backend).tolist() == []
    assert pagerank(nothing, nothing, np.zeros(0), 2, backend).tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match=r"damping must be in \[0, 1\), got 1"):
        pagerank(nothing, nothing, np.zeros(0), 2, backend, damping=1)
