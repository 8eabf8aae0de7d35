"""Strength of a relationship as a model writes it."""

from __future__ import annotations

import math
import re
import unicodedata

DEFAULT_STRENGTH = 1.0

_NUMBER = re.compile(r"(?:(?<!\w)[-−–])?(?:\d{1,400}(?:\.\d{1,400})?|(?<!\w)\.\d{1,400})(?:[eE][-+]?\d{1,4})?")
_LABEL = re.compile(r"[^\W\d][^:=]{0,40}[:=]")
_LEVELS = frozenset(
    [
        "high",
        "medium",
        "low",
        "strong",
        "weak",
        "moderate",
        "none",
        "unknown",
        "n/a",
        "minor",
        "major",
        "critical",
        "very_high",
        "very_low",
        "very_strong",
        "高",
        "中",
        "低",
        "强",
        "弱",
        "很高",
        "很强",
        "较高",
        "较强",
        "中等",
    ]
)
# "9", "8/10", "Strength: 7", "10 (very strong)", "9)", "7 out of 10", "80%": a strength and nothing more.
_ONLY_STRENGTH = re.compile(
    r"""[\s"'“”*`(\[]{0,4}(?:[^\W\d]{1,16}(?:\ [^\W\d]{1,16}){0,2}\ ?[:=]\ ?)?  # A label.
    [-+~≈]?\d{1,9}(?:\.\d{1,9})?(?:[eE][-+]?\d{1,3})?
    (?:\ ?(?:/|out\ of|of)\ ?\d{1,4})?[%+]?(?:\ ?\([^()]{0,40}\))?[\s"'“”*`)\].,;]{0,6}""",
    re.VERBOSE,
)


def read_strength(value: object) -> float:
    """The number that the value gives, if it is finite and positive; otherwise 1.0."""
    if isinstance(value, bool):
        return DEFAULT_STRENGTH
    if isinstance(value, str):
        number = _first_number(value)
    elif isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    else:
        return DEFAULT_STRENGTH
    return number if math.isfinite(number) and number > 0 else DEFAULT_STRENGTH


def _first_number(text: str) -> float:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    # "Strength (1-10): 7": the scale is part of the label.
    label = _LABEL.search(text)
    found = (_NUMBER.search(text, label.end()) if label else None) or _NUMBER.search(text)
    if found is None:
        return math.nan
    return float(found[0].replace("−", "-").replace("–", "-"))


def is_strength(text: str) -> bool:
    """True if the text is a strength and nothing else, by its own looks."""
    if len(text) > 80:
        return False
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _ONLY_STRENGTH.fullmatch(text) is not None or is_level(text)


def is_level(text: str) -> bool:
    """True for a strength given as a word, such as `high`."""
    return len(text) <= 24 and text.strip(" \"'“”*`()[].").lower().replace(" ", "_") in _LEVELS
