"""The event loop in a thread: what is under way when it is closed ends as it would by itself, and nothing is left."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings

import anyio
import pytest

from graphmill.engine import background as module
from graphmill.engine.background import Background


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A close waits for an end that takes its time."""
    monkeypatch.setattr(module, "STOP_TIMEOUT_S", 60.0)


def test_what_is_being_connected_when_it_is_closed_ends_without_a_warning() -> None:
    """A task of a group, as anyio makes one for each address, that has not begun when everything is to stop."""
    ended, background = threading.Event(), Background("test")

    async def child() -> None:
        await asyncio.sleep(60)

    async def parent() -> None:
        try:
            async with anyio.create_task_group() as group:
                background.close()
                asyncio.get_running_loop().call_soon(group.start_soon, child)
                await asyncio.sleep(60)
        finally:
            ended.set()

    gc.collect()  # what other tests have left has warnings of its own
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        future = background.start(parent())
        assert ended.wait(10)
        background.close()
        gc.collect()
    assert [str(warning.message) for warning in warned] == []
    assert future.cancelled()


def test_closing_ends_what_was_left_behind_too() -> None:
    ended, background = threading.Event(), Background("test")

    async def left_behind() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def parent() -> asyncio.Task[None]:
        task = asyncio.create_task(left_behind())
        await asyncio.sleep(0)
        return task

    task = background.run(parent())
    background.close()
    assert ended.is_set()
    assert task.cancelled()
    with pytest.raises(RuntimeError, match="test is closed"):
        background.run(parent())


def test_closing_again_while_it_ends_waits_for_the_end_and_leaves_nothing_behind() -> None:
    """From another thread, and from what is being cancelled."""
    cancelled, go_on, background = threading.Event(), threading.Event(), Background("test")
    closed: list[bool] = []

    async def closer() -> None:
        closed.append(go_on.is_set())

    async def slow_to_end() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            background.close()
            cancelled.set()
            while not go_on.is_set():
                await asyncio.sleep(0.001)

    gc.collect()  # what other tests have left has warnings of its own
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        background.closers.append(closer)
        background.start(slow_to_end())
        first = threading.Thread(target=background.close)
        first.start()
        assert cancelled.wait(10)
        second = threading.Thread(target=background.close)
        second.start()
        assert second.is_alive()
        go_on.set()
        first.join()
        second.join()
        gc.collect()
    assert closed == [True]
    assert [str(warning.message) for warning in warned] == []
