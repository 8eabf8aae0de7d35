"""The Triton programs of `topk_triton`, which says what they are for and in which order they run.

Importing this imports Triton, and settles whether the programs are compiled or, with TRITON_INTERPRET=1 in the
environment by then, interpreted.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False
# ruff: noqa: N803 (what Triton compiles in is written in capitals)

from __future__ import annotations

import triton
import triton.language as tl

LOWEST = tl.constexpr(-3.4028234663852886e38)  # float32's
LAST_ROW = tl.constexpr(0xFFFFFFFF)  # a row takes the lower half of a key
SLACK = tl.constexpr(2.0)  # rows may be that much longer than the longest of the sample


@triton.jit
def prepare(
    queries_ptr,
    half_ptr,
    length_ptr,
    doubt_ptr,
    floor_ptr,
    count_ptr,
    q,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    PEAK: tl.constexpr,
    ROUNDING: tl.constexpr,
    MINE: tl.constexpr,
):
    """Queries, MINE per program, scaled by a power of two so that the largest value is about 2^PEAK, then rounded.

    doubt is how far the score of a row of length 1 may be off, through that rounding and through float32 sums.
    """
    query = tl.program_id(0) * MINE + tl.arange(0, MINE)
    dim = tl.arange(0, WIDTH)
    place = query[:, None] * D + dim[None, :]
    values = tl.load(queries_ptr + place, mask=(dim < D)[None, :] & (query < q)[:, None], other=0.0)
    exponent = tl.max(tl.abs(values), axis=1).to(tl.int32, bitcast=True) >> 23
    values *= ((254 + PEAK - tl.maximum(exponent, PEAK)) << 23).to(tl.float32, bitcast=True)[:, None]
    half = values.to(half_ptr.dtype.element_ty)
    lost = values - half.to(tl.float32)
    length = tl.sqrt(tl.sum(values * values, axis=1))
    tl.store(half_ptr + place, half, mask=(dim < D)[None, :])
    tl.store(length_ptr + query, length)
    tl.store(doubt_ptr + query, tl.sqrt(tl.sum(lost * lost, axis=1)) + ROUNDING * length)
    tl.store(floor_ptr + query, tl.where(query < q, LOWEST, float("inf")))
    tl.store(count_ptr + query, tl.zeros([MINE], tl.int64))


@triton.jit
def sample(
    matrix_ptr,
    half_ptr,
    allowed_ptr,
    scale_ptr,
    error_ptr,
    length_ptr,
    keys_ptr,
    norm_ptr,
    n,
    groups,
    q,
    D: tl.constexpr,
    QUERIES: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    DOT: tl.constexpr,
    FILTERED: tl.constexpr,
    CODED: tl.constexpr,
):
    """A group of rows per program: each query's best score among them, and the longest row.

    The rows are spread evenly over the matrix, and neighbours among them go to different groups: rows that lie together
    are often alike, and then count one by one.
    """
    group = tl.program_id(0)
    column = tl.arange(0, QUERIES)
    index = tl.arange(0, ROWS).to(tl.int64) * groups + group
    row = tl.where(n > ROWS * groups, index * n // (ROWS * groups), index)
    inside = tl.minimum(row, n - 1)
    score = tl.zeros([ROWS, QUERIES], dtype=tl.float32)
    square = tl.zeros([ROWS], dtype=tl.float32)
    for start in range(0, D, CHUNK):
        part = _rows(matrix_ptr, inside, start, CHUNK, D, D % CHUNK == 0, DOT)
        score = tl.dot(part, _queries(half_ptr, column, start, CHUNK, D, D % CHUNK == 0, DOT), score)
        wide = part.to(tl.float32)
        square += tl.sum(wide * wide, axis=1)
    if CODED:
        scale = tl.load(scale_ptr + inside)
        length = tl.load(length_ptr + column)
        score = score * scale[:, None] - length[None, :] * tl.load(error_ptr + inside)[:, None]
        square *= scale * scale
    valid = row < n
    if FILTERED:
        valid = valid & (tl.load(allowed_ptr + inside) != 0)
    best = tl.max(tl.where(valid[:, None] & (tl.abs(score) < float("inf")), score, float("-inf")), axis=0)
    tl.store(keys_ptr + column * groups + group, _key(best, group), mask=column < q)
    tl.store(norm_ptr + group, tl.sqrt(tl.max(tl.where(square < float("inf"), square, 0.0), axis=0)))


@triton.jit
def set_floor(
    keys_ptr,
    norm_ptr,
    doubt_ptr,
    floor_ptr,
    longest,
    groups,
    k,
    GROUPS: tl.constexpr,
    MINE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The k-th best of the groups' best scores, less twice the doubt: none of the k best rows is scored below it.

    k rows score that much or more, so the k-th best truly has that less the doubt, and a row that truly has as
    much is scored at most the doubt lower. Where fewer than k groups have a score, the floor stays the lowest.
    """
    query = tl.program_id(1)
    place = tl.program_id(0) * MINE + tl.arange(0, MINE)
    mine = tl.load(keys_ptr + query * groups + place, mask=place < groups, other=0)
    kth = (_above(keys_ptr + query * groups, groups, mine, MINE, BLOCK) == k - 1) & (place < groups)
    group = tl.arange(0, GROUPS)
    sampled = tl.max(tl.load(norm_ptr + group, mask=group < groups, other=0.0), axis=0) * SLACK
    length = tl.where(longest > 0.0, longest, sampled)
    floor = tl.maximum(_score(mine) - 2.0 * tl.load(doubt_ptr + query) * length, LOWEST)
    tl.store(floor_ptr + query + tl.zeros([MINE], tl.int32), floor, mask=kth)


@triton.jit
def scan(
    matrix_ptr,
    half_ptr,
    allowed_ptr,
    scale_ptr,
    error_ptr,
    length_ptr,
    floor_ptr,
    count_ptr,
    found_ptr,
    n,
    tiles,
    capacity,
    D: tl.constexpr,
    QUERIES: tl.constexpr,
    ROWS: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    CHUNK: tl.constexpr,
    DOT: tl.constexpr,
    FILTERED: tl.constexpr,
    CODED: tl.constexpr,
):
    """Reads the matrix once and lists, per query, the rows that score no less than its floor.

    With FIRST, a tile holds whole rows, in two parts whose widths are powers of two, and the queries stay in shared
    memory. Without, it goes through the dimensions in chunks, and fetches those of the queries with each.
    """
    column = tl.arange(0, QUERIES)
    floor = tl.load(floor_ptr + column)
    if CODED:
        length = tl.load(length_ptr + column)
    if FIRST > 0:
        first = _queries(half_ptr, column, 0, FIRST, D, FIRST <= D, DOT)
        if SECOND > 0:
            second = _queries(half_ptr, column, FIRST, SECOND, D, FIRST + SECOND <= D, DOT)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FIRST == 0):
        row = tl.cast(tile, tl.int64) * ROWS + tl.arange(0, ROWS)
        inside = tl.minimum(row, n - 1)
        if CODED:
            scale = tl.load(scale_ptr + inside)
            error = tl.load(error_ptr + inside)
        score = tl.zeros([ROWS, QUERIES], dtype=tl.float32)
        if FIRST > 0:
            score = tl.dot(_rows(matrix_ptr, inside, 0, FIRST, D, FIRST <= D, DOT), first, score)
            if SECOND > 0:
                part = _rows(matrix_ptr, inside, FIRST, SECOND, D, FIRST + SECOND <= D, DOT)
                score = tl.dot(part, second, score)
        else:
            for start in range(0, D, CHUNK):
                part = _rows(matrix_ptr, inside, start, CHUNK, D, D % CHUNK == 0, DOT)
                score = tl.dot(part, _queries(half_ptr, column, start, CHUNK, D, D % CHUNK == 0, DOT), score)
        if CODED:
            score = score * scale[:, None] + length[None, :] * error[:, None]
        hit = score >= floor[None, :]
        # Most tiles have no hit, and listing costs the threads of a tile several exchanges and a trip to memory. Chunks
        # do without the branch: Triton can't flatten a loop that has one, and their tiles take longer anyway.
        if FIRST == 0:  # noqa: SIM114 (settled when compiled)
            _list(hit, score, row, column, allowed_ptr, count_ptr, found_ptr, n, capacity, ROWS, FILTERED)
        elif tl.max(tl.max(hit.to(tl.int32), axis=1), axis=0) > 0:
            _list(hit, score, row, column, allowed_ptr, count_ptr, found_ptr, n, capacity, ROWS, FILTERED)


@triton.jit
def rescore(
    rows_ptr,
    queries_ptr,
    count_ptr,
    found_ptr,
    capacity,
    D: tl.constexpr,
    CHUNK: tl.constexpr,
    MINE: tl.constexpr,
):
    """Rows that were found, replaced by keys of their inner products in float64, rounded to float32."""
    query = tl.program_id(1)
    found_ptr += tl.cast(query, tl.int64) * capacity
    count = tl.minimum(tl.load(count_ptr + query), capacity).to(tl.int32)
    for start in range(tl.program_id(0) * MINE, count, tl.num_programs(0) * MINE):
        place = start + tl.arange(0, MINE)
        row = tl.load(found_ptr + place, mask=place < count, other=0)
        score = tl.zeros([MINE], dtype=tl.float64)
        for first in range(0, D, CHUNK):
            dim = first + tl.arange(0, CHUNK)
            values = tl.load(rows_ptr + row[:, None] * D + dim[None, :], mask=(dim < D)[None, :], other=0.0)
            query_values = tl.load(queries_ptr + query * D + dim, mask=dim < D, other=0.0)
            score += tl.sum(values.to(tl.float64) * query_values.to(tl.float64)[None, :], axis=1)
        tl.store(found_ptr + place, _key(score.to(tl.float32), row), mask=place < count)


@triton.jit
def put_in_order(
    count_ptr,
    keys_ptr,
    scores_ptr,
    rows_ptr,
    capacity,
    k,
    MINE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The k greatest keys, each put where the number of greater ones says."""
    query = tl.program_id(1)
    keys_ptr += tl.cast(query, tl.int64) * capacity
    count = tl.minimum(tl.load(count_ptr + query), capacity).to(tl.int32)
    for start in range(tl.program_id(0) * MINE, count, tl.num_programs(0) * MINE):
        place = start + tl.arange(0, MINE)
        mine = tl.load(keys_ptr + place, mask=place < count, other=0)
        above = _above(keys_ptr, count, mine, MINE, BLOCK)
        chosen = (place < count) & (above < k)
        tl.store(scores_ptr + query * k + above, _score(mine), mask=chosen)
        tl.store(rows_ptr + query * k + above, (mine & LAST_ROW) ^ LAST_ROW, mask=chosen)


@triton.jit
def _rows(matrix_ptr, row, start, WIDTH: tl.constexpr, D: tl.constexpr, WITHIN: tl.constexpr, DOT: tl.constexpr):
    """Some dimensions of some rows, [rows, WIDTH]. WITHIN: none of them is beyond D."""
    dim = start + tl.arange(0, WIDTH)
    place = matrix_ptr + row[:, None] * D + dim[None, :]
    if WITHIN:
        values = tl.load(place)
    else:
        values = tl.load(place, mask=(dim < D)[None, :], other=0)
    return values.to(DOT)


@triton.jit
def _queries(half_ptr, column, start, WIDTH: tl.constexpr, D: tl.constexpr, WITHIN: tl.constexpr, DOT: tl.constexpr):
    """The same dimensions of the queries, [WIDTH, queries]."""
    dim = start + tl.arange(0, WIDTH)
    place = half_ptr + column[None, :] * D + dim[:, None]
    if WITHIN:
        values = tl.load(place)
    else:
        values = tl.load(place, mask=(dim < D)[:, None], other=0)
    return values.to(DOT)


@triton.jit
def _list(
    hit, score, row, column, allowed_ptr, count_ptr, found_ptr, n, capacity, ROWS: tl.constexpr, FILTERED: tl.constexpr
):
    """Adds the rows that were hit, where they count, to what was found for each query."""
    hit = hit & (score < float("inf")) & (row < n)[:, None]
    if FILTERED:
        # Only rows that are hit are looked up: else the loop would wait for memory at every tile.
        some = tl.max(hit.to(tl.int32), axis=1) > 0
        hit = hit & (tl.load(allowed_ptr + row, mask=some, other=0) != 0)[:, None]
    count_at = count_ptr + column[None, :] + tl.zeros([ROWS, 1], tl.int32)
    slot = tl.atomic_add(count_at, 1, mask=hit, sem="relaxed")
    place = tl.cast(column, tl.int64)[None, :] * capacity + slot
    tl.store(found_ptr + place, row[:, None], mask=hit & (slot < capacity))


@triton.jit
def _key(score, place):
    """Greater for a greater score and, of two that are equal, for the lower place, which must be under 2^32."""
    bits = tl.where(score == 0.0, 0.0, score).to(tl.int32, bitcast=True)  # no negative zero
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (bits.to(tl.int64) << 32) | (tl.cast(place, tl.int64) ^ LAST_ROW)


@triton.jit
def _score(key):
    bits = (key >> 32).to(tl.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _above(keys_ptr, count, mine, MINE: tl.constexpr, BLOCK: tl.constexpr):
    """How many of the keys are greater than each of mine."""
    above = tl.zeros([MINE], tl.int32)
    for start in range(0, count, BLOCK):
        place = start + tl.arange(0, BLOCK)
        keys = tl.load(keys_ptr + place, mask=place < count, other=0)
        above += tl.sum(((keys[None, :] > mine[:, None]) & (place < count)[None, :]).to(tl.int32), axis=1)
    return above
