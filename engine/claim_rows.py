"""The claims of an open index, as far as they are about its entities and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphmill.engine.apply_aliases import apply_to_claims
from graphmill.engine.rows import Lists, Rows, lists_by

if TYPE_CHECKING:
    from graphmill.engine.index import Index

CLAIM_COLUMNS = ("subject", "object", "type", "status", "start", "end", "description")
"""Of a claim, what a context shows."""


def claim_rows(index: Index) -> tuple[pa.Table, Lists, Rows]:
    """CLAIMS about entities of the index, the claims of each entity (as subject, then as object), and their chunks."""
    folder = index.folder
    num_entities = index.entities.num_rows
    nothing = Lists(np.zeros(num_entities + 1, np.int64), np.empty(0, np.int64))
    if "claims" not in folder.tables or not folder.tables["claims"].rows:
        return pa.table({name: pa.array([], pa.string()) for name in CLAIM_COLUMNS}), nothing, np.empty(0, np.int64)
    claims = folder.read("claims")
    claims = claims.filter(pc.is_in(claims["text_id"], value_set=index.text_ids)).combine_chunks()
    keys = index.entities["key"].combine_chunks()
    if "aliases" in folder.tables:  # a name that was folded into another is no entity any more
        folded = apply_to_claims(claims, folder.read("aliases"))
        for name in ("subject_key", "object_key"):
            own = pc.if_else(pc.is_in(claims[name], value_set=keys), claims[name], folded[name])
            claims = claims.set_column(claims.schema.get_field_index(name), name, own)
    ends = [
        pc.fill_null(pc.index_in(claims[name], value_set=keys), -1).to_numpy() for name in ("subject_key", "object_key")
    ]
    entity = np.concatenate(ends).astype(np.int64)
    claim = np.tile(np.arange(claims.num_rows, dtype=np.int64), 2)[entity >= 0]
    by_entity = lists_by(entity[entity >= 0], num_entities)
    texts = pc.index_in(claims["text_id"], value_set=index.text_ids).to_numpy().astype(np.int64)
    chunks = index.chunks_of_text.values[index.chunks_of_text.offsets[texts]]
    return claims, Lists(by_entity.offsets, claim[by_entity.values]), chunks
