"""What the words of an English name alone say about its type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from graphmill.engine.phrases_lexicon import english, singulars

_SYLLABLE = "(?:[bpmfdtnlgkhjqxrzcsyw]|zh|ch|sh)?[aeiou]{1,3}(?:ng|n|r)?"
_PINYIN = re.compile(f"{_SYLLABLE}(?:[-']?{_SYLLABLE})?")
_ROMAN = re.compile(r"[IVX]{1,5}")
_ABSTRACT = (
    "ism",
    "isms",
    "ists",
    "ist",
    "tion",
    "tions",
    "sion",
    "ness",
    "ity",
    "ities",
    "logy",
    "graphy",
    "ics",
    "ship",
    "hood",
    "ment",
    "ments",
    "ical",
    "tive",
    "ional",
    "ians",
    "less",
    "able",
    "ised",
    "ized",
    "ising",
    "izing",
    "ional",
)
_PARTICLES = frozenset(("de", "da", "del", "della", "van", "von", "der", "bin", "ibn", "al", "ten", "af"))


@lru_cache(maxsize=100_000)
def type_of_name(words: tuple[str, ...]) -> tuple[str, float]:
    """Type of an English name from its own words, with a weight (0.1: a mere guess, 5: beyond doubt)."""
    lists = english()
    lower = [word.lower() for word in words]
    if len(words) in (2, 3) and lower[0] in lists["given"] and lower[-1] in lists["surname_heads"]:
        return "PERSON", 2.5
    typed = _by_head(lower, lists)
    if typed:
        return typed
    if len(words) == 1:
        return _single(words[0], lower[0], lists)
    if lower[0].rstrip(".") in lists["vessel_first"]:
        return "VESSEL", 4.0
    if " ".join(lower) in lists["places"] or (lower[-1] in lists["places"] and lower[0] in lists["geo_first"]):
        return "GEO", 3.0
    if _is_person(words, lower, lists):
        return "PERSON", 3.0
    if lower[0] in lists["geo_first"] and lower[0] not in lists["adjectives"]:
        return "GEO", 2.5
    if "&" in words:
        return "ORGANIZATION", 1.5
    if lower[0] in lists["tech"] or lower[-1] in lists["tech_heads"] | lists["tech"]:
        return "TECHNOLOGY", 1.5
    unplain = not any(_is_common(word, lists) for word in lower) and not any(
        _is_common(word, lists) for word in singulars(lower[-1])
    )
    if unplain and len(words) in (2, 3) and all(word[1:].islower() or _is_mixed_surname(word) for word in words):
        return "PERSON", 1.0
    return "CONCEPT", 0.1


def is_abstract(word: str) -> bool:
    """Whether a lower-case word has an ending of ideas, groups and qualities, which people and places don't have."""
    return len(word) > 6 and word.endswith(_ABSTRACT)


def _is_common(word: str, lists: Mapping[str, frozenset[str]]) -> bool:
    return (
        word in lists["plain"]
        or word in lists["everyday"]
        or word in lists["demonyms"]
        or word in lists["places"]
        or is_abstract(word)
    )


def _by_head(lower: list[str], lists: Mapping[str, frozenset[str]]) -> tuple[str, float] | None:
    if len(lower) == 1:
        return None
    last = lower[-1]
    if last in lists["org_forms"]:
        return "ORGANIZATION", 5.0
    head = last
    for link in ("of", "for", "on"):
        if link in lower[1:]:
            head = lower[lower.index(link, 1) - 1]
            break
    if head != last:
        for kind, list_name in (
            ("EVENT", "event_of"),
            ("GEO", "geo_of"),
            ("ORGANIZATION", "org_of"),
            ("ORGANIZATION", "org_heads"),
            ("WORK", "work_heads"),
        ):
            if head in lists[list_name]:
                return kind, 4.0
        return None
    while len(lower) > 2 and (last.isdigit() or _ROMAN.fullmatch(last.upper())):
        lower = lower[:-1]
        last = lower[-1]
    for kind, list_name in (
        ("EVENT", "event_heads"),
        ("WORK", "work_heads"),
        ("ORGANIZATION", "org_heads"),
        ("GEO", "geo_heads"),
    ):
        if last in lists[list_name]:
            return kind, 3.0
    return None


def _single(word: str, lower: str, lists: Mapping[str, frozenset[str]]) -> tuple[str, float]:
    if lower in lists["places"]:
        return "GEO", 3.0
    if lower in lists["tech"]:
        return "TECHNOLOGY", 3.0
    if lower in lists["given"]:
        return "PERSON", 1.0
    if word.isupper():
        return (
            ("ORGANIZATION", 0.3)
            if 3 <= len(word) <= 5 and word.isalpha()
            else ("TECHNOLOGY", 0.2)
            if len(word) < 6
            else ("CONCEPT", 0.1)
        )
    if not word[1:].islower() and not _is_mixed_surname(word) and "'" not in word and "-" not in word:
        return "TECHNOLOGY", 1.0
    return "CONCEPT", 0.1


def _is_person(words: tuple[str, ...], lower: list[str], lists: Mapping[str, frozenset[str]]) -> bool:
    if len(words) > 5 or any(word in ("of", "for", "and", "&", "the") for word in lower):
        return False
    if lower[-1] in lists["plain"] and lower[-1] not in lists["nouns"]:
        return False
    if lower[0] in lists["given"] or lower[0].split("-")[0] in lists["given"]:
        return not words[-1].isupper() or len(words[-1]) < 2 or all(word.isupper() for word in words)
    if words[0][1:] == "." and len(words[0]) == 2:
        return len(words[-1]) > 2
    if lower[0] in lists["pinyin_surnames"] and len(words) == 2:
        return _PINYIN.fullmatch(lower[1]) is not None
    return any(word in _PARTICLES for word in lower[1:-1])


def _is_mixed_surname(word: str) -> bool:
    """McDonald, MacLeod, O'Brien, Smith-Jones."""
    return bool(re.fullmatch(r"(?:Mc|Mac|Fitz|De|Du|La|Le|Van|O['’])[A-Z][a-z]+|[A-Z][a-z]+-[A-Z][a-z]+", word))
