"""List columns: what belongs to each of many things, kept in order and without repeats.

Rows come sorted by thing; ``run`` numbers the things, so it ascends. Arrays are the backend's, texts Arrow's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.kernels.backend import Backend

PIECE_BYTES = 1 << 30  # text bytes in one chunk of a list<string> column, whose offsets end at 2 GiB


def flat(column: pa.ChunkedArray) -> pa.Array:
    """A text column in one piece, null as "". Long texts pass the 2 GiB that string's offsets can number."""
    return column.cast(pa.large_string()).fill_null("").combine_chunks()


def encode(texts: pa.Array, backend: Backend) -> tuple[Any, pa.Array]:
    """The number of each text, int64 on the backend, and the distinct texts that they number."""
    if backend.name == "cuda":
        codes, distinct = backend.xd.Series.from_arrow(texts).factorize()
        return backend.xp.asarray(codes, dtype=np.int64), distinct.to_arrow().cast(pa.large_string())
    encoded = texts.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def runs(key: Any, xp: Any) -> tuple[Any, Any]:
    """Of a sorted key: the number of each row's run of equal ones, and the row at which each run starts."""
    first = xp.ones(len(key), dtype=np.bool_)
    first[1:] = key[1:] != key[:-1]
    return xp.cumsum(first) - 1, xp.flatnonzero(first)


def counts(run: Any, num_runs: int, backend: Backend) -> NDArray[np.int64]:
    """Number of rows of each run, int64 [num_runs]."""
    return backend.asnumpy(backend.xp.bincount(run, minlength=num_runs)).astype(np.int64)


def distinct_numbers(run: Any, number: Any, num_runs: int, backend: Backend) -> pa.ListArray:
    """The distinct numbers of each run, list<int64>; they ascend within a run."""
    first = backend.xp.ones(len(run), dtype=np.bool_)
    first[1:] = (run[1:] != run[:-1]) | (number[1:] != number[:-1])
    offsets = pa.array(_offsets(run[first], num_runs, backend), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(backend.asnumpy(number[first])))


def distinct_texts(run: Any, rows: Any, texts: pa.Array, num_runs: int, backend: Backend) -> pa.ChunkedArray:
    """The distinct texts[rows] of each run in row order, without "", list<string>."""
    xp = backend.xp
    lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    length = xp.asarray(lengths)[rows]
    run, rows, length = run[length > 0], rows[length > 0], length[length > 0]
    # Equal texts are equally long, as few of one run are: only those have to be told apart by what they say.
    order, repeated = _repeats(run, length, xp)
    alike = xp.zeros(len(rows), dtype=np.bool_)
    alike[order[1:]] = repeated
    alike[order[:-1]] |= repeated
    code = xp.arange(len(rows))
    code[alike] = len(rows) + encode(texts.take(pa.array(backend.asnumpy(rows[alike]))), backend)[0]
    order, repeated = _repeats(run, code, xp)
    first = xp.ones(len(rows), dtype=np.bool_)
    first[order[1:]] = ~repeated
    kept = backend.asnumpy(rows[first])
    pieces = _pieces(_offsets(run[first], num_runs, backend), kept, lengths[kept], texts)
    return pa.chunked_array(pieces, pa.list_(pa.string()))


def flattened(column: pa.ChunkedArray, rows: Any, backend: Backend) -> tuple[Any, pa.Array]:
    """The texts of a list column, list after list in the order of rows, and the place in rows that each comes from."""
    xp = backend.xp
    lists = column.cast(pa.large_list(pa.large_string())).combine_chunks()
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    ends = np.cumsum(lengths)
    lengths, starts = xp.asarray(lengths)[rows], xp.asarray(ends - lengths)[rows]
    ends = xp.cumsum(lengths)
    position = xp.arange(int(lengths.sum()))
    place = xp.searchsorted(ends, position, side="right")
    picked = starts[place] + position - (ends - lengths)[place]
    return place, lists.flatten().fill_null("").take(pa.array(backend.asnumpy(picked)))


def _repeats(run: Any, value: Any, xp: Any) -> tuple[Any, Any]:
    """An order in which equal values of a run are neighbours, the earlier row first, and which of its rows but the
    first repeat the one before. A stable sort of what is nearly sorted is 20 times as fast as hashing."""
    key = run * (int(value.max()) + 1 if len(value) else 1) + value
    order = xp.argsort(key, kind="stable")
    return order, key[order][1:] == key[order][:-1]


def _pieces(offsets: NDArray[np.int64], rows: NDArray[np.int64], sizes: Any, texts: pa.Array) -> list[pa.ListArray]:
    """List arrays of at most PIECE_BYTES of text each, or of one list."""
    low, high = int(offsets[0]), int(offsets[-1])
    if len(offsets) <= 2 or int(sizes[low:high].sum()) <= PIECE_BYTES:
        values = texts.take(pa.array(rows[low:high])).cast(pa.string())
        return [pa.ListArray.from_arrays(pa.array(offsets - low, pa.int32()), values)]
    middle = len(offsets) // 2
    return _pieces(offsets[: middle + 1], rows, sizes, texts) + _pieces(offsets[middle:], rows, sizes, texts)


def _offsets(run: Any, num_runs: int, backend: Backend) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts(run, num_runs, backend))])
