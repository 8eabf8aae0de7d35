from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.kernels.backend import Backend
from graphmill.kernels.rank import adjacency, combined_degree, degree

edge_lists = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)


def ends(edges: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


@given(edges=edge_lists)
def test_a_degree_counts_distinct_neighbours(edges: list[tuple[int, int]], backend: Backend) -> None:
    neighbours = [{b if a == node else a for a, b in edges if node in (a, b) and a != b} for node in range(10)]
    assert degree(*ends(edges), 10, backend).tolist() == [len(found) for found in neighbours]


@given(edges=edge_lists)
def test_a_combined_degree_is_the_sum_of_both_ends(edges: list[tuple[int, int]], backend: Backend) -> None:
    source, target = ends(edges)
    degrees = degree(source, target, 10, backend)
    expected = [degrees[a] + degrees[b] for a, b in edges]
    assert combined_degree(source, target, 10, backend).tolist() == expected


@given(edges=edge_lists)
def test_adjacency_lists_hold_every_edge_from_both_ends(edges: list[tuple[int, int]], backend: Backend) -> None:
    indptr, neighbour, edge = adjacency(*ends(edges), 10, backend)
    assert indptr[0] == 0
    assert len(indptr) == 11
    for node in range(10):
        found = list(
            zip(neighbour[indptr[node] : indptr[node + 1]], edge[indptr[node] : indptr[node + 1]], strict=True)
        )
        expected = sorted((b if a == node else a, row) for row, (a, b) in enumerate(edges) if node in (a, b) and a != b)
        assert found == expected


def test_a_node_beyond_the_graph_is_named() -> None:
    with pytest.raises(ValueError, match=r"\[0, n=3\), got 3"):
        degree(np.array([0]), np.array([3]), 3)


def test_a_graph_without_nodes_has_no_degrees() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    assert degree(nothing, nothing, 0).tolist() == []
    assert adjacency(nothing, nothing, 0)[0].tolist() == [0]
