"""Gives records without tags one, so that the splitter of tagged records can take them apart."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from graphmill.engine.records import Layout
from graphmill.engine.scan_delimiters import FULL, Delimiter, scan

_BULLET = re.compile(r"[\s>*•\-–·]*(?:\d{1,4}[.)、])?[\s*_`]*")


def add_tags(text: str, layout: Layout) -> str:
    """The text with the tag of a relationship in front of each record.

    A record begins after a bracket or, where there is none, at the beginning of a line. It has as many fields as the
    layout's relationship, of which the last may be missing.
    """
    starts = list(_starts(text, layout))
    ends = [*starts[1:], len(text)]
    tagged = (f"relationship{layout.tuple_delimiter}{text[a:b]}" for a, b in zip(starts, ends, strict=True))
    return text[: starts[0]] + "".join(tagged) if starts else text


def _starts(text: str, layout: Layout) -> Iterator[int]:
    """Where the first fields of records begin."""
    delimiters, marks = scan(text, layout)
    ends_of_marks = [0, *(end for _, end in marks)]
    if any(delimiter.rank <= FULL for delimiter in delimiters):
        delimiters = [delimiter for delimiter in delimiters if delimiter.rank <= FULL]
    previous, num_fields = 0, 0
    for delimiter in delimiters:
        mark = ends_of_marks[bisect_right(ends_of_marks, delimiter.start) - 1]
        first = num_fields == 0 or mark >= previous
        start = _start(text, max(mark, previous), delimiter, first, num_fields >= len(layout.relationship) - 1, layout)
        if start is not None:
            num_fields = 0
            yield start
        num_fields += 1
        previous = delimiter.end


def _start(text: str, begin: int, delimiter: Delimiter, first: bool, full: bool, layout: Layout) -> int | None:
    """Where a record begins between two delimiters, or None: the field goes on then.

    first     no record came before, so that one has to begin here
    full      the record before has all of its fields
    """
    head = text[begin : delimiter.start]
    separator = layout.record_delimiter.strip()
    opener = open_bracket(head)
    if opener is not None:
        before = head[:opener].rstrip(" \t*_`\"'-•0123456789.")
        ends = ("\n", *([separator] if separator else []), *((")", "）") if full else ()))
        return begin + opener + 1 if first or before.endswith(ends) else None
    at = head.rstrip().rfind("\n") + 1
    if separator and (full or first or f"{separator}\n" in head):
        after = head.rfind(separator)
        at = max(at, after + len(separator)) if after >= 0 else at
    elif not full and not first:
        return None
    if not at and not first:
        return None
    bullet = _BULLET.match(head, at)
    return begin + (bullet.end() if bullet else at)


def open_bracket(head: str) -> int | None:
    """Place of the last round bracket of a text that is not closed; None if there is none."""
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        if head[at] in ")）":
            depth += 1
        elif head[at] in "(（":
            if not depth:
                return at
            depth -= 1
    return None
