"""What a line of a file of questions sets for its own question: ``"param"``, fields of QueryParam by their names."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from graphmill.engine.query_param import QueryParam
from graphmill.engine.question_file import MAX_SHOWN, QuestionRow, bad_lines, shown_value

READ = ("question", "id", "mode", "param", "facts", "documents")
"""Fields that are read of a line. Others are the user's own: a "level" may be anything there."""
SETTABLE = tuple(f.name for f in fields(QueryParam) if f.name not in ("mode", "stream"))
NEAR = 0.8
"""Likeness from which on a name may be one that is misspelt."""


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
            own = _own(row.extra.get("param", {}))
            param = QueryParam(**{**general, **own, **({"mode": row.mode} if row.mode else {})})
        except ValueError as error:
            bad.append(f"line {row.line}: {error}")
        else:
            found.append((row.asked_with(param.mode, own), param))
    if bad:
        raise bad_lines(path, bad)
    return found


def unused_fields(rows: Iterable[QuestionRow]) -> str:
    """The fields that nothing reads, with the number of lines that have each, those first that may be meant for
    something; "" where there is none."""
    counts = Counter(name for row in rows for name in row.extra if name not in READ)
    told = [(_meant(name), name, count) for name, count in counts.items()]
    told.sort(key=lambda one: (not one[0], -one[2]))
    parts = [
        f"{name[:60]} ({count:,} {'line' if count == 1 else 'lines'}{f'; is {meant} meant?' if meant else ''})"
        for meant, name, count in told[:MAX_SHOWN]
    ]
    more = f" and {len(told) - MAX_SHOWN:,} more" if len(told) > MAX_SHOWN else ""
    return ", ".join(parts) + more


def _own(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError(f'"param" must be an object, got {shown_value(given)}')
    for name in given:
        if name not in SETTABLE:
            near = _near(name, SETTABLE)
            why = "; it stands beside it" if name == "mode" else f"; is {near} meant?" if near else ""
            raise ValueError(f'"param" can\'t set {shown_value(name)}{why}')
    own = {name: value for name, value in given.items() if value is not None}
    return {"chunk_top_k": own["top_k"], **own} if "top_k" in own else own


def _meant(name: str) -> str:
    near = _near(name, (*READ, *SETTABLE))
    return f'"param": {{"{near}": …}}' if near in SETTABLE else near


def _near(name: str, known: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(name.casefold(), list(known), 1, NEAR)), "")
