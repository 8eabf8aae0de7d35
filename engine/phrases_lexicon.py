"""The word lists of the phrase extractor, and what the words of an English name alone say about its type."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources

_ROMAN = re.compile(r"[IVX]{1,5}")
_VOWELS = "aeiou"


def _load(name: str) -> dict[str, str]:
    return tomllib.loads(resources.files("graphmill.engine").joinpath(name).read_text("utf-8"))


@cache
def english() -> Mapping[str, frozenset[str]]:
    """The lists of phrases_en.toml as sets, with ``verb_forms`` and ``plain`` (all words too plain to be a name) made from them."""
    lists = {key: frozenset(value.split()) for key, value in _load("phrases_en.toml").items() if key != "boilerplate"}
    forms = set(lists["irregular"])
    for verb in lists["verbs"]:
        forms.update(_regular_forms(verb))
    lists["verb_forms"] = frozenset(forms)
    lists["adjectives"] |= {form for word in lists["adjectives"] if len(word) < 7 for form in _comparatives(word)}
    plain = set().union(
        *(lists[key] for key in ("function", "numbers", "months", "nouns", "adjectives", "verb_forms", "shouted"))
    )
    lists["plain"] = frozenset(plain | {plural(noun) for noun in lists["nouns"]})
    lists["heads"] = frozenset().union(*(lists[f"{key}_heads"] for key in ("org", "geo", "event", "work")))
    lists["plain_or_head"] = lists["plain"] | lists["heads"]
    lists["verbs_only"] = lists["verb_forms"] - lists["everyday"] - lists["geo_first"]
    lists["firm_ends"] = lists["org_forms"] | {"sons", "brothers", "partners", "associates"}
    lists["nouns"] = frozenset(lists["nouns"] | {plural(noun) for noun in lists["nouns"]})
    return lists


@cache
def _boilerplate() -> re.Pattern[str]:
    return re.compile(_load("phrases_en.toml")["boilerplate"].strip())


# Each alternative of the pattern holds one of these; looking for them first is ten times faster than the pattern.
_SMALL_PRINT = (
    "warrant",
    "licens",
    "copy",
    "liable",
    "damage",
    "redistribut",
    "hereby",
    "permi",
    "reserved",
    "conditions",
    "patent",
    "program",
    "source",
    "claim",
    "endorse",
    "law",
    "derivat",
    "merchant",
    "fitness",
    "as is",
    "event",
    "tort",
    "this file",
    "terms",
    "free of",
    "materials",
    "debian",
    "you ",
    "permission",
    "gratis",
    "with or",
    "adapt",
    "collective",
    "original",
    "publicly",
)


def is_boilerplate(sentence: str) -> bool:
    """Whether a sentence belongs to a licence or to other legal small print."""
    lower = sentence.lower()
    return any(map(lower.__contains__, _SMALL_PRINT)) and _boilerplate().search(lower) is not None


@cache
def chinese() -> Mapping[str, frozenset[str]]:
    """The lists of phrases_zh.toml as sets, with ``tails``, the endings of all kinds of names."""
    lists = {key: frozenset(value.split()) for key, value in _load("phrases_zh.toml").items()}
    lists["tails"] = frozenset().union(*(words for key, words in lists.items() if key.endswith("_tails")))
    return lists


def _regular_forms(verb: str) -> tuple[str, str, str, str]:
    if verb.endswith("e"):
        return verb, verb + "s", verb + "d", verb[:-1] + "ing"
    if verb.endswith("y") and verb[-2:-1] not in _VOWELS:
        return verb, verb[:-1] + "ies", verb[:-1] + "ied", verb + "ing"
    if verb.endswith(("s", "sh", "ch", "x", "z")):
        return verb, verb + "es", verb + "ed", verb + "ing"
    doubled = (
        verb + verb[-1]
        if len(verb) < 7 and verb[-1] not in "wxy" and verb[-2:-1] in _VOWELS and verb[-3:-2] not in _VOWELS
        else verb
    )
    if verb[-1] in _VOWELS:
        doubled = verb
    return verb, verb + "s", doubled + "ed", doubled + "ing"


def _comparatives(adjective: str) -> tuple[str, str]:
    stem = adjective[:-1] if adjective.endswith("e") else adjective[:-1] + "i" if adjective.endswith("y") else adjective
    return stem + "er", stem + "est"


def plural(noun: str) -> str:
    """The regular plural of an English noun."""
    if noun.endswith("y") and noun[-2:-1] not in _VOWELS:
        return noun[:-1] + "ies"
    return noun + "es" if noun.endswith(("s", "sh", "ch", "x", "z")) else noun + "s"


def singulars(noun: str) -> tuple[str, ...]:
    """What a noun's singular may be, likeliest first; empty where it is none of the regular plurals."""
    if not noun.endswith("s") or noun.endswith(("ss", "us", "is")) or len(noun) < 4:
        return ()
    if noun.endswith("ies"):
        return (noun[:-3] + "y", noun[:-1])
    if noun.endswith(("ses", "shes", "ches", "xes", "zes")):
        return (noun[:-2], noun[:-1])
    return (noun[:-1],)


@lru_cache(maxsize=100_000)
def type_of_name(words: tuple[str, ...]) -> tuple[str, float]:
    """Type of an English name from its own words, with a weight (0.1: a guess for want of anything, 5: beyond doubt)."""
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


def _is_common(word: str, lists: Mapping[str, frozenset[str]]) -> bool:
    return (
        word in lists["plain"]
        or word in lists["everyday"]
        or word in lists["demonyms"]
        or word in lists["places"]
        or is_abstract(word)
    )


def is_abstract(word: str) -> bool:
    """Whether a lower-case word has an ending of ideas, groups and qualities, which names of people and places don't have."""
    return len(word) > 6 and word.endswith(_ABSTRACT)


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
        return (
            re.fullmatch(
                r"(?:[bpmfdtnlgkhjqxrzcsyw]|zh|ch|sh)?[aeiou]{1,3}(?:ng|n|r)?(?:-?(?:[bpmfdtnlgkhjqxrzcsyw]|zh|ch|sh)?[aeiou]{1,3}(?:ng|n|r)?)?",
                lower[1],
            )
            is not None
        )
    return any(word in _PARTICLES for word in lower[1:-1])


_PARTICLES = frozenset(("de", "da", "del", "della", "van", "von", "der", "bin", "ibn", "al", "ten", "af"))


def _is_mixed_surname(word: str) -> bool:
    """McDonald, MacLeod, O'Brien, Smith-Jones."""
    return bool(re.fullmatch(r"(?:Mc|Mac|Fitz|De|Du|La|Le|Van|O['’])[A-Z][a-z]+|[A-Z][a-z]+-[A-Z][a-z]+", word))
