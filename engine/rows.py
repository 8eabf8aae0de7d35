"""Columns of ids and lists of ids as row numbers, which arrays can be indexed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Lists:
    """Lists of row numbers in one array: list i is ``values[offsets[i]:offsets[i + 1]]``."""

    offsets: Rows
    values: Rows

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Rows:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def lengths(self, rows: Rows) -> Rows:
        """Lengths of the lists of ``rows``, int64 [len(rows)]."""
        lengths: Rows = self.offsets[rows + 1] - self.offsets[rows]
        return lengths

    def gather(self, rows: Rows) -> Rows:
        """The lists of ``rows``, one after another."""
        lengths = self.lengths(rows)
        ends = np.cumsum(lengths)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        gathered: Rows = self.values[np.repeat(self.offsets[rows], lengths) + within]
        return gathered


def rows_of(ids: Any, table_ids: Any) -> Rows:
    """Row number in ``table_ids`` of each id, int64 [n]. Raises KeyError for an id that is not there."""
    found = pc.index_in(_one(ids), value_set=_one(table_ids))
    if found.null_count:
        missing = _one(ids).filter(pc.is_null(found))[0]
        raise KeyError(f"id {missing} is not in the table")
    rows: Rows = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows


def id_lists(column: Any, table_ids: Any) -> Lists:
    """A list column of ids as lists of row numbers."""
    flat = _one(column)
    lengths = pc.list_value_length(flat).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    return Lists(offsets, rows_of(flat.flatten(), table_ids))


def list_column(lists: Lists, ids: pa.Array) -> pa.ListArray:
    """Lists of row numbers as a list column of the ids at those rows."""
    return pa.ListArray.from_arrays(pa.array(lists.offsets.astype(np.int32)), ids.take(pa.array(lists.values)))


def lists_by(group: Rows, num_groups: int) -> Lists:
    """Row numbers grouped by ``group`` int64 [n], ascending within a group."""
    order = np.argsort(group, kind="stable").astype(np.int64)
    return Lists(np.searchsorted(group[order], np.arange(num_groups + 1)).astype(np.int64), order)


def inverted(lists: Lists, num_rows: int) -> Lists:
    """For each of ``num_rows`` rows the numbers of the lists that it stands in, ascending."""
    by_row = lists_by(lists.values, num_rows)
    owner = np.repeat(np.arange(len(lists), dtype=np.int64), np.diff(lists.offsets))
    return Lists(by_row.offsets, owner[by_row.values])


def distinct(rows: Rows) -> Rows:
    """The rows in ascending order without repeats; for some thousands ten times as fast as np.unique, which hashes."""
    ordered = np.sort(rows)
    is_new = np.empty(len(ordered), np.bool_)
    is_new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def first_of_each(rows: Rows) -> Rows:
    """The rows in their order without repeats."""
    if len(rows) < 2:
        return rows
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    is_new = np.empty(len(rows), np.bool_)
    is_new[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return rows[np.sort(order[is_new])]


def is_in(rows: Rows, ordered: Rows) -> NDArray[np.bool_]:
    """Whether each row is among some that ascend, bool [len(rows)]; np.isin takes five times as long for hundreds."""
    if not len(ordered):
        return np.zeros(len(rows), np.bool_)
    place = np.searchsorted(ordered, rows)
    place[place == len(ordered)] = 0
    found: NDArray[np.bool_] = ordered[place] == rows
    return found


def _one(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
