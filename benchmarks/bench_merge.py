"""How long does merging take: every mention of every entity and pair, with types, descriptions, sources and weights?

    python benchmarks/bench_merge.py --device cuda --mentions 20000000 --out results/merge.json

Half of the records are entities' mentions and half are pairs', each of one chunk, ten to a thing on average with a long
tail. In the same run: graphmill on the device, its CPU twin (the same code on NumPy and pandas) where that is another,
and the same group-bys in Polars (pip install polars), which uses all cores of the CPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pyarrow as pa

from graphmill.kernels.backend import backend
from graphmill.kernels.merge import MENTIONS, PAIRS, UNKNOWN, merge_mentions, merge_pairs

SEED = 7
TYPES = ("ORGANIZATION", "PERSON", "GEO", "EVENT", UNKNOWN)


def tables(num: int) -> tuple[pa.Table, pa.Table]:
    """MENTIONS and PAIRS of num/2 rows each; a thing's rows lie scattered over the chunks."""
    random, half = np.random.default_rng(SEED), num // 2
    num_things = max(half // 10, 2)
    place = [np.arange(half) // 12, (np.arange(half) % 12).astype(np.int32)]
    thing = (num_things * random.random(half) ** 2).astype(np.int64)  # the first ones are named most often
    words = pa.array([f"a description of some forty letters, no. {n}" for n in range(4 * num_things)])
    said = words.take(pa.array(4 * thing + random.integers(0, 4, half)))
    types = pa.array(TYPES).take(pa.array(random.integers(0, len(TYPES), half)))
    names = pa.array([f"Entity {n}" for n in range(num_things)]).take(pa.array(thing))
    mentions = pa.table([thing, *place, types, names, said], schema=MENTIONS)
    other = num_things + thing % 7
    empty = pa.ListArray.from_arrays(pa.array(np.zeros(half + 1, np.int32)), pa.array([], pa.string()))
    strength = random.integers(1, 11, half).astype(np.float64)
    return mentions, pa.table([thing, other, *place, strength, said, empty], schema=PAIRS)


def by_polars(mentions: pa.Table, pairs: pa.Table) -> None:
    """The same group-bys in Polars."""
    import polars as pl

    def distinct(name: str) -> pl.Expr:
        return pl.col(name).unique(maintain_order=True)

    entities = pl.DataFrame(pl.from_arrow(mentions)).sort("entity", "order", "record")
    majority = [pl.col(name).mode().sort().first() for name in ("type", "spelling")]
    entities.group_by("entity").agg(*majority, distinct("description"), distinct("order"))
    edges = pl.DataFrame(pl.from_arrow(pairs)).sort("source", "target", "order", "record")
    largest = edges.group_by("source", "target", "order").agg(pl.col("strength").max())
    weight = largest.group_by("source", "target").agg(pl.col("strength").sum())
    lists = edges.group_by("source", "target").agg(distinct("description"), distinct("order"))
    weight.join(lists, on=["source", "target"])


def timed(work: Any, repeats: int) -> float:
    """Median seconds, after one call that is not counted."""
    seconds = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--mentions", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    options = parser.parse_args()
    mentions, pairs = tables(options.mentions)
    metrics: dict[str, float] = {}
    for device in dict.fromkeys([options.device, "cpu"]):
        chosen = backend(device)
        metrics[f"entities_{device}_s"] = timed(lambda: merge_mentions(mentions, chosen), options.repeats)  # noqa: B023
        metrics[f"pairs_{device}_s"] = timed(lambda: merge_pairs(pairs, chosen), options.repeats)  # noqa: B023
        metrics[f"{device}_s"] = metrics[f"entities_{device}_s"] + metrics[f"pairs_{device}_s"]
    if find_spec("polars") is not None:
        metrics["polars_s"] = timed(lambda: by_polars(mentions, pairs), options.repeats)
    params = {name: getattr(options, name) for name in ("device", "mentions", "repeats")} | {"seed": SEED}
    shown = {name: float(f"{value:.4g}") for name, value in metrics.items()}
    print(f"{options.mentions:,} mentions: " + ", ".join(f"{name} {value}" for name, value in shown.items()))
    if options.out:
        document = {"params": params, "machine": machine.describe(), "commit": machine.commit(), "metrics": shown}
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
