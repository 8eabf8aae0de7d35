"""Ids are content hashes: stable from run to run, and the same whatever the order of the input."""

from __future__ import annotations

from hashlib import blake2b


def content_id(*parts: str) -> str:
    """128-bit hash of the parts as 32 hex digits. Parts are length-prefixed, so ("ab", "c") and ("a", "bc") differ."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return blake2b(b"".join([b"%d:%b" % (len(part), part) for part in encoded]), digest_size=16).hexdigest()
