"""An event loop in a background thread: many requests in flight for code that is not written with async."""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Set
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
Closer = Callable[[], Coroutine[Any, Any, None]]
STOP_TIMEOUT_S = 5.0
_alive: weakref.WeakSet[Background] = weakref.WeakSet()


class Background:
    """Runs coroutines until it is closed, which cancels those still running and then awaits what ``closers`` return."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closers: list[Closer] = []
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: weakref.finalize[..., Background] | None = None
        self._is_closed = False
        self._started: weakref.WeakSet[Coroutine[Any, Any, Any]] = weakref.WeakSet()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine; the thread is made with the first one. Raises RuntimeError once closed."""
        with self._lock:
            if self._is_closed:
                work.close()
                raise RuntimeError(f"{self.name} is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                served = (self._loop, self._started, self.closers)
                self._thread = threading.Thread(target=_serve, args=served, daemon=True, name=self.name)
                self._thread.start()
                # One that is forgotten ends too, but nobody waits for it: a collection of garbage may come at any time,
                # such as during an import that the end of the other thread needs as well.
                self._stop = weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)
                self._stop.atexit = False
                _alive.add(self)
            self._started.add(work)
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Starts a coroutine and waits for its result; an interrupt of the wait cancels it."""
        future = self.start(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """Cancels what is running and ends the thread. Doing it twice is fine, also from what is being cancelled."""
        with self._lock:
            self._is_closed = True
            stop, thread = self._stop, self._thread
        if stop is not None and thread is not None:
            stop()  # the first time only
            if threading.current_thread() is not thread:
                thread.join(STOP_TIMEOUT_S)


@atexit.register
def _close_all() -> None:
    """Before the interpreter takes the threads away in the middle of something."""
    for background in list(_alive):
        background.close()


def _serve(loop: asyncio.AbstractEventLoop, started: Set[Coroutine[Any, Any, Any]], closers: list[Closer]) -> None:
    """Runs the loop until it is stopped, and then what is left in it to its end."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_end(loop, started, closers))
    finally:
        loop.close()


async def _end(loop: asyncio.AbstractEventLoop, started: Set[Coroutine[Any, Any, Any]], closers: list[Closer]) -> None:
    # Tasks that these have made are theirs to end: anyio warns of one that others cancel before it begins.
    await _cancel({task for task in asyncio.all_tasks() if task.get_coro() in started})
    await _cancel(asyncio.all_tasks() - {asyncio.current_task()})
    await asyncio.gather(*(closer() for closer in closers), return_exceptions=True)
    await loop.shutdown_asyncgens()


async def _cancel(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancels some tasks, and waits until they have ended."""
    found = [task for task in tasks if task is not None]
    for task in found:
        task.cancel()
    await asyncio.gather(*found, return_exceptions=True)
