"""What the readers of sentences hand on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Found(NamedTuple):
    """One mention of a name.

    ``strong`` is False where the capital may come of the place alone (a heading, the start of a sentence);
    ``defines`` is True where the sentence goes on to say what the thing is; ``alias`` is another name in brackets.
    """

    name: str
    type: str
    weight: float
    strong: bool
    defines: bool = False
    alias: str = ""


class Setting(NamedTuple):
    """What the whole text tells about its sentences."""

    lower_seen: frozenset[str]
    """Every word that the text has in lower case."""
    marked: Mapping[str, str]
    """Titles set off by italics or quotation marks (phrases_tokens.marked_titles)."""
    technical: bool
    """Whether the text is about software."""


class Reading(NamedTuple):
    """What one sentence holds: names, and lower-case noun phrases (which count as concepts only where they recur)."""

    names: list[Found]
    nouns: list[str]
