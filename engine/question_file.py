"""Questions from a JSONL file, checked whole before any is put: what an evaluation and a batch of questions read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphmill.engine.config import ConfigError
from graphmill.engine.decode_text import NotTextError, clean, decode, is_blank
from graphmill.engine.query_param import MODES

MAX_SHOWN = 10
"""Bad lines that an error lists; of more there is the count."""


class QuestionFileError(ConfigError):
    """A file of questions can't be read; the message names the file, the lines and what is wrong with each."""


@dataclass(frozen=True)
class QuestionRow:
    """One question of a file."""

    question: str
    id: str
    """The file's own "id", or else the number of its line."""
    line: int
    """Of the file, from 1."""
    mode: str | None = None
    """What it is to be asked in, where the file says so."""
    facts: tuple[tuple[str, ...], ...] = ()
    """What an answer must hold: of each fact the spellings, any of which will do."""
    documents: tuple[str, ...] = ()
    """Paths of the documents that hold them, as the index names its documents."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """All else that the line says, untouched."""
    param: Mapping[str, Any] = field(default_factory=dict)
    """What of QueryParam it is to be asked with beside ``mode``, where the line's own word counts."""

    def asked_with(self, mode: str, param: Mapping[str, Any]) -> QuestionRow:
        """The same question, to be asked in this mode and with what its line sets."""
        return replace(self, mode=mode, param=param)


def read_questions(path: Path) -> list[QuestionRow]:
    """The questions of a file, one JSON object a line, in its order; blank lines are passed over.

    question   a text; the only field that must be there
    id         a text or a whole number, no two the same; by default the number of the line
    mode       one of the query modes
    facts      a list; a fact is a text, or a list of its spellings
    documents  a list of paths

    A field that is null is one that isn't there. Raises QuestionFileError, which names every bad line.
    """
    try:
        text = decode(path.read_bytes())
    except OSError as error:
        raise QuestionFileError(f"can't read the questions {path}: {error.strerror}") from error
    except NotTextError as error:
        raise QuestionFileError(f"can't read the questions {path}: it is no JSONL file ({error})") from error
    rows: list[QuestionRow] = []
    bad: list[str] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):  # other line breaks may stand in a JSON string
        if is_blank(line):
            continue
        try:
            row = _row(line, number)
            if row.id in lines:
                raise ValueError(f'"id" must be its own, got {row.id!r}, which line {lines[row.id]} has too')
        except ValueError as error:
            bad.append(f"line {number}: {error}")
        else:
            lines[row.id] = number
            rows.append(row)
    if bad:
        raise bad_lines(path, bad)
    if not rows:
        raise QuestionFileError(f"{path} holds no question")
    return rows


def bad_lines(path: Path, bad: Sequence[str]) -> QuestionFileError:
    """The error that names lines, each with its reason."""
    more = f"\n  and {len(bad) - MAX_SHOWN:,} more" if len(bad) > MAX_SHOWN else ""
    shown = "".join(f"\n  {reason}" for reason in bad[:MAX_SHOWN])
    return QuestionFileError(f"{path} has {len(bad):,} bad {'line' if len(bad) == 1 else 'lines'}:{shown}{more}")


def _row(line: str, number: int) -> QuestionRow:
    try:
        given = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.colno}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets a thousand deep
        raise ValueError(f"not JSON that can be read: {error}") from None
    if not isinstance(given, dict):
        raise ValueError(f'must be an object with a "question", got {shown_value(given)}')
    values = {name: value for name, value in given.items() if value is not None}
    question = values.pop("question", None)
    if question is None:
        raise ValueError('has no "question"')
    if not isinstance(question, str) or is_blank(question):
        raise ValueError(f'"question" must be a text that asks something, got {shown_value(question)}')
    mode = values.pop("mode", None)
    if mode is not None and mode not in MODES:
        raise ValueError(f'"mode" must be one of {", ".join(MODES)}, got {shown_value(mode)}')
    return QuestionRow(
        clean(question),
        _id(values.pop("id", number)),
        number,
        mode,
        tuple(map(_fact, _list("facts", values.pop("facts", [])))),
        tuple(_text("documents", path) for path in _list("documents", values.pop("documents", []))),
        values,
    )


def _id(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError(f'"id" must be a text or a whole number, got {shown_value(value)}')
    return clean(str(value))


def _fact(value: Any) -> tuple[str, ...]:
    spellings = tuple(_text("facts", spelling) for spelling in (value if isinstance(value, list) else [value]))
    if not spellings:
        raise ValueError('"facts" must hold texts, or lists of spellings, got an empty list')
    return spellings


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f'"{name}" must be a list, got {shown_value(value)}')
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or is_blank(value):
        raise ValueError(f'"{name}" must hold texts, got {shown_value(value)}')
    return clean(value)


def shown_value(value: Any) -> str:
    """A value for a message: as it stands in the file, but no longer than a line of it."""
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
