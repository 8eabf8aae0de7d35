"""A sign of life while a question is looked up and put to a model, until the first of its answer is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from graphmill.engine.interrupts import interrupts_wait

T = TypeVar("T")
NOTE = "asking the model"


@contextmanager
def sign_of_life(is_wanted: bool) -> Iterator[Callable[[Iterable[T]], Iterator[T]]]:
    """Turns a wheel on standard error, where that is a terminal, until the block ends.

    What it yields hands pieces on, and takes the wheel away before the first of them.
    """
    if not (is_wanted and sys.stderr.isatty() and sys.stdout.isatty()):
        yield iter
        return
    with interrupts_wait():
        from rich.console import Console

    status = Console(stderr=True).status(NOTE)

    def until_first(pieces: Iterable[T]) -> Iterator[T]:
        for piece in pieces:
            status.stop()
            yield piece

    with status:
        yield until_first
