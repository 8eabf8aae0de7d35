"""Markdown to standard output as it is written: rendered on a terminal, plain where it is piped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

REFRESH_PER_S = 12


def write_markdown(pieces: Iterable[str], console: Console | None = None) -> str:
    """Shows the pieces as they come, and returns the whole text.

    On a terminal a finished block (a paragraph, a list, a table, code) is printed for good, and the one that is being
    written is drawn anew with each piece; so a long answer scrolls as any other output.
    """
    if console is None and not sys.stdout.isatty():
        return _write_plain(pieces)
    from rich.console import Console
    from rich.live import Live
    from rich.markdown import Markdown

    console = console or Console()
    text, num_printed = "", 0
    with Live(console=console, refresh_per_second=REFRESH_PER_S, transient=True) as live:
        for piece in pieces:
            text += piece
            for end in _block_ends(text[num_printed:]):
                live.update("")
                console.print(Markdown(text[num_printed : num_printed + end]), "")
                num_printed += end
            live.update(Markdown(text[num_printed:]))
        live.update("")
    if text[num_printed:].strip():
        console.print(Markdown(text[num_printed:]))
    return text


def _write_plain(pieces: Iterable[str]) -> str:
    text = ""
    for piece in pieces:
        text += piece
        print(piece, end="", flush=True)
    print(flush=True)
    return text


def _block_ends(text: str) -> Iterator[int]:
    """Lengths of the finished blocks at the start of a text, one after the other: blank lines outside of code end them,
    once something that does not go on with a list follows."""
    start = place = 0
    is_code = False
    ended = False
    for line in text.splitlines(keepends=True)[:-1]:
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        if not line.strip() and not is_code:
            ended = bool(text[start:place].strip())
        elif ended and not line.startswith((" ", "\t", "- ", "* ", "+ ")) and not line[:1].isdigit():
            yield place - start
            start, ended = place, False
        place += len(line)
