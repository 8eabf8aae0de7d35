"""Ctrl-C is put off while something is done that must not be left half done: a file written, a library imported."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Holds a Ctrl-C back until the end of the block. Outside the main thread none arrives, and where a program that
    Python is part of handles it, that goes on doing so.

    An import is among what it is for: Python takes back what an interrupted one has loaded, but not what C code has
    set up, so that torch or NumPy can't be imported a second time and is of no use to the rest of the process.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    arrived: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if arrived:
            signal.raise_signal(signal.SIGINT)
