"""What all tests share."""

from __future__ import annotations

import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with Ctrl-C ignored, and children inherit that: tests of interrupts could not work.
    signal.signal(signal.SIGINT, signal.default_int_handler)
