"""One code, two backends: NumPy and pandas on the CPU, CuPy and cuDF on a CUDA device.

Kernels take and return NumPy arrays or Arrow tables; what lies on the device in between is their own business.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from graphmill.kernels import device_memory

INSTALL_CUDA = 'pip install "cudf-cu13==26.10.*" "cugraph-cu13==26.10.*"  # or: conda env create -f environment.yml'


@dataclass(frozen=True)
class Backend:
    """Where kernels run. Code written against ``xp`` and ``xd`` uses only what both libraries spell alike."""

    name: str
    """"cpu" or "cuda"."""
    xp: Any
    """numpy or cupy."""
    xd: Any
    """pandas or cudf; None in NUMPY."""

    def asnumpy(self, x: Any) -> NDArray[Any]:
        """An array or a series as a NumPy array; no copy on the CPU."""
        if hasattr(x, "to_numpy"):
            return np.asarray(x.to_numpy())
        return np.asarray(x) if self.name == "cpu" else np.asarray(self.xp.asnumpy(x))

    def free_bytes(self, part: float = 1.0) -> int | None:
        """So much of what is free of the device's memory; None on the CPU, which swaps before it fails."""
        return None if self.name == "cpu" else int(device_memory.free_bytes() * part)

    def release(self) -> None:
        """Gives free memory of the device back, for a process that is about to want it."""
        if self.name == "cuda":
            device_memory.release()

    def from_arrow(self, table: pa.Table) -> Any:
        """A table as a frame. Integer columns must be free of nulls, which pandas would turn into floats."""
        return table.to_pandas() if self.name == "cpu" else self.xd.DataFrame.from_arrow(table)

    def to_arrow(self, frame: Any, schema: pa.Schema) -> pa.Table:
        """A frame as a table of just this schema, columns in its order."""
        if self.name == "cpu":
            return pa.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata(None)
        return frame.to_arrow(preserve_index=False).select(schema.names).cast(schema).replace_schema_metadata(None)


NUMPY = Backend("cpu", np, None)
"""The CPU without its frames: for kernels of arrays alone, where nothing else is asked for."""


@cache
def backend(device: str = "auto") -> Backend:
    """The backend for "cpu", "cuda" or "auto", picked once for each.

    "auto" is CUDA where RAPIDS imports and a device is there, else the CPU. "cuda" never falls back: it raises
    ImportError with what is missing, or RuntimeError where there is no device.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f'device must be "auto", "cpu" or "cuda", got "{device}"')
    if device != "cpu":
        problem = _cuda_problem()
        if problem is None:
            import cudf
            import cupy

            return Backend("cuda", cupy, cudf)
        if device == "cuda":
            raise problem
        logging.getLogger(__name__).info("running on the CPU: %s", problem)
    import pandas as pd

    return Backend("cpu", np, pd)


def _cuda_problem() -> Exception | None:
    """Why CUDA can't be used, or None. Looks before it imports: cuDF alone takes seconds."""
    missing = [name for name in ("cudf", "cupy", "pylibcugraph", "rmm") if find_spec(name) is None]
    if missing:
        return ImportError(f"device cuda needs {', '.join(missing)}: {INSTALL_CUDA}")
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # a missing driver and a missing CUDA library come as different exceptions
        return RuntimeError(f"device cuda: no CUDA device can be used ({error})")
    if count == 0:
        return RuntimeError("device cuda: no CUDA device is visible (see nvidia-smi and CUDA_VISIBLE_DEVICES)")
    try:
        import cudf  # noqa: F401
    except Exception as error:  # cuDF checks driver and device while it is imported
        return ImportError(f"device cuda: cudf does not import ({error}): {INSTALL_CUDA}")
    try:
        device_memory.share_pool()
    except Exception as error:  # some virtual GPUs have no memory pools
        return RuntimeError(f"device cuda: its memory can't be pooled ({error})")
    return None
