"""Merging a table that is larger than the memory it is merged in: part by part, each thing whole in one part."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from graphmill.kernels.backend import Backend

WORKING_BYTES = 160
"""What a row takes while it is merged, beside its own columns: some twenty int64 arrays of codes, orders and runs."""


def merge_in_parts(
    table: pa.Table,
    owner: str,
    merge: Callable[[pa.Table, Backend], pa.Table],
    backend: Backend,
    max_bytes: int | None,
) -> pa.Table:
    """``merge(table)``, made of parts that take at most ``max_bytes`` each; None merges it whole.

    owner  int64 column by which ``merge`` sorts its result first and never merges across: entity codes, or the source
           codes of pairs

    A part is a range of owners, so that the parts' results follow each other in the order of the whole. One owner
    with more rows than fit is a part of its own.
    """
    num_rows = len(table) if max_bytes is None else rows_that_fit(table, max_bytes)
    if len(table) <= num_rows:
        return merge(table, backend)
    part = _part_of_row(table[owner].to_numpy(), num_rows)
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange(int(part.max()) + 2))
    merged = [merge(table.take(pa.array(order[first:last])), backend) for first, last in itertools.pairwise(bounds)]
    return pa.concat_tables(merged)


def rows_that_fit(table: pa.Table, max_bytes: int) -> int:
    """How many rows of the table can be merged in so many bytes, at least 1."""
    row_bytes = 2 * table.nbytes / max(len(table), 1) + WORKING_BYTES  # its columns there, and what is made of them
    return max(int(max_bytes / row_bytes), 1)


def _part_of_row(owner: NDArray[np.int64], num_rows: int) -> NDArray[np.int64]:
    """Number of the part that each row is in: ranges of owners, filled up one after the other."""
    ends = np.cumsum(np.bincount(owner))
    part_of_owner = np.zeros(len(ends), np.int64)
    first, filled, part = 0, 0, 0
    while first < len(ends):  # one step a part
        last = max(int(np.searchsorted(ends, filled + num_rows, side="right")), first + 1)
        part_of_owner[first:last] = part
        first, filled, part = last, int(ends[last - 1]), part + 1
    _, packed = np.unique(part_of_owner[owner], return_inverse=True)  # ranges of codes that no row has are no parts
    return packed.astype(np.int64)
