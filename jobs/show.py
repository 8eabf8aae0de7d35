"""Text to a stream: nothing in it steers a terminal, and nothing in it stops the stream."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from graphmill.engine.answer import Answer

_STEERING: Mapping[int, str | None] = {
    **dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)]),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
"""C0 and C1 but for tab and newline, which go, and lone surrogates, which no terminal takes."""


def printable(text: str) -> str:
    """The text without control characters, as a terminal may be given what a model or a document says."""
    return text.translate(_STEERING)


def show(text: str, end: str = "\n", file: TextIO | None = None) -> None:
    """Prints at once: ``printable`` on a terminal, unchanged elsewhere; what the stream can't encode becomes "?"."""
    file = file or sys.stdout
    if file.isatty():
        text = printable(text)
    try:
        print(text, end=end, file=file, flush=True)
    except UnicodeEncodeError:
        encoding = file.encoding or "utf-8"
        print(text.encode(encoding, "replace").decode(encoding), end=end, file=file, flush=True)


def show_json(document: Mapping[str, Any], indent: int | None = None) -> None:
    """Prints a JSON document; with escapes where the stream's encoding lacks a character."""
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=indent)
    show(text)


def show_notes(answer: Answer) -> None:
    """Says on standard error what a reader of the answer should know beside it."""
    if answer.cached:
        show(f"from the answers that are kept, to: {' '.join(answer.cached.split())}", file=sys.stderr)
    for warning in answer.warnings:
        show(f"warning: {warning}", file=sys.stderr)
