"""Answers to a file of questions, as JSON lines that a run which was stopped goes on with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from graphmill.engine.config import ConfigError
from graphmill.engine.question_file import QuestionRow
from graphmill.engine.writer_lock import WriterLock

CUT = '{"id": '
"""What a line begins with: the last one is one that was cut off only if it does so too."""
REWRITTEN = ".partial"
"""What the file is called, after its name, while what is kept of it is being written anew."""
ANOTHER = "move it away, or name another file with --out"


class AnswerFile:
    """JSON lines, an answer each, with the ``id``, ``question`` and ``mode`` that it answers; a failed one has an
    ``error``.

    What an earlier run wrote is kept, but for errors, a last line that was cut off, and answers in another mode, or
    with another ``param`` of its own, than the question is to be asked with now, so that those are asked again. A
    question that is asked in several modes is several of ``questions``. Nothing is written before ``begin``. Raises
    ConfigError where the file holds what is no answer to these questions, or another process writes to it, and leaves
    it as it is.
    """

    def __init__(self, path: Path, questions: Sequence[QuestionRow], how: Mapping[str, Any]) -> None:
        """``how`` is what each line must have under the same names, as JSON reads it back."""
        self._out: TextIO | None = None
        self._lock = WriterLock(path, "answers")
        self.path = self._lock.path
        try:
            self._kept = self._read(questions, how) if self.path.exists() else {}
        except BaseException:
            self.close()
            raise
        self.done = frozenset(self._kept)
        """Ids and modes of the questions that were answered before."""

    def kept(self) -> Iterator[dict[str, Any]]:
        """The answers of an earlier run that stay."""
        return map(json.loads, self._kept.values())

    def _read(self, questions: Sequence[QuestionRow], how: Mapping[str, Any]) -> dict[tuple[str, str | None], str]:
        texts = {row.id: row.question for row in questions}
        wanted = {(row.id, row.mode): row.param for row in questions}
        kept: dict[tuple[str, str | None], str] = {}
        try:
            lines = self.path.read_bytes().decode("utf-8", "replace").split("\n")
        except OSError as error:
            raise ConfigError(f"can't read the answers in {self.path}: {error.strerror}") from error
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                question, answered = row["question"], str(row["id"])
            except (ValueError, KeyError, TypeError):
                if number == len(lines) and line[: len(CUT)] == CUT[: len(line)]:
                    break
                raise ConfigError(f"{self.path}, line {number} is no answer; {ANOTHER}") from None
            if texts.get(answered) != question:
                raise ConfigError(
                    f"{self.path}, line {number} answers a question with the id {answered!r} that is not among these; "
                    f"{ANOTHER}"
                )
            self._compare(row, how)
            if not row.get("error") and wanted.get((answered, row.get("mode"))) == row.get("param", {}):
                kept.setdefault((answered, row["mode"]), line)
        return kept

    def _compare(self, row: Mapping[str, Any], how: Mapping[str, Any]) -> None:
        was, now = _differences(row, how)
        if now:
            raise ConfigError(f"{self.path} was made with {', '.join(was)}, this run has {', '.join(now)}; {ANOTHER}")

    def begin(self, how: Mapping[str, Any]) -> None:
        """Leaves in the file what is kept, and opens it for more. ``how`` is compared as the first one was: it is what
        is only known when the models are there."""
        for row in self.kept():
            self._compare(row, how)
        partial = self.path.with_name(self.path.name + REWRITTEN)
        try:
            with partial.open("w", encoding="utf-8", newline="\n") as out:
                out.writelines(line + "\n" for line in self._kept.values())
                out.flush()
                os.fsync(out.fileno())
            partial.replace(self.path)
            # A lone surrogate, which UTF-8 has no bytes for, becomes a question mark.
            self._out = self.path.open("a", encoding="utf-8", errors="replace", newline="\n")
        except OSError as error:
            raise self._lock.unwritable(error) from error

    def write(self, row: Mapping[str, Any]) -> None:
        """Adds one answer, which a kill after this call does not lose."""
        assert self._out is not None, "an answer file is written to after begin()"
        self._out.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._out.flush()

    def close(self) -> None:
        """Ends the file, and lets others have it. Doing it twice is fine."""
        if self._out is not None:
            self._out.close()
        self._lock.close()

    def __enter__(self) -> AnswerFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _differences(row: Mapping[str, Any], how: Mapping[str, Any], prefix: str = "") -> tuple[list[str], list[str]]:
    """What a line says of ``how`` where the two differ, and what the run says, each as ``name = value``."""
    was: list[str] = []
    now: list[str] = []
    for name, value in how.items():
        found = row.get(name)
        if isinstance(value, Mapping) and isinstance(found, Mapping):
            names = dict.fromkeys([*value, *found])
            inner = _differences(found, {n: value.get(n) for n in names}, f"{prefix}{name}.")
            was += inner[0]
            now += inner[1]
        elif found != value:
            was.append(f"{prefix}{name} = {found!r}")
            now.append(f"{prefix}{name} = {value!r}")
    return was, now
