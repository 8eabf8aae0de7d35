"""What all tests share."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator

import hypothesis
import pytest

# No test measures time, and how long one example takes depends on what else the machine does.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with Ctrl-C ignored, and children inherit that: tests of interrupts could not work.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
        # Workers share the cores out: threads of one that wait in a loop for each other would stand in another's way.
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(workers))))


@pytest.fixture(autouse=True, scope="session")
def _temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Logs of engines that have failed, which are kept, are left where pytest clears them away."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("temporary"))
    yield
    tempfile.tempdir = before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what needs a CUDA device where none can be used."""
    wanted = [item for item in items if item.get_closest_marker("gpu")]
    if not wanted:
        return
    from graphmill.kernels.backend import backend

    if backend("auto").name == "cpu":
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device with RAPIDS installed"))
