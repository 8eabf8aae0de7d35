"""Reads a model's extraction reply, whatever it looks like: the way in to the readers of each format."""

from __future__ import annotations

from graphmill.engine.read_delimited import read_delimited
from graphmill.engine.read_exact import read_exact
from graphmill.engine.read_json import read_json
from graphmill.engine.records import LAYOUTS, Layout, Reading, Record
from graphmill.engine.strip_thoughts import strip_thoughts

__all__ = ["LAYOUTS", "Layout", "Reading", "Record", "read_reply"]


def read_reply(text: str, layout: Layout, finish_reason: str | None = None) -> Reading:
    """The records of a reply and what became of the rest. Never raises; linear in the length of the text.

    finish_reason     "stop", "length", or None where it is not known; others count as not known
    """
    if layout.format == "delimited":
        if text.strip() == layout.completion:  # what a gleaning round that found nothing says
            return Reading(complete=True)
        reading = read_exact(text, layout)
        if reading:
            reading.complete |= finish_reason == "stop"
            return reading
    return _read_tolerantly(text, layout, finish_reason)


def _read_tolerantly(text: str, layout: Layout, finish_reason: str | None) -> Reading:
    is_json = layout.format == "json"
    answer, unfinished = strip_thoughts(text, '"' if is_json else layout.tuple_delimiter)
    if is_json:
        reading = read_json(answer, finish_reason)
        if not reading.records and not reading.rejected and "{" not in answer:
            reading = _other(reading, read_delimited(answer, layout, finish_reason))
    else:
        reading = (read_exact(answer, layout) if answer != text else None) or read_delimited(
            answer, layout, finish_reason
        )
        if not reading.records and not reading.rejected and "{" in answer:
            reading = _other(reading, read_json(answer, finish_reason))
    if answer != text:
        reading.repairs["reasoning"] += 1
    # A model that thought to the end has answered nothing, even where it stopped by itself.
    reading.complete = (reading.complete or finish_reason == "stop") and not unfinished
    return reading


def _other(reading: Reading, other: Reading) -> Reading:
    """The reading in the format that wasn't asked for, if it found anything."""
    if other.records or other.rejected:
        other.repairs["format"] += 1
        return other
    return reading
