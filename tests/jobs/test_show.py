"""Text to a terminal and to other streams: what steers the one goes, and what the other can't hold ends nothing."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from graphmill.engine.answer import Answer
from graphmill.jobs.show import printable, show, show_json, show_notes

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
