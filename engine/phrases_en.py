"""Finds names and noun phrases in English sentences by capitals, word lists and the words around."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphmill.engine.phrases_context import alias_beside, typed
from graphmill.engine.phrases_found import Found, Reading, Setting
from graphmill.engine.phrases_lexicon import english, is_boilerplate
from graphmill.engine.phrases_tokens import CONCEPT, SPAN, tokens_of
from graphmill.engine.phrases_types import type_of_name

MAX_NAME_WORDS = 8
_SHOUT = re.compile(r"\b[A-Z][A-Z'’-]+(?:[\s,:;\x01]+(?:[A-Z][A-Z'’&-]*|\d+)\b){3}")
_ROMAN = re.compile(r"[IVXLC]+")
_IDENTIFIER = re.compile(r"CVE-|.*\d{4}|.*\d.*[a-z].*\d|.*[+]$|.*(?:Error|Exception|Warning)$")


_LABELS = frozenset(("copyright", "copyrights", "portions", "author", "authors", "maintainer", "from", "by"))
_DAY_ABBREVIATIONS = frozenset(
    [
        "sun",
        "mon",
        "tue",
        "wed",
        "thu",
        "fri",
        "sat",
        "jan",
        "feb",
        "mar",
        "apr",
        "may",
        "jun",
        "jul",
        "aug",
        "sep",
        "oct",
        "nov",
        "dec",
    ]
)


def read_english(sentence: str, heading: bool, setting: Setting) -> Reading:
    """Names and noun phrases of one sentence."""
    if _SHOUT.search(sentence) or is_boilerplate(sentence):
        return Reading([], [])
    tokens, kinds = tokens_of(sentence)
    weak = heading and _is_title_case(tokens, kinds)
    names: list[Found] = []
    for match in SPAN.finditer(kinds):
        for start, end in _segments(tokens, kinds, *match.span()):
            found = _name(tokens, kinds, start, end, setting)
            if found:
                names.append(found._replace(strong=False) if weak and found.name not in setting.marked else found)
    return Reading(names, [] if heading else _noun_phrases(tokens, kinds))


def _is_title_case(tokens: list[str], kinds: str) -> bool:
    """Whether a heading's capitals say nothing: all words but small ones have one, or it is one name only."""
    capitals = sum(map(kinds.count, "CTF"))
    return (capitals > 1 and capitals >= 2 * sum(map(kinds.count, "wgxv"))) or len(tokens) < 3


def _segments(tokens: list[str], kinds: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cuts a run of capitalised words and links at the links that join two names and belong to neither."""
    at = start
    position = start
    while position < end:
        if kinds[position] in "TCI":
            position += 1
            continue
        link = position
        while kinds[position] not in "TCI":
            position += 1
        if not _joins(tokens, kinds, at, link, position, end):
            yield at, link
            at = position
    yield at, end


def _joins(tokens: list[str], kinds: str, start: int, link: int, after: int, end: int) -> bool:
    lists = english()
    head = tokens[link - 1].lower()
    letter = kinds[link]
    if letter == "o":
        return any(head in lists[key] for key in ("org_of", "geo_of", "event_of", "work_heads"))
    if letter == "r":
        return head in lists["org_of"] or head in ("centre", "center", "institute", "fund", "home", "prize")
    if letter == "a":
        before = tokens[start:link]
        inside = any(word in ("of", "for") for word in before) and any(
            word.lower() in lists["org_of"] for word in before
        )
        return inside or (link - start == 1 and tokens[end - 1].lower() in lists["firm_ends"])
    if letter == "s":
        following = tokens[after : min(end, after + 3)]
        return any(word.lower() in lists["heads"] for word in following) and not any(
            word.lower() in lists["plain"] for word in following[:1] if word.lower() not in lists["heads"]
        )
    if letter == "p":
        return kinds[link - 1] in "CI" and head not in lists["plain"]
    if tokens[end - 1].lower() in lists["firm_ends"] | lists["org_heads"]:
        return True
    # No firm: the authors of 1990, or two acronyms.
    return (
        kinds[end : end + 1] != "n"
        and tokens[link - 1][1:].islower()
        and tokens[after][1:].islower()
        and head not in lists["tech"]
    )


def _name(tokens: list[str], kinds: str, start: int, end: int, setting: Setting) -> Found | None:
    lists = english()
    previous = kinds[start - 1] if start else "."
    while end - start > 1 and kinds[start + 1] in "TCI" and tokens[start].lower() in _LABELS:
        start += 1
    initial = previous in ".q(n)" or (previous == "," and tokens[start].lower() in lists["verbs_only"])
    first = tokens[start].lower()
    if (
        initial
        and end - start > 1
        and kinds[start + 1] in "TCI"
        and _is_ordinary(tokens[start], tokens[start + 1], setting)
    ):
        rest = tokens[start + 1].lower()
        whole = first in lists["adjectives"] and (
            rest in lists["plain_or_head"] or (end - start == 2 and rest in lists["everyday"])
        )
        if not whole and (previous != "n" or first in lists["verb_forms"]):
            start += 1
            initial = False
    titled = False
    if kinds[start] == "T" and end - start > 1 and type_of_name(tuple(tokens[start:end]))[0] in ("PERSON", "CONCEPT"):
        while kinds[start] == "T" and end - start > 1:
            start += 1
        titled, initial = True, False
    start = _past_epithet(tokens, kinds, start, end)
    words = _joined(tokens[start:end], kinds[start:end])
    if len(words) == 1 and kinds[end : end + 1] == "w" and f"{words[0]} {tokens[end]}" in setting.marked:
        return Found(f"{words[0]} {tokens[end]}", "CONCEPT", 2.0, True)  # Saccharina lucerna
    name = " ".join(words)
    the = start > 0 and tokens[start - 1].lower() == "the"
    is_marked = name in setting.marked
    strong = _strength(words, initial, the, titled, is_marked, setting.lower_seen)
    if strong is None:
        return None
    kind, weight, defines = typed(tokens, kinds, start, end, words, titled, setting)
    return Found(name, kind, weight, strong, defines, alias_beside(tokens, kinds, start, end, words, kind))


def _past_epithet(tokens: list[str], kinds: str, start: int, end: int) -> int:
    """Where the person begins in "Leninist Tony Cliff"."""
    lists = english()
    if (
        not 3 <= end - start <= 4
        or kinds[start:end].strip("CI")
        or tokens[start].lower() in lists["given"]
        or kinds[start] == "I"
    ):
        return start
    if (
        tokens[start + 1].lower() in lists["given"]
        and type_of_name(tuple(tokens[start:end]))[1] <= 1.0
        and type_of_name(tuple(tokens[start + 1 : end]))[0] == "PERSON"
    ):
        return start + 1
    return start


def _is_ordinary(word: str, following: str, setting: Setting) -> bool:
    """Whether a capitalised word at the start of a sentence, with another after it, is more likely an ordinary word."""
    lists = english()
    lower, following = word.lower(), following.lower()
    if lower in lists["given"] and lower not in lists["function"]:
        return False
    if lower in lists["geo_first"] and not setting.technical and following not in lists["tech"]:
        return False
    if lower in lists["plain"]:
        return True
    return lower in setting.lower_seen and not word.isupper() and lower not in lists["places"]


def _joined(words: list[str], kinds: str) -> list[str]:
    """The words with a possessive ending put back on the word before it."""
    if "s" not in kinds:
        return words
    joined: list[str] = []
    for word, letter in zip(words, kinds, strict=True):
        if letter == "s":
            joined[-1] += word.replace("’", "'").rstrip()
        else:
            joined.append(word)
    return joined


def _strength(
    words: list[str], initial: bool, the: bool, titled: bool, marked: bool, lower_seen: frozenset[str]
) -> bool | None:
    """True: a name; False: a name if others say so; None: no name."""
    lists = english()
    word, lower = words[0], words[0].lower()
    if len(words) == 1:
        if lower in lists["plain_or_head"] or lower in lists["org_forms"] or (lower in lists["titles"] and not titled):
            return False if the and lower in lists["heads"] else None
        if (
            len(word.rstrip(".")) < 2
            or lower in lists["demonyms"]
            or _IDENTIFIER.fullmatch(word)
            or (word.isupper() and _ROMAN.fullmatch(word) and word not in ("CD", "XML"))
        ):
            return None
        if titled or marked:
            return True
        if lower in lower_seen and lower not in lists["tech"]:
            return None if word.isupper() or initial else False
        return not initial
    if (
        all(word.lower() in _DAY_ABBREVIATIONS for word in words)
        or len(words) > MAX_NAME_WORDS
        or (len(words) > 2 and all(word.isupper() and len(word) > 3 for word in words))
    ):
        return None
    if all(word.lower() in lists["plain"] or word.lower() in lists["demonyms"] or len(word) < 3 for word in words):
        return (the and words[-1].lower() in lists["heads"]) or marked
    return not name_in_capitals(words)


def name_in_capitals(words: list[str]) -> bool:
    """Whether a name of several words is shouted, as in a heading or a signature."""
    return all(word.isupper() and len(word) > 3 for word in words)


def _noun_phrases(tokens: list[str], kinds: str) -> list[str]:
    """Runs of one to three lower-case nouns as far as word lists tell; at least one of them is no plain word."""
    phrases: list[str] = []
    for match in CONCEPT.finditer(kinds):
        start, end = match.span()
        if end - start > 3 or (end < len(kinds) and kinds[end] == "h"):
            continue
        phrase = tokens[start:end]
        if end - start == 1 and (len(phrase[0]) < 4 or phrase[0].endswith(_NO_NOUN)):
            continue
        if phrase[-1].endswith(("ed", "ing")) or "'" in phrase[-1]:
            continue
        phrases.append(" ".join(phrase))
    return phrases


_NO_NOUN = (
    "ed",
    "ing",
    "able",
    "ible",
    "ous",
    "ful",
    "less",
    "ive",
    "est",
    "ish",
    "ward",
    "wards",
    "wise",
    "al",
    "ic",
    "ary",
)
