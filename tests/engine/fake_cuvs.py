"""As much of cuVS and CuPy as graphmill calls, over NumPy: what is called and kept can be tested without a device.

Names, arguments, dtypes and what they return are those of cuVS 26.10; what is found is found by scanning.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphmill.kernels.backend import Backend


class Cupy(ModuleType):
    """NumPy, but for what only CuPy has."""

    ndarray = type("ndarray", (), {})  # no array of NumPy is one: nothing takes it for what lies on a device
    cuda = SimpleNamespace(runtime=SimpleNamespace(memGetInfo=lambda: (130 << 30, 140 << 30)))

    def __getattr__(self, name: str) -> Any:
        return np.asarray if name == "asnumpy" else getattr(np, name)


class OnDevice:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def copy_to_host(self) -> np.ndarray:
        return self.values.copy()


class Cagra:
    def __init__(self, dataset: np.ndarray | None, neighbours: np.ndarray) -> None:
        self.dataset, self.graph = dataset, OnDevice(neighbours)


def build_cagra(index_params: SimpleNamespace, dataset: np.ndarray) -> Cagra:
    assert dataset.dtype == np.float16
    assert dataset.shape[1] % 8 == 0
    scores = dataset.astype(np.float32) @ dataset.astype(np.float32).T
    return Cagra(dataset, np.argsort(-scores, axis=1)[:, 1 : index_params.graph_degree + 1].astype(np.uint32))


def search_cagra(search_params: SimpleNamespace, index: Cagra, queries: np.ndarray, k: int) -> tuple[Any, np.ndarray]:
    assert index.dataset is not None, "the index has no dataset to search in"
    assert queries.dtype == index.dataset.dtype
    assert k <= search_params.itopk_size <= 512
    rows = np.argsort(-(queries.astype(np.float32) @ index.dataset.astype(np.float32).T), axis=1)[:, :k]
    rows[0, -1] = 2**32 - 1  # what stands for none
    return None, rows.astype(np.uint32)


def from_graph(graph: np.ndarray, dataset: np.ndarray, metric: str = "sqeuclidean") -> Cagra:
    assert graph.dtype == np.uint32
    assert metric == "inner_product"
    return Cagra(None, graph)


def update_dataset(index: Cagra, dataset: np.ndarray) -> Cagra:
    index.dataset = dataset
    return index


class IvfPq:
    def __init__(self, dataset: np.ndarray, num_lists: int) -> None:
        self.dataset, self.n_lists = dataset, num_lists

    def __len__(self) -> int:
        return len(self.dataset)


def build_ivf_pq(index_params: SimpleNamespace, dataset: np.ndarray) -> IvfPq:
    assert dataset.dtype == np.float32
    return IvfPq(dataset, index_params.n_lists)


def search_ivf_pq(search_params: SimpleNamespace, index: IvfPq, queries: np.ndarray, k: int) -> tuple[Any, np.ndarray]:
    assert 1 <= search_params.n_probes <= index.n_lists
    rows = np.argsort(-(queries.astype(np.float16) @ index.dataset.astype(np.float16).T), axis=1)[:, :k]
    rows[0, -1] = np.iinfo(np.int64).max
    return None, rows.astype(np.int64)


def save_ivf_pq(filename: str, index: IvfPq) -> None:
    with Path(filename).open("wb") as file:
        np.savez(file, dataset=index.dataset, num_lists=index.n_lists)


def load_ivf_pq(filename: str) -> IvfPq:
    stored = np.load(filename)
    return IvfPq(stored["dataset"], int(stored["num_lists"]))


def pretend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Puts these in the place of cuVS, and gives the backend of a device that isn't there."""

    def params(**allowed: Any) -> Any:
        def make(**given: Any) -> SimpleNamespace:
            assert given.keys() <= allowed.keys()
            return SimpleNamespace(**{**allowed, **given})

        return make

    cagra = SimpleNamespace(
        IndexParams=params(metric="sqeuclidean", graph_degree=64, intermediate_graph_degree=128),
        SearchParams=params(itopk_size=64),
        build=build_cagra,
        search=search_cagra,
        from_graph=from_graph,
        update_dataset=update_dataset,
    )
    ivf_pq = SimpleNamespace(
        IndexParams=params(n_lists=1024, metric="sqeuclidean", pq_dim=0, kmeans_trainset_fraction=0.5),
        SearchParams=params(n_probes=20),
        build=build_ivf_pq,
        search=search_ivf_pq,
        save=save_ivf_pq,
        load=load_ivf_pq,
    )
    for name, module in {
        "cuvs": SimpleNamespace(__version__="26.10.00"),
        "cuvs.neighbors": SimpleNamespace(cagra=cagra, ivf_pq=ivf_pq),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)  # type: ignore[arg-type]
    return Backend("cuda", Cupy("cupy"), None)
