"""Approximate search on the CPU over a graph of near rows, by faiss: its own HNSW, or a graph that CAGRA made.

The vectors are not kept a second time: an index searches the caller's matrix in place, and what is stored is the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

BUILD_BREADTH = 100
"""Candidates weighed for each row's links (efConstruction). With 40,000 MiniLM vectors 200 takes twice as long, 1.4 ms
of a core a row, and lifts recall@100 from 0.966 to 0.978, which a search of twice the breadth does too."""
BATCH_ROWS = 1 << 16
"""Rows linked between two signs of progress."""
MAX_DEPTH = 4096
"""Most rows to ask for; past that a scan of everything is the better way."""
NUM_DOORS = 4096
"""Rows from which a graph without levels is entered..."""
DOORS = 32
"""...and how many of them, the nearest to the query, a search starts from."""


@dataclass(frozen=True)
class Hnsw:
    """A graph over vectors float32 [n, d], and the rows to enter it by where it has no levels above."""

    index: Any
    vectors: Floats
    doors: NDArray[np.int32] | None = None


def build_hnsw(vectors: Floats, links: int, advance: Callable[[int], object] = lambda rows: None) -> Hnsw:
    """An HNSW graph over finite vectors float32 [n, d], C-ordered, by inner product.

    links  neighbours a row has on the upper levels, twice as many on the lowest (M)

    The same vectors give the same graph, on any number of threads: faiss draws levels from a fixed seed and, from
    1.15.1 on, links rows in an order of its own. Another processor's float32 sums may round another way.
    """
    import faiss

    index = faiss.IndexHNSWFlat(vectors.shape[1], links, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = BUILD_BREADTH
    for start in range(0, len(vectors), BATCH_ROWS):
        batch = vectors[start : start + BATCH_ROWS]
        index.add(batch)
        advance(len(batch))
    return Hnsw(_search_in_place(index, vectors), vectors)


def search_hnsw(graph: Hnsw, queries: Floats, k: int, breadth: int) -> Ints:
    """The k nearest rows that a search finds, int64 [q, k] in no certain order; -1 where it finds no more.

    breadth  candidates kept open during the search (efSearch); at least k are
    """
    import faiss

    queries = np.ascontiguousarray(queries, dtype=np.float32)
    options = faiss.SearchParametersHNSW(efSearch=max(breadth, k))
    if graph.doors is None:
        return np.asarray(graph.index.search(queries, k, params=options)[1])
    entries, distances = _nearest_doors(graph, queries)
    rows = np.empty((len(queries), k), dtype=np.int64)
    scores = np.empty((len(queries), k), dtype=np.float32)
    pointers = [faiss.swig_ptr(array) for array in (queries, entries, distances, scores, rows)]
    every_door_in_one_search = 2
    graph.index.search_level_0(
        len(queries), pointers[0], k, *pointers[1:], entries.shape[1], every_door_in_one_search, options
    )
    return rows


def _search_in_place(index: Any, vectors: Floats) -> Any:
    """Has the index read the caller's matrix, which must outlive it, in the place of a copy of its own."""
    import faiss

    flat = faiss.IndexFlat(vectors.shape[1], faiss.METRIC_INNER_PRODUCT)
    nobody = faiss.MaybeOwnedVectorUInt8().owner
    content = vectors.reshape(-1).view(np.uint8)
    flat.codes = faiss.MaybeOwnedVectorUInt8.create_view(faiss.swig_ptr(content), content.nbytes, nobody)
    flat.ntotal = index.ntotal = len(vectors)
    copy = index.storage
    index.storage, index.own_fields = flat, False
    if copy is not None:
        copy.this.own(True)  # so that it goes with its last name, here
    index.referenced_objects = [flat]  # which index.storage, being a pointer, doesn't keep
    return index


def _nearest_doors(graph: Hnsw, queries: Floats) -> tuple[NDArray[np.int32], Floats]:
    assert graph.doors is not None
    scores = queries @ graph.vectors[graph.doors].T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :DOORS]
    near = np.take_along_axis(scores, best, axis=1)
    return np.ascontiguousarray(graph.doors[best]), np.ascontiguousarray(near, dtype=np.float32)


def graph_bytes(graph: Hnsw) -> NDArray[np.uint8]:
    """The graph without its vectors, as faiss writes it: for ``open_hnsw``."""
    import faiss

    return np.asarray(faiss.serialize_index(graph.index, faiss.IO_FLAG_SKIP_STORAGE))


def open_hnsw(content: NDArray[np.uint8], vectors: Floats) -> Hnsw:
    """The graph that ``graph_bytes`` gave for the same vectors. Content must be whole: faiss trusts what it reads."""
    import faiss

    return Hnsw(_search_in_place(faiss.deserialize_index(content), vectors), vectors)


def open_cagra_graph(neighbours: NDArray[np.uint32], vectors: Floats, seed: int = 0) -> Hnsw:
    """A CAGRA graph uint32 [n, degree] searched on the CPU, as the lowest level of an HNSW graph that has no other.

    faiss's own class for such graphs enters them at rows drawn anew for each search; here the doors are drawn once,
    from the seed, so that equal searches find equal rows.
    """
    import faiss

    n, width = neighbours.shape
    links = max(-(-width // 2), 2)
    degree = 2 * links  # what the lowest level has in faiss
    index = faiss.IndexHNSWFlat(vectors.shape[1], links, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.entry_point, index.hnsw.max_level = 0, 0
    faiss.copy_array_to_vector(np.ones(n, dtype=np.int32), index.hnsw.levels)
    faiss.copy_array_to_vector(np.arange(n + 1, dtype=np.uint64) * np.uint64(degree), index.hnsw.offsets)
    table = np.full((n, degree), -1, dtype=np.int32)
    table[:, :width] = neighbours
    faiss.copy_array_to_vector(table.reshape(-1), index.hnsw.neighbors)
    doors = np.random.default_rng(seed).choice(n, min(NUM_DOORS, n), replace=False)
    return Hnsw(_search_in_place(index, vectors), vectors, np.sort(doors).astype(np.int32))
