"""Token budgets: what fits, by prefix sums over rows whose tokens were counted before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.backend import NUMPY, Backend

Ints = NDArray[np.integer[Any]]


def segments(group: Ints) -> NDArray[np.int64]:
    """Row at which each run of one group begins, int64 [num_groups]. group: int [n], ascending."""
    group = np.asarray(group)
    if group.size == 0:
        return np.zeros(0, dtype=np.int64)
    change = np.flatnonzero(group[1:] != group[:-1]) + 1
    return np.concatenate([np.zeros(1, dtype=np.int64), change])


def pack(group: Ints, tokens: Ints, budget: int | Ints, backend: Backend = NUMPY) -> NDArray[np.bool_]:
    """Marks the longest prefix of each group that is within the group's budget, bool [n].

    group   int [n], ascending        tokens  int [n], each >= 0
    budget  one number for all groups, or int [num_groups] that the group numbers index

    The budget is never exceeded: where a group's first row is already too long, none of its rows is kept.
    """
    xp = backend.xp
    group, tokens = xp.asarray(group), xp.asarray(tokens, dtype=np.int64)
    _check(group, tokens, xp)
    if group.size == 0:
        return np.zeros(0, dtype=np.bool_)
    total = xp.cumsum(tokens)
    first = xp.concatenate([xp.ones(1, dtype=np.bool_), group[1:] != group[:-1]])
    starts = xp.flatnonzero(first)
    before = (total - tokens)[starts]
    limit = budget if np.ndim(budget) == 0 else xp.asarray(budget)[group]
    keep = total - before[xp.cumsum(first) - 1] <= limit
    return backend.asnumpy(keep)


def pack_reference(group: Ints, tokens: Ints, budget: int | Ints) -> NDArray[np.bool_]:
    """What pack() must match: one row at a time."""
    keep = np.zeros(len(group), dtype=np.bool_)
    used: dict[int, int] = {}
    for row, (owner, count) in enumerate(zip(group.tolist(), tokens.tolist(), strict=True)):
        limit = int(budget if isinstance(budget, int) else budget[owner])
        used[owner] = used.get(owner, 0) + count
        keep[row] = used[owner] <= limit
    return keep


def pack_bins(tokens: Ints, budget: int) -> NDArray[np.int64]:
    """Fills bins one after the other, each up to the budget, and gives the number of each row's bin, int64 [n].

    Rows keep their order: a bin is closed by the first row that no longer fits. A row that exceeds the budget on its
    own is in no bin (-1) and closes none.
    """
    tokens = np.asarray(tokens, dtype=np.int64)
    _check(tokens, tokens, np, ascending=False)
    fits = np.flatnonzero(tokens <= budget)
    total = np.cumsum(tokens[fits])
    number = np.zeros(len(fits), dtype=np.int64)
    start, filled = 0, 0
    while True:  # one step a bin, not a row
        start = int(np.searchsorted(total, filled + budget, side="right"))
        if start >= len(fits):
            break
        number[start] = 1
        filled = int(total[start - 1])
    bins = np.full(len(tokens), -1, dtype=np.int64)
    bins[fits] = np.cumsum(number)
    return bins


def pack_bins_reference(tokens: Ints, budget: int) -> NDArray[np.int64]:
    """What pack_bins() must match: one row at a time."""
    bins, number, used = np.full(len(tokens), -1, dtype=np.int64), 0, 0
    for row, count in enumerate(tokens.tolist()):
        if count > budget:
            continue
        if used + count > budget:
            number, used = number + 1, 0
        used += count
        bins[row] = number
    return bins


def _check(group: Any, tokens: Any, xp: Any, ascending: bool = True) -> None:
    if group.shape != tokens.shape or group.ndim != 1:
        raise ValueError(f"group and tokens must be of one length, got shapes {group.shape} and {tokens.shape}")
    if tokens.size and int(tokens.min()) < 0:
        raise ValueError(f"tokens must be >= 0, got {int(tokens.min())} at row {int(tokens.argmin())}")
    if ascending and group.size and bool(xp.any(group[1:] < group[:-1])):
        raise ValueError(f"group must ascend, but falls at row {int(xp.argmax(group[1:] < group[:-1])) + 1}")
