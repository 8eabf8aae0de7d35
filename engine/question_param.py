"""What a line of a file of questions sets for its own question: fields of QueryParam, by their names."""

from __future__ import annotations

import difflib
import types
import typing
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from graphmill.engine.query_param import QueryParam
from graphmill.engine.question_file import MAX_SHOWN, QuestionRow, bad_lines, shown_value

READ = ("question", "id", "mode", "facts", "documents")
"""Fields that are read of every file of questions."""
SETTABLE = tuple(f.name for f in fields(QueryParam) if f.name not in ("mode", "stream"))
NEAR = 0.8
"""Likeness from which on a field that nothing reads may be one that is misspelt."""


def with_own_param(
    path: Path, rows: Iterable[QuestionRow], general: Mapping[str, Any]
) -> list[tuple[QuestionRow, QueryParam]]:
    """Each question with what it is asked with: what its line sets, and else what is set for all.

    The row tells the same: its mode, and in ``param`` what the line sets. As on the command line, ``top_k`` is that of
    chunks too, where nothing else is said of them. Raises QuestionFileError, which names every bad line.
    """
    found: list[tuple[QuestionRow, QueryParam]] = []
    bad: list[str] = []
    for row in rows:
        try:
            own = _own(row.extra)
            param = QueryParam(**{**general, **own, **({"mode": row.mode} if row.mode else {})})
        except ValueError as error:
            bad.append(f"line {row.line}: {error}")
        else:
            found.append((row.asked_with(param.mode, own), param))
    if bad:
        raise bad_lines(path, bad)
    return found


def unused_fields(rows: Iterable[QuestionRow]) -> str:
    """The fields that nothing reads, with the number of lines that have each, those first that may be misspelt; ""
    where there is none."""
    counts = Counter(name for row in rows for name in row.extra if name not in SETTABLE)
    told = [(_meant(name), name, count) for name, count in counts.items()]
    told.sort(key=lambda one: (not one[0], -one[2]))
    parts = [
        f"{name[:60]} ({count:,} {'line' if count == 1 else 'lines'}{f'; is {meant} meant?' if meant else ''})"
        for meant, name, count in told[:MAX_SHOWN]
    ]
    more = f" and {len(told) - MAX_SHOWN:,} more" if len(told) > MAX_SHOWN else ""
    return ", ".join(parts) + more


def _own(extra: Mapping[str, Any]) -> dict[str, Any]:
    kinds = typing.get_type_hints(QueryParam)
    own = {name: value for name, value in extra.items() if name in SETTABLE}
    for name, value in own.items():
        wanted = _wanted(kinds[name], value)
        if wanted:
            raise ValueError(f'"{name}" must be {wanted}, got {shown_value(value)}')
    return {"chunk_top_k": own["top_k"], **own} if "top_k" in own else own


def _wanted(kind: Any, value: Any) -> str:
    """What the value of a field must be; "" where it is."""
    if isinstance(kind, types.UnionType):  # with None, which a line says by leaving the field out
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is Sequence:
        texts = typing.get_args(kind) == (str,)
        fits = isinstance(value, list) and all(isinstance(one, str) if texts else _is_message(one) for one in value)
        wanted = "a list of texts" if texts else 'a list of {"role": "user" or "assistant", "content": a text}'
    elif typing.get_origin(kind) is Mapping:
        fits, wanted = isinstance(value, dict), "an object"
    elif kind is bool:
        fits, wanted = isinstance(value, bool), "true or false"
    elif kind is str:
        fits, wanted = isinstance(value, str), "a text"
    else:
        numbers = int if kind is int else int | float
        fits = isinstance(value, numbers) and not isinstance(value, bool)
        wanted = "a whole number" if kind is int else "a number"
    return "" if fits else wanted


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict) and value.get("role") in ("user", "assistant") and isinstance(value.get("content"), str)
    )


def _meant(name: str) -> str:
    return next(iter(difflib.get_close_matches(name.casefold(), [*READ, *SETTABLE], 1, NEAR)), "")
