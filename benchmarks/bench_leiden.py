"""How long does the whole tree of communities take, and how good are its first communities?

    python benchmarks/bench_leiden.py --device cuda --edges 10000000 --out results/leiden.json

A seeded graph of groups within groups with a tail of hubs. In the same run: graphmill on the device, its CPU twin where
that is another, and graspologic-native's hierarchical_leiden, which graphrag uses, on the same edges. Modularity is of
level 0; "largest" is the size of the largest community at the last level.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np

from graphmill.kernels.backend import backend
from graphmill.kernels.leiden import leiden_tree
from graphmill.kernels.split import modularity

SEED, MAX_CLUSTER_SIZE = 11, 10


def graph(num_edges: int) -> tuple[Any, Any, Any, int]:
    """source, target, weight and n = edges / 9: six edges of ten lie within groups of 20, three within ones of 400."""
    random = np.random.default_rng(SEED)
    n = max(num_edges // 9, 1000)
    source = (n * random.random(num_edges) ** 1.5).astype(np.int64)
    near, middle = (source // g * g + random.integers(0, g, num_edges) for g in (20, 400))
    choice = random.random(num_edges)
    target = np.where(choice < 0.6, near, np.where(choice < 0.9, middle, random.integers(0, n, num_edges)))
    return source, np.minimum(target, n - 1), random.integers(1, 11, num_edges).astype(np.float64), n


def peer(source: Any, target: Any, weight: Any) -> dict[str, Any]:
    """graspologic-native's own hierarchy, from Python tuples as it takes them; making these is not counted."""
    import graspologic_native

    low, high = np.minimum(source, target), np.maximum(source, target)
    edges = [(str(a), str(b), w) for a, b, w in zip(low.tolist(), high.tolist(), weight.tolist(), strict=True)]
    begin = time.perf_counter()
    found = graspologic_native.hierarchical_leiden(
        edges=edges, max_cluster_size=MAX_CLUSTER_SIZE, seed=SEED, resolution=1.0, randomness=0.001,
        starting_communities=None, iterations=1, use_modularity=True,
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    label = np.zeros(int(max(source.max(), target.max())) + 1, np.int64)
    for row in found:
        if row.level == 0:
            label[int(row.node)] = row.cluster
    return {"seconds": seconds, "modularity": modularity(source, target, weight, label)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--edges", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true", help="Leave graspologic-native's own hierarchy out.")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    options = parser.parse_args()
    source, target, weight, n = graph(options.edges)
    metrics: dict[str, Any] = {}
    for device in dict.fromkeys([options.device, "cpu"]):
        seconds = []
        for _ in range(options.repeats + 1):  # the first is not counted
            begin = time.perf_counter()
            tree = leiden_tree(source, target, weight, n, backend(device), MAX_CLUSTER_SIZE, seed=SEED)
            seconds.append(time.perf_counter() - begin)
        metrics[device] = {
            "seconds": sorted(seconds[1:])[options.repeats // 2],
            "modularity": modularity(source, target, weight, tree.membership[0]),
            "levels": len(tree.membership),
            "communities": len(tree.size),
            "largest": int(tree.size[tree.final].max()),
        }
    if not options.no_peer:
        metrics["graspologic hierarchical_leiden"] = peer(source, target, weight)
    shown = ", ".join(f"{name} {row['seconds']:.2f} s (Q {row['modularity']:.4f})" for name, row in metrics.items())
    print(f"{options.edges:,} edges, {n:,} nodes: {shown}")
    if options.out:
        params = {
            "device": options.device,
            "edges": options.edges,
            "nodes": n,
            "repeats": options.repeats,
            "seed": SEED,
        }
        document = {"params": params, "machine": machine.describe(), "commit": machine.commit(), "metrics": metrics}
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
