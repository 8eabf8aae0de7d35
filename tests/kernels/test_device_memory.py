from __future__ import annotations

import pytest

from graphmill.kernels.backend import backend
from graphmill.kernels.device_memory import is_out_of_memory, wanted_bytes


class OutOfMemoryError(MemoryError):
    """Named as CuPy's is, which derives from MemoryError too."""


# What the libraries say, each in its own way.
CUPY = OutOfMemoryError("Out of memory allocating 8,000,000,000 bytes (allocated so far: 512 bytes).")
RMM = MemoryError("std::bad_alloc: out_of_memory: CUDA error (failed to allocate 1099511627776 bytes) at: pool.hpp:102")
RMM_POOL = MemoryError(
    "std::bad_alloc: out_of_memory: RMM failure at: Maximum pool size exceeded (failed to allocate 1.5 GiB)"
)
TORCH = RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.72 GiB")
CUGRAPH = RuntimeError(
    "non-success value returned from cugraph_leiden: CUGRAPH_UNKNOWN_ERROR std::bad_alloc: out_of_memory"
)


@pytest.mark.parametrize(
    ("error", "size"),
    [(CUPY, 8 * 10**9), (RMM, 1 << 40), (RMM_POOL, 3 << 29), (TORCH, 20 << 30), (CUGRAPH, None)],
)
def test_running_out_is_known_by_what_each_library_says_with_the_size_that_was_wanted(
    error: Exception, size: int | None
) -> None:
    assert is_out_of_memory(error)
    assert wanted_bytes(error) == size


@pytest.mark.parametrize("error", [ValueError("out of memory"), RuntimeError("illegal memory access"), MemoryError()])
def test_other_errors_are_not_taken_for_it(error: Exception) -> None:
    assert not is_out_of_memory(error)


def test_the_cpu_has_no_limit_and_nothing_to_give_back() -> None:
    assert backend("cpu").free_bytes() is None
    backend("cpu").release()


@pytest.mark.gpu
def test_what_is_let_go_of_can_be_taken_by_another_process() -> None:
    cuda = backend("cuda")
    block = cuda.xp.ones(1 << 28, dtype=cuda.xp.float32)
    before, _ = cuda.xp.cuda.runtime.memGetInfo()
    free = cuda.free_bytes()
    del block
    assert free is not None
    assert cuda.free_bytes() >= free + (1 << 30)  # free in the pool counts
    cuda.release()
    after, _ = cuda.xp.cuda.runtime.memGetInfo()
    assert after >= before + (1 << 30) - (1 << 26)
