"""Tokens of English sentences and their kinds.

Each token becomes one letter (its kind), so that names and noun phrases are regular expressions over the kinds.
"""

from __future__ import annotations

import re
from functools import lru_cache

from graphmill.engine.phrases_lexicon import english
from graphmill.engine.phrases_text import MAIL

# Letters of the kinds:  C capitalised content word  T capitalised title  I initial  F capitalised function word
# D month or weekday  o "of"  t "the"  r "for"  a "and"  & ampersand  p particle of a family name  s possessive
# v verb of a person speaking or living  f other function word  x filler (verb, plain adjective, adverb)  g plain noun
# w other lower-case word  n number  , comma  ( ) brackets  q quotation mark  h Han run  m e-mail  . anything else
_TOKEN = re.compile(
    r"[a-z]++(?!\w|[-'’.&+]\w)|"  # most words: the rest of the pattern is tried for a third of the tokens only
    r"[A-Za-z]{1,12}+(?:\.[a-z]{1,12}+)++(?![\w])|(?:[A-Z]\.){2,8}"  # os.path, e.g.; U.S.
    r"|(?:Dr|Mr|Mrs|Ms|Prof|Capt|Col|Gen|Lt|Sgt|Rev|St|Mt|Jr|Sr)\.|[A-Z]\.(?=\s?[A-Z])"
    r"|['’]s\b|(?<=s)['’]\s(?=[A-Z])"
    r"|[^\W\d_\u3400-\u9fff\u3040-\u30ff](?:[^\W_\u3400-\u9fff\u3040-\u30ff]|[-'’&.+](?!s\b)(?=[^\W_]))*+[+#]{0,2}"
    r"|[\u3400-\u9fff·]++|\d[\w.,:%°-]*+|\x01++|\x02++|[^\w\s]|_++"
)
SPAN = re.compile(r"[TCI](?:[TCI]|(?:p{1,2}|ot?|rt?|[a&s])(?=[TCI]))*")
CONCEPT = re.compile(r"[wg]*w[wg]*(?!s)")
_PARTICLES = frozenset(
    [
        "de",
        "da",
        "do",
        "dos",
        "das",
        "di",
        "del",
        "della",
        "du",
        "van",
        "von",
        "der",
        "den",
        "ter",
        "ten",
        "af",
        "av",
        "al",
        "bin",
        "ibn",
        "la",
        "le",
        "zu",
        "zur",
        "y",
    ]
)
_ITALIC = re.compile(r"(?<![\w*_])([*_])(?![\s*_])([A-Z][^*_\n]{2,60}+)\1(?![\w*])")
_QUOTED = re.compile(r"[\"“]([A-Z][\w'’-]*+(?: [\w'’&-]++){0,6})[\"”]")


_SIGNS = {MAIL: "m", ",": ",", "(": "(", ")": ")", "[": "(", "]": ")", "&": "&", '"': "q", "“": "q", "”": "q", "‘": "q"}


@lru_cache(maxsize=100_000)
def kind(token: str) -> str:
    """The letter of a token's kind."""
    first, lower = token[0], token.lower()
    if first.isalpha():
        if "\u3400" <= first <= "\u9fff":
            return "h"
        if len(token) > 40 or (
            "." in token[1:-1] and not (first.isupper() and lower.replace(".", "").isalpha() and len(token) < 9)
        ):
            return "."
        return _upper_kind(token, lower) if first.isupper() else _lower_kind(lower)
    if first in "'’" and len(token) <= 2:
        return "s" if len(token) == 2 else "q"
    if first.isdigit():
        return "n"
    return _SIGNS.get(first, ".")


def _upper_kind(token: str, lower: str) -> str:
    lists = english()
    if lower.rstrip(".") in lists["months"] or (lower[-4:] == "days" and lower[:-1] in lists["months"]):
        return "D"
    if lower in lists["titles"] and not (token.isupper() and len(token) > 3):
        return "T"
    if len(token) == 2 and token[1] == ".":
        return "I"
    if len(token) == 1 or lower in lists["function"] or (lower in lists["numbers"] and len(lower) < 6):
        return "F"
    return "C"


def _lower_kind(lower: str) -> str:
    lists = english()
    known = {"of": "o", "the": "t", "for": "r", "and": "a"}.get(lower)
    if known:
        return known
    if lower in _PARTICLES:
        return "p"
    if (
        lower in lists["function"]
        or lower.split("-", 1)[0] in lists["numbers"]
        or lower in lists["months"]
        or len(lower) < 3
    ):
        return "f"
    if lower in lists["person_verbs"]:
        return "v"
    if lower in lists["nouns"]:
        return "g"
    if lower in lists["adjectives"] or lower in lists["verb_forms"] or not lower.replace("-", "").isalpha():
        return "x"
    if lower.endswith(("ly", "'t", "'re", "'ve", "'ll", "’t")):
        return "x"
    return "w"


def tokens_of(sentence: str) -> tuple[list[str], str]:
    """The tokens of a sentence and the letters of their kinds, one a token."""
    tokens = _TOKEN.findall(sentence)
    return tokens, "".join(map(kind, tokens))


def marked_titles(text: str) -> dict[str, str]:
    """Titles set off in a whole text by italics or quotation marks, with the mark ("*" or a quotation mark)."""
    marked: dict[str, str] = {}
    for match in _ITALIC.finditer(text):
        marked.setdefault(" ".join(match.group(2).split()), "*")
    for match in _QUOTED.finditer(text):
        words = match.group(1).split()
        capitals = sum(word[0].isupper() for word in words)
        if len(words) > 1 and capitals * 2 > len(words) and words[-1][0].isupper():
            marked.setdefault(" ".join(words), '"')
    return marked
