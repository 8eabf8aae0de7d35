"""Ctrl-C while an answer is being drawn on a terminal: what has come stays there, once, and nothing else does."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator

import pytest
from rich.console import Console

from graphmill.engine.interrupts import interrupts_wait
from graphmill.jobs import write_markdown as module
from graphmill.jobs.interrupts import without_echo
from graphmill.jobs.write_markdown import write_markdown

WIDTH = 40
LONG = "The harbour is run by a trust that was set up in 1888, and whose chair is Bridget Aluko"
SHOWN = [
    f"{'Head':^{WIDTH}}".rstrip(),
    "",
    "The harbour is run by a trust that was",
    "set up in 1888, and whose chair is",
    "Bridget Aluko",
]
_PART = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|(.)", re.DOTALL)


def screen_of(written: str, height: int = 50) -> list[str]:
    """The lines that a terminal shows, and those that have scrolled off it, after all of this was written to it."""
    lines, row, column = [""], 0, 0
    for number, command, character in _PART.findall(written.replace("\r\n", "\n")):
        if command == "A":
            row = max(row - int(number or 1), len(lines) - height, 0)
        elif command == "K":
            lines[row] = ""
        elif character == "\r":
            column = 0
        elif character == "\n" or (character and column == WIDTH):
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        if character and character not in "\r\n":
            lines[row] = f"{lines[row][:column]:{column}}{character}{lines[row][column + 1 :]}"
            column += 1
    return "\n".join(line.rstrip() for line in lines).strip("\n").split("\n")


def drawn(pieces: Iterator[str], raises: type[BaseException], height: int = 50) -> list[str]:
    file = io.StringIO()
    with pytest.raises(raises):
        write_markdown(pieces, Console(file=file, width=WIDTH, height=height, force_terminal=True))
    return screen_of(file.getvalue(), height)


def test_what_has_come_of_a_block_stays_when_the_answer_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    def pieces(error: type[BaseException]) -> Iterator[str]:
        for word in f"# Head\n\n{LONG}".split(" "):
            yield f"{word} "
        raise error

    for refresh_s in (0.0, 60.0):  # drawn with each piece, or not at all
        monkeypatch.setattr(module, "REFRESH_S", refresh_s)
        for error in (KeyboardInterrupt, LookupError):
            assert drawn(pieces(error), error) == SHOWN
            assert drawn(pieces(error), error, height=3) == SHOWN


def test_an_interrupt_in_the_middle_of_drawing_leaves_no_line_twice_and_none_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def whole(text: str) -> list[str]:
        file = io.StringIO()
        write_markdown([text], Console(file=file, width=WIDTH, force_terminal=True))
        return screen_of(file.getvalue())

    real, text = module._Block, f"# Head\n\n{LONG}\n\nThe end."
    shown = [whole(text[:end]) for end in range(len(text) + 1)]
    monkeypatch.setattr(module, "REFRESH_S", 0.0)
    for when in range(1, len(text), 3):
        calls = 0

        def markdown(text: str, when: int = when) -> object:
            nonlocal calls
            calls += 1
            if calls == when:
                signal.raise_signal(signal.SIGINT)
            return real(text)

        monkeypatch.setattr(module, "_Block", markdown)
        # A drawing a piece, here a character, and one more for each block that is finished.
        assert drawn(iter(text), KeyboardInterrupt) in shown[max(when - 3, 0) : when + 1]


CHILD = f"""
import fcntl, termios, time
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from graphmill.jobs.write_markdown import write_markdown
def pieces():
    yield "# Head\\n\\n"
    yield {LONG!r}
    time.sleep(0.2)
    yield " now "
    time.sleep(60)
try:
    write_markdown(pieces())
except KeyboardInterrupt:
    print("END", bool(termios.tcgetattr(0)[3] & termios.ECHO))
    print(repr(input()))
"""


def test_keys_leave_no_mark_in_what_is_being_drawn_and_what_was_typed_is_read_later() -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(WIDTH), "LINES": "20", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env=environment,
    ) as child:  # fmt: skip
        os.close(theirs)
        written = b""
        while b"Aluko now" not in written:
            written += os.read(ours, 4096)
        os.write(ours, b"typed early\n" * 3 + b"\x03")
        while not re.search(rb"END \w+\r\n", written):  # else the echo of what comes next may stand within it
            written += os.read(ours, 4096)
        os.write(ours, b"typed late\n")
        while not written.endswith(b"'typed late'\r\n"):
            written += os.read(ours, 4096)
        assert child.wait(60) == 0
    os.close(ours)
    # Ctrl-C throws away what was typed before it, as it always does.
    shown = screen_of(written.decode())
    assert shown == [*SHOWN[:4], f"{SHOWN[4]} now", "END True", "typed late", "'typed late'"]


def test_an_interrupt_that_was_put_off_comes_at_the_end_and_other_threads_are_left_alone() -> None:
    steps = []

    def interrupted() -> None:
        with interrupts_wait():
            signal.raise_signal(signal.SIGINT)
            steps.append("done")
        steps.append("never")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert steps == ["done"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def other() -> None:
        with interrupts_wait():
            steps.append("other")

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert steps == ["done", "other"]


def test_what_is_no_terminal_of_ours_is_left_as_it_is() -> None:
    with without_echo(io.StringIO()):
        pass
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as file:
        before = termios.tcgetattr(file)
        with without_echo(file):
            assert termios.tcgetattr(file) == before
    os.close(ours)
