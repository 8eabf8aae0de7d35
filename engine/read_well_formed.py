"""From the fields of well-formed replies to records: each distinct name, type and strength is looked at once.

The rules are those of ``read_exact``, which this must agree with to the letter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.read_exact import ENTITY_TAGS, KEYWORDS_TAGS, RELATIONSHIP_TAGS, USUAL_STRENGTHS
from graphmill.engine.records import (
    Layout,
    Reading,
    is_template,
    read_description,
    read_keywords,
    read_type,
    vet_name,
)
from graphmill.engine.strength import DEFAULT_STRENGTH, is_strength, read_strength
from graphmill.kernels.backend import Backend
from graphmill.kernels.split_records import FREE_TEXT, ROUGH, Shape, Split, split_records

TEXT, TEXTS = pa.string(), pa.list_(pa.string())
RECORDS = pa.schema(
    [
        ("reply", pa.int64()),
        ("place", pa.int64()),
        ("kind", TEXT),
        ("name", TEXT),
        ("key", TEXT),
        ("type", TEXT),
        ("target", TEXT),
        ("target_key", TEXT),
        ("description", TEXT),
        ("keywords", TEXTS),
        ("strength", pa.float64()),
    ]
)
"""Records of replies: ``reply`` is the reply's number, ``place`` ascends within it, the rest is as in EXTRACTIONS."""

Fields = dict[str, Any]
Rejected = list[tuple[int, str]]
WellFormed = tuple[NDArray[np.bool_], list[pa.Table], Rejected]
"""Which replies are well formed, their records, and what was rejected in them."""
_MAX_STRENGTH_CHARS, _MAX_LEVEL_CHARS = 80, 24  # of what `is_strength` takes for one; without a digit it is a level


def read_well_formed(bodies: list[str], separator: str, layout: Layout, backend: Backend) -> WellFormed:
    """Which of the replies, without their outer brackets, are well formed; their RECORDS; the reason for each rejected.

    The tables' ``reply`` is a place in ``bodies``, and so is the number beside a reason.
    """
    texts = pa.array(bodies, pa.large_string())
    shapes = [
        Shape(ENTITY_TAGS, ("name", "type", FREE_TEXT)),
        Shape(RELATIONSHIP_TAGS, layout.relationship),
        Shape(KEYWORDS_TAGS, ("keywords",)),
    ]
    split = split_records(texts, separator, layout.record_delimiter, layout.tuple_delimiter, shapes, backend)
    well_formed = split.well_formed & ~_doubtful(split, layout)
    rejected: Rejected = []
    parts = []
    for read, fields, rough in zip((_entities, _relationships, _keywords), split.records, split.rough, strict=True):
        if len(rough):
            fields = _cleaned(fields, rough)
        kept = fields.filter(pa.array(well_formed[fields["text"].to_numpy()]))
        if kept.num_rows:
            parts.append(read({name: kept[name].combine_chunks() for name in kept.column_names}, rejected))
    return well_formed, parts, rejected


def _doubtful(split: Split, layout: Layout) -> NDArray[np.bool_]:
    """Texts with a relationship whose looks leave a doubt which of its fields is the strength."""
    fields = split.records[1]
    if "strength" in layout.relationship:
        column = fields["strength"].combine_chunks()
        odd = [value not in USUAL_STRENGTHS and not is_strength(value) for value in column.dictionary.to_pylist()]
        rows = np.array(odd, np.bool_)[column.indices.to_numpy()]
    else:
        last = fields[layout.relationship[-1]]
        length = pc.utf8_length(last)
        likely = pc.or_(pc.less_equal(length, _MAX_LEVEL_CHARS), pc.match_substring_regex(last, "[^ -/:-~]"))
        rows = pc.and_(likely, pc.less_equal(length, _MAX_STRENGTH_CHARS)).to_numpy().astype(np.bool_)
        at = np.flatnonzero(rows)
        rows[at] = [is_strength(value) for value in last.take(pa.array(at)).to_pylist()]
    doubtful = np.zeros(len(split.well_formed), np.bool_)
    doubtful[fields["text"].to_numpy()[rows]] = True
    return doubtful


def _cleaned(fields: pa.Table, rough: pa.Array) -> pa.Table:
    """With the rough descriptions as they are shown."""
    cleaned = pa.array([read_description(text, Reading()) for text in rough.to_pylist()], pa.large_string())
    column = pc.replace_with_mask(fields[FREE_TEXT].combine_chunks(), fields[ROUGH].combine_chunks(), cleaned)
    return fields.set_column(fields.schema.get_field_index(FREE_TEXT), FREE_TEXT, column)


def _entities(fields: Fields, rejected: Rejected) -> pa.Table:
    name, key, problem = _vetted(fields["name"])
    kind = _mapped(fields["type"], read_type)
    problem = _with_templates(problem, name, kind)
    return _kept(fields, rejected, problem, "entity", name=name, key=key, type=kind, description=fields[FREE_TEXT])


def _relationships(fields: Fields, rejected: Rejected) -> pa.Table:
    source, source_key, problem = _vetted(fields["source"])
    target, target_key, target_problem = _vetted(fields["target"])
    problem = _or(problem, target_problem)
    problem = _with_templates(problem, source, target)
    problem = _or(problem, pc.if_else(pc.equal(source_key, target_key), "self-loop", ""))
    more: Fields = {}
    if "keywords" in fields:
        more["keywords"] = _mapped(fields["keywords"], read_keywords, TEXTS)
    more["strength"] = pa.array(np.full(len(source), DEFAULT_STRENGTH))
    if "strength" in fields:
        more["strength"] = _mapped(fields["strength"], _strength, pa.float64())
    ends = {"name": source, "key": source_key, "target": target, "target_key": target_key}
    return _kept(fields, rejected, problem, "relationship", **ends, description=fields[FREE_TEXT], **more)


def _keywords(fields: Fields, rejected: Rejected) -> pa.Table:
    keywords = _mapped(fields["keywords"], read_keywords, TEXTS)
    table = _kept(fields, rejected, pa.repeat("", len(keywords)), "keywords", keywords=keywords)
    return table.filter(pc.greater(pc.list_value_length(table["keywords"]), 0))


def _strength(value: str) -> float:
    """Of a relationship that isn't doubtful."""
    return USUAL_STRENGTHS[value] if value in USUAL_STRENGTHS else read_strength(value)


def _mapped(column: pa.DictionaryArray, read: Callable[[str], Any], of: pa.DataType = TEXT) -> pa.Array:
    """What each distinct value is read as, in the place of the values."""
    return pa.array([read(value) for value in column.dictionary.to_pylist()], of).take(column.indices)


def _vetted(column: pa.DictionaryArray) -> list[pa.Array]:
    """Names as shown, their keys, and why each can't be a name."""
    vetted = zip(*map(vet_name, column.dictionary.to_pylist()), strict=True)
    return [pa.array(part, TEXT).take(column.indices) for part in vetted]


def _or(problem: pa.Array, other: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(problem, ""), other, problem)


def _with_templates(problem: pa.Array, first: pa.Array, second: pa.Array) -> pa.Array:
    likely = pc.is_in(second, pa.array(["TYPE", "target"]))
    if not pc.any(likely).as_py():
        return problem
    found = [is_template(*names) for names in zip(first.to_pylist(), second.to_pylist(), strict=True)]
    return _or(problem, pc.if_else(pa.array(found), "placeholder", ""))


def _kept(fields: Fields, rejected: Rejected, problem: pa.Array, kind: str, **columns: pa.Array) -> pa.Table:
    """RECORDS of the rows without a problem; the others are added to what is rejected."""
    empty = {TEXT: "", pa.float64(): 0.0, TEXTS: pa.scalar([], TEXTS)}
    columns |= {"reply": fields["text"], "place": fields["place"], "kind": pa.repeat(kind, len(problem))}
    table = pa.table(
        [
            columns[column.name].cast(column.type)
            if column.name in columns
            else pa.repeat(empty[column.type], len(problem))
            for column in RECORDS
        ],
        schema=RECORDS,
    )
    good = pc.equal(problem, "")
    if pc.all(good).as_py():
        return table
    bad = pc.invert(good)
    rejected += zip(fields["text"].filter(bad).to_pylist(), problem.filter(bad).to_pylist(), strict=True)
    return table.filter(good)
