"""Text to a terminal and to other streams: what steers the one goes, and what the other can't hold ends nothing."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphmill.engine.answer import Answer
from graphmill.jobs.evaluate import _warn
from graphmill.jobs.progress import LiveProgress, PlainProgress
from graphmill.jobs.show import printable, show, show_json, show_notes
from tests.jobs.command_line import APART

STEERING = "a\x1b]0;title\x07b\x1b[2Jc\x9b31md\x7f\r\te\nf\x00"


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_no_control_characters_but_tabs_and_newlines_and_others_the_text() -> None:
    screen, pipe = Screen(), io.StringIO(newline="")
    show(STEERING, file=screen)
    show(STEERING, end="", file=pipe)
    assert screen.getvalue() == "a]0;titleb[2Jc31md\te\nf\n"
    assert pipe.getvalue() == STEERING
    assert printable("é 你好 🙂 a\ud83db") == "é 你好 🙂 a\ufffdb"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("text", ["plain", "a\ud83db", "你好 é", 'x"\x1b'])
def test_no_text_ends_the_stream_it_is_printed_to(monkeypatch: pytest.MonkeyPatch, encoding: str, text: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    document: dict[str, Any] = {"answer": text}
    show_json(document)
    show(text)
    first, _, rest = stream.buffer.getvalue().decode(encoding).partition("\n")  # type: ignore[attr-defined]
    assert json.loads(first) == document
    assert len(rest) == len(text) + 1


def test_a_reader_is_told_that_an_answer_was_kept_and_to_what(capsys: pytest.CaptureFixture[str]) -> None:
    show_notes(Answer("Who?", "mix", cached="Who\nis it?", warnings=["less"]))
    assert capsys.readouterr().err == "from the answers that are kept, to: Who is it?\nwarning: less\n"
    show_notes(Answer("Who?", "mix"))
    assert capsys.readouterr().err == ""


def test_progress_and_warnings_do_not_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    for progress in (PlainProgress(), LiveProgress()):
        progress.note(f"note {STEERING}")
        progress.warn(f"warn {STEERING}")
    _warn([{"warnings": [STEERING]}])
    shown = screen.getvalue()
    assert shown.count("]0;titleb[2Jc31md") == 5
    assert not any(steering in shown for steering in ("\x1b]0", "\x1b[2J", "\x07", "\x9b", "\x7f", "\r"))


def test_an_error_from_outside_does_not_steer_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphmill.jobs import cli

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "argv", ["graphmill", "inspect", f"{tmp_path}/a\x1b[31mb"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert f"graphmill: no index at {tmp_path}/a[31mb" in screen.getvalue()


def piped(code: str, *arguments: str, closed: str) -> tuple[int, str, str]:
    """Runs code in a process one of whose streams is a pipe that nobody reads: its exit code, and what came of both."""
    reading, writing = os.pipe()
    os.close(reading)
    streams: dict[str, int] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, closed: writing}
    done = subprocess.run([sys.executable, "-c", code, *arguments], text=True, check=False, timeout=120, **streams)  # type: ignore[call-overload]
    os.close(writing)
    return done.returncode, done.stdout or "", done.stderr or ""


@pytest.mark.parametrize("arguments", [["prompts", "list"], ["prompts", "list", "--json"], ["--help"], ["--version"]])
def test_a_reader_that_has_had_enough_is_no_error(arguments: list[str]) -> None:
    assert piped(APART[-1], *arguments, closed="stdout") == (0, "", "")


def test_that_nobody_reads_what_is_told_beside_the_results_stops_nothing() -> None:
    code = "import sys; from graphmill.jobs.show import show; show('told', file=sys.stderr); show('result')"
    assert piped(code, closed="stderr") == (0, "result\n", "")


def test_a_pipe_of_our_own_that_broke_is_an_error() -> None:
    code = (
        "from graphmill.jobs import cli, prompts\n"
        "def run(as_json): raise BrokenPipeError(32, 'the engine is gone')\n"
        "prompts.list_prompts = run\n"
        "import sys; sys.argv[1:] = ['prompts', 'list']; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert "the engine is gone" in done.stderr
