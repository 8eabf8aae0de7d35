"""The word lists of the phrase extractor, and what the words of an English name alone say about its type."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources

_VOWELS = "aeiou"


def _load(name: str) -> dict[str, str]:
    return tomllib.loads(resources.files("graphmill.engine").joinpath(name).read_text("utf-8"))


@cache
def english() -> Mapping[str, frozenset[str]]:
    """The lists of phrases_en.toml as sets, and those made of them, such as ``plain``, words too plain for a name."""
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
