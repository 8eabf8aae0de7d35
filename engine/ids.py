"""Ids are content hashes: stable from run to run, and the same whatever the order of the input."""

from __future__ import annotations

from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc


def content_id(*parts: str) -> str:
    """128-bit hash of the parts as 32 hex digits. Parts are length-prefixed, so ("ab", "c") and ("a", "bc") differ."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return blake2b(b"".join([b"%d:%b" % (len(part), part) for part in encoded]), digest_size=16).hexdigest()


def content_ids(kind: str, *columns: pa.Array) -> pa.Array:
    """``content_id(kind, *row)`` of each row of string columns of n rows without nulls, string [n]."""
    parts: list[bytes | pa.Array] = [b"%d:%b" % (len(kind.encode()), kind.encode())]
    for column in columns:
        text = column.cast(pa.binary())
        parts += [pc.binary_length(text).cast(pa.string()).cast(pa.binary()), b":", text]
    rows = pc.binary_join_element_wise(*parts, b"").to_pylist()
    return pa.array([blake2b(row, digest_size=16).hexdigest() for row in rows], pa.string())
