from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from graphmill.engine.config import Config
from graphmill.engine.function_models import HashingEmbedder
from graphmill.engine.progress import Silent
from graphmill.engine.run import Models, OutOfDeviceMemoryError, Run
from graphmill.jobs.errors import explain
from graphmill.kernels.backend import Backend


def run_on(device: str) -> Run:
    nothing = cast(Any, None)
    return Run(nothing, Models(None, HashingEmbedder(8), nothing), Config(), Backend(device, np, None), Silent())


@pytest.mark.parametrize(
    ("stage", "setting"),
    [
        ("entities", "resolve.max_merge_bytes"),
        ("communities", 'device = "cpu"'),
        ("chunks vectors", "embedder.args"),
        ("chunks index", 'search.index = "ivf_pq"'),
        ("reports", "llm.args"),
    ],
)
def test_running_out_of_device_memory_names_the_stage_the_size_and_the_setting(stage: str, setting: str) -> None:
    run = run_on("cuda")
    with pytest.raises(OutOfDeviceMemoryError) as raised, run.stage(stage, None, "rows"):
        raise MemoryError(
            "std::bad_alloc: out_of_memory: CUDA error (failed to allocate 3221225472 bytes) at: pool.hpp"
        )
    message, code = explain(raised.value)
    assert message is not None
    assert code == 1
    assert f"{stage!r}" in message
    assert "3.00 GiB" in message
    assert setting in message


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("an illegal memory access")])
def test_other_errors_of_a_stage_come_through_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, run_on("cuda").stage("entities", None, "rows"):
        raise error
    assert raised.value is error


def test_main_memory_that_runs_out_is_not_the_devices() -> None:
    with pytest.raises(MemoryError), run_on("cpu").stage("entities", None, "rows"):
        raise MemoryError("Unable to allocate 3.00 GiB: out of memory")
