"""Entities, relationships and passages as the model sees them: JSON, one object a line, with the tokens of each line.

Lines are rendered and counted for a whole table at once, with Arrow's own functions; the ``num_tokens`` column of
ENTITIES and RELATIONSHIPS is ``line_tokens`` of these lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.models import Tokenizer

_TO_ESCAPE = r'["\\\x00-\x1f\x7f]'
_BATCH = 16384


def entity_lines(entities: pa.Table, created_at: Any = None) -> pa.Array:
    """ENTITIES -> string [n], such as {"entity":"Ada","type":"PERSON","description":"…"}."""
    fields = {"entity": entities["name"], "type": entities["type"], "description": entities["description"]}
    return json_lines(fields if created_at is None else {**fields, "created_at": created_at})


def relationship_lines(relationships: pa.Table, created_at: Any = None) -> pa.Array:
    """RELATIONSHIPS -> string [n], such as {"source":"Ada","target":"Babbage","description":"…"}."""
    fields = {name: relationships[name] for name in ("source", "target", "description")}
    return json_lines(fields if created_at is None else {**fields, "created_at": created_at})


def json_lines(fields: Mapping[str, Any]) -> pa.Array:
    """One JSON object a row, string [n]; null and empty values are left out, but for the first field's.

    fields  arrays of n rows: strings are quoted, times become ISO 8601, integers and floats stand as they are
    """
    parts: list[Any] = []
    for name, column in fields.items():
        column = pa.array(column) if not isinstance(column, pa.Array | pa.ChunkedArray) else column
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        text, quote = _as_text(column)
        if not parts:
            text = pc.fill_null(text, "")
        elif pc.any(empty := pc.equal(pc.binary_length(text), 0)).as_py():
            text = pc.if_else(empty, None, text)
        # Null where the text is; the join below leaves it out. (Arrow loses a row whose parts are all null.)
        parts.append(pc.binary_join_element_wise(f'"{name}":{quote}', text, quote, ""))
    if not parts:
        raise ValueError("json_lines needs at least one field")
    joined = pc.binary_join_element_wise(*parts, ",", null_handling="skip")
    return pc.binary_join_element_wise("{", joined, "}", "")


def line_tokens(lines: Any, tokenizer: Tokenizer) -> NDArray[np.int32]:
    """Tokens of each line with the line break after it, int32 [n]. A context's tokens are the sum of its lines'."""
    batches = (lines.slice(start, _BATCH).to_pylist() for start in range(0, len(lines), _BATCH))
    counts = [tokenizer.count(batch) for batch in batches]
    return (np.concatenate([np.zeros(0, dtype=np.int64), *counts]) + 1).astype(np.int32)


def _as_text(column: pa.Array) -> tuple[pa.Array, str]:
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ"), '"'
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return pc.cast(column, pa.string()), ""
    text = pc.cast(column, pa.string())
    if pc.any(pc.match_substring_regex(text, _TO_ESCAPE)).as_py():
        for found, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
            text = pc.replace_substring(text, found, escaped)
        text = pc.replace_substring_regex(text, r"[\x00-\x1f\x7f]", "")
    return text, '"'
