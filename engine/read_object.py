"""Finds the JSON objects in a model's reply."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from graphmill.engine.mend_json import ROOT_GOES_ON, FoundObject, ObjectReader
from graphmill.engine.strip_thoughts import strip_thoughts

_START = re.compile(r"[{｛](?=[\s\ufeff\u200b]*(?:[\"“”'‘`}｝]|[A-Za-z_]\w{0,40}\s{0,8}[:：]))")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DECODER = json.JSONDecoder(strict=False)


def read_json_object(text: str, wanted: Collection[str] = ()) -> dict[str, Any] | None:
    """The first JSON object with a member in a reply, or None; with ``wanted``, rather one that has one of these keys.

    Prose, fences and reasoning around it are skipped, and what goes wrong in JSON by hand is read as it was meant:
    trailing and missing commas, line breaks and quotes in strings, single and curly quotes, comments, Python's words.
    Of an object that was cut off the whole members are kept.
    """
    first: dict[str, Any] | None = None
    for found in find_objects(strip_thoughts(text, '"')[0]):
        for value in (found.value, *found.value.values()):
            if isinstance(value, dict) and any(key in value for key in wanted):
                return value
        if not first:
            first = found.value
            if first and not wanted:
                break
    return first


def find_objects(text: str, keep_open: bool = False) -> Iterator[FoundObject]:
    """The outermost objects of the text in order. ``keep_open``: one that is never closed is whole all the same."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")  # Half a surrogate pair can't be written to any table.
    if text.lstrip()[:2] in ('"{', '"[') or _START.search(text) is None:
        text = _unescaped(text)
    at = 0
    strict_tries = 4  # Bounded, since json's exception counts the lines of all the text before it.
    while start := _START.search(text, at):
        at = start.end()
        found = _decode(text, start.start()) if strict_tries else None
        if found is None:
            strict_tries = max(strict_tries - 1, 0)
            found = ObjectReader(text, keep_open).read(at)
        if found:
            yield found
            at = max(at, found.end)


def _unescaped(text: str) -> str:
    """The text out of a JSON string, if that is what it is."""
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        inner = text.replace('\\"', '"').replace("\\n", "\n")
    return inner if isinstance(inner, str) else text


def _decode(text: str, start: int) -> FoundObject | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
        if _ESCAPED_SURROGATE.search(text, start, end):
            json.dumps(value, ensure_ascii=False).encode()  # json lets half a pair through, which no table can hold.
    except (ValueError, RecursionError):
        return None
    if ROOT_GOES_ON.match(text, end):
        return None
    return FoundObject(value, end, True, 0)
