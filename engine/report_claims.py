"""Claims in a report's material: what is asserted about a community's entities, best-ranked first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.claims import NONE
from graphmill.engine.context_rows import json_lines, line_tokens
from graphmill.engine.models import Tokenizer
from graphmill.engine.rows import Lists, lists_by

SHARE = 4
"""One part in so many of a report's material is set aside for claims, where there are any."""
_SHOWN = ("subject", "object", "type", "status", "start", "end", "description")


@dataclass(frozen=True)
class ClaimLines:
    """Claims as lines, counted, by the entities that they are about."""

    lines: pa.Array
    tokens: NDArray[np.int64]
    of_entity: Lists
    """Claim rows of each entity row: those it is the subject of, then those it is the object of."""

    @staticmethod
    def of(claims: pa.Table, entities: pa.Table, tokenizer: Tokenizer) -> ClaimLines:
        """CLAIMS and ENTITIES, whose keys tell which claims are about which entity."""
        lines = json_lines({name: _said(claims[name]) for name in _SHOWN})
        keys = entities["key"].combine_chunks()
        ends = [
            pc.fill_null(pc.index_in(claims[name].combine_chunks(), value_set=keys), -1).to_numpy(zero_copy_only=False)
            for name in ("subject_key", "object_key")
        ]
        entity = np.concatenate(ends).astype(np.int64)
        claim = np.tile(np.arange(claims.num_rows, dtype=np.int64), 2)[entity >= 0]
        by_entity = lists_by(entity[entity >= 0], entities.num_rows)
        tokens = line_tokens(lines, tokenizer).astype(np.int64)
        return ClaimLines(lines, tokens, Lists(by_entity.offsets, claim[by_entity.values]))

    def within(self, entities: NDArray[np.int64], room: int) -> str:
        """Lines about these entities in their order, each once, as many as fit into ``room`` tokens."""
        rows = self.of_entity.gather(entities)
        _, first = np.unique(rows, return_index=True)
        rows = rows[np.sort(first)]
        kept = rows[np.cumsum(self.tokens[rows]) <= room]
        return "\n".join(self.lines.take(pa.array(kept)).to_pylist())


def _said(column: pa.ChunkedArray) -> pa.Array:
    """What is not known is left out of a line."""
    texts = column.combine_chunks()
    return pc.if_else(pc.equal(texts, NONE), "", texts)
