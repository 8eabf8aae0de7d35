"""Kernel tests run on the CPU and, marked gpu, on CUDA where there is a device."""

from __future__ import annotations

import pytest

from graphmill.kernels.backend import Backend
from graphmill.kernels.backend import backend as pick

CUDA = [pytest.param("cuda", marks=pytest.mark.gpu)] if pick("auto").name == "cuda" else []


@pytest.fixture(scope="session", params=["cpu", *CUDA])
def backend(request: pytest.FixtureRequest) -> Backend:
    return pick(request.param)
