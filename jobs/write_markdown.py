"""Markdown to standard output as it is written: rendered on a terminal, plain where it is piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import dropwhile
from typing import TYPE_CHECKING

from graphmill.engine.interrupts import interrupts_wait
from graphmill.jobs.interrupts import without_echo
from graphmill.jobs.show import printable, show

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from rich.console import Console, ConsoleOptions, RenderResult

REFRESH_S = 1 / 12
"""Least time between two drawings of what is not finished."""


def write_markdown(pieces: Iterable[str], console: Console | None = None) -> str:
    """Shows the pieces as they come, and returns the whole text as it was shown.

    On a terminal a finished block (a paragraph, a list, a table, code) is printed for good, and the one that is being
    written is drawn anew with each piece; so a long answer scrolls as any other output. Whatever raises, what has come
    stays there.
    """
    if console is None and not sys.stdout.isatty():
        return _write_plain(pieces)
    with interrupts_wait():
        from rich.console import Console
        from rich.live import Live

    console = console or Console()
    text, num_printed, drawn = "", 0, 0.0
    # Rich's own thread could draw between the moment at which a print finds out how far to go back and the print: then
    # lines are lost that stand above.
    try:
        with (
            without_echo(console.file),
            Live(console=console, auto_refresh=False, transient=True) as live,
            ExitStack() as stack,
        ):
            stack.callback(live.update, "")  # of a last drawing that is higher than the screen a part would stay
            for piece in map(printable, pieces):
                text += piece
                with interrupts_wait():
                    # Only a line that is whole can begin the block that shows the one before it to be finished.
                    for end in block_ends(text[num_printed:]) if "\n" in piece else ():
                        with console:  # one write, so that nothing flickers
                            live.update("", refresh=True)
                            console.print(_Block(text[num_printed : num_printed + end]), "")
                        num_printed += end
                    if time.monotonic() - drawn >= REFRESH_S:
                        live.update(_Block(text[num_printed:]), refresh=True)
                        drawn = time.monotonic()
    finally:
        if text[num_printed:].strip():
            console.print(_Block(text[num_printed:]))
    return text


def block_ends(text: str) -> Iterator[int]:
    """Lengths of the finished blocks at the start of a text, one after the other.

    A block is finished where another begins beside it: by CommonMark no later line goes on with it then. What stands
    in a block, an item of a list, say, or code, is never an end.
    """
    lines = text.split("\n")[:-1]
    tokens = _parser().disable("inline").parse("".join(f"{line}\n" for line in lines))
    begins = [token.map[0] for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
    before = 0
    for begin in begins[1:]:
        yield sum(len(line) + 1 for line in lines[before:begin])
        before = begin


def _write_plain(pieces: Iterable[str]) -> str:
    text = ""
    for piece in pieces:
        text += piece
        show(piece, end="")
    show("")
    return text


class _Block:
    """Markdown of which all words are shown: tags stand as they are written, and so do definitions of links.

    Rich's own parser takes both for what is not to be seen, and it begins a list or a quote with an empty line.
    """

    def __init__(self, text: str) -> None:
        from rich.markdown import Markdown

        self._markdown = Markdown("")
        self._markdown.markup, self._markdown.parsed = text, _parser().parse(text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        lines = console.render_lines(self._markdown, options, pad=False)
        for line in dropwhile(lambda line: not any(segment.text for segment in line), lines):
            yield from line
            yield Segment.line()


def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")
