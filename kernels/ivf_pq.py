"""Approximate search on a CUDA device in compressed vectors: IVF-PQ of cuVS, for what CAGRA has no room for.

Rows lie in lists by their nearest centre, as ``pq_dim`` bytes each; a search looks through the lists of the centres
nearest to the query. What the bytes blur is made good by asking for some times as many candidates as are wanted, which
are then scored by the original vectors.
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
MAX_DEPTH = 1024
"""Most candidates to ask for."""
TRAINING_ROWS = 2_000_000
"""Rows that centres and code books are learnt from, at most."""


@dataclass(frozen=True)
class IvfPq:
    """Lists of compressed rows on the device."""

    index: Any
    num_rows: int
    num_lists: int


def build_ivf_pq(vectors: Floats, pq_dim: int) -> IvfPq:
    """Lists over finite vectors float32 [n, d], which stay in host memory; about as many lists as rows in each."""
    from cuvs.neighbors import ivf_pq

    n = len(vectors)
    num_lists = 1 << round(np.log2(max(n, 1)) / 2)
    parameters = ivf_pq.IndexParams(
        n_lists=num_lists,
        metric=METRIC,
        pq_dim=pq_dim,
        kmeans_trainset_fraction=min(1.0, max(TRAINING_ROWS / n, 0.01)),
    )
    return IvfPq(ivf_pq.build(parameters, np.ascontiguousarray(vectors)), n, num_lists)


def search_ivf_pq(lists: IvfPq, queries: Floats, k: int, probes: int, backend: Backend) -> Ints:
    """The k rows nearest by their compressed vectors in the ``probes`` nearest lists, int64 [q, k]; -1 for none."""
    from cuvs.neighbors import ivf_pq

    xp = backend.xp
    parameters = ivf_pq.SearchParams(n_probes=min(probes, lists.num_lists))
    _, neighbours = ivf_pq.search(parameters, lists.index, xp.asarray(queries, dtype=np.float32), k)
    rows = xp.asarray(neighbours)
    return backend.asnumpy(xp.where((rows >= 0) & (rows < lists.num_rows), rows, -1))


def save_ivf_pq(lists: IvfPq, path: str) -> None:
    """Writes the lists to a file: cuVS gives them in no other way."""
    from cuvs.neighbors import ivf_pq

    ivf_pq.save(path, lists.index)


def open_ivf_pq(path: str) -> IvfPq:
    """The lists that ``save_ivf_pq`` wrote."""
    from cuvs.neighbors import ivf_pq

    index = ivf_pq.load(path)
    return IvfPq(index, len(index), index.n_lists)
