"""Claims: what a text asserts about entities. The tolerant reader of the replies; the prompts are in claim_prompts."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from graphmill.engine.names import clean_name, unescape, without_invisible
from graphmill.engine.profiles import DELIMITERS, Delimiters
from graphmill.engine.records import Layout, Reading, read_description, read_type, reject, vet_name
from graphmill.engine.scan_delimiters import scan
from graphmill.engine.split_delimited import Piece, find_pieces
from graphmill.engine.strip_thoughts import strip_thoughts
from graphmill.engine.tag_claims import add_tags, open_bracket

STATUSES = ("TRUE", "FALSE", "SUSPECTED")
NONE = "NONE"
_NOTHING = frozenset([NONE, "NULL", "N/A", "UNKNOWN", "无", "未知", "不明"])
_FIELDS = ("subject", "object", "type", "status", "start", "end", "description", "source")
_TEMPLATES = frozenset([("SUBJECT", "OBJECT"), ("主体", "客体")])
_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:?\d\d[\d:.+\-Z]{0,24})?)?)?")


@dataclass(slots=True)
class Claim:
    """One claim of a text.

    subject, object, type   upper-case; object is NONE where there is none
    status                  TRUE, FALSE or SUSPECTED
    start, end              ISO 8601 dates, also of a month (2031-03) or a year, or NONE
    source                  what the text says about it, quoted
    """

    subject: str
    object: str
    type: str
    status: str
    start: str
    end: str
    description: str
    source: str


class ClaimsRead(NamedTuple):
    """A reply as read."""

    claims: list[Claim]
    complete: bool
    """The completion mark is there, or the model is known to have stopped by itself, and no claim is cut off."""
    reasons: Counter[str]
    """Rejected records by reason: "cut off", "too few fields", "empty name", "placeholder"."""
    repairs: Counter[str]
    """What was mended, by kind."""


def read_claims(text: str, delimiters: Delimiters = DELIMITERS, finish_reason: str | None = None) -> ClaimsRead:
    """The claims of a reply and what became of the rest. Never raises.

    finish_reason     "stop", "length", or None where it is not known
    """
    layout = _layout(delimiters)
    reading = Reading()
    answer, unfinished = strip_thoughts(text, layout.tuple_delimiter)
    answer = without_invisible(answer).replace("\r\n", "\n").replace("\r", "\n")
    if "&lt;" in answer and layout.tuple_delimiter not in answer:
        answer = unescape(answer)
        reading.repairs["escapes"] += 1
    answer = add_tags(answer, layout)
    pieces, last_mark = _pieces(answer, layout)
    ended = finish_reason == "stop" or (last_mark > 0 and not answer[last_mark:].strip())
    cut = not ended and _drop_cut(answer, pieces, last_mark, layout)
    claims = [claim for piece in pieces if (claim := _claim(answer, piece, reading))]
    if cut:
        reject(reading, "cut off")
    complete = (ended or last_mark > 0) and not cut and not unfinished
    return ClaimsRead(claims, complete, reading.reasons, reading.repairs)


@lru_cache(maxsize=16)
def _layout(delimiters: Delimiters) -> Layout:
    return Layout("claims", "delimited", _FIELDS, False, *delimiters)


def _pieces(text: str, layout: Layout) -> tuple[list[Piece], int]:
    """The records of a text with tags, and where its last completion mark ends, 0 if there is none."""
    delimiters, marks = scan(text, layout)
    places = [delimiter.start for delimiter in delimiters]
    pieces: list[Piece] = []
    begin = at = 0
    for end, next_begin in [*marks, (len(text), len(text))]:
        to = bisect_left(places, end)
        pieces += find_pieces(text, delimiters[at:to], begin, end, layout)[0]
        begin, at = next_begin, to
    return pieces, marks[-1][1] if marks else 0


def _drop_cut(text: str, pieces: list[Piece], begin: int, layout: Layout) -> bool:
    """Drops the last claim if it may have been cut off; True if it was, or if one has hardly begun."""
    last = pieces[-1] if pieces else None
    if last and last.end > begin and not last.closed and (last.bracketed or not last.ended):
        del pieces[-1]
        return True
    tail = (
        text[max(begin, last.end if last else 0) :].rpartition("\n")[2].rpartition(layout.record_delimiter)[2].strip()
    )
    return tail.startswith(("(", "（")) and open_bracket(tail) == 0


def _claim(text: str, piece: Piece, reading: Reading) -> Claim | None:
    spans = piece.fields
    if len(spans) > len(_FIELDS) and _status(text, spans[3]) not in STATUSES and _status(text, spans[4]) in STATUSES:
        spans = spans[1:]  # A tag that was not asked for.
        reading.repairs["tag"] += 1
    if len(spans) < len(_FIELDS) - 1:
        reject(reading, "too few fields")
        return None
    fields = [text[begin:end] for begin, end in spans]
    name, _, problem = vet_name(fields[0])
    subject, object_ = name.upper(), _object(fields[1])
    if not problem and subject in _NOTHING:
        problem = "empty name"
    elif (subject, object_) in _TEMPLATES:
        problem = "placeholder"
    if problem:
        reject(reading, problem)
        return None
    _count_repairs(piece, spans, reading)
    status = _status(text, spans[3])
    if status not in STATUSES:
        status = "SUSPECTED"
        reading.repairs["status"] += 1
    has_source = len(spans) >= len(_FIELDS)
    source = fields[-1] if has_source else ""
    description = text[spans[6][0] : spans[-2 if has_source else -1][1]]
    return Claim(
        subject,
        object_,
        read_type(fields[2]),
        status,
        _date(fields[4], reading),
        _date(fields[5], reading),
        read_description(description, reading),
        read_description(source, reading),
    )


def _count_repairs(piece: Piece, spans: Sequence[tuple[int, int]], reading: Reading) -> None:
    repairs = {
        "delimiter": piece.num_variants > 0,
        "brackets": not (piece.bracketed and piece.closed),
        "source missing": len(spans) < len(_FIELDS),
        "delimiter in description": len(spans) > len(_FIELDS),
    }
    reading.repairs.update(kind for kind, mended in repairs.items() if mended)


def _object(raw: str) -> str:
    name, _, problem = vet_name(raw)
    return NONE if problem or name.upper() in _NOTHING else name.upper()


def _status(text: str, span: tuple[int, int]) -> str:
    return clean_name(text[span[0] : span[1]]).strip("*_`.()[]").upper()


def _date(raw: str, reading: Reading) -> str:
    """The date as ISO 8601, or NONE; what looks like a date and is none counts as mended."""
    date = unicodedata.normalize("NFKC", clean_name(raw)).strip("*_`.()[]").upper()
    if not date or date in _NOTHING:
        return NONE
    if _DATE.fullmatch(date):
        date = date.replace(" ", "T")
        try:
            datetime.fromisoformat(date + "0000-01-01"[len(date) :])
        except ValueError:
            pass
        else:
            return date
    reading.repairs["date"] += 1
    return NONE
