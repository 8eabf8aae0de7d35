"""Facts in what a question brought up: in the values that say something, not in the JSON that they are written in.

A fact is found in a text where one of its spellings stands in it, letters compared without case and runs of white space
as one space. One that begins or ends with an ASCII letter or digit does so at the border of a word: "19 metres" is not
in "119 metres". Beside other letters, such as Chinese ones, which know no borders, it may stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from graphmill.engine.cite import only_citing

KNOWLEDGE: Mapping[str, Sequence[str]] = {
    "reports": ("report",),
    "entities": ("entity", "description"),
    "relationships": ("source", "target", "description"),
    "claims": ("subject", "object", "start", "end", "description"),
    "chunks": ("text",),
}
"""Of each table of a context, the fields that say something; others number, rank, date or classify the row."""
_BREAK = "\n"
"""Stands between values; no fact has one after it was folded, so that none reaches over two values."""
_WORD = "0-9a-z\u00df-\u024f"
"""What a word goes on with, after case folding: digits and Latin letters, with accents too."""


def holds(text: str, fact: Sequence[str]) -> bool:
    """Whether one of the fact's spellings stands in a text that ``folded`` made."""
    return any(_pattern(spelling).search(text) is not None for spelling in fact)


def folded(*texts: str) -> str:
    """The texts as facts are looked for in them, one a line."""
    return _BREAK.join(" ".join(text.casefold().split()) for text in texts)


def folded_rows(data: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[int, str]:
    """Of each row of a context, by its reference number, what it says; ``data`` is an answer's."""
    return {
        row["reference"]: folded(*(str(row[name]) for name in KNOWLEDGE[table] if row.get(name)))
        for table, rows in data.items()
        for row in rows
    }


def folded_points(context: str) -> str:
    """What the points say that a context is made of, one JSON object a line; their citations are left out."""
    points = map(json.loads, filter(None, context.split("\n")))  # splitlines would split within JSON's strings too
    return folded(*(only_citing(point["description"], ()) for point in points))


@lru_cache(maxsize=4096)
def _pattern(spelling: str) -> re.Pattern[str]:
    fact = folded(spelling)
    before, after = (
        rf"(?{look}[{_WORD}])" if _is_word(end) else "" for look, end in (("<!", fact[:1]), ("!", fact[-1:]))
    )
    return re.compile(before + re.escape(fact) + after)


def _is_word(character: str) -> bool:
    return character.isascii() and character.isalnum()
