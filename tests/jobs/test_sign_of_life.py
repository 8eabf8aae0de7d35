"""The wheel that turns until an answer begins."""

from __future__ import annotations

import io
import sys

import pytest

from graphmill.jobs.sign_of_life import NOTE, sign_of_life
from tests.engine.model_server import wait_until

CURSOR_ON = "\x1b[?25h"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """No fixture: pytest takes the streams back between the fixtures and the test."""
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    return terminal


def test_it_is_there_until_the_first_piece_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with sign_of_life(True) as until_first:
        pieces = until_first(["one", "two"])
        wait_until(lambda: NOTE in terminal.getvalue())
        assert CURSOR_ON not in terminal.getvalue()
        assert next(pieces) == "one"
        assert CURSOR_ON in terminal.getvalue()
        assert list(pieces) == ["two"]


def test_it_goes_when_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with pytest.raises(KeyboardInterrupt), sign_of_life(True):
        raise KeyboardInterrupt
    assert terminal.getvalue().count(CURSOR_ON) == 1


def test_it_is_for_terminals_and_for_models(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with sign_of_life(False) as until_first:
        assert list(until_first(["one"])) == ["one"]
    monkeypatch.setattr(sys, "stdout", io.StringIO())  # the answer is piped, and may be waited for by a program
    with sign_of_life(True) as until_first:
        assert list(until_first(["one"])) == ["one"]
    assert terminal.getvalue() == ""
