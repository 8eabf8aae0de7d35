"""What stands around an English name says about its type and its other names."""

from __future__ import annotations

import re
from functools import cache

from graphmill.engine.phrases_found import Setting
from graphmill.engine.phrases_lexicon import chinese, english
from graphmill.engine.phrases_types import is_abstract, type_of_name

_LOCATIVE = frozenset(
    ["in", "at", "near", "off", "around", "across", "inside", "outside", "toward", "towards", "round"]
)
_BE = frozenset(["is", "was", "are", "were", "became", "becomes", "remains"])
_ARTICLE = frozenset(["a", "an", "the", "one"])
_SHIPS = frozenset(
    ["wreck", "crew", "master", "deck", "log", "hull", "sinking", "loss", "captain", "skipper", "bridge", "on", "cargo"]
)


def typed(
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
            or (start > 2 and tokens[start - 2] in ("of", "board") and tokens[start - 3].lower() in _SHIPS)
        )
    ):
        return "VESSEL", 1.6
    if before in lists["person_nouns"]:
        return "PERSON", 2.5
    if before in lists["place_nouns"] or (
        before == "of" and start > 1 and tokens[start - 2].lower() in lists["place_nouns"]
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
    types |= dict.fromkeys(
        (
            "company",
            "firm",
            "charity",
            "institution",
            "agency",
            "newspaper",
            "organisation",
            "organization",
            "foundation",
            "bank",
            "university",
            "college",
            "party",
        ),
        ("ORGANIZATION", 2.0),
    )
    types |= dict.fromkeys(
        ("festival", "war", "battle", "conference", "storm", "ceremony", "race", "holiday", "expedition"),
        ("EVENT", 2.0),
    )
    types |= dict.fromkeys(
        ("novel", "book", "poem", "film", "painting", "song", "symphony", "magazine", "journal", "treatise", "play"),
        ("WORK", 2.0),
    )
    types |= dict.fromkeys(
        lists["place_nouns"] | {"reef", "rock", "strait", "mountain", "peninsula", "country", "cape"}, ("GEO", 2.5)
    )
    types |= dict.fromkeys(lists["vessel_nouns"], ("VESSEL", 3.0))
    types |= dict.fromkeys(lists["person_nouns"], ("PERSON", 3.0))
    return types


def alias_beside(tokens: list[str], kinds: str, start: int, end: int, words: list[str], kind: str) -> str:
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
