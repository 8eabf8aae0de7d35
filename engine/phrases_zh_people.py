"""Finds people in the words of a Chinese sentence: by surname and title, foreign ones by characters used for sounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from graphmill.engine.phrases_found import Found
from graphmill.engine.phrases_lexicon import chinese

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
MAX_SOUND_WORDS = 16
_SURNAME_TAGS = frozenset(("nr", "j", "x", "n", "ng", "nz", "ns"))


class Word(NamedTuple):
    """A word of a sentence, its tag, and whether the dictionary has it."""

    text: str
    tag: str
    known: bool = True


def join_sounds(words: list[Word]) -> list[Word]:
    """Joins what the segmenter has cut foreign names into: runs of characters that render sounds, dots within."""
    lists = chinese()
    joined: list[Word] = []
    at = 0
    while at < len(words):
        end = at
        while end < min(len(words), at + MAX_SOUND_WORDS) and (
            (words[end].text == "·" and end > at) or _is_sound(words[end], lists, _beside_dot(words, end))
        ):
            end += 1
        while end > at and words[end - 1].text == "·":
            end -= 1
        run = words[at:end]
        if (
            end < len(words)
            and any(word.text == "·" for word in run[-3:])
            and len(words[end].text) == 2
            and words[end].text not in lists["titles"]
            and all(character in lists["sounds"] for character in words[end].text)
        ):
            run = words[at : end + 1]  # 洛丽·斯基恩, where 基恩 is a word as well
            end += 1
        text = "".join(word.text for word in run)
        dotted = "·" in text
        foreign = any(
            word.tag in ("nr", "nrt", "x", "nz", "nrfg") and (len(word.text) > 1 or len(run) > 2) for word in run
        )
        if len(run) > 1 and (dotted or (foreign and 2 < len(text) < 8)):
            joined.append(Word(text, "nrd" if dotted else "nrt", False))
        else:
            joined.extend(words[at : max(end, at + 1)])
        at = max(end, at + 1)
    return joined


def _beside_dot(words: list[Word], at: int) -> bool:
    return any(word.text == "·" for word in (*words[max(at - 1, 0) : at], *words[at + 1 : at + 2]))


def _is_sound(word: Word, lists: Mapping[str, frozenset[str]], beside_dot: bool) -> bool:
    if word.text in lists["titles"] or not all(character in lists["sounds"] for character in word.text):
        return False
    if beside_dot:
        return True
    return (
        (len(word.text) == 1 and word.tag not in ("ul", "uj", "r"))
        or word.tag in ("nr", "nrt", "nrfg", "x", "nz")
        or (word.tag == "ns" and not word.known)
    )


def find_persons(words: list[Word], names: list[Found], text: str) -> list[Word]:
    """Finds people; their words come out with the tag "per"."""
    lists = chinese()
    marked: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        following = words[at + 1] if at + 1 < len(words) else Word("", "w")
        before = marked[-1].text if marked else ""
        name, used = _person(
            word,
            following,
            before in lists["titles"] or before in lists["person_nouns"],
            not marked or marked[-1].tag in ("w", "per"),
            lists,
            text,
        )
        if not name:
            marked.append(word)
            at += 1
            continue
        after = words[at + used] if at + used < len(words) else Word("", "w")
        cued = (
            before in lists["titles"]
            or before in lists["person_nouns"]
            or after.text in lists["titles"]
            or after.text in lists["person_verbs"]
        )
        sure = word.tag == "nrd" or cued or (word.tag == "nr" and len(name) == 3 and not (word.known and used == 1))
        if not cued and (word.tag == "nrt" or after.text in lists["tails"]):
            marked.append(Word(name, word.tag, False))  # a place as likely: what follows tells
        else:
            names.append(
                Found(
                    name,
                    "PERSON",
                    3.0 if sure else 0.8,
                    sure or (text.count(name) > 1 and not word.known),
                    defines(words, at + used),
                )
            )
            marked.append(Word(name, "per", False))
        at += used
    return marked


def _person(
    word: Word, following: Word, cued: bool, starts: bool, lists: Mapping[str, frozenset[str]], text: str
) -> tuple[str, int]:
    """The person's name that starts at this word, and how many words it takes; ("", 0) where none does."""
    if word.tag == "nrd":
        return word.text, 1
    size = len(word.text)
    if word.tag == "nrt" and not word.known and 2 < size < 7:
        return word.text, 1
    surname = word.text[:2] if word.text[:2] in lists["surnames"] else word.text[:1]
    if surname not in lists["surnames"] or word.text in lists["generic"]:
        return "", 0
    if size == len(surname):
        given = following.text
        fits = (
            1 <= len(given) <= 2 and _HAN.match(given) and given not in lists["titles"] and given not in lists["tails"]
        )
        likely = (
            len(given) == 2
            and word.tag in _SURNAME_TAGS
            and (
                not following.known
                or (following.tag in ("nr", "ns", "nz") and (starts or text.count(word.text + given) > 1))
            )
        )
        if fits and (likely or (cued and following.tag[0] in "nvabxjz")):
            return word.text + given, 2
        return "", 0
    if word.tag != "nr" or size > len(surname) + 2:
        return "", 0
    if size == len(surname) + 1 and len(following.text) == 1 and _HAN.match(following.text):
        longer = word.text + following.text
        if (
            text.count(longer) > 1
            and 5 * text.count(longer) >= 4 * text.count(word.text)
            and following.text not in lists["titles"]
        ):
            return longer, 2
    return word.text, 1


def defines(words: list[Word], at: int) -> bool:
    rest = [word.text for word in words[at : at + 3]]
    return bool(rest) and (
        rest[0] in ("是", "为", "系")
        or (
            rest[:1] in (["，"], ["（"])
            and len(rest) > 1
            and (rest[1].isdigit() or rest[1] in chinese()["person_nouns"])
        )
    )
