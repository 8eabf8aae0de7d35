"""The group-bys of resolving: mentions of entities and of pairs, each from one chunk, merged into one row a thing.

Rows are sorted once by (thing, chunk, record); after that every list column is the first occurrences in row order. The
result depends on the set of rows alone, not on their order or on how often one is given.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphmill.kernels.backend import Backend
from graphmill.kernels.lists import counts, distinct_numbers, distinct_texts, encode, flat, flattened, runs

UNKNOWN = "UNKNOWN"
STRENGTH_UNIT = 2.0**-20  # strengths are summed in whole units: the same sum in any order, on any device
MAX_STRENGTH = 2.0**13  # a strength beyond is taken as this, so that 10**9 of them don't overflow 64 bits

MENTIONS = pa.schema(
    [
        ("entity", pa.int64()),  # code of the entity, >= 0
        ("order", pa.int64()),  # row of the chunk in (document path, chunk position) order, >= 0
        ("record", pa.int32()),  # number of the record in its chunk, >= 0
        # Text columns are large_string: the records of a large corpus hold more than 2 GiB of it.
        ("type", pa.large_string()),  # "" and UNKNOWN where there is none
        ("spelling", pa.large_string()),
        ("description", pa.large_string()),  # "" where there is none
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
        ("description", pa.large_string()),
        ("keywords", pa.list_(pa.large_string())),
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
    kind, types = encode(flat(mentions["type"]), backend)
    spelling, spellings = encode(flat(mentions["spelling"]), backend)
    descriptions = flat(mentions["description"])
    rows = _distinct_rows(entity, order, record, [kind, spelling, descriptions], "entity", backend)
    run, starts = runs(entity[rows], xp)

    types, kind = _ranked(types, kind[rows], xp)
    unknown = pc.is_in(types, pa.array(["", UNKNOWN], types.type)).to_numpy(zero_copy_only=False)
    real = xp.flatnonzero(~xp.asarray(unknown)[kind])
    best_type = _majority(run[real], kind[real], len(starts), ties_to_first=False, xp=xp)
    best_type = backend.asnumpy(xp.where(best_type < 0, len(types), best_type))
    best_spelling = backend.asnumpy(_majority(run, spelling[rows], len(starts), ties_to_first=True, xp=xp))
    return pa.Table.from_arrays(
        [
            backend.asnumpy(entity[rows[starts]]),
            spellings.take(pa.array(best_spelling)).cast(pa.string()),
            pa.concat_arrays([types, pa.array([UNKNOWN], types.type)]).take(pa.array(best_type)).cast(pa.string()),
            distinct_texts(run, rows, descriptions, len(starts), backend),
            distinct_numbers(run, order[rows], len(starts), backend),
            counts(run, len(starts), backend),
        ],
        schema=MERGED_ENTITIES,
    )


def merge_pairs(pairs: pa.Table, backend: Backend) -> pa.Table:
    """PAIRS -> MERGED_PAIRS, one row a pair, by (source, target).

    weight        per chunk the largest strength of the pair, summed over chunks, in whole units of 2**-20; each
                  strength is taken to lie in [2**-20, 2**13]
    descriptions  the distinct ones that aren't empty, in order; keywords and chunks likewise

    Raises ValueError where a strength is NaN, or two records of one chunk share a number.
    """
    xp = backend.xp
    source, target, order, record = (_ints(pairs[name], xp) for name in ("source", "target", "order", "record"))
    strength = xp.asarray(pairs["strength"].to_numpy())
    if bool(xp.isnan(strength).any()):
        raise ValueError(f"strength must be a number, got NaN in row {int(xp.isnan(strength).argmax())}")
    descriptions = flat(pairs["description"])
    pair = source * (_largest(target) + 1) + target  # fits 64 bits, as codes are row numbers of a table
    rows = _distinct_rows(pair, order, record, [strength, descriptions], "pair", backend)
    run, starts = runs(pair[rows], xp)
    units = xp.rint(xp.clip(strength[rows], STRENGTH_UNIT, MAX_STRENGTH) / STRENGTH_UNIT).astype(np.int64)
    mentioned, keywords = flattened(pairs["keywords"], rows, backend)
    return pa.Table.from_arrays(
        [
            backend.asnumpy(source[rows[starts]]),
            backend.asnumpy(target[rows[starts]]),
            backend.asnumpy(_summed(run, order[rows], units, len(starts), backend)) * STRENGTH_UNIT,
            distinct_texts(run, rows, descriptions, len(starts), backend),
            distinct_texts(run[mentioned], xp.arange(len(keywords)), keywords, len(starts), backend),
            distinct_numbers(run, order[rows], len(starts), backend),
            counts(run, len(starts), backend),
        ],
        schema=MERGED_PAIRS,
    )


def merge_mentions_reference(mentions: pa.Table) -> list[dict[str, Any]]:
    """What merge_mentions() must match, as rows: one mention at a time."""
    merged = []
    for entity, rows in sorted(_by_record(mentions, ("entity",)).items()):
        types = Counter(row["type"] for row in rows if row["type"] not in (None, "", UNKNOWN))
        spellings = Counter(row["spelling"] for row in rows)  # counts in row order, so that max() finds the earliest
        merged.append(
            {
                "entity": entity[0],
                "spelling": max(spellings, key=lambda text: spellings[text]),
                "type": min(types, key=lambda text: (-types[text], text), default=UNKNOWN),
                "descriptions": list(dict.fromkeys(row["description"] for row in rows if row["description"])),
                "chunks": list(dict.fromkeys(row["order"] for row in rows)),
                "num_mentions": len(rows),
            }
        )
    return merged


def merge_pairs_reference(pairs: pa.Table) -> list[dict[str, Any]]:
    """What merge_pairs() must match, as rows: one record at a time."""
    merged = []
    for (source, target), rows in sorted(_by_record(pairs, ("source", "target")).items()):
        largest: dict[int, int] = {}
        for row in rows:
            units = round(min(max(row["strength"], STRENGTH_UNIT), MAX_STRENGTH) / STRENGTH_UNIT)
            largest[row["order"]] = max(largest.get(row["order"], 0), units)
        merged.append(
            {
                "source": source,
                "target": target,
                "weight": sum(largest.values()) * STRENGTH_UNIT,
                "descriptions": list(dict.fromkeys(row["description"] for row in rows if row["description"])),
                "keywords": list(dict.fromkeys(word for row in rows for word in row["keywords"] or [] if word)),
                "chunks": list(largest),
                "num_mentions": len(rows),
            }
        )
    return merged


def _by_record(table: pa.Table, owner: tuple[str, ...]) -> dict[tuple[int, ...], list[dict[str, Any]]]:
    rows = {tuple(row[name] for name in (*owner, "order", "record")): row for row in table.to_pylist()}
    grouped: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for key in sorted(rows):
        grouped.setdefault(key[:-2], []).append(rows[key])
    return grouped


def _ints(column: pa.ChunkedArray, xp: Any) -> Any:
    return xp.asarray(column.to_numpy(), dtype=np.int64)


def _largest(x: Any) -> int:
    return int(x.max()) if len(x) else 0


def _distinct_rows(owner: Any, order: Any, record: Any, columns: list[Any], noun: str, backend: Backend) -> Any:
    """Rows by owner, order and record, each record of a chunk once."""
    xp = backend.xp
    if len(owner) == 0:
        return xp.zeros(0, dtype=np.int64)
    if int(min(owner.min(), order.min(), record.min())) < 0:
        raise ValueError(f"{noun}, order and record must be >= 0, got {owner.min()}, {order.min()} and {record.min()}")
    place = order * (_largest(record) + 1) + record
    span = _largest(place) + 1
    if (_largest(owner) + 1) * span < 1 << 63:
        rows = xp.argsort(owner * span + place, kind="stable")
    else:
        rows = xp.lexsort(xp.stack([place, owner]))
    same = (owner[rows][1:] == owner[rows][:-1]) & (place[rows][1:] == place[rows][:-1])
    if bool(same.any()):
        earlier, later = rows[:-1][same], rows[1:][same]
        if any(_differ(column, earlier, later, backend) for column in columns):
            raise ValueError(f"two different records of one {noun} and chunk share a number")
    return rows[xp.concatenate([xp.ones(1, dtype=np.bool_), ~same])]


def _differ(column: Any, earlier: Any, later: Any, backend: Backend) -> bool:
    if not isinstance(column, pa.Array):
        return bool((column[earlier] != column[later]).any())
    one, other = (column.take(pa.array(backend.asnumpy(rows))) for rows in (earlier, later))
    return bool(pc.any(pc.not_equal(one, other)).as_py())


def _ranked(texts: pa.Array, code: Any, xp: Any) -> tuple[pa.Array, Any]:
    """Texts in sort order, by code points, and the codes that number them so."""
    order = pc.sort_indices(texts)
    rank = np.empty(len(texts), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(texts))
    return texts.take(order), xp.asarray(rank)[code]


def _majority(run: Any, value: Any, num_runs: int, ties_to_first: bool, xp: Any) -> Any:
    """The most frequent value of each run, -1 where it has none; ties to the first in row order, else to the least."""
    best = xp.full(num_runs, -1, dtype=np.int64)
    best[run] = value
    mixed = xp.zeros(num_runs, dtype=np.bool_)  # most runs are of one mind: only the others are counted
    mixed[run[1:][(run[1:] == run[:-1]) & (value[1:] != value[:-1])]] = True
    rows = xp.flatnonzero(mixed[run])
    span = _largest(value) + 1
    key, first, votes = xp.unique(run[rows] * span + value[rows], return_index=True, return_counts=True)
    owner, value = key // span, key % span
    order = xp.lexsort(xp.stack([first if ties_to_first else value, -votes, owner]))
    _, starts = runs(owner[order], xp)
    best[owner[order[starts]]] = value[order[starts]]
    return best


def _summed(run: Any, order: Any, units: Any, num_runs: int, backend: Backend) -> Any:
    """Per run and chunk the largest of the units, summed over the chunks of a run."""
    xp = backend.xp
    in_chunk, starts = runs(run * (_largest(order) + 1) + order, xp)
    largest = xp.asarray(backend.xd.Series(units).groupby(backend.xd.Series(in_chunk), sort=True).max().values)
    # Sums of all rows may wrap round 64 bits on the way; those of one run don't, and come out right as differences.
    before = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(largest)])
    bounds = xp.searchsorted(run[starts], xp.arange(num_runs + 1))
    return before[bounds[1:]] - before[bounds[:-1]]
