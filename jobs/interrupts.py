"""Keys that are hit while something is being drawn: they leave no mark in it."""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any


@contextmanager
def without_echo(file: IO[str]) -> Iterator[None]:
    """Has the terminal show neither ^C nor what is typed, which is there to be read later.

    It would be written where the cursor is, at the end of a full line say, and what is drawn anew would begin at the
    wrong line.
    """
    attributes = _attributes(file)
    if attributes is None:
        yield
        return
    termios.tcsetattr(file, termios.TCSANOW, [*attributes[:3], attributes[3] & ~termios.ECHO, *attributes[4:]])
    try:
        yield
    finally:
        if _attributes(file) is not None:
            termios.tcsetattr(file, termios.TCSANOW, attributes)


def _attributes(file: IO[str]) -> list[Any] | None:
    """Those of the terminal, where it is ours to set: a process in the background is stopped if it does."""
    try:
        is_ours = os.tcgetpgrp(file.fileno()) == os.getpgrp()
        return termios.tcgetattr(file) if is_ours else None
    except (OSError, ValueError, termios.error):  # no terminal, or not the one whose Ctrl-C we get
        return None
