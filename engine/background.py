"""An event loop in a background thread: many requests in flight for code that is not written with async."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
Closer = Callable[[], Coroutine[Any, Any, None]]
STOP_TIMEOUT_S = 5.0


class Background:
    """Runs coroutines until it is closed, which cancels those still running and then awaits what ``closers`` return."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closers: list[Closer] = []
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: weakref.finalize[..., Background] | None = None
        self._is_closed = False

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine; the thread is made with the first one. Raises RuntimeError once closed."""
        with self._lock:
            if self._is_closed:
                work.close()
                raise RuntimeError(f"{self.name} is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_serve, args=(self._loop,), daemon=True, name=self.name)
                thread.start()
                # Also runs when the interpreter exits, before the thread is taken away in the middle of something.
                self._stop = weakref.finalize(self, _stop, self._loop, thread, self.closers)
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Starts a coroutine and waits for its result; an interrupt of the wait cancels it."""
        future = self.start(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """Cancels what is running and ends the thread. Doing it twice is fine."""
        with self._lock:
            self._is_closed = True
            if self._stop is not None:
                self._stop()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, closers: list[Closer]) -> None:
    async def stop() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for closer in closers:
            await closer()
        loop.stop()

    if thread.is_alive() and not loop.is_closed():
        asyncio.run_coroutine_threadsafe(stop(), loop)
        if threading.current_thread() is not thread:
            thread.join(STOP_TIMEOUT_S)
