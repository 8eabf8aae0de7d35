"""Replies of delimited records taken apart as frames: two splits, and tests that show which of them are well formed.

A text that passes is to the letter what was asked for, so that its fields can be taken as they lie; the others are for
a tolerant reader. The same code runs on cuDF and on pandas, whose Arrow strings have the same kernels in C++.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from graphmill.kernels.backend import Backend

FREE_TEXT = "description"
"""The field that is a sentence, and is nearly always new. Of all others the distinct values are looked at once."""
ROUGH = "rough"

_DOUBLE_QUOTES = '"“”„‟＂«»〝〞〟″'
_EDGES = " '‘’‚‛＇`´′「」『』‹›｢｣*" + _DOUBLE_QUOTES
# Patterns are in what RE2 and libcudf's own engine have in common: classes, ranges, anchors, no groups.
_QUOTED = f'^"[^{_DOUBLE_QUOTES}]*"$'
_ROUGH = f"^[{_EDGES}{{\\[.…]|_|[{_EDGES}]$"
_CHARACTER_REFERENCE = "&[#A-Za-z][#A-Za-z0-9]*;"
_BRACKET, _PAIR = "[()（）]", "[(（][^()（）]*[)）]"
_NESTED = 2  # how deep brackets in a field may lie in one another
_NO_TEXTS = pa.array([], pa.large_string())


@dataclass(frozen=True)
class Shape:
    """One kind of record: how it is tagged, and its fields after the tag."""

    tags: tuple[str, ...]
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """What became of texts.

    well_formed  bool [n]
    records      a table for each shape: text and place, int64, say which text a record is of and its number there, in
                 ascending order; the fields, dictionary<large_string>, but for free text: large_string without quotes
                 round it, with a bool column ROUGH that says where these, or anything else at its edges or a
                 placeholder, have yet to be seen to
    rough        for each shape, the free texts that are rough, as they are
    """

    well_formed: NDArray[np.bool_]
    records: list[pa.Table]
    rough: list[pa.Array]


def split_records(
    texts: pa.Array, separator: str, record_delimiter: str, delimiter: str, shapes: Sequence[Shape], backend: Backend
) -> Split:
    """Takes texts apart at the separator, and the pieces at the delimiter.

    texts             large_string [n], none empty or null, printable but for ASCII control characters; the brackets
                      that open the first record and close the last are gone
    separator         what closes a record and opens the next
    record_delimiter  may not occur in a record
    delimiter         its characters other than > and # may not occur in a field
    """
    xp, n = backend.xp, len(texts)
    well_formed = xp.ones(n, dtype=np.bool_)
    pieces, text, _ = _exploded(_series(texts, backend).str.split(separator, regex=False), backend)
    bad = _array(pieces.str.len(), backend) == 0
    well_formed[text[bad]] = False
    if bool(bad.any()):  # an empty piece would have no field in one library and an empty one in the other
        kept = xp.flatnonzero(well_formed[text])
        pieces, text = pieces.iloc[kept], text[kept]
    if not len(pieces):
        return Split(backend.asnumpy(well_formed), [_no_records(shape) for shape in shapes], [_NO_TEXTS] * len(shapes))
    fields, piece, num_fields = _exploded(pieces.str.split(delimiter, regex=False), backend)
    well_formed[text[piece[_odd(fields, record_delimiter, delimiter, backend)]]] = False
    begin = xp.cumsum(num_fields) - num_fields
    tags = fields.iloc[begin]
    kind = xp.full(len(text), -1)
    for number, shape in enumerate(shapes):
        is_tag = _true(tags.isin(list(shape.tags)), backend)
        kind[is_tag & (num_fields == 1 + len(shape.fields))] = number
    well_formed[text[kind < 0]] = False
    place = xp.arange(len(text)) - xp.searchsorted(text, text)
    found = []
    for number, shape in enumerate(shapes):
        mine = xp.flatnonzero((kind == number) & well_formed[text])
        found.append(_records(shape, fields, begin[mine], text[mine], place[mine], backend))
    return Split(backend.asnumpy(well_formed), [table for table, _ in found], [rough for _, rough in found])


def _records(
    shape: Shape, fields: Any, tags: Any, text: Any, place: Any, backend: Backend
) -> tuple[pa.Table, pa.Array]:
    """The records whose tags lie there among the fields, and their rough texts."""
    if not len(tags):
        return _no_records(shape), _NO_TEXTS
    columns = {"text": pa.array(backend.asnumpy(text)), "place": pa.array(backend.asnumpy(place))}
    rough = _NO_TEXTS
    for at, name in enumerate(shape.fields, start=1):
        values = fields.iloc[tags + at]
        if name == FREE_TEXT:
            columns[name], columns[ROUGH], rough = _unquoted(values, backend)
        else:
            columns[name] = _coded(values, backend)
    return pa.table(columns), rough


def _odd(fields: Any, record_delimiter: str, delimiter: str, backend: Backend) -> Any:
    """The fields that hold more than text: pieces of delimiters, control characters, references, brackets left open."""
    forbidden = "\x01-\x1f" + _class({*"<|＜｜▷\x7f", *delimiter} - {*">#"})
    # One look at all, and the closer ones at the few fields that hold any character of the kind.
    telling = f"[{forbidden}&()（）{_class({record_delimiter[0]})}]"
    some = backend.xp.flatnonzero(_true(fields.str.contains(telling), backend))
    if not len(some):
        return some
    doubtful = fields.iloc[some]
    odd = _true(doubtful.str.contains(f"[{forbidden}]"), backend)
    odd |= _true(doubtful.str.contains(_CHARACTER_REFERENCE), backend)
    odd |= _true(doubtful.str.contains(record_delimiter, regex=False), backend)
    return some[odd | _true(_left_open(doubtful), backend)]


def _class(characters: Iterable[str]) -> str:
    return "".join(f"\\{one}" if one in "\\]^-" else one for one in sorted(characters))


def _left_open(fields: Any) -> Any:
    for _ in range(_NESTED):
        fields = fields.str.replace(_PAIR, "", regex=True)
    return fields.str.contains(_BRACKET)


def _unquoted(texts: Any, backend: Backend) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The texts without quotes round them, which of them are rough, and those as they were."""
    quoted = _true(texts.str.contains(_QUOTED), backend)
    has_quote = _true(texts.str.startswith('"'), backend) | _true(texts.str.endswith('"'), backend)
    stripped = texts.str.strip('"')
    rough = (has_quote & ~quoted) | _true(stripped.str.contains(_ROUGH), backend)
    rough |= _array(stripped.str.len(), backend) == 0
    left = _arrow(texts.iloc[backend.xp.flatnonzero(rough)], backend)
    return _arrow(stripped, backend), pa.array(backend.asnumpy(rough)), left


def _exploded(lists: Any, backend: Backend) -> tuple[Any, Any, Any]:
    """The items of all lists, none of which is empty; the number of the list that each is of; the lists' lengths."""
    xp = backend.xp
    lengths = _array(lists.list.len(), backend)
    items = lists.explode()
    return items, xp.searchsorted(xp.cumsum(lengths), xp.arange(len(items)), side="right"), lengths


def _no_records(shape: Shape) -> pa.Table:
    coded = pa.dictionary(pa.int32(), pa.large_string())
    names = {"text": pa.int64(), "place": pa.int64()}
    for name in shape.fields:
        names |= {name: pa.large_string(), ROUGH: pa.bool_()} if name == FREE_TEXT else {name: coded}
    return pa.schema(names).empty_table()


def _series(texts: pa.Array, backend: Backend) -> Any:
    if backend.name == "cuda":
        return backend.xd.Series.from_arrow(texts)
    return backend.xd.Series(backend.xd.arrays.ArrowExtensionArray(pa.chunked_array([texts])))


def _array(series: Any, backend: Backend) -> Any:
    return series.values if backend.name == "cuda" else series.to_numpy()


def _true(series: Any, backend: Backend) -> Any:
    return _array(series, backend).astype(np.bool_)


def _arrow(series: Any, backend: Backend) -> pa.Array:
    if backend.name == "cuda":
        return series.to_arrow().cast(pa.large_string())
    found = pa.array(series.array)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _coded(series: Any, backend: Backend) -> pa.DictionaryArray:
    if backend.name == "cuda":
        codes, distinct = series.factorize()
        return pa.DictionaryArray.from_arrays(
            pa.array(backend.asnumpy(codes), pa.int32()), distinct.to_arrow().cast(pa.large_string())
        )
    return _arrow(series, backend).dictionary_encode()
