from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest

from graphmill.kernels.backend import Backend
from graphmill.kernels.backend import backend as pick

without_rapids = pytest.mark.skipif(find_spec("cudf") is not None, reason="RAPIDS is installed")


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(ValueError, match='"auto", "cpu" or "cuda", got "gpu"'):
        pick("gpu")


@without_rapids
def test_cuda_never_falls_back_and_says_what_to_install() -> None:
    with pytest.raises(ImportError, match=r"cudf.*pip install .*cudf-cu13"):
        pick("cuda")


@without_rapids
def test_auto_is_the_cpu_where_rapids_is_missing() -> None:
    assert pick("auto").name == "cpu"


def test_a_backend_is_picked_once() -> None:
    assert pick("cpu") is pick("cpu")


def test_a_table_survives_the_way_to_a_frame_and_back(backend: Backend) -> None:
    schema = pa.schema([("text", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
    table = pa.table([pa.array(["a", "", "ü"]), pa.array([3, 1, 2]), pa.array([0.5, 1.5, 2.5])], schema=schema)
    assert backend.to_arrow(backend.from_arrow(table), schema) == table


def test_columns_are_put_in_the_order_of_the_schema(backend: Backend) -> None:
    frame = backend.xd.DataFrame({"b": [1, 2], "a": [3.0, 4.0]})
    schema = pa.schema([("a", pa.float64()), ("b", pa.int32())])
    assert backend.to_arrow(frame, schema).to_pydict() == {"a": [3.0, 4.0], "b": [1, 2]}


def test_series_and_arrays_come_to_numpy(backend: Backend) -> None:
    assert isinstance(backend.asnumpy(backend.xp.arange(3)), np.ndarray)
    assert backend.asnumpy(backend.xd.Series([1, 2])).tolist() == [1, 2]


def test_importing_the_kernels_loads_no_heavy_package() -> None:
    code = (
        "import sys, graphmill.kernels.leiden, graphmill.kernels.merge, graphmill.kernels.topk, graphmill.kernels.pack;"
        "print([m for m in ('pandas', 'cudf', 'cupy', 'torch', 'graspologic_native') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
