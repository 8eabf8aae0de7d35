"""What all tests share."""

from __future__ import annotations

import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with Ctrl-C ignored, and children inherit that: tests of interrupts could not work.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what needs a CUDA device where none can be used."""
    wanted = [item for item in items if item.get_closest_marker("gpu")]
    if not wanted:
        return
    from graphmill.kernels.backend import backend

    if backend("auto").name == "cpu":
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device with RAPIDS installed"))
