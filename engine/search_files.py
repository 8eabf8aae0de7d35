"""Approximate indexes on disk: a folder with ``index.json``, which says what it holds, and a file of the index itself.

It is written under a temporary name, synced and renamed whole, so that it is there as it was written or not at all. The
vectors are not kept a second time; they stay where they are, in the run folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.run_folder import write_bytes
from graphmill.kernels.approximate import Approximate
from graphmill.kernels.backend import NUMPY, Backend
from graphmill.kernels.cagra import cagra_graph, open_cagra
from graphmill.kernels.hnsw import graph_bytes, open_cagra_graph, open_hnsw
from graphmill.kernels.ivf_pq import open_ivf_pq, save_ivf_pq

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

FORMAT = 1
"""Version of the layout; a folder of another one is made anew."""


def write_index(folder: Path, facts: dict[str, Any], approximate: Approximate | None, rows: Ints | None) -> None:
    """Writes the folder, in the place of what it held. ``rows`` are those that are indexed, where not all are."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    if approximate is not None:
        _write(approximate, part / approximate.kind)
    if rows is not None:
        write_bytes(part / "rows", rows.data.cast("B"))
    files = {file.name: _content_hash(file) for file in sorted(part.iterdir())}
    write_bytes(part / "index.json", json.dumps({**facts, "format": FORMAT, "files": files}, indent=1).encode())
    shutil.rmtree(folder, ignore_errors=True)
    part.replace(folder)
    _sync(folder.parent)


def saved_facts(folder: Path, *, check_files: bool = True, **wanted: str) -> dict[str, Any] | None:
    """What ``index.json`` says, where it says what is wanted and the files are as they were written; else None."""
    try:
        facts = json.loads((folder / "index.json").read_bytes())
        fits = facts["format"] == FORMAT and all(facts[key] == value for key, value in wanted.items())
        files = facts["files"].items() if check_files else ()
        whole = fits and all(_content_hash(folder / name) == written for name, written in files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(facts) if whole else None


def described(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts for people and programs: without what only the files' keeper needs."""
    return {key: value for key, value in facts.items() if key not in ("files", "format", "print", "table")}


def read_index(
    folder: Path, facts: dict[str, Any], vectors: Floats, backend: Backend
) -> tuple[Approximate, Ints | None]:
    """The index that ``write_index`` wrote, and the rows that it indexes where it doesn't index all.

    A graph that CAGRA made is opened on a CPU too, where searching it there was measured to hold the recall. Raises
    ValueError where this device can't search the index, and whatever faiss and cuVS raise.
    """
    rows = np.fromfile(folder / "rows", np.int64) if "rows" in facts["files"] else None
    vectors = np.ascontiguousarray(vectors if rows is None else vectors[rows], dtype=np.float32)
    kind, k, path = facts["index"], facts["k"], folder / facts["index"]
    if kind == "hnsw":
        return Approximate(kind, open_hnsw(np.fromfile(path, np.uint8), vectors), facts["search"], k, backend), rows
    if backend.name == "cuda" and kind == "ivf_pq":
        return Approximate(kind, open_ivf_pq(str(path)), facts["search"], k, backend), rows
    if backend.name != "cuda" and facts.get("cpu") is None:
        raise ValueError(f"{kind} that a {facts['device']} device made can't be searched on a {backend.name} device")
    neighbours = np.fromfile(path, np.uint32).reshape(len(vectors), -1)
    if backend.name == "cuda":
        return Approximate(kind, open_cagra(neighbours, vectors, backend), facts["search"], k, backend), rows
    graph = open_cagra_graph(neighbours, vectors, facts["cpu"]["seed"])
    return Approximate("hnsw", graph, facts["cpu"]["search"], k, NUMPY), rows


def _write(approximate: Approximate, path: Path) -> None:
    if approximate.kind == "hnsw":
        write_bytes(path, graph_bytes(approximate.index).data)
    elif approximate.kind == "cagra":
        write_bytes(path, np.ascontiguousarray(cagra_graph(approximate.index)).data.cast("B"))
    else:
        save_ivf_pq(approximate.index, str(path))
        _sync(path)


def _content_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
