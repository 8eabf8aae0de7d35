from __future__ import annotations

import numpy as np
import pytest

from graphmill.kernels import split as module
from graphmill.kernels.backend import Backend
from graphmill.kernels.split import canonical_edges, modularity, split, split_reference


def random_parts(num_parts: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weighted parts of 20 to 120 nodes, of scales far apart, and edges between them, which are to be ignored."""
    rng = np.random.default_rng(seed)
    source, target, weight, part = [], [], [], []
    for number in range(num_parts):
        size, first = int(rng.integers(20, 121)), len(part)
        group = rng.integers(0, 4, size)
        ring = np.stack([np.arange(size), (np.arange(size) + 1) % size], axis=1)
        chords = rng.integers(0, size, (6 * size, 2))
        chords = chords[(group[chords[:, 0]] == group[chords[:, 1]]) | (rng.random(len(chords)) < 0.15)]
        edges = np.concatenate([ring, chords]) + first
        source += edges[:, 0].tolist()
        target += edges[:, 1].tolist()
        weight += (rng.integers(1, 11, len(edges)) * 10.0 ** rng.integers(-6, 7)).tolist()
        part += [number] * size
    across = rng.integers(0, len(part), (500, 2))
    return (
        np.array(source + across[:, 0].tolist()),
        np.array(target + across[:, 1].tolist()),
        np.array(weight + [1.0] * len(across)),
        np.array(part),
    )


def part_modularities(edges: tuple[np.ndarray, ...], part: np.ndarray, label: np.ndarray) -> list[float]:
    source, target, weight = edges
    found = []
    for number in range(part.max() + 1):
        inside = (part[source] == number) & (part[target] == number)
        found.append(modularity(source[inside], target[inside], weight[inside], label))
    return found


@pytest.mark.parametrize("resolution", [0.7, 1.0, 1.6])
def test_one_call_for_all_parts_is_as_good_as_a_call_for_each(resolution: float, backend: Backend) -> None:
    *rows, part = random_parts(40, seed=3)
    edges = canonical_edges(*rows, len(part), backend)
    label = backend.asnumpy(split(*edges, backend.xp.asarray(part), resolution, 1, backend))
    host = tuple(backend.asnumpy(column) for column in edges)
    expected = split_reference(*host, part, resolution, 1)
    together, apart = part_modularities(host, part, label), part_modularities(host, part, expected)
    assert np.mean(together) >= 0.99 * np.mean(apart)
    num_together, num_apart = (len({*zip(part.tolist(), found.tolist(), strict=True)}) for found in (label, expected))
    assert abs(num_together - num_apart) <= 0.1 * num_apart


def test_no_community_spans_two_parts_and_none_outside_is_touched(backend: Backend) -> None:
    *rows, part = random_parts(10, seed=4)
    part[part == 3] = -1
    edges = canonical_edges(*rows, len(part), backend)
    label = backend.asnumpy(split(*edges, backend.xp.asarray(part), 1.0, 0, backend))
    edged = label < len(part)
    assert all(len(set(part[edged & (label == number)].tolist())) == 1 for number in set(label[edged].tolist()))
    assert not edged[part == -1].any()


def test_many_parts_are_done_in_several_unions(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    *rows, part = random_parts(10, seed=5)
    edges = canonical_edges(*rows, len(part), backend)
    host = tuple(backend.asnumpy(column) for column in edges)
    once = backend.asnumpy(split(*edges, backend.xp.asarray(part), 1.0, 0, backend))
    monkeypatch.setattr(module, "MAX_PARTS", 3)
    label = backend.asnumpy(split(*edges, backend.xp.asarray(part), 1.0, 0, backend))
    mean = np.mean(part_modularities(host, part, label))
    assert mean == pytest.approx(np.mean(part_modularities(host, part, once)), rel=0.01)


def test_edges_are_told_apart_by_neither_order_nor_orientation_nor_repetition(backend: Backend) -> None:
    source, target = np.array([3, 0, 2, 0, 1]), np.array([1, 2, 0, 0, 3])
    edges = canonical_edges(source, target, np.array([1.0, 2.0, 3.0, 9.0, 4.0]), 4, backend)
    start, end, weight = (backend.asnumpy(column) for column in edges)
    assert start.tolist() == [0, 1]
    assert end.tolist() == [2, 3]
    assert weight[0] == weight[1]


def test_weights_are_whole_units_that_add_up_exactly(backend: Backend) -> None:
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 50, 1000), rng.integers(50, 100, 1000)
    weight = 10.0 ** rng.uniform(-9, 9, 1000)
    found = backend.asnumpy(canonical_edges(source, target, weight, 100, backend)[2])
    assert (found == np.rint(found)).all()
    assert found.min() >= 1
    assert sum(int(units) for units in found) == int(found.sum()) <= 2**50 + 1000
    order = rng.permutation(1000)
    again = backend.asnumpy(canonical_edges(target[order], source[order], weight[order], 100, backend)[2])
    np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_weights_that_are_none_are_refused(weight: float, backend: Backend) -> None:
    with pytest.raises(ValueError, match="finite and >= 0"):
        canonical_edges(np.array([0]), np.array([1]), np.array([weight]), 2, backend)


def test_modularity_of_two_triangles_is_known() -> None:
    source, target = np.array([0, 1, 2, 3, 4, 5, 2]), np.array([1, 2, 0, 4, 5, 3, 3])
    assert modularity(source, target, np.ones(7), np.array([0, 0, 0, 1, 1, 1])) == pytest.approx(6 / 7 - 0.5)
