"""The group-bys of resolving: mentions of entities and of pairs, each from one chunk, merged into one row a thing.

Rows are sorted once by (thing, chunk, record); after that every list column is the first occurrences in row order. The
result depends on the set of rows alone, not on their order or on how often one is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.kernels.backend import Backend

UNKNOWN = "UNKNOWN"
STRENGTH_UNIT = 2.0**-20  # strengths are summed in whole units: the same sum in any order, on any device
MAX_STRENGTH = 2.0**13  # a strength beyond is taken as this, so that 10**9 of them don't overflow 64 bits
PIECE_BYTES = 1 << 30  # text bytes in one chunk of a list<string> column, whose offsets end at 2 GiB

MENTIONS = pa.schema(
    [
        ("entity", pa.int64()),  # code of the entity, >= 0
        ("order", pa.int64()),  # row of the chunk in (document path, chunk position) order, >= 0
        ("record", pa.int32()),  # number of the record in its chunk, >= 0
        ("type", pa.string()),  # "" and UNKNOWN where there is none
        ("spelling", pa.string()),
        ("description", pa.string()),  # "" where there is none
    ]
)
MERGED_ENTITIES = pa.schema(
    [
        ("entity", pa.int64()),
        ("spelling", pa.string()),
        ("type", pa.string()),
        ("descriptions", pa.list_(pa.string())),
        ("chunks", pa.list_(pa.int64())),
        ("num_mentions", pa.int64()),
    ]
)
PAIRS = pa.schema(
    [
        ("source", pa.int64()),  # codes of the two entities, the same way round in every row of the pair
        ("target", pa.int64()),
        ("order", pa.int64()),
        ("record", pa.int32()),
        ("strength", pa.float64()),
        ("description", pa.string()),
        ("keywords", pa.list_(pa.string())),
    ]
)
MERGED_PAIRS = pa.schema(
    [
        ("source", pa.int64()),
        ("target", pa.int64()),
        ("weight", pa.float64()),
        ("descriptions", pa.list_(pa.string())),
        ("keywords", pa.list_(pa.string())),
        ("chunks", pa.list_(pa.int64())),
        ("num_mentions", pa.int64()),
    ]
)


def merge_mentions(mentions: pa.Table, backend: Backend) -> pa.Table:
    """MENTIONS -> MERGED_ENTITIES, one row an entity that is mentioned, by code.

    spelling      the most frequent, ties to the earliest
    type          the most frequent but "" and UNKNOWN, ties to the first in sort order; UNKNOWN where there is no other
    descriptions  the distinct ones that aren't empty, in order; chunks likewise; a record given twice counts once

    Text columns may be dictionary-encoded. Raises ValueError where two records of one chunk share a number.
    """
    xp = backend.xp
    entity, order, record = (_ints(mentions[name], xp) for name in ("entity", "order", "record"))
    texts = {name: _encode(mentions[name], backend) for name in ("type", "spelling", "description")}
    columns = [codes for codes, _ in texts.values()]
    rows = _distinct_rows(entity, order, record, columns, "entity", xp)
    entity, order = entity[rows], order[rows]
    kind, spelling, description = (codes[rows] for codes in columns)
    types, spellings, descriptions = (values for _, values in texts.values())

    run, starts = _runs(entity, xp)
    rank, sorted_types = _ranked(types, xp)
    none = xp.asarray(pc.is_in(sorted_types, pa.array(["", UNKNOWN], sorted_types.type)).to_numpy(zero_copy_only=False))
    kind = rank[kind]
    real = xp.flatnonzero(~none[kind])
    best_type = _majority(run[real], kind[real], len(starts), ties_to_first=False, xp=xp)
    best_spelling = _majority(run, spelling, len(starts), ties_to_first=True, xp=xp)
    named = pa.concat_arrays([sorted_types, pa.array([UNKNOWN], sorted_types.type)])
    return pa.Table.from_arrays(
        [
            backend.asnumpy(entity[starts]),
            spellings.take(pa.array(backend.asnumpy(best_spelling))).cast(pa.string()),
            named.take(pa.array(backend.asnumpy(xp.where(best_type < 0, len(types), best_type)))).cast(pa.string()),
            _texts(run, description, descriptions, len(starts), backend),
            _chunks(run, order, len(starts), backend),
            _counts(run, len(starts), backend),
        ],
        schema=MERGED_ENTITIES,
    )


def merge_pairs(pairs: pa.Table, backend: Backend) -> pa.Table:
    """PAIRS -> MERGED_PAIRS, one row a pair, by (source, target).

    weight        per chunk the largest strength of the pair, summed over chunks, in whole units of 2**-20; a strength is
                  taken to lie in [2**-20, 2**13]
    descriptions  the distinct ones that aren't empty, in order; keywords and chunks likewise

    Raises ValueError where a strength is NaN, or two records of one chunk share a number.
    """
    xp = backend.xp
    source, target, order, record = (_ints(pairs[name], xp) for name in ("source", "target", "order", "record"))
    strength = xp.asarray(pairs["strength"].to_numpy())
    if bool(xp.isnan(strength).any()):
        raise ValueError(f"strength must be a number, got NaN in row {int(xp.isnan(strength).argmax())}")
    description, descriptions = _encode(pairs["description"], backend)
    span = int(target.max()) + 1 if len(target) else 1
    pair = source * span + target  # fits: codes are below 2**31
    rows = _distinct_rows(pair, order, record, [description, strength], "pair", xp)
    run, starts = _runs(pair[rows], xp)
    order = order[rows]

    units = xp.rint(xp.clip(strength[rows], STRENGTH_UNIT, MAX_STRENGTH) / STRENGTH_UNIT).astype(np.int64)
    in_chunk, chunk_starts = _runs(run * (int(order.max()) + 1 if len(order) else 1) + order, xp)
    largest = xp.asarray(backend.xd.Series(units).groupby(backend.xd.Series(in_chunk), sort=True).max().values)
    # int64 sums may wrap on the way, and their differences come out right all the same.
    before = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(largest)])
    bounds = xp.searchsorted(run[chunk_starts], xp.arange(len(starts) + 1))
    weight = (before[bounds[1:]] - before[bounds[:-1]]) * STRENGTH_UNIT

    first = rows[starts]
    return pa.Table.from_arrays(
        [
            backend.asnumpy(source[first]),
            backend.asnumpy(target[first]),
            backend.asnumpy(weight),
            _texts(run, description[rows], descriptions, len(starts), backend),
            _keywords(pairs["keywords"], rows, run, len(starts), backend),
            _chunks(run, order, len(starts), backend),
            _counts(run, len(starts), backend),
        ],
        schema=MERGED_PAIRS,
    )


def _ints(column: pa.ChunkedArray, xp: Any) -> Any:
    return xp.asarray(column.to_numpy(), dtype=np.int64)


def _encode(column: Any, backend: Backend) -> tuple[Any, pa.Array]:
    """A text column as int64 codes on the backend and the distinct texts that they number; null is ""."""
    column = column.combine_chunks() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_dictionary(column.type):
        codes, values = column.indices.fill_null(-1), column.dictionary.cast(pa.large_string())
        if column.indices.null_count:
            codes, values = column.indices.fill_null(len(values)), pa.concat_arrays([values, pa.array([""], values.type)])
        return backend.xp.asarray(codes.to_numpy(), dtype=np.int64), values
    column = column.cast(pa.large_string()).fill_null("")  # long texts pass the 2 GiB of string's offsets
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if backend.name == "cuda":
        codes, texts = backend.xd.Series.from_arrow(column).factorize()
        return backend.xp.asarray(codes, dtype=np.int64), texts.to_arrow().cast(pa.large_string())
    encoded = column.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def _distinct_rows(owner: Any, order: Any, record: Any, columns: list[Any], noun: str, xp: Any) -> Any:
    """Rows by owner, order and record, each record of a chunk once."""
    if len(owner) == 0:
        return xp.zeros(0, dtype=np.int64)
    if int(min(owner.min(), order.min(), record.min())) < 0:
        raise ValueError(f"{noun}, order and record must be >= 0, got {owner.min()}, {order.min()} and {record.min()}")
    place = order * (int(record.max()) + 1) + record
    span = int(place.max()) + 1
    if (int(owner.max()) + 1) * span < 1 << 63:
        rows = xp.argsort(owner * span + place, kind="stable")
    else:
        rows = xp.lexsort(xp.stack([place, owner]))
    same = (owner[rows][1:] == owner[rows][:-1]) & (place[rows][1:] == place[rows][:-1])
    if bool(same.any()):
        earlier, later = rows[:-1][same], rows[1:][same]
        for column in columns:
            clash = column[earlier] != column[later]
            if bool(clash.any()):
                row = later[clash][0]
                raise ValueError(f"{noun} {owner[row]}: chunk {order[row]} has two different records {record[row]}")
    return rows[xp.concatenate([xp.ones(1, dtype=np.bool_), ~same])]


def _runs(key: Any, xp: Any) -> tuple[Any, Any]:
    """Of a sorted key: the number of each row's run of equal ones, and the row at which each run starts."""
    first = xp.ones(len(key), dtype=np.bool_)
    first[1:] = key[1:] != key[:-1]
    return xp.cumsum(first) - 1, xp.flatnonzero(first)


def _ranked(values: pa.Array, xp: Any) -> tuple[Any, pa.Array]:
    """The place of each text in sort order, by code points, and the texts in that order."""
    order = pc.sort_indices(values)
    rank = np.empty(len(values), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(values))
    return xp.asarray(rank), values.take(order)


def _majority(run: Any, value: Any, num_runs: int, ties_to_first: bool, xp: Any) -> Any:
    """The most frequent value of each run, -1 where it has none; ties to the first in row order, else to the least."""
    best = xp.full(num_runs, -1, dtype=np.int64)
    best[run] = value
    mixed = xp.zeros(num_runs, dtype=np.bool_)  # most runs are of one mind: only the others are counted
    mixed[run[1:][(run[1:] == run[:-1]) & (value[1:] != value[:-1])]] = True
    rows = xp.flatnonzero(mixed[run])
    if len(rows) == 0:
        return best
    span = int(value.max()) + 1
    key, first, counts = xp.unique(run[rows] * span + value[rows], return_index=True, return_counts=True)
    owner, value = key // span, key % span
    order = xp.lexsort(xp.stack([first if ties_to_first else value, -counts, owner]))
    _, starts = _runs(owner[order], xp)
    best[owner[order[starts]]] = value[order[starts]]
    return best


def _texts(run: Any, code: Any, values: pa.Array, num_runs: int, backend: Backend) -> pa.ChunkedArray:
    """The distinct texts of each run in row order, without "", as a list<string> column."""
    xp = backend.xp
    rows = xp.flatnonzero(code != pc.index(values, pa.scalar("", values.type)).as_py())
    repeated = backend.xd.Series(run[rows] * max(len(values), 1) + code[rows]).duplicated().values
    rows = rows[~xp.asarray(repeated)]
    codes = backend.asnumpy(code[rows])
    sizes = pc.binary_length(values).to_numpy(zero_copy_only=False)[codes]
    return pa.chunked_array(_lists(_offsets(run[rows], num_runs, backend), codes, sizes, values), pa.list_(pa.string()))


def _lists(offsets: NDArray[np.int64], codes: NDArray[np.int64], sizes: Any, values: pa.Array) -> list[pa.ListArray]:
    """List arrays of at most PIECE_BYTES of text each, or of one list."""
    low, high = int(offsets[0]), int(offsets[-1])
    if len(offsets) <= 2 or int(sizes[low:high].sum()) <= PIECE_BYTES:
        texts = values.take(pa.array(codes[low:high])).cast(pa.string())
        return [pa.ListArray.from_arrays(pa.array(offsets - low, pa.int32()), texts)]
    middle = len(offsets) // 2
    return _lists(offsets[: middle + 1], codes, sizes, values) + _lists(offsets[middle:], codes, sizes, values)


def _keywords(column: pa.ChunkedArray, rows: Any, run: Any, num_runs: int, backend: Backend) -> pa.ChunkedArray:
    xp = backend.xp
    lists = column.combine_chunks()
    code, values = _encode(lists.flatten(), backend)
    place = xp.full(len(lists), -1, dtype=np.int64)
    place[rows] = xp.arange(len(rows))
    place = place[xp.asarray(pc.list_parent_indices(lists).to_numpy())]
    kept = xp.flatnonzero(place >= 0)
    kept = kept[xp.argsort(place[kept], kind="stable")]
    return _texts(run[place[kept]], code[kept], values, num_runs, backend)


def _chunks(run: Any, order: Any, num_runs: int, backend: Backend) -> pa.ListArray:
    xp = backend.xp
    first = xp.ones(len(run), dtype=np.bool_)
    first[1:] = (run[1:] != run[:-1]) | (order[1:] != order[:-1])
    offsets = pa.array(_offsets(run[first], num_runs, backend), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(backend.asnumpy(order[first])))


def _counts(run: Any, num_runs: int, backend: Backend) -> NDArray[np.int64]:
    return backend.asnumpy(backend.xp.bincount(run, minlength=num_runs)).astype(np.int64)


def _offsets(run: Any, num_runs: int, backend: Backend) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(_counts(run, num_runs, backend))])
