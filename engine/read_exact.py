"""Fast path of the reader: a reply that is to the letter what its profile asks for.

One pass leaves only the characters that can mean structure. If these are just the brackets, delimiters and line breaks
of well-formed records, two splits take the reply apart. It accepts only what the tolerant reader would read the same
way (tested by forcing both).
"""

from __future__ import annotations

import re
from functools import lru_cache

from graphmill.engine.names import QUOTE_MARKS, unescape
from graphmill.engine.records import (
    Layout,
    Reading,
    add_entity,
    add_keywords,
    add_relationship,
    is_placeholder,
    read_description,
    read_keywords,
)
from graphmill.engine.strength import DEFAULT_STRENGTH, is_strength, read_strength

ENTITY_TAGS = ('"entity"', "entity")
RELATIONSHIP_TAGS = ('"relationship"', "relationship")
KEYWORDS_TAGS = ('"content_keywords"', "content_keywords")
_ROUND = re.compile("[()（）]")
_EDGES = QUOTE_MARKS | {" "}
USUAL_STRENGTHS = {str(number): float(number) for number in range(1, 11)}


def read_exact(text: str, layout: Layout) -> Reading | None:
    """The reply's reading if the fast path can vouch for it, else None. It is complete if the mark ends the reply."""
    text = text.strip()
    marked = text.endswith(layout.completion)
    if marked:
        text = text[: -len(layout.completion)].rstrip()
    pieces = _split(text, layout)
    if pieces is None:
        return None
    reading = Reading(complete=marked)
    places, num_fields = _places(layout), len(layout.relationship) + 1
    for fields in pieces:
        tag = fields[0]
        if tag in ENTITY_TAGS and len(fields) == 4:
            add_entity(reading, fields[1], fields[2], _shown(fields[3], reading))
        elif tag in RELATIONSHIP_TAGS and len(fields) == num_fields:
            if not _add_relationship(reading, fields, places):
                return None
        elif tag in KEYWORDS_TAGS and len(fields) == 2:
            add_keywords(reading, read_keywords(fields[1]))
        else:
            return None
    return reading


def _split(text: str, layout: Layout) -> list[list[str]] | None:
    """The fields of each record, or None if the text holds anything but records."""
    if not text.startswith("(") or not text.endswith(")") or "THINK]" in text or "▷" in text:
        return None
    record_delimiter = layout.record_delimiter
    separator = f"){record_delimiter}\n("
    if separator not in text:
        separator = ")\n(" if ")\n(" in text else f"){record_delimiter}("
    pieces = text[1:-1].split(separator)
    if text.count(record_delimiter) != (len(pieces) - 1 if record_delimiter in separator else 0):
        return None
    records = [piece.split(layout.tuple_delimiter) for piece in pieces]
    plain, delimiters = _plain_bytes(layout.tuple_delimiter)
    between = b")\n(" if "\n" in separator else b")("
    expected = b"(" + between.join([delimiters[len(fields)] for fields in records if len(fields) < 8]) + b")"
    left = _left(text, plain)
    if left == expected:
        return records
    # Brackets inside of fields are as good, if they are closed where they are: the first one that isn't ends a record.
    if (
        left is None
        or _without_brackets(left) != _without_brackets(expected)
        or not all(_closes(field) for fields in records for field in fields)
    ):
        return None
    return records


@lru_cache(maxsize=64)
def _plain_bytes(delimiter: str) -> tuple[bytes, list[bytes]]:
    """The bytes that mean nothing, and what the rest of them leave of a record of n fields.

    `>` and `#` are left out: without `<` or `|` beside them they make no delimiter, and descriptions are full of them.
    """
    telling = set(b"()<|&\x7f") | set(range(32)) | (set(delimiter.encode()) - set(b">#"))
    plain = bytes(byte for byte in range(256) if byte not in telling)
    rest = delimiter.encode().translate(None, plain)
    return plain, [rest * (num_fields - 1) for num_fields in range(8)]


def _left(text: str, plain: bytes) -> bytes | None:
    """What is left of the text without its plain bytes; None if more than that is hidden in it."""
    if not text.isascii():
        if not text.replace("\n", "").isprintable() or "＜" in text or "｜" in text:
            return None
        text = text.replace("（", "(").replace("）", ")")
    left = text.encode().translate(None, plain)
    if b"&" in left:
        if unescape(text) != text:
            return None
        left = left.replace(b"&", b"")
    return left


def _without_brackets(left: bytes) -> bytes:
    return left.translate(None, b"()")


def _closes(field: str) -> bool:
    """True if every round bracket of the field is closed in it, and none is that wasn't opened in it."""
    if "(" not in field and "（" not in field and ")" not in field and "）" not in field:
        return True
    depth = 0
    for bracket in _ROUND.findall(field):
        depth += 1 if bracket in "(（" else -1
        if depth < 0:
            return False
    return depth == 0


def _shown(description: str, reading: Reading) -> str:
    """The description cleaned, which the usual one is already: the skeleton has shown that it holds nothing hidden."""
    if description[:1] == '"' == description[-1:] and description.count('"') == 2 and description.isascii():
        inner = description[1:-1]
        if inner and inner[0] not in _EDGES and inner[-1] not in _EDGES and not is_placeholder(inner):
            reading.repairs["cleaned"] += 1
            return inner
    if not description or description[0] in _EDGES or description[-1] in _EDGES or is_placeholder(description):
        return read_description(description, reading)
    return description


@lru_cache(maxsize=64)
def _places(layout: Layout) -> tuple[int, int, int]:
    """Where description, keywords and strength are among a relationship's fields; 0 for none."""
    order = ("tag", *layout.relationship)
    description, keywords, strength = (
        order.index(name) if name in order else 0 for name in ("description", "keywords", "strength")
    )
    return description, keywords, strength


def _add_relationship(reading: Reading, fields: list[str], places: tuple[int, int, int]) -> bool:
    """False where the fields' looks leave a doubt which of them is which."""
    description_at, keywords_at, strength_at = places
    strength = DEFAULT_STRENGTH
    if strength_at:
        value = fields[strength_at]
        if value in USUAL_STRENGTHS:
            strength = USUAL_STRENGTHS[value]
        elif is_strength(value):
            strength = read_strength(value)
        else:
            return False
    elif is_strength(fields[-1]):
        return False
    keywords = read_keywords(fields[keywords_at]) if keywords_at else []
    description = _shown(fields[description_at], reading)
    add_relationship(reading, fields[1], fields[2], description, keywords, strength)
    return True
