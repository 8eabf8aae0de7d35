"""Finds names and noun phrases in English sentences by capitals, word lists and the words around."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from graphmill.engine.phrases_lexicon import chinese, english, is_abstract, is_boilerplate, type_of_name
from graphmill.engine.phrases_tokens import CONCEPT, SPAN, tokens_of

MAX_NAME_WORDS = 8
_SHOUT = re.compile(r"\b[A-Z][A-Z'’-]+(?:[\s,:;\x01]+(?:[A-Z][A-Z'’&-]*|\d+)\b){3}")
_ROMAN = re.compile(r"[IVXLC]+")
_IDENTIFIER = re.compile(r"CVE-|.*\d{4}|.*\d.*[a-z].*\d|.*[+]$|.*(?:Error|Exception|Warning)$")
_LOCATIVE = frozenset(["in", "at", "near", "off", "around", "across", "inside", "outside", "toward", "towards", "round"])
_SHIPS = frozenset(["wreck", "crew", "master", "deck", "log", "hull", "sinking", "loss", "captain", "skipper", "bridge", "on", "cargo"])
_LABELS = frozenset(("copyright", "copyrights", "portions", "author", "authors", "maintainer", "from", "by"))
_DAY_ABBREVIATIONS = frozenset(["sun", "mon", "tue", "wed", "thu", "fri", "sat", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"])
_BE = frozenset(["is", "was", "are", "were", "became", "becomes", "remains"])
_ARTICLE = frozenset(["a", "an", "the", "one"])


class Found(NamedTuple):
    """One mention of a name.

    ``strong`` is False where the capital may come of the place alone (a heading, the start of a sentence);
    ``defines`` is True where the sentence goes on to say what the thing is; ``alias`` is another name given in brackets.
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
    """Whether a heading's capitals say nothing: most of its words but the small ones have one, or it is one name only."""
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
    kind, weight, defines = _typed(tokens, kinds, start, end, words, titled, setting)
    return Found(name, kind, weight, strong, defines, _alias(tokens, kinds, start, end, words, kind))


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
            or (word.isupper()
            and _ROMAN.fullmatch(word)
            and word not in ("CD", "XML"))
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
        or (len(words) > 2
        and all(word.isupper() and len(word) > 3 for word in words))
    ):
        return None
    if all(word.lower() in lists["plain"] or word.lower() in lists["demonyms"] or len(word) < 3 for word in words):
        return (the and words[-1].lower() in lists["heads"]) or marked
    return not name_in_capitals(words)


def name_in_capitals(words: list[str]) -> bool:
    """Whether a name of several words is shouted, as in a heading or a signature."""
    return all(word.isupper() and len(word) > 3 for word in words)


def _typed(
    tokens: list[str], kinds: str, start: int, end: int, words: list[str], titled: bool, setting: Setting
) -> tuple[str, float, bool]:
    """Type, its weight, and whether the sentence goes on to say what the thing is."""
    kind, weight = type_of_name(tuple(words))
    if (
        setting.technical
        and (kind, weight) in (("PERSON", 1.0), ("ORGANIZATION", 0.3))
        and words[0].lower() not in english()["given"]
    ):
        kind, weight = ("CONCEPT", 0.1) if kind == "PERSON" else ("TECHNOLOGY", 0.2)
    mark = setting.marked.get(" ".join(words))
    after, defines = _after(tokens, kinds, end, len(words))
    hints = [(kind, weight)]
    if titled:
        hints.append(("PERSON", 4.0))
    if mark:
        hints.append(("WORK", 0.3 if mark == "*" else 1.2))
    if after:
        hints.append(after)
    before = _before(tokens, start, 1.1 if setting.technical or kind == "TECHNOLOGY" else weight)
    if before:
        hints.append(before)
    if start and tokens[start - 1].lower() == "the":
        hints = [hint if hint[0] != "PERSON" or hint[1] > 1.5 else ("CONCEPT", 0.1) for hint in hints]
    kind, weight = max(hints, key=lambda hint: hint[1])
    return kind, weight, defines


def _before(tokens: list[str], start: int, weight: float) -> tuple[str, float] | None:
    lists = english()
    if not start:
        return None
    before = tokens[start - 1].lower()
    if before in '*_"“‘(' and start > 1:
        before = tokens[start - 2].lower()
    if before in lists["vessel_nouns"]:
        return "VESSEL", 4.0
    if (
        before == "the"
        and start > 1
        and (
            tokens[start - 2].lower() == "aboard"
            or (start > 2
            and tokens[start - 2] in ("of", "board")
            and tokens[start - 3].lower() in _SHIPS)
        )
    ):
        return "VESSEL", 1.6
    if before in lists["person_nouns"]:
        return "PERSON", 2.5
    if (
        before in lists["place_nouns"]
        or (before == "of"
        and start > 1
        and tokens[start - 2].lower() in lists["place_nouns"])
    ):
        return "GEO", 2.8
    if is_abstract(tokens[start].lower()):
        return None
    if before in _LOCATIVE and weight <= 1.0:
        return "GEO", 1.2
    if before in ("from", "to") and weight < 0.2:
        return "GEO", 0.5
    return None


def _after(tokens: list[str], kinds: str, end: int, num_words: int) -> tuple[tuple[str, float] | None, bool]:
    lists = english()
    if end >= len(tokens):
        return None, False
    letter, following = kinds[end], tokens[end + 1 : end + 8]
    if letter == "v":
        return ("PERSON", 1.5), False
    if letter == "m" or (letter in "(." and kinds[end + 1 : end + 2] == "m"):
        return (("PERSON", 2.0) if 1 < num_words < 5 else None), False
    if letter == "s":
        return (("PERSON", 2.0) if following and following[0].lower() in lists["person_nouns"] else None), False
    if (
        letter == "("
        and following
        and num_words > 1
        and (following[0] == "born" or (following[0][:4].isdigit() and len(following) > 1 and following[1] in "–-"))
    ):
        return ("PERSON", 3.5 if following[0] == "born" else 1.5), True
    word = tokens[end].lower()
    if following and (letter == "," or word in _BE):
        defines = following[0].lower() in _ARTICLE
        for place, noun in enumerate(following):
            if noun in ",.;:" or (noun.lower() in ("who", "which", "of", "for", "and", "in") and place):
                break
            hint = _noun_types().get(noun)
            if hint and letter == "," and hint[0] in ("EVENT", "WORK", "TECHNOLOGY"):
                break
            if hint and (defines or (place == 0 and letter == ",")):
                return hint, True
        if letter == "," and following[0].lower() in ("who", "whose"):
            return ("PERSON", 1.5), True
        if letter == "," and following[0].lower() in lists["places"]:
            return ("GEO", 1.2), False
        return None, defines
    return None, False


@cache
def _noun_types() -> dict[str, tuple[str, float]]:
    """What "is a ..." tells: the noun and the type that it stands for."""
    lists = english()
    types = dict.fromkeys(lists["tech_heads"], ("TECHNOLOGY", 2.0))
    types |= dict.fromkeys(("company", "firm", "charity", "institution", "agency", "newspaper", "organisation", "organization", "foundation", "bank", "university", "college", "party"), ("ORGANIZATION", 2.0))
    types |= dict.fromkeys(("festival", "war", "battle", "conference", "storm", "ceremony", "race", "holiday", "expedition"), ("EVENT", 2.0))
    types |= dict.fromkeys(("novel", "book", "poem", "film", "painting", "song", "symphony", "magazine", "journal", "treatise", "play"), ("WORK", 2.0))
    types |= dict.fromkeys(lists["place_nouns"] | {"reef", "rock", "strait", "mountain", "peninsula", "country", "cape"}, ("GEO", 2.5))
    types |= dict.fromkeys(lists["vessel_nouns"], ("VESSEL", 3.0))
    types |= dict.fromkeys(lists["person_nouns"], ("PERSON", 3.0))
    return types


def _alias(tokens: list[str], kinds: str, start: int, end: int, words: list[str], kind: str) -> str:
    """The other name that stands beside this one: 林芷若 in brackets or right after, or an acronym of the words."""
    if kinds[end : end + 1] == "h" and kind == "PERSON":
        return tokens[end] if _is_chinese_name(tokens[end], kind) else ""
    if kinds[end : end + 1] == "(" and kinds[end + 2 : end + 3] == ")":
        other = tokens[end + 1]
        if (kinds[end + 1] == "h" and _is_chinese_name(other, kind)) or (len(words) > 1 and is_acronym(other, words)):
            return other
    if (
        len(words) > 1
        and start > 1
        and kinds[start - 1] == "("
        and kinds[end : end + 1] == ")"
        and is_acronym(tokens[start - 2], words)
    ):
        return tokens[start - 2]
    return ""


def _is_chinese_name(text: str, kind: str) -> bool:
    """Whether Chinese text beside an English name can be the name of the same thing."""
    lists = chinese()
    if kind == "PERSON":
        return "·" in text or (2 <= len(text) <= 4 and (text[0] in lists["surnames"] or text[:2] in lists["surnames"]))
    return (
        2 <= len(text) <= 16
        and kind != "TECHNOLOGY"
        and text.endswith(tuple(lists["tails"]))
        and text[0] not in "的以所等或可其是"
    )


def is_acronym(short: str, words: list[str]) -> bool:
    """Whether ``short`` is made of the first letters of the words, small words counted or not."""
    if not (short[:1].isupper() and 2 <= len(short) <= 10 and sum(letter.isupper() for letter in short) > 1):
        return False
    letters = re.sub(r"[^A-Za-z]", "", short).upper()
    parts = [part for word in words for part in re.split(r"[-\s]", word) if part]
    every = "".join(part[0] for part in parts).upper()
    large = "".join(part[0] for part in parts if part[0].isupper())
    return letters in (every, large)


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
