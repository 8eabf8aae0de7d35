"""Where the results of an evaluation go: beside their file until all are there, so that it can be gone on with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from graphmill.engine.answer_file import REWRITTEN, AnswerFile
from graphmill.engine.config import ConfigError
from graphmill.engine.evaluate import EVALUATION, Result
from graphmill.engine.ids import content_id
from graphmill.engine.question_file import QuestionRow

PART = ".part"
"""What the file of results is called, after its name, until it is whole."""
WHOLE = ".whole"
"""The same, while all results are being written in their order."""
BESIDE = (PART, WHOLE, REWRITTEN, PART + REWRITTEN)
"""What may stand beside the file, after its name, while it is being made."""


class ResultFile:
    """Results as JSON lines: in a file that is replaced when all are there, or in a pipe, which gets each as it comes.

    Until all are there they are in a file beside it, with what they were made with. One that an earlier run has left is
    gone on with; raises ConfigError where it is of another evaluation, or is being written, and leaves it as it is.

    how   what makes an evaluation another one, beside its questions and modes
    warn  is told where the results are that are there when something raises
    """

    def __init__(
        self,
        out: Path,
        questions: Sequence[QuestionRow],
        modes: Sequence[str],
        how: Mapping[str, Any],
        warn: Callable[[str], None],
    ) -> None:
        self._out, self._warn = out, warn
        self._how = {**how, "modes": list(modes), "questions": _print(questions)}
        self._part: AnswerFile | None = None
        self._pipe: TextIO | None = None
        self.kept: dict[tuple[str, str], Result] = {}
        """Results of an earlier run by question and mode, without those that failed, which are asked again."""
        if out.is_file() or not out.exists():
            self._out = out.resolve()  # a link stays one
            rows = [replace(row, mode=mode) for mode in modes for row in questions]
            self._part = AnswerFile(self._out.with_name(self._out.name + PART), rows, self._how)
            self.kept = {(row["id"], row["mode"]): _result(row) for row in self._part.kept()}
        self._num_written = 0

    def begin(self, made_with: Mapping[str, Any]) -> None:
        """Opens the file. ``made_with`` is the rest of ``how``: what is only known when the models are there."""
        self._how |= made_with
        if self._part is not None:
            self._part.begin(made_with)
            self._num_written = len(self.kept)
            return
        try:
            self._pipe = self._out.open("w", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"can't write --out {self._out}: {error.strerror}") from error

    def write(self, result: Result) -> None:
        """Adds a result, which a kill after this call does not lose."""
        if self._part is not None:
            self._part.write(result | self._how)
            self._num_written += 1
        elif self._pipe is not None:
            self._pipe.write(_line(result))
            self._pipe.flush()

    def finish(self, results: Sequence[Result]) -> None:
        """Puts all results, in this order, into the place of the file."""
        if self._part is None:
            return
        whole = self._out.with_name(self._out.name + WHOLE)
        try:
            with whole.open("w", encoding="utf-8", errors="replace", newline="\n") as out:
                out.writelines(map(_line, results))
                out.flush()
                os.fsync(out.fileno())
            whole.replace(self._out)
            self._part.path.unlink()
        except OSError as error:
            raise ConfigError(f"can't write --out {self._out}: {error.strerror}") from error

    def __enter__(self) -> ResultFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._part is not None:
            part = self._part.path
            if error is not None and self._num_written:
                self._warn(f"{part} holds the {self._num_written:,} results so far; the same command goes on with it")
            elif error is not None and part.exists() and not part.stat().st_size:
                part.unlink()
            self._part.close()


def check(out: Path, questions_file: Path) -> None:
    """Raises ConfigError where results or answers can't be written, before any work."""
    for path in (out, *(out.with_name(out.name + end) for end in BESIDE)):
        if path.exists() and path.samefile(questions_file):
            raise ConfigError(f"--out {out}: {path} is the file of the questions")
    if out.is_dir():
        raise ConfigError(f"can't write --out {out}: it is a folder")
    if not out.parent.is_dir():
        raise ConfigError(f"can't write --out {out}: there is no folder {out.parent}")


def _result(row: Mapping[str, Any]) -> Result:
    return {name: row.get(name) for name in EVALUATION.names}


def _line(result: Result) -> str:
    return json.dumps(result, ensure_ascii=False) + "\n"


def _print(questions: Sequence[QuestionRow]) -> str:
    """Hash of all that the results depend on, but for the modes."""
    rows = [(row.id, row.question, row.facts, row.documents) for row in questions]
    return content_id("questions", json.dumps(rows))
