from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.kernels.backend import Backend
from graphmill.kernels.backend import backend as pick
from graphmill.kernels.leiden import Levels, leiden_tree
from graphmill.kernels.split import modularity

# Zachary 1977: 34 members of a karate club, 78 friendships.
KARATE = {
    0: [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31],
    1: [2, 3, 7, 13, 17, 19, 21, 30],
    2: [3, 7, 8, 9, 13, 27, 28, 32],
    3: [7, 12, 13],
    4: [6, 10],
    5: [6, 10, 16],
    6: [16],
    8: [30, 32, 33],
    9: [33],
    13: [33],
    14: [32, 33],
    15: [32, 33],
    18: [32, 33],
    19: [33],
    20: [32, 33],
    22: [32, 33],
    23: [25, 27, 29, 32, 33],
    24: [25, 27, 31],
    25: [31],
    26: [29, 33],
    27: [33],
    28: [31, 33],
    29: [32, 33],
    30: [32, 33],
    31: [32, 33],
    32: [33],
}


def karate() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    edges = np.array([(source, target) for source, targets in KARATE.items() for target in targets])
    return edges[:, 0], edges[:, 1], np.ones(len(edges))


def assert_same(one: Levels, other: Levels) -> None:
    for name in ("membership", "level", "parent", "size", "final", "unsplittable"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def assert_is_a_tree(levels: Levels, n: int, max_cluster_size: int) -> None:
    membership = levels.membership
    assert membership.shape == (len(set(levels.level.tolist())), n)
    assert (membership[0] >= 0).all()
    for number in range(len(levels.level)):
        members = np.flatnonzero(membership[levels.level[number]] == number)
        assert len(members) == levels.size[number] > 0
        assert (levels.size[number] > max_cluster_size and levels.final[number]) == levels.unsplittable[number]
        below = membership[levels.level[number] + 1][members] if levels.level[number] + 1 < len(membership) else None
        if levels.final[number]:
            assert below is None or (below == -1).all()
        else:
            assert below is not None
            children = sorted(set(below.tolist()))
            assert len(children) >= 2
            assert children == np.flatnonzero(levels.parent == number).tolist()
            assert levels.size[children].sum() == len(members)
    for level in range(len(membership)):
        numbers = np.flatnonzero(levels.level == level)
        assert np.array_equal(numbers, np.arange(numbers[0], numbers[-1] + 1))
        smallest = [int(np.flatnonzero(membership[level] == number)[0]) for number in numbers]
        ranks = list(zip((-levels.size[numbers]).tolist(), smallest, strict=True))
        assert ranks == sorted(ranks)


def test_karate_has_78_edges_and_comes_out_at_its_best_known_modularity(backend: Backend) -> None:
    source, target, weight = karate()
    assert len(source) == 78
    levels = leiden_tree(source, target, weight, 34, backend)
    assert modularity(source, target, weight, levels.membership[0]) > 0.41
    assert_is_a_tree(levels, 34, 10)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_karate_is_the_same_with_its_rows_shuffled_and_ends_swapped(seed: int, backend: Backend) -> None:
    source, target, weight = karate()
    rng = np.random.default_rng(seed)
    order, swapped = rng.permutation(78), rng.random(78) < 0.5
    start, end = np.where(swapped, target, source)[order], np.where(swapped, source, target)[order]
    assert_same(leiden_tree(start, end, weight, 34, backend), leiden_tree(source, target, weight, 34, backend))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 40))
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=100))
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
    weight = draw(st.lists(st.sampled_from([0.0, 1e-9, 0.3, 1.0, 7.0, 1e9]), min_size=len(edges), max_size=len(edges)))
    return n, pairs[:, 0], pairs[:, 1], np.array(weight, dtype=np.float64)


@settings(deadline=None)
@given(graph=graphs(), max_cluster_size=st.integers(1, 12), resolution=st.sampled_from([0.5, 1.0, 3.0]))
def test_children_partition_their_parent_and_every_node_has_one_community_a_level(
    graph: tuple[int, np.ndarray, np.ndarray, np.ndarray], max_cluster_size: int, resolution: float, backend: Backend
) -> None:
    n, *edges = graph
    levels = leiden_tree(*edges, n, backend, max_cluster_size, resolution)
    assert_is_a_tree(levels, n, max_cluster_size)


def test_a_graph_without_nodes_has_no_levels(backend: Backend) -> None:
    nothing = np.zeros(0, dtype=np.int64)
    levels = leiden_tree(nothing, nothing, np.zeros(0), 0, backend)
    assert levels.membership.shape == (0, 0)
    assert len(levels.level) == len(levels.parent) == len(levels.unsplittable) == 0


def test_nodes_without_edges_are_communities_of_their_own(backend: Backend) -> None:
    nothing = np.zeros(0, dtype=np.int64)
    levels = leiden_tree(nothing, nothing, np.zeros(0), 3, backend)
    assert levels.membership.tolist() == [[0, 1, 2]]
    assert levels.final.all()
    assert not levels.unsplittable.any()


def test_a_self_loop_and_an_edge_of_weight_zero_are_no_edges(backend: Backend) -> None:
    levels = leiden_tree(np.array([0, 1]), np.array([0, 2]), np.array([5.0, 0.0]), 3, backend)
    assert levels.size.tolist() == [1, 1, 1]


def test_a_clique_is_marked_and_left_whole(backend: Backend) -> None:
    source, target = np.triu_indices(15, 1)
    levels = leiden_tree(source, target, np.ones(len(source)), 15, backend)
    assert levels.size.tolist() == [15]
    assert levels.final.tolist() == levels.unsplittable.tolist() == [True]


def test_cliques_in_a_ring_are_found_at_some_level(backend: Backend) -> None:
    num, size = 40, 6
    source, target = np.triu_indices(size, 1)
    inner = np.concatenate([np.stack([source, target], axis=1) + size * clique for clique in range(num)])
    ring = np.stack([size * np.arange(num), size * ((np.arange(num) + 1) % num) + 1], axis=1)
    edges = np.concatenate([inner, ring])
    levels = leiden_tree(edges[:, 0], edges[:, 1], np.ones(len(edges)), num * size, backend)
    last = np.full(num * size, -1)
    for row in levels.membership:
        last = np.where(row >= 0, row, last)
    assert all(len(set(last[size * clique : size * (clique + 1)].tolist())) == 1 for clique in range(num))
    assert levels.size[levels.final].max() <= 10
    assert_is_a_tree(levels, num * size, 10)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e9, 1e300, 1e-300])
def test_only_the_proportions_of_weights_count(scale: float, backend: Backend) -> None:
    source, target, weight = karate()
    expected = leiden_tree(source, target, weight, 34, backend)
    assert_same(leiden_tree(source, target, weight * scale, 34, backend), expected)


def test_depth_is_bounded_and_what_is_left_there_is_marked(backend: Backend) -> None:
    source, target, weight = karate()
    levels = leiden_tree(source, target, weight, 34, backend, max_cluster_size=2, max_levels=1)
    assert len(levels.membership) == 1
    assert levels.unsplittable.tolist() == (levels.size > 2).tolist()


def test_one_seed_gives_one_tree_and_another_seed_may_give_another(backend: Backend) -> None:
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 200, 900), rng.integers(0, 200, 900)
    trees = [leiden_tree(source, target, np.ones(900), 200, backend, seed=seed) for seed in (1, 1, 2, 3)]
    assert_same(trees[0], trees[1])
    assert any(not np.array_equal(trees[0].membership[0], tree.membership[0]) for tree in trees[2:])


def test_limits_out_of_range_are_named(backend: Backend) -> None:
    source, target, weight = karate()
    with pytest.raises(ValueError, match=r"got 0, 32 and 1\.0"):
        leiden_tree(source, target, weight, 34, backend, max_cluster_size=0)


@pytest.mark.gpu
def test_on_a_device_the_first_communities_are_within_one_per_cent_of_the_cpus_in_modularity() -> None:
    rng = np.random.default_rng(4)
    n, m = 20_000, 120_000
    source = rng.integers(0, n, m)
    target = np.where(rng.random(m) < 0.8, source // 25 * 25 + rng.integers(0, 25, m), rng.integers(0, n, m)) % n
    weight = rng.integers(1, 11, m).astype(np.float64)
    found = []
    for device in ("cpu", "cuda"):
        levels = leiden_tree(source, target, weight, n, pick(device))
        assert_is_a_tree(levels, n, 10)
        found.append(modularity(source, target, weight, levels.membership[0]))
    assert found[1] == pytest.approx(found[0], rel=0.01)
