"""Memory of the CUDA device: one pool for every library, given back between stages, and what running out of it says."""

from __future__ import annotations

import gc
import re
import sys
from typing import Any

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
# "Out of memory allocating 8,000 bytes" (CuPy), "failed to allocate 1.5 GiB" (RMM), "Tried to allocate 20.00 GiB"
# (PyTorch).
_WANTED = re.compile(r"allocat(?:e|ing) ([\d.,]+) ?(bytes|[KMGT]iB)")
_SIGNS = ("out of memory", "out_of_memory", "bad_alloc", "MemoryAllocation")


def share_pool() -> None:
    """Has cuDF, CuPy, cuGraph and cuVS take from one pool: what one lets go of, another can have at once.

    It is the driver's own pool, which ``release`` can empty: RMM's PoolMemoryResource keeps all that it ever took, and
    the model's process would find the device full. Until then the pool keeps what is freed, as allocating anew is slow.
    """
    import cupy
    import rmm
    from cuda.bindings import driver, runtime
    from rmm.allocators.cupy import rmm_cupy_allocator

    pool = _pool()
    threshold = runtime.cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold
    _checked(runtime.cudaMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(2**64 - 1)))
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncViewMemoryResource(pool))
    cupy.cuda.set_allocator(rmm_cupy_allocator)


def release() -> None:
    """Gives what is free in the pool back to the device, for another process: a model that is about to load."""
    import cupy
    from cuda.bindings import runtime

    gc.collect()
    if "torch" in sys.modules:  # which has a cache of its own, where it embedded
        sys.modules["torch"].cuda.empty_cache()
    cupy.cuda.Device().synchronize()
    _checked(runtime.cudaMemPoolTrimTo(_pool(), 0))


def free_bytes() -> int:
    """What can still be allocated: free on the device, or free in the pool."""
    import cupy
    from cuda.bindings import runtime

    free, _ = cupy.cuda.runtime.memGetInfo()
    attributes = runtime.cudaMemPoolAttr
    held, used = (
        int(_checked(runtime.cudaMemPoolGetAttribute(_pool(), attribute)))
        for attribute in (attributes.cudaMemPoolAttrReservedMemCurrent, attributes.cudaMemPoolAttrUsedMemCurrent)
    )
    return int(free) + held - used


def _pool() -> Any:
    import cupy
    from cuda.bindings import runtime

    return _checked(runtime.cudaDeviceGetDefaultMemPool(cupy.cuda.Device().id))


def _checked(answer: tuple[Any, ...]) -> Any:
    """What a call of the CUDA runtime returns beside its status, which must be success."""
    status, *values = answer
    if int(status):
        raise RuntimeError(f"CUDA: {status.name}")
    return values[0] if values else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, of any of the libraries, says that the device's memory ran out."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "OutOfMemoryError" in names:  # CuPy's and PyTorch's
        return True
    said = str(error)
    return isinstance(error, MemoryError | RuntimeError) and any(sign in said for sign in _SIGNS)


def wanted_bytes(error: BaseException) -> int | None:
    """The size of the allocation that failed, where the error tells it."""
    found = _WANTED.search(str(error))
    if found is None:
        return None
    return int(float(found[1].replace(",", "").rstrip(".")) * _UNITS[found[2]])
