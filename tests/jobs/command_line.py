"""The command line, run in this process, so that no command has to wait for an interpreter and its imports."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

APART = [sys.executable, "-c", "from graphmill.jobs.cli import main; main()"]
"""The same in a process of its own, for what only that shows: signals, pipes, what libraries print, a first import."""


def graphmill(*arguments: str | Path, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs one command as the console script would, with streams that are no terminal."""
    from graphmill.jobs.cli import main

    written, told = io.BytesIO(), io.BytesIO()
    code: object = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["graphmill", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
        patch.setattr(sys, "stdout", io.TextIOWrapper(written, "utf-8", write_through=True))
        patch.setattr(sys, "stderr", io.TextIOWrapper(told, "utf-8", write_through=True))
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        output = [stream.getvalue().decode() for stream in (written, told)]
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(arguments, code, *output)


def graphmill_apart(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs one command in a process of its own."""
    command = [*APART, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)
