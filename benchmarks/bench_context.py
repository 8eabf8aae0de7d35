"""How long does it take to make the local context of entities that were found, in an index of a million of them?

    python benchmarks/bench_context.py --entities 1000000 --out results/context.json

A seeded index is held in memory: per entity three relationships, which few entities have most of, and a chunk, of some
120 tokens; three levels of communities with their reports. What is measured is all that follows the vector search:
communities, relationships, claims and chunks of the entities, packing within the budgets, lines, references and text.
On either device this is the host's work; ``--device`` is what the index is opened with.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal, cast

import machine
import numpy as np
import pyarrow as pa

import graphmill
from graphmill.engine.context_tokens import QUOTED
from graphmill.engine.contexts import Context
from graphmill.engine.function_models import HashingEmbedder
from graphmill.engine.index import Index
from graphmill.engine.modes import add_local
from graphmill.engine.rows import Lists, Rows, list_column
from graphmill.engine.tokenizers import WordTokenizer
from graphmill.kernels.backend import backend

LEVELS = (1000, 100, 10)  # entities of a community, coarsest level first
WORDS = "river bridge market signal harvest engine council archive method border season theory copper glass".split()


@dataclass
class Table:
    """A table, and what it is known by."""

    held: pa.Table
    hash: str = ""


@dataclass
class Held:
    """What an index reads of its folder, from memory."""

    tables: dict[str, Table]
    facts: dict[str, Any]
    root: Path = Path("memory")
    state: str = "held"

    def read(self, name: str, columns: list[str] | None = None) -> pa.Table:
        return self.tables[name].held.select(columns or self.tables[name].held.column_names)

    def is_finished(self, name: str, _: str) -> bool:
        return name in self.tables


def texts(rng: np.random.Generator, n: int, num_words: int) -> pa.Array:
    """Texts of words at random, of which there are a thousand different ones with a number each."""
    some = [" ".join(rng.choice(WORDS, num_words)) for _ in range(1000)]
    return pa.array([f"{some[row % 1000]} {row}" for row in range(n)])


def ids(kind: str, n: int) -> pa.Array:
    return pa.array([f"{kind}{row:031d}" for row in range(n)])


def single(rows: Rows) -> Lists:
    """A list of one row number each."""
    return Lists(np.arange(len(rows) + 1), rows)


def make(n: int, rng: np.random.Generator) -> dict[str, pa.Table]:
    """The tables of an index of n entities, as far as contexts read them."""
    m, chunk = 3 * n, rng.permutation(n)
    chunk_ids, entity_ids, names = ids("c", n), ids("e", n), texts(rng, n, 2)
    source = np.minimum((n * rng.random(m) ** 3).astype(np.int64), n - 1)  # the density of x is that of x ** (-2 / 3)
    target = (source + 1 + rng.integers(0, n - 1, m)) % n
    degree = np.bincount(source, minlength=n) + np.bincount(target, minlength=n)
    group = [np.arange(n) // size for size in LEVELS]
    num_groups = [int(of.max()) + 1 for of in group]
    first = np.cumsum([0, *num_groups[:-1]])
    parents = [np.full(num_groups[0], -1)]
    parents += [
        first[level - 1] + np.arange(num_groups[level]) * LEVELS[level] // LEVELS[level - 1] for level in (1, 2)
    ]
    bounds = np.concatenate([level * n + np.arange(g) * LEVELS[level] for level, g in enumerate(num_groups)])
    members = Lists(np.append(bounds, len(LEVELS) * n), np.tile(np.arange(n), len(LEVELS)))
    total, level = sum(num_groups), np.repeat(np.arange(len(LEVELS)), num_groups)
    full_text = texts(rng, total, 60)
    some_tokens = {"num_tokens": pa.array(np.full(n, 40, np.int32))}
    return {
        "chunks": pa.table({
            "chunk_id": chunk_ids, "document_id": pa.array([f"d{row // 100}" for row in range(n)]),
            "path": pa.array([f"doc-{row // 100:06d}.txt" for row in range(n)]), "position": np.arange(n) % 100,
            "start": np.arange(n), "end": np.arange(n) + 700, "text_id": ids("t", n), "text": texts(rng, n, 120),
            "num_tokens": np.full(n, 122, np.int32),
        }),
        "entities": pa.table({
            "entity_id": entity_ids, "key": names, "name": names, "type": pa.array(["PERSON"] * n),
            "description": texts(rng, n, 30), "chunk_ids": list_column(single(chunk), chunk_ids),
            "rank": degree.astype(np.float64), **some_tokens,
        }),
        "relationships": pa.table({
            "relationship_id": ids("r", m), "source_id": entity_ids.take(source), "target_id": entity_ids.take(target),
            "source": names.take(source), "target": names.take(target), "description": texts(rng, m, 20),
            "chunk_ids": list_column(single(chunk[source]), chunk_ids), "weight": rng.integers(1, 10, m).astype(float),
            "rank": (degree[source] + degree[target]).astype(np.float64), "num_tokens": np.full(m, 35, np.int32),
        }),
        "communities": pa.table({
            "community_id": ids("g", total), "level": level.astype(np.int32), "parent": np.concatenate(parents),
            "entity_ids": list_column(members, entity_ids), "occurrence": rng.random(total),
            "chunk_ids": list_column(single(chunk[members.values[members.offsets[:-1]]]), chunk_ids),
        }),
        "reports": pa.table({
            "community_id": ids("g", total), "title": texts(rng, total, 3), "full_text": full_text,
            "rating": rng.random(total) * 10, "num_tokens": np.full(total, 62, np.int32),
        }),
        "documents": pa.table({
            "document_id": pa.array([f"d{row}" for row in range((n + 99) // 100)]),
            "created_at": pa.array([0] * ((n + 99) // 100), pa.timestamp("s", tz="UTC")),
        }),
    }  # fmt: skip


def hold(tables: dict[str, pa.Table], device: Literal["cpu", "cuda"]) -> Index:
    """The tables as an open index, without vectors."""
    embedder, tokenizer = HashingEmbedder(8), WordTokenizer()
    for name, (of, _) in QUOTED.items():
        tables[f"tokens_{name}"] = pa.table({"id": tables[name][of], "num_tokens": tables[name]["num_tokens"]})
    facts = {
        "summary": {"models": {"tokenizer": tokenizer.name}}, "state": "held",
        "embedder": {"model": embedder.model, "dimension": embedder.dimension},
    }  # fmt: skip
    folder = Held({name: Table(table) for name, table in tables.items()}, facts)
    return Index(cast(Any, folder), embedder, tokenizer, backend(device))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    for name, value in (("entities", 1_000_000), ("top-k", 20), ("questions", 200), ("warm-up", 20), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    begin = time.perf_counter()
    index = hold(make(options.entities, rng), options.device)
    opened = time.perf_counter() - begin
    param, seconds, sizes = graphmill.QueryParam(mode="local", top_k=options.top_k), [], []
    for _ in range(options.warm_up + options.questions):
        found = rng.choice(options.entities, options.top_k, replace=False)
        begin = time.perf_counter()
        context = Context(param.max_total_tokens)
        add_local(index, param, found, context)
        sizes.append(len(context.render()))
        seconds.append(time.perf_counter() - begin)
    taken = sorted(1e3 * second for second in seconds[options.warm_up :])
    metrics = {
        "made_s": round(opened, 1),
        "median_ms": round(median(taken), 3),
        "p95_ms": round(taken[int(0.95 * len(taken))], 3),
        "context_chars": int(median(sizes)),
    }
    print(f"{options.entities:,} entities, local context of {options.top_k}: {metrics}")
    if options.out:
        params = {key: value for key, value in vars(options).items() if key != "out"}
        document = {"params": params, "machine": machine.describe(), "commit": machine.commit(), "metrics": metrics}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
