"""Exact vector top-k on a CUDA device that reads the matrix once, whatever the number of queries up to 64.

1. prepare     rounds the queries to the type of the matrix and bounds what that does to a score.
2. sample      scores some rows, spread over the matrix.
3. set_floor   takes from them, per query, a score that none of the k best rows is below.
4. scan        reads the matrix and lists the rows that reach the floor: on average k / share of the matrix sampled.
5. rescore     scores these in float64.
6. put_in_order  writes the k best.

Nothing is sorted, and nothing waits for the host before the end. A query for which more rows reach the floor than there
is room for (many rows equal, or rows in an order that makes the sample a bad one) is reported as lost, and answered
by the slower search in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.backend import Backend

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

MAX_K = 128
MAX_QUERIES = 64  # at once; more are for topk_matmul, or answered in groups, each of which reads the matrix
MAX_ROWS = (1 << 32) - 1  # a row is half of a 64-bit key
MAX_DIMENSIONS = 4096
FILTER_SHARE = 16  # below one row in so many it is cheaper to gather those that are allowed
SAMPLE_ROWS = 64  # of a group of the sample
SHARED_BYTES = 227 << 10  # of a multiprocessor, on Hopper
MIN_ROOM = 8192  # rows found per query; at least MAX_K groups of the sample, where all rows are found


@dataclass(frozen=True)
class Coded:
    """A matrix and its rows as int8: half the bytes to read; what is found is scored from the matrix itself.

    The result is exact: a row's code is off by a vector whose length is known, so its score by that length times the
    query's at most, and all rows that could be among the k best within that are scored again.
    """

    rows: Any
    """float16 or bfloat16 [n, d]."""
    codes: Any
    """int8 [n, d]."""
    scales: Any
    """float32 [n]; NaN where the row isn't finite."""
    errors: Any
    """float32 [n], the length of row - scale * code."""
    longest: float
    """The length of the longest scale * code."""


@dataclass(frozen=True)
class Plan:
    """How the work is cut. Everything but the speed, and which queries are lost, is the same for any plan."""

    queries: int
    """At once, padded: a power of two, at least 16 for the tensor cores."""
    rows: int
    """Of a tile of the scan."""
    first: int
    second: int
    """Dimensions of a tile's two parts, powers of two; first is 0 where the scan goes through chunks."""
    chunk: int
    warps: int
    stages: int
    """Tiles, or chunks, on their way at a time."""
    programs: int
    groups: int
    """Of the sample."""
    room: int
    """Rows found per query."""


def fits(corpus: Any, k: int, allowed: NDArray[np.bool_] | None, backend: Backend) -> bool:
    """Whether topk_fused takes this, and is the faster way."""
    if backend.name != "cuda" or not isinstance(corpus, backend.xp.ndarray) or find_spec("triton") is None:
        return False
    n, d = corpus.shape
    enough = allowed is None or int(np.count_nonzero(allowed)) * FILTER_SHARE >= n
    plain = corpus.dtype == np.float16 and bool(corpus.flags.c_contiguous)
    return plain and k <= MAX_K and 0 < n <= MAX_ROWS and 0 < d <= MAX_DIMENSIONS and enough and _has_room()


@cache
def _has_room() -> bool:
    """Whether torch can use the device, and a block may have the shared memory that plans are made for: Hopper's."""
    import torch

    if not torch.cuda.is_available():
        return False
    found = torch.cuda.get_device_properties(torch.cuda.current_device())
    return int(getattr(found, "shared_memory_per_block_optin", 0)) >= SHARED_BYTES


def topk_fused(
    queries: Floats,
    corpus: Any,
    k: int,
    allowed: NDArray[np.bool_] | None,
    in_blocks: Callable[[Floats], tuple[Floats, Ints]],
) -> tuple[Floats, Ints]:
    """What kernels.topk.topk returns, for q >= 1 queries.

    corpus     float16 [n, d], an array of CuPy or NumPy, or what `search` takes
    in_blocks  another search, for the queries that are lost here
    """
    import torch
    from torch.utils.dlpack import from_dlpack

    if isinstance(corpus, Coded | torch.Tensor):
        pass
    elif hasattr(corpus, "__cuda_array_interface__"):
        corpus = from_dlpack(corpus)
    else:
        corpus = torch.as_tensor(corpus)
    device = (corpus.rows if isinstance(corpus, Coded) else corpus).device
    mask = None if allowed is None else torch.as_tensor(allowed, device=device)
    found = search(torch.as_tensor(np.ascontiguousarray(queries, np.float32), device=device), corpus, k, mask)
    scores, rows, lost = (part.cpu().numpy() for part in found)
    if lost.any():
        scores[lost], rows[lost] = in_blocks(queries[lost])
    return scores, rows


def search(queries: Any, corpus: Any, k: int, allowed: Any = None, plan: Plan | None = None) -> tuple[Any, Any, Any]:
    """The k best rows for each query, by inner product. All arrays are torch tensors of one device, and contiguous.

    queries  float32 [q, d], finite
    corpus   float16 or bfloat16 [n, d], or Coded
    allowed  bool [n], the rows to choose from, or None for all
    returns  scores float32 [q, m], descending, float64 sums of products; rows int64 [q, m], ties to the lower;
             lost bool [q], queries whose scores and rows mean nothing. m is the least of k and the number of rows to
             choose from: those allowed whose values, and sums of products in float32, are finite

    Exact where no row is over twice as long as the longest of the sample; as Coded, always. A longer row could be
    missed only if its rounding errors, where they nearly all point one way, exceed the gap between the floor and the
    k-th score, which is as a rule much wider than what is allowed for them.
    """
    import torch

    matrix = corpus.codes if isinstance(corpus, Coded) else corpus
    if k > MAX_K or k < 1:
        raise ValueError(f"k must be in [1, {MAX_K}], got {k}")
    if len(matrix) > MAX_ROWS or matrix.shape[1] > MAX_DIMENSIONS:
        raise ValueError(f"the matrix may be at most {MAX_ROWS} x {MAX_DIMENSIONS}, got {tuple(matrix.shape)}")
    n, d = matrix.shape
    q = len(queries)
    if q == 0 or n == 0:
        empty = torch.zeros((q, 0), device=matrix.device)
        return empty, empty.long(), torch.zeros(q, dtype=torch.bool, device=matrix.device)
    if plan is None:
        cuda = matrix.device.type == "cuda"
        processors = torch.cuda.get_device_properties(matrix.device).multi_processor_count if cuda else 2
        plan = make_plan(q, n, d, k, matrix.element_size(), processors)
    parts = [_enqueue(queries[at : at + plan.queries], corpus, k, allowed, plan) for at in range(0, q, plan.queries)]
    scores, rows, counts = (torch.cat(part) if len(parts) > 1 else part[0] for part in zip(*parts, strict=True))
    held = min(k, int(counts.min()))  # the one wait for the device
    return scores[:, :held], rows[:, :held], counts > plan.room


def make_plan(q: int, n: int, d: int, k: int, itemsize: int, processors: int) -> Plan:
    """A plan for a matrix whose items have that many bytes, on a device of so many multiprocessors.

    The sample grows with q and k, so that a row is found in one tile of four only, which costs the scan a trip to
    memory, but not past a sixteenth of the matrix.
    """
    first = max(1 << (d.bit_length() - 1), 16)
    second = 0 if first >= d else max(_power(d - first), 16)
    width = first + second
    queries = min(max(_power(q), 16), MAX_QUERIES)
    if width > 512:  # too wide to have several tiles of whole rows in shared memory
        first = second = 0
        rows, chunk = 8192 // max(queries, 32), 64
        tile, kept = chunk * (rows * itemsize + queries * 2), 0
    else:
        rows = min(max(_power((64 << 10) // (width * itemsize) + 1) // 2, 64), 4096 // queries)
        chunk = min(_power(max(d, 16)), 64)
        tile, kept = width * rows * itemsize, width * queries * 2
    warps = 4 if rows == 64 else 8
    kept += max(8 * rows * queries, 8 << 10)  # what the threads exchange to list rows
    stages = min(max((SHARED_BYTES - kept) // tile, 2), 4)
    programs = processors * min(max(SHARED_BYTES // (stages * tile + kept), 1), 2)
    most = -(-n // SAMPLE_ROWS)
    groups = min(most, max(min(_power(4 * min(q, queries) * k), most // 16), _power(4 * k), 512))
    room = min(max(_power(4 * k * -(-most // groups)), MIN_ROOM), _power(n))
    return Plan(queries, rows, first, second, chunk, warps, stages, programs, groups, room)


def encode(rows: Any) -> Coded:
    """A matrix with its int8 codes: each row by its own scale, its largest value 127."""
    import torch

    n, d = rows.shape
    codes = torch.zeros((n, d), dtype=torch.int8, device=rows.device)
    scales, errors = (torch.zeros(n, device=rows.device) for _ in range(2))
    longest = 0.0
    size = max((1 << 26) // max(d, 1), 1)
    for at in range(0, n, size):
        block = rows[at : at + size].float()
        finite = block.isfinite().all(dim=1)
        block = torch.where(finite[:, None], block, 0.0)
        scale = block.abs().amax(dim=1) / 127
        code = torch.where(scale[:, None] > 0, block / scale[:, None], 0.0).round().clamp(-127, 127)
        codes[at : at + size] = code.to(torch.int8)
        code *= scale[:, None]
        longest = max(longest, float(code.norm(dim=1).max()))
        errors[at : at + size] = (code - block).norm(dim=1) * 1.01  # float32 gives it to some ten-thousandths
        scales[at : at + size] = torch.where(finite, scale, torch.nan)
    return Coded(rows, codes, scales, errors, longest)


def _enqueue(queries: Any, corpus: Any, k: int, allowed: Any, plan: Plan) -> tuple[Any, Any, Any]:
    """Scores and rows [q, k], and how many rows were found [q]; nothing has been waited for."""
    import torch

    device = queries.device
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        counts, found = _find(queries, corpus, k, allowed, plan)
        return *_choose(queries, corpus, k, counts, found), counts


def _find(queries: Any, corpus: Any, k: int, allowed: Any, plan: Plan) -> tuple[Any, Any]:
    """How many rows reach each query's floor, and which, in any order: int64 [q] and [q, room]."""
    import torch
    import triton.language as tl

    from graphmill.kernels import topk_programs as programs

    coded = isinstance(corpus, Coded)
    matrix = corpus.codes if coded else corpus
    (n, d), q, device = matrix.shape, len(queries), matrix.device
    half = torch.empty((plan.queries, d), dtype=torch.float16 if coded else matrix.dtype, device=device)
    dot = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}[half.dtype]
    if device.type == "cpu" and half.dtype == torch.bfloat16:
        dot = tl.float32  # Triton's interpreter multiplies the bits of bfloat16 as if they were whole numbers
    length, doubt, floor = torch.empty((3, plan.queries), device=device)
    counts = torch.empty(plan.queries, dtype=torch.int64, device=device)
    tops = torch.empty((q, plan.groups), dtype=torch.int64, device=device)
    norms = torch.empty(plan.groups, device=device)
    found = torch.empty((q, plan.room), dtype=torch.int64, device=device)
    # What a matrix without codes, or a search without a filter, lacks is never read.
    scales, errors = (corpus.scales, corpus.errors) if coded else (length, length)
    mask = length if allowed is None else allowed.view(torch.uint8)
    kind = {"D": d, "QUERIES": plan.queries, "DOT": dot, "FILTERED": allowed is not None, "CODED": coded}
    # The largest product stays far below float32's limit, and float16 keeps 11 bits of all but the least values.
    peak = 13 if half.dtype == torch.float16 else 0
    # Queries per program, places that one ranks, and against how many at a time. The interpreter takes long over each
    # operation, however large.
    each, mine, block = (plan.queries, 512, 512) if device.type == "cpu" else (1, 32, 256)
    sizes = {"D": d, "WIDTH": _power(d), "MINE": each}
    programs.prepare[(plan.queries // each,)](
        queries, half, length, doubt, floor, counts, q, PEAK=peak, ROUNDING=d * 2.0**-22, **sizes
    )
    shared = (matrix, half, mask, scales, errors, length)
    programs.sample[(plan.groups,)](*shared, tops, norms, n, plan.groups, q, ROWS=SAMPLE_ROWS, CHUNK=plan.chunk, **kind)
    longest = corpus.longest if coded else 0.0
    programs.set_floor[(-(-plan.groups // mine), q)](
        tops, norms, doubt, floor, longest, plan.groups, k, GROUPS=_power(plan.groups), MINE=mine, BLOCK=block
    )
    tiles = -(-n // plan.rows)
    kind |= {"ROWS": plan.rows, "FIRST": plan.first, "SECOND": plan.second, "CHUNK": plan.chunk}
    programs.scan[(min(plan.programs, tiles),)](
        *shared, floor, counts, found, n, tiles, plan.room, **kind, num_warps=plan.warps, num_stages=plan.stages
    )
    return counts[:q], found


def _choose(queries: Any, corpus: Any, k: int, counts: Any, found: Any) -> tuple[Any, Any]:
    """The k best of the rows that were found, by float64 scores: float32 and int64 [q, k]. Overwrites found."""
    import torch

    from graphmill.kernels import topk_programs as programs

    rows = corpus.rows if isinstance(corpus, Coded) else corpus
    (q, room), d = found.shape, rows.shape[1]
    scores = torch.empty((q, k), device=found.device)
    chosen = torch.empty((q, k), dtype=torch.int64, device=found.device)
    # Programs per query, rows that one scores at a time, places that one ranks, and against how many at a time.
    spread, scored, mine, block = min(max(512 // q, 8), 128), 8, 32, 256
    if found.device.type == "cpu":
        spread, scored, mine, block = 1, 512, 512, 512
    programs.rescore[(spread, q)](rows, queries, counts, found, room, D=d, CHUNK=min(_power(d), 512), MINE=scored)
    programs.put_in_order[(spread, q)](counts, found, scores, chosen, room, k, MINE=mine, BLOCK=block)
    return scores, chosen


def _power(value: int) -> int:
    """The least power of two that is no less."""
    return 1 << max(value - 1, 0).bit_length()
