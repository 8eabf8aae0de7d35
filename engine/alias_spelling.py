"""How near two names are in spelling: what of a name is compared, and by which rules two names are all but equal."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MIN_LETTERS = 5
"""Shortest word that may have a slip of the pen: in a shorter one a letter is a difference (Iran, Iraq; II, III)."""

_ACCENTS = re.compile("[\u0300-\u036f]")
_SILENT = re.compile(r"['’`]|(?<!\d)\.|\.(?!\d)")  # the dot of 1.2 parts two numbers
_WORD = re.compile(r"[^\W_]+[+#]*")  # C, C++ and C# are three things
_NUMBER = re.compile(r"\d+")
_VOWELS = frozenset("aeiouy")
_SMALL = frozenset(
    "a an and at de del der des di du el et for für in la las le les los of on the to und van von y".split()
)


class Spelling(NamedTuple):
    """A name as it is compared: without case, accents, dots, apostrophes, punctuation and a leading "the"."""

    words: tuple[str, ...]
    """In the order of the name."""
    sorted: str
    """The words in sort order, so that "Smith, Alice" is "Alice Smith"."""
    joined: str
    """The words run together, so that "data base" is "database"."""
    numbers: tuple[int, ...]
    """All runs of digits."""


def spelling(name: str) -> Spelling:
    """What of a name is compared; a name of nothing but signs is compared as it is."""
    text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", name.casefold())))
    words = _WORD.findall(_SILENT.sub("", text.replace("&", " and ")))
    if len(words) > 1 and words[0] == "the":
        words = words[1:]
    words = words or [text]
    numbers = tuple(int(digits) for digits in _NUMBER.findall(" ".join(words)) if len(digits) < 32)
    return Spelling(tuple(words), " ".join(sorted(words)), "".join(words), numbers)


def similarities(one: Sequence[Spelling], other: Sequence[Spelling]) -> NDArray[np.float64]:
    """How alike each pair is, float64 [n] in [0, 1]: twice the letters in common, in their order, over all letters.

    The words are compared sorted and run together, and the better of the two counts.
    """
    if not one:
        return np.zeros(0)
    from rapidfuzz import fuzz, process

    by_form = [
        process.cpdist([getattr(s, form) for s in one], [getattr(s, form) for s in other], scorer=fuzz.ratio)
        for form in ("sorted", "joined")
    ]
    best: NDArray[np.float64] = np.round(np.maximum(*by_form).astype(np.float64) / 100, 6)
    return best


def similarity(one: str, other: str) -> float:
    """How alike two names are, as similarities() has it."""
    return float(similarities([spelling(one)], [spelling(other)])[0])


def may_be_one(one: Spelling, other: Spelling) -> bool:
    """False for names whose numbers contradict each other, such as Apollo 11 and Apollo 12.

    The numbers of one must all be among those of the other: "6 October 2016" may be "October 2016".
    """
    if not one.numbers or not other.numbers or one.numbers == other.numbers:
        return True
    few, many = sorted((Counter(one.numbers), Counter(other.numbers)), key=lambda numbers: numbers.total())
    return few <= many


def is_within(one: Spelling, other: Spelling) -> bool:
    """Whether all words of one name are among those of the other, which has more: "Alice Smith", "Dr. Alice Smith".

    In a script without spaces: whether one name stands in the other.
    """
    few, many = sorted((one, other), key=lambda name: len(name.joined))
    if not few.joined.isascii():
        return len(few.joined) > 1 and few.joined != many.joined and few.joined in many.joined
    return len(few.words) < len(many.words) and Counter(few.words) < Counter(many.words)


def is_safe(one: Spelling, other: Spelling, may_slip: bool = True) -> bool:
    """Whether two names are equal but for the order of words, spaces and one slip of the pen in a long Latin word.

    Numbers must be the same, and in the same order. "Inorganic" and "organic", "Daniel" and "Daniela", "Francis" and
    "Frances" are not slips: one letter may be wrong, not the first or the last, in a word of MIN_LETTERS or more, and
    not one vowel for another. Without ``may_slip`` none may, as in names of people.
    """
    if one.numbers != other.numbers:
        return False
    if one.sorted == other.sorted or one.joined == other.joined:
        return True
    only_one, only_other = Counter(one.words) - Counter(other.words), Counter(other.words) - Counter(one.words)
    if not may_slip or only_one.total() != 1 or only_other.total() != 1:
        return False
    a, b = sorted((*only_one, *only_other), key=len, reverse=True)
    plain = all(word.isascii() and word.isalpha() and len(word) >= MIN_LETTERS for word in (a, b))
    if not plain or a[0] != b[0]:
        return False
    from rapidfuzz.distance import Levenshtein

    edits = Levenshtein.editops(a, b)
    if len(edits) != 1:
        return False
    (edit,) = list(edits)
    at = edit.src_pos
    is_vowel_swap = edit.tag == "replace" and a[at] in _VOWELS and b[edit.dest_pos] in _VOWELS
    return bool(at < len(a) - 1 and not is_vowel_swap)


def acronym_of(name: str) -> str:
    """The letters of a name that is an acronym, in lower case ("I.B.M.": "ibm"); "" where it is none."""
    letters = re.sub(r"[.\s]", "", name)
    return letters.casefold() if 2 <= len(letters) <= 6 and letters.isalpha() and letters.isupper() else ""


def initials_of(found: Spelling) -> set[str]:
    """What an acronym of the name may be: the first letters of all words, and of all but the small ones."""
    words = [word for word in found.words if word not in _SMALL]
    return {"".join(word[0] for word in some) for some in (found.words, words) if len(some) > 1}
