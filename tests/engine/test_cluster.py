"""Communities as tables: cases G01, G02, G04 and G06."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from graphmill.engine.cluster import ClusterConfig, cluster
from graphmill.engine.ids import content_id
from graphmill.kernels.backend import backend

NEIGHBOURS = {
    1: [2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 18, 20, 22, 32],
    2: [3, 4, 8, 14, 18, 20, 22, 31],
    3: [4, 8, 9, 10, 14, 28, 29, 33],
    4: [8, 13, 14],
    5: [7, 11],
    6: [7, 11, 17],
    7: [17],
    9: [31, 33, 34],
    10: [34],
    14: [34],
    15: [33, 34],
    16: [33, 34],
    19: [33, 34],
    20: [34],
    21: [33, 34],
    23: [33, 34],
    24: [26, 28, 30, 33, 34],
    25: [26, 28, 32],
    26: [32],
    27: [30, 34],
    28: [34],
    29: [32, 34],
    30: [33, 34],
    31: [33, 34],
    32: [33, 34],
    33: [34],
}
"""Zachary's karate club: the later members that each member knows."""

KARATE = [(one, two) for one, others in NEIGHBOURS.items() for two in others]


def tables(
    names: list[str], edges: list[tuple[str, str, float]], chunks_of: dict[str, list[str]]
) -> tuple[pa.Table, pa.Table]:
    ids = {name: content_id("entity", name) for name in names}
    ordered = sorted(names, key=lambda name: ids[name])
    entities = pa.table(
        {
            "entity_id": pa.array([ids[name] for name in ordered], pa.string()),
            "chunk_ids": pa.array([chunks_of.get(name, []) for name in ordered], pa.list_(pa.string())),
        }
    )
    relationships = pa.table(
        {
            "relationship_id": pa.array([content_id(a, b) for a, b, _ in edges], pa.string()),
            "source_id": pa.array([ids[a] for a, _, _ in edges], pa.string()),
            "target_id": pa.array([ids[b] for _, b, _ in edges], pa.string()),
            "weight": pa.array([w for _, _, w in edges], pa.float64()),
            "chunk_ids": pa.array([chunks_of.get(a, [])[:1] for a, _, _ in edges], pa.list_(pa.string())),
        }
    )
    return entities, relationships


def communities_of(
    names: list[str],
    edges: list[tuple[str, str, float]],
    chunks_of: dict[str, list[str]] | None = None,
    max_cluster_size: int = 10,
) -> pa.Table:
    chunks_of = chunks_of or {}
    chunk_ids = pa.array(sorted({c for chunks in chunks_of.values() for c in chunks}), pa.string())
    config = ClusterConfig(max_cluster_size=max_cluster_size)
    return cluster(*tables(names, edges, chunks_of), chunk_ids, config, backend("cpu"))


def karate() -> tuple[list[str], list[tuple[str, str, float]]]:
    return [f"m{n:02d}" for n in range(1, 35)], [(f"m{a:02d}", f"m{b:02d}", 1.0) for a, b in KARATE]


def test_an_empty_graph_has_no_communities_and_is_no_error() -> None:
    assert communities_of([], []).num_rows == 0


def test_entities_without_relationships_are_communities_of_their_own() -> None:
    found = communities_of(["a", "b", "c"], [], {"a": ["c1"], "b": ["c1", "c2"], "c": []})
    assert found["size"].to_pylist() == [1, 1, 1]
    assert set(found["level"].to_pylist()) == {0}
    assert sorted(found["occurrence"].to_pylist()) == [0.0, 0.5, 1.0]


def test_karate_communities_are_the_same_for_shuffled_rows_and_swapped_ends() -> None:
    names, edges = karate()
    expected = communities_of(names, edges, max_cluster_size=5)
    rng = random.Random(7)
    for _ in range(3):
        mixed = [(b, a, w) if rng.random() < 0.5 else (a, b, w) for a, b, w in rng.sample(edges, len(edges))]
        found = communities_of(names, mixed, max_cluster_size=5)
        for column in ("community_id", "community", "level", "parent", "entity_ids"):
            assert found[column].to_pylist() == expected[column].to_pylist()


def test_children_partition_their_parent_and_every_entity_is_somewhere_at_the_top() -> None:
    names, edges = karate()
    rows = communities_of(names, edges, max_cluster_size=5).to_pylist()
    by_number = {row["community"]: row for row in rows}
    top = [entity for row in rows if row["level"] == 0 for entity in row["entity_ids"]]
    assert len(top) == len(set(top)) == 34
    assert any(row["children"] for row in rows)
    for row in rows:
        if row["children"]:
            parts = [entity for child in row["children"] for entity in by_number[child]["entity_ids"]]
            assert sorted(parts) == sorted(row["entity_ids"])
            assert all(by_number[child]["parent"] == row["community"] for child in row["children"])
            assert all(by_number[child]["level"] == row["level"] + 1 for child in row["children"])


def test_relationships_and_chunks_of_a_community_are_those_inside_it() -> None:
    edges = [
        ("a", "b", 5.0),
        ("b", "c", 5.0),
        ("a", "c", 5.0),
        ("x", "y", 5.0),
        ("y", "z", 5.0),
        ("x", "z", 5.0),
        ("c", "x", 0.1),
    ]
    chunks = {"a": ["c1"], "b": ["c2"], "c": ["c1"], "x": ["c9"], "y": ["c9"], "z": ["c8", "c9"]}
    rows = communities_of(list("abcxyz"), edges, chunks).to_pylist()
    top = [row for row in rows if row["level"] == 0]
    assert len(top) == 2
    inner = {content_id(a, b) for a, b, _ in edges} - {content_id("c", "x")}
    assert {r for row in top for r in row["relationship_ids"]} == inner
    assert sorted(row["chunk_ids"] for row in top) == [["c1", "c2"], ["c8", "c9"]]


@pytest.mark.parametrize(("setting", "value"), [("max_cluster_size", 0), ("resolution", 0.0), ("seed", -1)])
def test_a_setting_out_of_bounds_is_named_with_its_value(setting: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"cluster\.{setting} .*got {value}"):
        ClusterConfig(**{setting: value})
