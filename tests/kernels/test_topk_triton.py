"""The Triton programs, interpreted, in a process of its own: Triton looks at TRITON_INTERPRET when it is imported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphmill.kernels.backend import NUMPY
from graphmill.kernels.topk import topk, topk_reference
from graphmill.kernels.topk_triton import fits, make_plan

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

Found = tuple[np.ndarray, np.ndarray, np.ndarray]
Search = Callable[..., Found]
HOPPER_SHARED_BYTES = 227 << 10


def interpret() -> None:
    os.environ["TRITON_INTERPRET"] = "1"


def tensors(
    queries: np.ndarray, corpus: np.ndarray, allowed: np.ndarray | None, kind: str, device: str
) -> tuple[Any, Any, Any]:
    import torch

    from graphmill.kernels.topk_triton import encode

    rows = torch.as_tensor(corpus, device=device).to(torch.bfloat16 if kind == "bfloat16" else torch.float16)
    mask = None if allowed is None else torch.as_tensor(allowed, device=device)
    return torch.as_tensor(queries, device=device), encode(rows) if kind == "int8" else rows, mask


def search(
    queries: np.ndarray,
    corpus: np.ndarray,
    k: int,
    allowed: np.ndarray | None = None,
    kind: str = "float16",
    device: str = "cpu",
    changes: dict[str, int] | None = None,
) -> Found:
    """topk_triton.search, with NumPy arrays and with changes to its plan."""
    from graphmill.kernels import topk_triton

    some, matrix, mask = tensors(queries, corpus, allowed, kind, device)
    plan = make_plan(len(queries), *corpus.shape, k, 1 if kind == "int8" else 2, 2)
    plan = replace(plan, **changes) if changes else None
    scores, rows, lost = topk_triton.search(some, matrix, k, mask, plan)
    return scores.cpu().numpy(), rows.cpu().numpy(), lost.cpu().numpy()


def fused_with_little_room(queries: np.ndarray, corpus: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """topk_triton.topk_fused, with the search in blocks that topk would give it."""
    from graphmill.kernels import topk_triton

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topk_triton, "MIN_ROOM", 64)
        return topk_triton.topk_fused(queries, corpus, k, None, lambda some: topk(some, corpus, k, None, NUMPY))


def compiled(q: int, d: int, kind: str, names: tuple[str, ...]) -> dict[str, int]:
    """Compiles for Hopper, on no device, the programs that a search would launch; the shared memory each takes."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.jit import JITFunction

    from graphmill.kernels import topk_triton

    types = {"torch.int64": "*i64", "torch.float32": "*fp32", "torch.float16": "*fp16"}
    types |= {"torch.bfloat16": "*bf16", "torch.int8": "*i8", "torch.uint8": "*u8"}
    shared = {}

    def compile_only(program: Any, *values: Any, grid: Any, warmup: bool, **named: Any) -> None:
        if program.__name__ not in names:
            return
        options = {name: named.pop(name) for name in ("num_warps", "num_stages") if name in named}
        named |= dict(zip(program.arg_names, values, strict=False))
        signature, aligned = {}, {}
        for place, name in enumerate(program.arg_names):
            value = named[name]
            if isinstance(value, torch.Tensor):
                signature[name] = types[str(value.dtype)]
                aligned[(place,)] = [["tt.divisibility", 16]]
            else:
                signature[name] = "constexpr" if name.isupper() else "fp32" if isinstance(value, float) else "i32"
        constants = {name: value for name, value in named.items() if name.isupper()}
        source = ASTSource(program, signature, constants, aligned)
        done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        shared[program.__name__] = done.metadata.shared

    n, k = 5_000_000, 10
    rows = torch.empty((n, d), dtype=torch.bfloat16 if kind == "bfloat16" else torch.float16, device="meta")
    codes, numbers = torch.empty((n, d), dtype=torch.int8, device="meta"), torch.empty(n, device="meta")
    matrix = topk_triton.Coded(rows, codes, numbers, numbers, 1.0) if kind == "int8" else rows
    allowed = torch.empty(n, dtype=torch.bool, device="meta")
    plan = make_plan(q, n, d, k, 1 if kind == "int8" else 2, 132)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JITFunction, "run", compile_only)
        topk_triton._enqueue(torch.empty((q, d), device="meta"), matrix, k, allowed, plan)
    return shared


def encoded_errors(corpus: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far each row's code is off, and how far it may be."""
    _, matrix, _ = tensors(corpus[:1], corpus, None, "int8", "cpu")
    codes = matrix.codes.numpy().astype(np.float64) * matrix.scales.numpy()[:, None].astype(np.float64)
    off = np.linalg.norm(codes - matrix.rows.numpy().astype(np.float64), axis=1)
    return off, matrix.errors.numpy()


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=interpret) as executor:
        yield executor


@pytest.fixture
def interpreted(pool: ProcessPoolExecutor) -> Search:
    return lambda *arguments, **options: pool.submit(search, *arguments, **options).result()


def held(vectors: np.ndarray, kind: str) -> np.ndarray:
    """float32, of values that the kind holds exactly."""
    if kind == "bfloat16":
        return (vectors.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return vectors.astype(np.float16).astype(np.float32)


def unit_vectors(n: int, d: int, seed: int, kind: str = "float16") -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)
    return held(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), kind)


def assert_same(found: Found, expected: tuple[np.ndarray, np.ndarray]) -> None:
    scores, rows, lost = found
    assert not lost.any()
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_allclose(scores, expected[0], rtol=2e-7)
    assert (scores.dtype, rows.dtype) == (np.float32, np.int64)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8"])
@pytest.mark.parametrize(("n", "k", "q"), [(1, 3, 1), (64, 128, 2), (300, 100, 3)])
def test_whole_numbers_full_of_ties_come_out_as_from_the_reference(
    n: int, k: int, q: int, kind: str, interpreted: Search
) -> None:
    rng = np.random.default_rng(n)
    queries, corpus = (rng.integers(-2, 3, (count, 3)).astype(np.float32) for count in (q, n))
    assert_same(interpreted(queries, corpus, k, kind=kind), topk_reference(queries, corpus, k))


@pytest.mark.parametrize(
    ("d", "kind"),
    [
        (1, "float16"),
        (77, "float16"),
        (384, "float16"),
        (600, "float16"),
        (77, "int8"),
        (600, "int8"),
        (384, "bfloat16"),
    ],
)
def test_any_number_of_dimensions_is_searched(d: int, kind: str, interpreted: Search) -> None:
    corpus, queries = unit_vectors(100, d, 1, kind), unit_vectors(2, d, 2) + np.float32(1e-4)
    assert_same(interpreted(queries, corpus, 10, kind=kind), topk(queries, corpus, 10))


@pytest.mark.parametrize(
    ("q", "k", "groups", "kind"),
    [(1, 10, 12, "float16"), (5, 1, 2, "float16"), (2, 20, 7, "float16"), (1, 10, 12, "int8")],
)
def test_a_sample_of_the_rows_is_enough(q: int, k: int, groups: int, kind: str, interpreted: Search) -> None:
    corpus, queries = unit_vectors(3007, 32, 3), unit_vectors(q, 32, 4) * np.float32(1.0001)
    assert_same(interpreted(queries, corpus, k, kind=kind, changes={"groups": groups}), topk(queries, corpus, k))


@pytest.mark.parametrize(
    "changes", [{"rows": 64, "programs": 1, "groups": 9}, {"first": 0, "chunk": 32}, {"first": 64, "second": 0}]
)
def test_the_plan_does_not_show_in_the_result(changes: dict[str, int], interpreted: Search) -> None:
    corpus, queries = unit_vectors(700, 48, 5), unit_vectors(2, 48, 6)
    assert_same(interpreted(queries, corpus, 9, changes=changes), topk(queries, corpus, 9))


def test_more_queries_than_go_at_once_are_answered_in_groups(interpreted: Search) -> None:
    corpus, queries = unit_vectors(130, 8, 21), unit_vectors(19, 8, 22)
    assert_same(interpreted(queries, corpus, 3, changes={"queries": 16}), topk(queries, corpus, 3))


def test_rows_that_lie_together_and_are_alike_take_little_room(interpreted: Search) -> None:
    middles = np.repeat(unit_vectors(40, 16, 23), 100, axis=0)
    corpus = held(middles + np.float32(0.05) * unit_vectors(4000, 16, 24), "float16")
    queries = unit_vectors(40, 16, 23)[[3, 25]]
    found = interpreted(queries, corpus, 10, changes={"groups": 16, "room": 128})
    assert_same(found, topk(queries, corpus, 10))


@pytest.mark.parametrize(("order", "kind"), [(1, "float16"), (-1, "float16"), (1, "int8")])
def test_scores_that_rise_or_fall_along_the_rows_lose_none(order: int, kind: str, interpreted: Search) -> None:
    corpus = np.ascontiguousarray(np.arange(-1024, 1024, dtype=np.float32).reshape(-1, 1)[::order])
    _, rows, _ = interpreted(np.ones((1, 1), np.float32), corpus, 5, kind=kind, changes={"groups": 8})
    assert rows.tolist() == [[2047, 2046, 2045, 2044, 2043] if order == 1 else [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8"])
def test_rows_closer_than_the_rounding_of_the_query_are_told_apart(kind: str, interpreted: Search) -> None:
    corpus = np.repeat(unit_vectors(1, 40, 7, kind), 400, axis=0)
    step = 2.0**-6 if kind == "bfloat16" else 2.0**-9
    corpus[np.arange(400), np.arange(400) % 40] *= (1 + step * (np.arange(400) % 3)).astype(np.float32)
    corpus = held(corpus, kind)
    queries = unit_vectors(4, 40, 8) + np.float32(3e-4) * unit_vectors(4, 40, 9)
    assert_same(interpreted(queries, corpus, 60, kind=kind), topk(queries, corpus, 60))


def test_queries_of_any_size_are_answered(interpreted: Search) -> None:
    corpus = unit_vectors(300, 20, 10)
    queries = unit_vectors(6, 20, 11) * np.array([[0], [1e-37], [1e-20], [1e15], [1e18], [1]], np.float32)
    assert_same(interpreted(queries, corpus, 7), topk(queries, corpus, 7))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8"])
def test_rows_that_are_not_finite_are_never_returned(kind: str, interpreted: Search) -> None:
    corpus = unit_vectors(100, 8, 12, kind)
    corpus[[0, 10]] = np.nan
    corpus[20, 3], corpus[30, 3], corpus[40, :2] = np.inf, -np.inf, (np.inf, -np.inf)
    scores, rows, lost = interpreted(unit_vectors(3, 8, 13), corpus, 100, kind=kind)
    assert rows.shape == (3, 95)
    assert not np.isin(rows, [0, 10, 20, 30, 40]).any()
    assert np.isfinite(scores).all()
    assert not lost.any()


@pytest.mark.parametrize(("share", "kind"), [(0.0, "float16"), (0.02, "float16"), (0.5, "float16"), (0.02, "int8")])
def test_only_allowed_rows_are_returned(share: float, kind: str, interpreted: Search) -> None:
    corpus, queries = unit_vectors(700, 16, 14), unit_vectors(2, 16, 15)
    allowed = np.random.default_rng(0).random(700) < share
    expected = topk(queries, corpus, 20, allowed)
    assert_same(interpreted(queries, corpus, 20, allowed, kind=kind, changes={"groups": 9}), expected)


def test_a_query_with_more_rows_at_its_floor_than_there_is_room_for_is_lost(interpreted: Search) -> None:
    corpus, queries = unit_vectors(1000, 16, 16), unit_vectors(3, 16, 17)
    corpus[:200] = queries[1]
    scores, rows, lost = interpreted(queries, corpus, 5, changes={"room": 128})
    assert lost.tolist() == [False, True, False]
    assert_same((scores[::2], rows[::2], lost[::2]), topk(queries[::2], corpus, 5))


def test_lost_queries_are_answered_in_blocks(pool: ProcessPoolExecutor) -> None:
    corpus = np.zeros((400, 2), np.float16)
    corpus[:, 0] = 1.0
    corpus[397:, 1] = (1.0, 2.0, 1.0)
    queries = np.array([[1, 0], [0, 1], [1, 1e-7]], np.float32)
    scores, rows = pool.submit(fused_with_little_room, queries, corpus, 4).result()
    assert rows.tolist() == [[0, 1, 2, 3], [398, 397, 399, 0], [398, 397, 399, 0]]
    assert scores.tolist()[:2] == [[1, 1, 1, 1], [2, 1, 1, 0]]


def test_a_code_is_off_by_no_more_than_it_says(pool: ProcessPoolExecutor) -> None:
    corpus = unit_vectors(200, 33, 18) * np.geomspace(1e-4, 1e4, 200, dtype=np.float32)[:, None]
    corpus[7] = 0.0
    off, allowed = pool.submit(encoded_errors, corpus.astype(np.float16)).result()
    assert (off <= allowed).all()
    assert (allowed <= 1.02 * off + 1e-12).all()


def test_the_cpu_and_other_types_are_left_to_the_search_in_blocks() -> None:
    assert not fits(np.zeros((5, 4), np.float16), 1, None, NUMPY)


@pytest.mark.parametrize("q", [1, 32, 64, 1000])
@pytest.mark.parametrize("d", [1, 64, 100, 384, 512, 768, 1024, 4096])
def test_plans_fit_the_shared_memory_and_have_room_for_what_is_found(d: int, q: int) -> None:
    for itemsize, n, k in ((2, 5_000_000, 10), (2, 20_000, 128), (1, 5_000_000, 128), (2, 3, 10)):
        plan = make_plan(q, n, d, k, itemsize, 132)
        width = plan.first + plan.second
        kept = width * plan.queries * 2 + 8 * plan.rows * plan.queries
        tile = plan.rows * itemsize * (width or plan.chunk) + (0 if width else plan.chunk * plan.queries * 2)
        assert kept + plan.stages * tile <= HOPPER_SHARED_BYTES
        assert width == 0 or width >= d
        assert plan.room >= min(n, 3 * k * n / (64 * plan.groups))
        assert plan.groups >= k or plan.room >= n


@pytest.mark.slow
def test_the_programs_compile_for_hopper_and_fit_its_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = ("prepare", "sample", "set_floor", "scan", "rescore", "put_in_order")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        whole = executor.submit(compiled, 32, 384, "float16", every).result()
        chunks = executor.submit(compiled, 64, 768, "int8", ("scan",)).result()
    assert sorted(whole) == sorted(every)
    assert max(whole.values()) <= HOPPER_SHARED_BYTES
    assert chunks["scan"] <= HOPPER_SHARED_BYTES


@cache
def searched(kind: str) -> np.ndarray:
    corpus = unit_vectors(100_003, 384, 19, kind)
    corpus[5] = np.nan
    corpus[50_000:50_007] = corpus[3]
    return corpus


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8"])
@pytest.mark.parametrize("q", [1, 7, 32, 64])
@pytest.mark.parametrize("k", [1, 10, 128])
@pytest.mark.parametrize("filtered", [False, True])
def test_on_the_device_the_result_is_that_of_the_cpu(q: int, k: int, filtered: bool, kind: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    corpus, queries = searched(kind), unit_vectors(q, 384, 20) * np.float32(1.001)
    allowed = np.random.default_rng(1).random(len(corpus)) < 0.5 if filtered else None
    expected = topk(queries, corpus, k, allowed)
    assert_same(search(queries, corpus, k, allowed, kind=kind, device="cuda"), expected)
