"""Text to a stream: nothing in it steers a terminal, and nothing in it stops the stream."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

if TYPE_CHECKING:
    from graphmill.engine.answer import Answer

T = TypeVar("T")

_STEERING: Mapping[int, str | None] = {
    **dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)]),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
"""C0 and C1 but for tab and newline, which go, and lone surrogates, which no terminal takes."""


def printable(text: str) -> str:
    """The text without control characters, as a terminal may be given what a model or a document says."""
    return text.translate(_STEERING)


def show(text: str, end: str = "\n", file: TextIO | None = None) -> None:
    """Prints at once: ``printable`` on a terminal, unchanged elsewhere; what the stream can't encode becomes "?".

    Raises BrokenPipeError where nobody reads the results any more. That nobody reads what is told beside them, on
    standard error, stops nothing.
    """
    file = file or sys.stdout
    if file is None:  # a process may be started without the stream
        return
    if file.isatty():
        text = printable(text)
    try:
        _print(text, end, file)
    except BrokenPipeError:
        if file is not sys.stderr:
            raise
        to_nowhere(file)


def _print(text: str, end: str, file: TextIO) -> None:
    try:
        print(text, end=end, file=file, flush=True)
    except UnicodeEncodeError:
        encoding = file.encoding or "utf-8"
        print(text.encode(encoding, "replace").decode(encoding), end=end, file=file, flush=True)


def show_json(document: Any, indent: int | None = None) -> None:
    """Prints a JSON document; with escapes where the stream's encoding lacks a character."""
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=indent)
    show(text)


def show_result(result: T, render: Callable[[T], str], as_json: bool) -> None:
    """Prints what came of a command: one JSON document, or the text that ``render`` makes of it."""
    if as_json:
        show_json(result, indent=2)
    else:
        show(render(result))


def show_notes(answer: Answer) -> None:
    """Says on standard error what a reader of the answer should know beside it."""
    if answer.cached:
        show(f"from the answers that are kept, to: {' '.join(answer.cached.split())}", file=sys.stderr)
    for warning in answer.warnings:
        show(f"warning: {warning}", file=sys.stderr)


def reader_is_gone() -> bool:
    """Whether standard output is a pipe that nobody reads any more: `head`, say, has had enough."""
    poll = select.poll()
    try:
        poll.register(sys.stdout, select.POLLOUT)
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))
    except (OSError, ValueError, TypeError, AttributeError):  # it is no stream of the system
        return False


def to_nowhere(file: TextIO) -> None:
    """Throws away what is written from now on, and what is still to be: Python would complain of it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, file.fileno())
    os.close(nowhere)
