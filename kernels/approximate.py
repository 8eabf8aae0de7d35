"""Approximate search that holds a recall: parameters are raised until it is measured, or none is given.

What an index finds depends on the vectors more than on its kind: the same parameters that find nearly everything among
one corpus's embeddings find a fifth among random clusters. So none is taken on trust.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.backend import Backend
from graphmill.kernels.cagra import MAX_DEPTH as CAGRA_DEPTH
from graphmill.kernels.cagra import build_cagra, search_cagra
from graphmill.kernels.hnsw import MAX_DEPTH as HNSW_DEPTH
from graphmill.kernels.hnsw import build_hnsw, search_hnsw
from graphmill.kernels.ivf_pq import MAX_DEPTH as IVF_PQ_DEPTH
from graphmill.kernels.ivf_pq import build_ivf_pq, search_ivf_pq
from graphmill.kernels.rescore import recall, rescore, sample_queries
from graphmill.kernels.topk import topk

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Parameters = dict[str, int]


@dataclass(frozen=True)
class Approximate:
    """An index of one kind and the parameters to search it with, which hold for the ``k`` best and fewer."""

    kind: str
    """"hnsw", also for a CAGRA graph on the CPU, "cagra" or "ivf_pq"."""
    index: Any
    search: Parameters
    k: int
    backend: Backend

    @property
    def max_depth(self) -> int:
        """Most candidates that can be had."""
        return {"hnsw": HNSW_DEPTH, "cagra": CAGRA_DEPTH, "ivf_pq": IVF_PQ_DEPTH}[self.kind]

    def find(self, queries: Floats, depth: int) -> Ints:
        """Candidates for the ``depth`` best rows of each query, int64 [q, >= depth] unordered; -1 stands for none.

        Past the k that was measured the search gets wider in proportion.
        """
        stretch = max(1.0, depth / self.k)
        # Both searches keep at least as many candidates as rows are wanted: k of them, when recall was measured.
        breadth = math.ceil(max(self.search.get("breadth", 0), self.k) * stretch)
        if self.kind == "hnsw":
            return search_hnsw(self.index, queries, depth, breadth)
        if self.kind == "cagra":
            return search_cagra(self.index, queries, depth, breadth, self.backend)
        probes = math.ceil(self.search["probes"] * stretch)
        wanted = min(depth * self.search["refine"], IVF_PQ_DEPTH)
        return search_ivf_pq(self.index, queries, wanted, probes, self.backend)


@dataclass(frozen=True)
class Yardstick:
    """Queries, and the scores of the k best rows for each by exact search: what recall is measured against."""

    queries: dict[str, Floats]
    scores: dict[str, Floats]
    k: int


@dataclass(frozen=True)
class Trial:
    """Parameters, and the recall that they gave on each set of queries."""

    build: Parameters
    search: Parameters
    recall: dict[str, float]

    @property
    def worst(self) -> float:
        return min(self.recall.values())


def yardstick(vectors: Floats, num_queries: int, k: int, seed: int, backend: Backend) -> Yardstick:
    """Queries made of a seeded sample of the vectors, with their exact results."""
    queries = sample_queries(vectors, num_queries, seed)
    return Yardstick(queries, {name: topk(made, vectors, k, None, backend)[0] for name, made in queries.items()}, k)


def measure(approximate: Approximate, vectors: Floats, by: Yardstick) -> dict[str, float]:
    """Recall of the k best on each set of queries."""
    measured = {}
    for name, queries in by.queries.items():
        k = by.scores[name].shape[1]
        scores, _, _ = rescore(queries, vectors, approximate.find(queries, k), k)
        measured[name] = round(recall(scores, by.scores[name]), 4)
    return measured


def build_approximate(
    kind: str,
    vectors: Floats,
    wanted: float,
    by: Yardstick,
    backend: Backend,
    advance: Callable[[int], object] = lambda rows: None,
) -> tuple[Approximate | None, list[Trial]]:
    """An index over finite vectors float32 [n, d] whose recall is at least ``wanted`` on every set of queries.

    Returns it with what was tried, the last of which holds; None where all of a kind's bounds were reached in vain.
    """
    trials: list[Trial] = []
    for build, searches in ladder(kind, vectors.shape[1]):
        built = _built(kind, vectors, build, backend, advance)
        for search in searches:
            approximate = Approximate(kind, built, search, by.k, backend)
            trials.append(Trial(build, search, measure(approximate, vectors, by)))
            if trials[-1].worst >= wanted:
                return approximate, trials
    return None, trials


def widened(
    approximate: Approximate, vectors: Floats, wanted: float, by: Yardstick
) -> tuple[Approximate | None, Trial]:
    """The same index with the least search that holds the recall, and what it gave; None where the widest doesn't."""
    for search in ladder(approximate.kind, vectors.shape[1])[0][1]:
        wider = replace(approximate, search=search)
        trial = Trial({}, search, measure(wider, vectors, by))
        if trial.worst >= wanted:
            return wider, trial
    return None, trial


def ladder(kind: str, d: int) -> list[tuple[Parameters, list[Parameters]]]:
    """Parameters to build with, each with those to search with, from the cheapest to the bound."""
    if kind == "hnsw":
        breadths = [{"breadth": breadth} for breadth in (64, 128, 256, 512, 1024, 2048)]
        return [({"links": 32}, breadths), ({"links": 64}, breadths)]
    if kind == "cagra":
        breadths = [{"breadth": breadth} for breadth in (64, 128, 256, 512)]
        return [({"degree": 64}, breadths), ({"degree": 128}, breadths)]
    probes = [{"probes": probes, "refine": 2} for probes in (32, 64, 128, 256, 512, 1024)]
    searches = [*probes, {"probes": 1024, "refine": 4}, {"probes": 1024, "refine": 8}]
    return [({"pq_dim": min(d, max(8, d // part // 8 * 8))}, searches) for part in (4, 2, 1)]


def _built(kind: str, vectors: Floats, build: Parameters, backend: Backend, advance: Callable[[int], object]) -> Any:
    if kind == "hnsw":
        return build_hnsw(vectors, build["links"], advance)
    built = (
        build_cagra(vectors, build["degree"], backend) if kind == "cagra" else build_ivf_pq(vectors, build["pq_dim"])
    )
    advance(len(vectors))
    return built
