"""What was read, with the names of one thing under one key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from graphmill.engine.run_folder import RunFolder


def apply_aliases(extractions: pa.Table, aliases: pa.Table) -> pa.Table:
    """EXTRACTIONS with the keys of ALIASES folded, and without the relationships that lose their other end by it.

    A folded record takes the name of what it is folded into: an entity is shown under a spelling of its own key, so
    that the name that is shown finds it. Doing it twice changes nothing.
    """
    if not aliases.num_rows:
        return extractions
    found = extractions
    for key, name in (("key", "name"), ("target_key", "target")):
        place = _place(found[key], aliases)
        for column, values in ((key, "same_as"), (name, "same_as_name")):
            folded = pc.coalesce(aliases[values].combine_chunks().take(place), found[column])
            found = found.set_column(found.schema.get_field_index(column), column, folded)
    loops = pc.and_(pc.equal(found["kind"], "relationship"), pc.equal(found["key"], found["target_key"]))
    return found.filter(pc.invert(loops))


def apply_to_weights(weights: pa.Table | None, aliases: pa.Table) -> pa.Table | None:
    """WEIGHTS of pairs, where there are any, with their keys folded; of pairs that become one the largest stays."""
    if weights is None or not aliases.num_rows or not weights.num_rows:
        return weights
    one, other = (apply_to_keys(weights[name], aliases) for name in ("source_key", "target_key"))
    lower = pc.less(one, other)
    pairs = pa.table(
        {
            "source_key": pc.if_else(lower, one, other),
            "target_key": pc.if_else(lower, other, one),
            "weight": weights["weight"].combine_chunks(),
        }
    )
    pairs = pairs.filter(pc.not_equal(pairs["source_key"], pairs["target_key"]))
    merged = pairs.group_by(["source_key", "target_key"], use_threads=False).aggregate([("weight", "max")])
    merged = merged.rename_columns({"weight_max": "weight"}).select(weights.schema.names).cast(weights.schema)
    return merged.sort_by([("source_key", "ascending"), ("target_key", "ascending")])


def apply_to_claims(claims: pa.Table, aliases: pa.Table) -> pa.Table:
    """CLAIMS with the keys of their subjects and objects folded; the names stay as they were read."""
    for column in ("subject_key", "object_key"):
        folded = apply_to_keys(claims[column], aliases)
        claims = claims.set_column(claims.schema.get_field_index(column), column, folded)
    return claims


def apply_to_keys(keys: Any, aliases: pa.Table) -> pa.Array:
    """Each key, or what it is folded into."""
    keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    return pc.coalesce(aliases["same_as"].combine_chunks().take(_place(keys, aliases)), keys)


def canonical_key(folder: RunFolder, key: str) -> str:
    """What a key is folded into in the graph of an index as it stands, itself where it is folded into none."""
    if "aliases_used" not in folder.tables:
        return key
    folded: str = apply_to_keys(pa.array([key], pa.string()), folder.read("aliases_used"))[0].as_py()
    return folded


def _place(keys: Any, aliases: pa.Table) -> pa.Array:
    """Row of each key among the aliases, null where it is none."""
    place = pc.index_in(keys, value_set=aliases["key"].combine_chunks())
    return place.combine_chunks() if isinstance(place, pa.ChunkedArray) else place
