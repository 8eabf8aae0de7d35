"""Finds the delimiters in a reply, in all the shapes that models give them, and its completion marks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from graphmill.engine.records import Layout

_LESS, _GREATER, _BAR = "[<＜]", "[>＞]", "[|｜¦]"
_FULL = rf"{_LESS}[ \\]{{0,2}}[|｜¦#＃][|｜¦#＃\\ ]{{0,6}}{_GREATER}|\\{_LESS}[|｜#]{{1,3}}\\{_GREATER}"
_HALF = rf"[#＃\\]{{0,4}}{_BAR}[|｜¦#＃\\]{{0,4}}{_GREATER}|{_LESS}[#＃\\]{{0,4}}{_BAR}[|｜¦#＃\\]{{0,4}}"
SPECIAL_TOKEN = (
    r"<\|(?:im_start|im_end|im_sep|endoftext|endofprompt|begin_of_text|end_of_text|start_header_id|end_header_id|eot_id"
    r"|eom_id|end|user|assistant|system)\|>"
)
EXACT, FULL, HALF = 0, 1, 2
_RANKS = {"exact": EXACT, "full": FULL, "half": HALF}


@dataclass(slots=True)
class Delimiter:
    start: int
    end: int
    rank: int
    """EXACT as set, FULL for its family (`<|#|>`), HALF for what may also be text (`|>`)."""


@lru_cache(maxsize=64)
def _scanner(layout: Layout) -> re.Pattern[str]:
    """Finds completion marks, special tokens and delimiters, in one pass; the group's name says which."""
    mark = re.escape(layout.completion)
    word = completion_word(layout)
    if word:
        around = r"[|｜#\\ ]{0,4}"
        mark += rf"|(?i:(?:{_LESS}{around}|[|｜])(?:{word}d?|完成|结束|終了)(?:{around}{_GREATER}|[|｜]))"
    exact = re.escape(layout.tuple_delimiter)
    # One look at the first character settles most positions.
    first = re.escape("<＜|｜¦#＃\\" + layout.completion[0] + layout.tuple_delimiter[0])
    kinds = {"mark": mark, "special": SPECIAL_TOKEN, "exact": exact, "full": _FULL, "half": _HALF}
    return re.compile(rf"(?=[{first}])(?:" + "|".join(f"(?P<{kind}>{what})" for kind, what in kinds.items()) + ")")


def completion_word(layout: Layout) -> str:
    """COMPLETE of <|COMPLETE|>; "" where the mark holds no word."""
    word = layout.completion.strip(" <>|#*[](){}\\")
    return word if word.isalpha() else ""


# What a model falls back on that knows no delimiter at all: `<>`, quoted fields with commas, the cells of a table.
FALLBACKS = tuple(re.compile(f"(?P<exact>{text})") for text in ("<>", '["”][ ]{0,3}[,，][ ]{0,3}["“]?', "[|｜]"))


def scan(
    text: str, layout: Layout, fallback: re.Pattern[str] | None = None
) -> tuple[list[Delimiter], list[tuple[int, int]]]:
    """The delimiters of the text, and the places of its completion marks."""
    delimiters: list[Delimiter] = []
    marks: list[tuple[int, int]] = []
    for found in (fallback or _scanner(layout)).finditer(text):
        rank = _RANKS.get(found.lastgroup or "")
        if rank is not None:
            delimiters.append(Delimiter(found.start(), found.end(), rank))
        elif found.lastgroup == "mark" and not _is_mentioned(text, *found.span(), layout):
            marks.append(found.span())
    return delimiters, marks


def _is_mentioned(text: str, start: int, end: int, layout: Layout) -> bool:
    """True if a description speaks of the mark: the bracket that closes its record follows on the same line."""
    before = text[max(0, start - 40) : start].rstrip(" \t*_`\"'")
    if not before or before[-1] in ")）]］】}｝\n" or before.endswith(layout.record_delimiter):
        return False
    after = text[end : end + 400].partition("\n")[0]
    return any(closer in after for closer in ")）")
