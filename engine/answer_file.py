"""Answers to a file of questions, as JSON lines that a run which was stopped goes on with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from graphmill.engine.config import ConfigError
from graphmill.engine.question_file import QuestionRow


class AnswerFile:
    """JSON lines, an answer each, with the ``id`` and the ``question`` that it answers; a failed one has an ``error``.

    What an earlier run wrote is kept, but for errors and a last line that was cut off, so that those are asked again.
    Raises ConfigError where the file holds what is no answer to these questions, and leaves it as it is.
    """

    def __init__(self, path: Path, questions: Sequence[QuestionRow], how: Mapping[str, Any]) -> None:
        self.path, self._how = path, dict(how)
        asked = {row.id: row.question for row in questions}
        kept = self._read(asked) if path.exists() else {}
        self.done = frozenset(kept)
        """Ids of the questions that were answered before."""
        partial = path.with_name(path.name + ".partial")
        try:
            with partial.open("w", encoding="utf-8", newline="\n") as out:
                out.writelines(line + "\n" for line in kept.values())
                out.flush()
                os.fsync(out.fileno())
            partial.replace(path)
            self._out = path.open("a", encoding="utf-8", newline="\n")
        except OSError as error:
            raise ConfigError(f"can't write the answers to {path}: {error.strerror}") from error

    def _read(self, asked: Mapping[str, str]) -> dict[str, str]:
        kept: dict[str, str] = {}
        lines = self.path.read_bytes().decode("utf-8", "replace").split("\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                question, answered = row["question"], str(row["id"])
            except (ValueError, KeyError, TypeError):
                if number == len(lines):  # no line end: whoever wrote it was stopped
                    break
                raise ConfigError(f"{self.path}, line {number} is no answer; name another file with --out") from None
            if asked.get(answered) != question:
                raise ConfigError(
                    f"{self.path}, line {number} answers a question with the id {answered!r} that is not among these; "
                    "name another file with --out"
                )
            if any(row.get(name) != value for name, value in self._how.items()):
                was = ", ".join(f"{name} = {row.get(name)!r}" for name in self._how)
                now = ", ".join(f"{name} = {value!r}" for name, value in self._how.items())
                raise ConfigError(f"{self.path} was made with {was}, this run has {now}; name another file with --out")
            if not row.get("error"):
                kept.setdefault(answered, line)
        return kept

    def write(self, row: Mapping[str, Any]) -> None:
        """Adds one answer, which a kill after this call does not lose."""
        self._out.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._out.flush()

    def close(self) -> None:
        """Ends the file. Doing it twice is fine."""
        self._out.close()

    def __enter__(self) -> AnswerFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
