"""Extractions of the phrase finder, as a corpus sees them: variants together, junk gone, pairs weighed."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from graphmill.engine.extract import EXTRACTIONS
from graphmill.engine.phrases_corpus import settle
from graphmill.kernels.backend import Backend

WEIGHTS = pa.schema([("source_key", pa.string()), ("target_key", pa.string()), ("weight", pa.float64())])
"""One row a pair that means something, source_key < target_key; weight in (0, 1)."""


def weigh_phrases(
    extractions: pa.Table, chunks: pa.Table, max_per_entity: int, backend: Backend
) -> tuple[pa.Table, pa.Table]:
    """EXTRACTIONS with counts -> EXTRACTIONS of what is worth a place in the graph, and the WEIGHTS of its pairs.

    chunks  document_id and text_id of every chunk, in the order of documents; a text counts for its first document
    """
    frame = extractions.filter(pc.is_in(extractions["text_id"], value_set=pc.unique(chunks["text_id"]))).to_pandas()
    places = chunks.select(["text_id", "document_id"]).to_pandas().drop_duplicates("text_id")
    frame = frame.merge(places, on="text_id").rename(columns={"strength": "count"})
    mentions = frame[frame["kind"] == "entity"]
    pairs = frame[frame["kind"] == "relationship"].rename(columns={"key": "source_key"})
    if not len(mentions):
        return EXTRACTIONS.empty_table(), WEIGHTS.empty_table()
    settled = settle(
        mentions[["text_id", "document_id", "key", "name", "type", "count", "description"]],
        pairs[["text_id", "source_key", "target_key", "count"]],
        max_per_entity,
        backend.xd,
    )
    names = settled.entities.set_index("key")["name"]
    entities = settled.mentions.assign(kind="entity", target="", target_key="")
    found = settled.places.rename(columns={"source": "key", "target": "target_key"})
    found = found.assign(kind="relationship", name=found["key"].map(names), target=found["target_key"].map(names))
    rows = pd.concat([entities, found.assign(type="", description="", count=1.0)], ignore_index=True)
    rows = rows.sort_values(["text_id", "kind", "key", "target_key"], ignore_index=True)
    rows["record"] = rows.groupby("text_id").cumcount()
    return _table(rows), pa.table(
        [pa.array(settled.pairs[name]) for name in ("source", "target", "weight")], schema=WEIGHTS
    )


def _table(rows: Any) -> pa.Table:
    columns = {name: pa.array(rows[name]) for name in EXTRACTIONS.names if name not in ("keywords", "strength")}
    columns["keywords"] = pa.array([[]] * len(rows), pa.list_(pa.string()))
    columns["strength"] = pa.array(rows["count"])
    return pa.table([columns[field.name].cast(field.type) for field in EXTRACTIONS], schema=EXTRACTIONS)
