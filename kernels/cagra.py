"""Approximate search on a CUDA device over a graph of near rows: CAGRA of cuVS.

The device holds the vectors as float16, which is enough to find candidates by, beside a graph of ``degree`` rows a
row. The graph is all there is to store: it leaves the device as an array, which a device takes back and a CPU searches
too (``hnsw.open_cagra_graph``). The format of cuVS's own file may change from release to release, as it says itself,
and what cuVS exports for CPUs is hnswlib's format, which faiss doesn't read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.backend import Backend

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

METRIC = "inner_product"
MAX_DEPTH = 512
"""The widest search of cuVS's fastest kernel (itopk_size)."""
ROW_MULTIPLE = 8
"""float16 values that make up 16 bytes: rows are padded with zeros to a multiple of it, so that cuVS takes them as they
lie and makes no copy of its own."""


@dataclass(frozen=True)
class Cagra:
    """A graph and the vectors on the device that it points into."""

    index: Any
    dataset: Any
    graph: Any = None
    """The array that the index was opened from, which it may go on reading; None where cuVS made its own."""


def build_cagra(vectors: Floats, degree: int, backend: Backend) -> Cagra:
    """A CAGRA graph over finite vectors float32 [n, d]; ``degree`` neighbours a row, chosen from twice as many."""
    from cuvs.neighbors import cagra

    parameters = cagra.IndexParams(metric=METRIC, graph_degree=degree, intermediate_graph_degree=2 * degree)
    dataset = _on_device(vectors, backend)
    return Cagra(cagra.build(parameters, dataset), dataset)


def search_cagra(graph: Cagra, queries: Floats, k: int, breadth: int, backend: Backend) -> Ints:
    """The k nearest rows that a search finds, int64 [q, k]; -1 where it finds no more.

    breadth  candidates kept during the search (itopk_size), at least k and at most MAX_DEPTH
    """
    from cuvs.neighbors import cagra

    xp = backend.xp
    parameters = cagra.SearchParams(itopk_size=min(max(breadth, k), MAX_DEPTH))
    _, neighbours = cagra.search(parameters, graph.index, _on_device(queries, backend), k)
    rows = xp.asarray(neighbours).astype(np.int64)
    return backend.asnumpy(xp.where(rows < len(graph.dataset), rows, -1))


def cagra_graph(graph: Cagra) -> NDArray[np.uint32]:
    """The neighbours of each row, uint32 [n, degree]."""
    return np.asarray(graph.index.graph.copy_to_host(), dtype=np.uint32)


def open_cagra(neighbours: NDArray[np.uint32], vectors: Floats, backend: Backend) -> Cagra:
    """The graph that ``cagra_graph`` gave, over the same vectors, back on the device."""
    from cuvs.neighbors import cagra

    dataset, graph = _on_device(vectors, backend), backend.xp.asarray(neighbours)
    index = cagra.from_graph(graph, dataset, metric=METRIC)
    cagra.update_dataset(index, dataset)  # from_graph reads the rows and keeps none to search in
    return Cagra(index, dataset, graph)


def cagra_bytes(n: int, d: int, degree: int) -> int:
    """Device memory that building takes at its height: the vectors as float16, the graph, the wider one that it is
    chosen from with its sorted copy, and a product-quantized copy of the vectors that finds that."""
    return n * (2 * d + 4 * degree + 2 * 4 * 2 * degree + d // 2)


def _on_device(vectors: Floats, backend: Backend) -> Any:
    """float16 [n, d], d padded with zeros, which no inner product sees."""
    n, d = vectors.shape
    array = backend.xp.zeros((n, -(-d // ROW_MULTIPLE) * ROW_MULTIPLE), dtype=np.float16)
    block = 1 << 20
    for start in range(0, n, block):  # by blocks, or the float32 copy would take twice what stays
        array[start : start + block, :d] = backend.xp.asarray(vectors[start : start + block]).astype(np.float16)
    return array
