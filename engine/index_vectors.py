"""The approximate indexes of a run folder: for tables of vectors that are too large to be scanned at every question."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from graphmill.engine.embed import vectors_matrix
from graphmill.engine.run import Run, fingerprint
from graphmill.engine.run_folder import RunFolder
from graphmill.engine.search_files import described, saved_facts
from graphmill.engine.texts import EMBEDDED
from graphmill.engine.vector_index import VectorIndex, choose_index, library_of

NAMES = {"exact": "exact search", "hnsw": "HNSW", "cagra": "CAGRA", "ivf_pq": "IVF-PQ"}


def index_vectors(run: Run) -> None:
    """Vectors -> an approximate index of each table that is past the limit; nothing where none is."""
    for name in EMBEDDED:
        if f"vectors_{name}" in run.folder.tables:
            _index_table(run, name)


def index_folder(folder: RunFolder, name: str) -> Path:
    """Where the approximate index of a table's vectors lies, if it has one."""
    return folder.root / "search" / name


def describe_searches(folder: RunFolder) -> dict[str, dict[str, Any]]:
    """What searches each table of vectors, as ``VectorIndex.describe`` tells it."""
    told = {}
    for name in EMBEDDED:
        table = folder.tables.get(f"vectors_{name}")
        if table is not None:
            facts = saved_facts(index_folder(folder, name), check_files=False, table=table.hash)
            told[name] = described(facts or {"index": "exact", "vectors": table.rows})
    return told


def _index_table(run: Run, name: str) -> None:
    table, config = run.folder.tables[f"vectors_{name}"], run.config.search
    place = index_folder(run.folder, name)
    dimension = run.models.embedder.dimension
    kind = choose_index(config, table.rows, dimension, run.backend)
    if kind == "exact":
        shutil.rmtree(place, ignore_errors=True)
        return
    print_ = fingerprint("search", table.hash, config, kind, run.backend.name, library_of(kind))
    if saved_facts(place, table=table.hash, print=print_) is not None:
        run.progress.skip(f"{name} index")
        return
    with run.stage(f"{name} index", table.rows, "vectors"):
        vectors = vectors_matrix(run.folder.read(f"vectors_{name}"))
        made = VectorIndex.build(vectors, config, run.backend, run.progress.advance)
        made.save(place, print_, table.hash)
    run.progress.note(tell(name, made.describe()))
    if made.describe()["index"] == "exact":
        run.progress.warn(_not_held(name, made.describe()))


def tell(name: str, facts: dict[str, Any]) -> str:
    """One line on what searches a table."""
    line = f"{name}: {NAMES[facts['index']]} over {facts['vectors']:,} vectors"
    if "recall" not in facts or facts["index"] == "exact":
        return line
    parameters = ", ".join(f"{key} {value}" for key, value in (facts["build"] | facts["search"]).items())
    measured = ", ".join(f"{value:.3f} ({queries})" for queries, value in facts["recall"].items())
    return f"{line} ({parameters}), recall@{facts['k']} {measured}, built in {facts['build_s']:.1f} s"


def _not_held(name: str, facts: dict[str, Any]) -> str:
    best = min(facts["recall"].values())
    return (
        f"{name}: {NAMES[facts['tried']]} reached a recall of {best:.3f} at best, and search.recall asks for "
        f"{facts['wanted']}; search in the {facts['vectors']:,} vectors stays exact, which is slower"
    )
