"""Exact vector top-k on a CUDA device for many queries at once: one matrix product, and a selection, a block of rows.

With so many queries the products cost more than reading the matrix, and nothing makes them as fast as the libraries of
the tensor cores. Queries are rounded to the matrix's type, so that scores are off by a known bound: more rows than are
asked for are kept, and scored again in float64. A query for which the bound leaves a doubt is reported as lost, and
answered by the slower search in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.backend import Backend

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

MAX_QUERIES = 1024  # at once; more read the matrix again
MIN_SPARE = 16  # rows kept beyond twice those asked for
GROUP = 64  # neighbouring scores of which the best is looked at first
SCORES_BYTES = 4 << 30  # of a block, at most
FREE_SHARE = 0.25  # of the device's free memory, likewise
FILTER_SHARE = 16  # below one row in so many it is cheaper to gather those that are allowed
RESCORE_BYTES = 1 << 28


def fits(corpus: Any, allowed: NDArray[np.bool_] | None, backend: Backend) -> bool:
    """Whether topk_matmul takes this, and is the faster way where there are many queries."""
    if backend.name != "cuda" or not isinstance(corpus, backend.xp.ndarray) or corpus.dtype != np.float16:
        return False
    import torch

    # The product of two float16 matrices as float32 is there from torch 2.8 on.
    able = torch.cuda.is_available() and hasattr(torch.ops.aten.mm, "dtype")
    return able and (allowed is None or int(np.count_nonzero(allowed)) * FILTER_SHARE >= len(corpus))


def topk_matmul(
    queries: Floats,
    corpus: Any,
    k: int,
    allowed: NDArray[np.bool_] | None,
    in_blocks: Callable[[Floats], tuple[Floats, Ints]],
    backend: Backend,
) -> tuple[Floats, Ints]:
    """What kernels.topk.topk returns, for q >= 1 queries.

    corpus     float16 [n, d], an array of CuPy
    in_blocks  another search, for the queries that are lost here
    """
    import torch
    from torch.utils.dlpack import from_dlpack

    matrix = from_dlpack(corpus)
    mask = None if allowed is None else torch.as_tensor(allowed, device=matrix.device)
    free = backend.free_bytes(FREE_SHARE)
    scores_bytes = SCORES_BYTES if free is None else min(SCORES_BYTES, free)
    some = torch.as_tensor(np.ascontiguousarray(queries, np.float32), device=matrix.device)
    found = search(some, matrix, k, mask, scores_bytes)
    scores, rows, lost = (part.cpu().numpy() for part in found)
    if lost.any():
        scores[lost], rows[lost] = in_blocks(queries[lost])
    return scores, rows


def search(
    queries: Any, corpus: Any, k: int, allowed: Any = None, scores_bytes: int = SCORES_BYTES
) -> tuple[Any, Any, Any]:
    """The k best rows for each query, by inner product. All arrays are torch tensors of one device.

    queries  float32 [q, d], finite
    corpus   float16 or bfloat16 [n, d]
    allowed  bool [n], the rows to choose from, or None for all
    returns  scores float32 [q, m], descending, float64 sums of products; rows int64 [q, m], ties to the lower;
             lost bool [q], queries whose scores and rows mean nothing. m is the least of k and the number of rows to
             choose from: those allowed whose values and whose length in float32 are finite
    """
    import torch

    parts = [
        _search(queries[at : at + MAX_QUERIES], corpus, k, allowed, scores_bytes)
        for at in range(0, len(queries), MAX_QUERIES)
    ]
    scores, rows, lost = (torch.cat(part) if len(parts) > 1 else part[0] for part in zip(*parts, strict=True))
    return scores, rows, lost


def _search(queries: Any, corpus: Any, k: int, allowed: Any, scores_bytes: int) -> tuple[Any, Any, Any]:
    import torch

    q, n, device = len(queries), len(corpus), queries.device
    half, scale, off = _rounded(queries, corpus.dtype)
    depth = 2 * k + MIN_SPARE
    best, rows = torch.empty((q, 0), device=device), torch.empty((q, 0), dtype=torch.int64, device=device)
    longest, num_good = torch.zeros((), device=device), torch.zeros((), dtype=torch.int64, device=device)
    size = max(scores_bytes // (4 * q) // GROUP, 1) * GROUP
    for at in range(0, n, size):
        block = corpus[at : at + size]
        lengths = torch.linalg.vector_norm(block, dim=1, dtype=torch.float32)
        good = lengths.isfinite() if allowed is None else lengths.isfinite() & allowed[at : at + size]
        longest = torch.maximum(longest, torch.where(good, lengths, 0.0).max())
        num_good += good.sum()
        found, columns = _best(_product(half, block).masked_fill_(~good, -torch.inf), depth)
        best, place = torch.cat([best, found], dim=1).topk(min(depth, best.shape[1] + found.shape[1]))
        rows = torch.cat([rows, columns + at], dim=1).gather(1, place)
    held, m = min(depth, int(num_good)), min(k, int(num_good))  # past these every score is -inf
    scores, rows = _rescored(queries, corpus, rows[:, :held])
    lost = torch.zeros(q, dtype=torch.bool, device=device)
    if int(num_good) > held:
        lost = scores[:, k - 1] <= best[:, -1] / scale + longest.double() * off
    return scores[:, :m], rows[:, :m], lost


def _rounded(queries: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Queries in the matrix's type, scaled so that it can tell their small values; by what power of two; and how much a
    score may be off for a row of length 1, by that rounding and by those of float32 sums in any order."""
    import torch

    exact = queries.double()
    _, exponent = torch.frexp(exact.abs().amax(dim=1))
    scale = torch.ldexp(torch.ones_like(exact[:, 0]), 12 - exponent)
    half = (exact * scale[:, None]).to(dtype)
    off = (half.double() / scale[:, None] - exact).norm(dim=1)
    return half, scale, off + queries.shape[1] * 2.0**-22 * exact.norm(dim=1)


def _product(half: Any, block: Any) -> Any:
    """Inner products as float32, [q, b]."""
    import torch

    if block.device.type == "cuda":
        return torch.mm(half, block.T, out_dtype=torch.float32)
    return half.float() @ block.float().T


def _best(scores: Any, depth: int) -> tuple[Any, Any]:
    """The best scores of each row, and their columns.

    One pass finds the best of each group of neighbours. Only the groups that lead are looked into: no score outside of
    them is greater than the least of their best.
    """
    import torch

    q, b = scores.shape
    num_groups = -(-b // GROUP)
    if num_groups <= 2 * depth:
        return tuple(scores.topk(min(depth, b)))
    if b % GROUP:
        scores = torch.nn.functional.pad(scores, (0, num_groups * GROUP - b), value=-torch.inf)
    groups = scores.view(q, num_groups, GROUP)
    leading = groups.amax(dim=2).topk(depth).indices
    members = groups.gather(1, leading[:, :, None].expand(q, depth, GROUP)).view(q, depth * GROUP)
    best, place = members.topk(depth)
    columns = leading.gather(1, place // GROUP) * GROUP + place % GROUP
    return best, columns


def _rescored(queries: Any, corpus: Any, rows: Any) -> tuple[Any, Any]:
    """Rows in the order of their float64 scores, ties to the lower."""
    import torch

    rows = rows.sort(dim=1).values
    size = max(RESCORE_BYTES // max(8 * rows.shape[1] * queries.shape[1], 1), 1)
    parts = [
        torch.einsum("qd,qkd->qk", queries[at : at + size].double(), corpus[rows[at : at + size]].double())
        for at in range(0, len(queries), size)
    ]
    scores, order = torch.cat(parts).float().sort(dim=1, descending=True, stable=True)
    return scores, rows.gather(1, order)
