"""Search in a table of vectors: exact, or approximate with a recall that was measured and holds."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.interrupts import interrupts_wait
from graphmill.engine.search_files import described, read_index, saved_facts, write_index
from graphmill.kernels.approximate import Approximate, Yardstick, build_approximate, widened, yardstick
from graphmill.kernels.backend import NUMPY, Backend
from graphmill.kernels.cagra import cagra_bytes, cagra_graph
from graphmill.kernels.hnsw import open_cagra_graph
from graphmill.kernels.rescore import rescore
from graphmill.kernels.topk import check, topk
from graphmill.kernels.topk_bytes import Bytes, to_bytes, topk_bytes
from graphmill.kernels.topk_half import Half, halve, topk_half
from graphmill.kernels.topk_many import topk_many

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

APPROXIMATE_ABOVE = {"cpu": 250_000, "cuda": 50_000_000}
"""Rows up to which a scan is quick enough. On the CPU 1,000 rows of 384 dimensions take 0.2 ms of one core, 250,000
50 ms. An H200 reads 5,000,000 of them, as float16, in under 2 ms; 50,000,000 take less than 20 ms still, but 38 GB, a
quarter of its memory, and a batch of 1,000 questions a quarter of a second."""
DEVICE_SHARE = 0.8
"""Share of a device's memory that building a CAGRA graph may need; past it the vectors are compressed."""
FILTER_SLACK = 1.5
"""With a filter, how many more candidates are asked for than would do if it let rows through evenly."""
EXACT_SHARE = 4
"""Where more than one row in so many would have to be asked for, a scan is the better way."""


@dataclass(frozen=True)
class SearchConfig:
    """How the vectors of a finished index are searched."""

    index: Literal["auto", "exact", "hnsw", "cagra", "ivf_pq"] = "auto"
    """What searches a table of more than ``approximate_above`` vectors. "auto" is HNSW on the CPU and on a CUDA device
    CAGRA, or IVF-PQ where its memory is short."""
    approximate_above: int | None = None
    """Vectors of a table up to which search is exact whatever ``index`` says; None takes 250,000 on the CPU and
    50,000,000 on a CUDA device."""
    recall: float = 0.95
    """Share of the ``recall_k`` best that an approximate index must find, measured when it is built; where it can't be
    had, search stays exact."""
    recall_k: int = 100
    recall_queries: int = 1000
    """Rows that recall is measured with, once as they are and once moved aside."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.approximate_above is not None and self.approximate_above < 0:
            raise ValueError(f"search.approximate_above must be at least 0, got {self.approximate_above}")
        if not 0 < self.recall <= 1:
            raise ValueError(f"search.recall must be in (0, 1], got {self.recall}")
        for name in ("recall_k", "recall_queries"):
            if getattr(self, name) < 1:
                raise ValueError(f"search.{name} must be at least 1, got {getattr(self, name)}")


BYTES_FROM = 1024
"""Rows from which a scan on the CPU reads a copy of a byte a value: below, the rows themselves are as quick."""
FEW_QUERIES = 8
"""Of more at a time the rows are read once for all, and the copy gains nothing."""


class VectorIndex:
    """Search by inner product in vectors float32 [n, d]; rows that are not finite are never found.

    Scores are those of exact search, since an approximate index only proposes candidates. What it may get wrong is to
    miss rows, as seldom as was measured, and which of several equal rows at the end of the list it is.
    """

    def __init__(
        self,
        vectors: Floats,
        backend: Backend = NUMPY,
        approximate: Approximate | None = None,
        rows: Ints | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        self.vectors, self.backend = vectors, backend
        self._approximate, self._rows = approximate, rows
        self._facts = facts or {"index": "exact", "vectors": len(vectors), "dimension": vectors.shape[1]}
        self._is_ready = False
        """Whether an exact search has come to its end, after which nothing is left to import and to compile for one."""
        self._making = threading.Lock()
        """Held while a copy of the vectors is made, which several threads may want at once."""
        self._half: Half | None = None
        self._bytes: Bytes | None = None
        self._is_finite: bool | None = None
        # Made with the first question, since it takes a moment that an index opened for other ends need not wait.
        self._wants_bytes = backend.name == "cpu" and len(vectors) >= BYTES_FROM

    @staticmethod
    def build(
        vectors: Floats,
        config: SearchConfig,
        backend: Backend = NUMPY,
        advance: Callable[[int], object] = lambda rows: None,
    ) -> VectorIndex:
        """An index of the kind that the settings ask for; one that can't hold the recall becomes an exact one.

        The same vectors and settings give the same index on the CPU; cuVS builds in an order of its own, so that on a
        CUDA device only the recall is sure to be held each time.
        """
        kind = choose_index(config, len(vectors), vectors.shape[1], backend)
        rows = None if kind == "exact" else _finite_rows(vectors)
        if kind == "exact" or (rows is not None and not len(rows)):
            return VectorIndex(vectors, backend)
        begin = time.perf_counter()
        indexed = np.ascontiguousarray(vectors if rows is None else vectors[rows], dtype=np.float32)
        by = yardstick(indexed, config.recall_queries, config.recall_k, config.seed, backend)
        approximate, trials = build_approximate(kind, indexed, config.recall, by, backend, advance)
        best = trials[-1] if approximate is not None else max(trials, key=lambda trial: trial.worst)
        facts = {
            "index": "exact" if approximate is None else kind,
            "tried": kind,
            "vectors": len(vectors),
            "dimension": vectors.shape[1],
            "build": best.build,
            "search": best.search,
            "k": config.recall_k,
            "recall": best.recall,
            "wanted": config.recall,
            "device": backend.name,
            "library": library_of(kind),
        }
        if approximate is not None and kind == "cagra":
            facts["cpu"] = _on_cpus(approximate, indexed, config, by)
        facts["build_s"] = round(time.perf_counter() - begin, 1)
        return VectorIndex(vectors, backend, approximate, rows, facts)

    def search(self, queries: Floats, k: int, allowed: NDArray[np.bool_] | None = None) -> tuple[Floats, Ints]:
        """The k best rows for each query: scores float32 [q, m] descending and rows int64 [q, m], as from ``topk``.

        With a filter the recall holds too: more candidates are asked for, and where they don't hold k rows that are
        allowed, or the filter leaves few, search is exact.
        """
        depth = self._depth(k, allowed)
        if depth is None or self._approximate is None:
            return self._exact(queries, k, allowed)
        check(queries, self.vectors, k)
        candidates = self._approximate.find(queries, depth)
        if self._rows is not None:
            candidates = np.where(candidates < 0, -1, self._rows[candidates])
        scores, rows, found = rescore(queries, self.vectors, candidates, k, allowed)
        short = np.flatnonzero(found < k)
        if len(short):
            scores[short], rows[short] = self._exact(queries[short], k, allowed)
        return scores, rows

    def describe(self) -> dict[str, Any]:
        """What searches: index, vectors, dimension; of an approximate one its parameters and the recall they gave."""
        return described(self._facts)

    def save(self, folder: Path, print_: str = "", table: str = "") -> None:
        """Writes the index, with what it was made from: a fingerprint, and the hash of its vectors' table."""
        write_index(folder, {**self._facts, "print": print_, "table": table}, self._approximate, self._rows)

    @staticmethod
    def load(folder: Path, vectors: Floats, backend: Backend = NUMPY, table: str = "") -> VectorIndex:
        """The index that was saved for this table; an exact one where there is none, or none that can be used here."""
        facts = saved_facts(folder, table=table)
        if facts is None and folder.is_dir():
            told = "the index in %s is damaged or of other vectors, search is exact; `graphmill index` makes it anew"
            logging.getLogger(__name__).warning(told, folder)
        if facts is None or facts["index"] == "exact":
            return VectorIndex(vectors, backend, facts=facts)
        if backend.name == "cuda" and facts["device"] == "cpu" and len(vectors) <= APPROXIMATE_ABOVE["cuda"]:
            return VectorIndex(vectors, backend)  # this device has scanned them before a CPU has walked the graph
        try:
            with interrupts_wait():
                library_of(facts["index"] if backend.name == "cuda" else "hnsw")
            approximate, rows = read_index(folder, facts, vectors, backend)
        except Exception as error:  # faiss and cuVS have errors of their own, and may be missing or older here
            logging.getLogger(__name__).warning("can't use the index in %s, search is exact: %s", folder, error)
            return VectorIndex(vectors, backend)
        return VectorIndex(vectors, backend, approximate, rows, facts)

    def _exact(self, queries: Floats, k: int, allowed: NDArray[np.bool_] | None) -> tuple[Floats, Ints]:
        if self._is_ready:
            return self._scanned(queries, k, allowed)
        with interrupts_wait():
            found = self._scanned(queries, k, allowed)
            self._is_ready = True
        return found

    def _scanned(self, queries: Floats, k: int, allowed: NDArray[np.bool_] | None) -> tuple[Floats, Ints]:
        with self._making:
            self._make_copies(len(queries), allowed)
        if self._half is not None:
            return topk_half(queries, self.vectors, self._half, k, allowed, self.backend)
        if allowed is None and self.backend.name == "cpu":
            if len(queries) > FEW_QUERIES and self._is_finite:
                return topk_many(queries, self.vectors, k)
            if self._bytes is not None and len(queries) <= FEW_QUERIES:
                return topk_bytes(queries, self.vectors, self._bytes, k)
        return topk(queries, self.vectors, k, allowed, self.backend)

    def _make_copies(self, num_queries: int, allowed: NDArray[np.bool_] | None) -> None:
        """Makes, once, what a search of so many queries reads in place of the vectors."""
        if self._half is None and self._approximate is None and _has_room(self.vectors, self.backend):
            self._half = halve(self.vectors, self.backend)
        if self._half is not None or allowed is not None or self.backend.name != "cpu":
            return
        if num_queries > FEW_QUERIES:
            if self._is_finite is None:
                self._is_finite = _finite_rows(self.vectors) is None
        elif self._wants_bytes:
            self._bytes, self._wants_bytes = to_bytes(self.vectors), False

    def _depth(self, k: int, allowed: NDArray[np.bool_] | None) -> int | None:
        """How many candidates to ask for; None where a scan is the better way."""
        if self._approximate is None:
            return None
        n = len(self.vectors) if self._rows is None else len(self._rows)
        depth = float(k)
        if allowed is not None:
            left = int(np.count_nonzero(allowed if self._rows is None else allowed[self._rows]))
            depth = math.inf if left == 0 else k if left == n else k * n / left * FILTER_SLACK
        return math.ceil(depth) if depth <= min(self._approximate.max_depth, n // EXACT_SHARE) else None


def check_index(config: SearchConfig, backend: Backend) -> None:
    """Raises ValueError where the kind of index that is asked for needs a device that isn't there."""
    if config.index in ("cagra", "ivf_pq") and backend.name != "cuda":
        raise ValueError(f'search.index = "{config.index}" needs a CUDA device, and the device is {backend.name}')


def choose_index(config: SearchConfig, n: int, d: int, backend: Backend) -> str:
    """The kind of index for n vectors: "exact", "hnsw", "cagra" or "ivf_pq"."""
    limit = APPROXIMATE_ABOVE[backend.name] if config.approximate_above is None else config.approximate_above
    if config.index == "exact" or n <= limit:
        return "exact"
    check_index(config, backend)
    if config.index != "auto":
        return config.index
    if backend.name == "cpu":
        return "hnsw"
    # All of the device's memory rather than what is free of it now, so that two runs choose alike.
    _, total = backend.xp.cuda.runtime.memGetInfo()
    return "cagra" if cagra_bytes(n, d, 64) <= DEVICE_SHARE * total else "ivf_pq"


def library_of(kind: str) -> str:
    """Name and version of what builds an index of a kind."""
    if kind == "hnsw":
        import faiss

        return f"faiss {faiss.__version__}"
    import cuvs

    return f"cuvs {cuvs.__version__}"


def _on_cpus(approximate: Approximate, vectors: Floats, config: SearchConfig, by: Yardstick) -> dict[str, Any] | None:
    """How a CAGRA graph is to be searched on a CPU; None where that doesn't hold the recall."""
    graph = open_cagra_graph(cagra_graph(approximate.index), vectors, config.seed)
    there = Approximate("hnsw", graph, {}, approximate.k, NUMPY)
    wide, trial = widened(there, vectors, config.recall, by)
    return None if wide is None else {"search": trial.search, "recall": trial.recall, "seed": config.seed}


def _finite_rows(vectors: Floats) -> Ints | None:
    """The rows that are finite; None where all are."""
    finite = np.ones(len(vectors), dtype=np.bool_)
    for start in range(0, len(vectors), 1 << 14):  # blocks that stay in the cache
        block = slice(start, start + (1 << 14))
        finite[block] = np.isfinite(vectors[block]).all(axis=1)
    return None if finite.all() else np.flatnonzero(finite)


def _has_room(vectors: Floats, backend: Backend) -> bool:
    """Whether the vectors, as float16, take at most half of what is free on a device; never on the CPU."""
    free = backend.free_bytes(0.5)
    return free is not None and vectors.nbytes // 2 <= free
