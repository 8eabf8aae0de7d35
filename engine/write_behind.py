"""Work that goes on beside its caller, one piece at a time: shards are written while the model reads on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from graphmill.engine.interrupts import interrupts_wait


class WriteBehind:
    """``do`` starts a piece of work once the one before is done, whose error it raises; leaving the block waits.

    At most one piece is open, so that a slow disk holds its caller back instead of filling memory.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._open: Future[None] | None = None

    def do(self, work: Callable[[], None]) -> None:
        """A Ctrl-C waits until the work has been taken on."""
        with interrupts_wait():
            self._wait()
            self._open = self._pool.submit(work)

    def _wait(self) -> None:
        pending, self._open = self._open, None
        if pending is not None:
            pending.result()

    def __enter__(self) -> WriteBehind:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with interrupts_wait():
                self._wait()
        finally:
            self._pool.shutdown()
