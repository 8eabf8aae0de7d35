"""Finds the records in a reply of delimited records, however they are wrapped and separated.

Everything hangs on the delimiters: a record begins where a tag stands before one. So what is around and between the
records (prose, fences, bullets, separators or none) needs no grammar. Each step looks at a character a bounded number
of times, so that a megabyte of brackets is read in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from graphmill.engine.records import Layout

_LESS, _GREATER, _BAR = r"(?:<|＜|&lt;)", r"(?:>|＞|&gt;)", r"[|｜¦]"
_FULL = rf"\\?{_LESS}[ \\]{{0,2}}[|｜¦#＃][|｜¦#＃\\ ]{{0,6}}{_GREATER}"
_HALF = rf"[#＃\\]{{0,4}}{_BAR}[|｜¦#＃\\]{{0,4}}{_GREATER}|{_LESS}[#＃\\]{{0,4}}{_BAR}[|｜¦#＃\\]{{0,4}}"
_SPECIAL = r"<\|(?:im_start|im_end|im_sep|endoftext|endofprompt|begin_of_text|end_of_text|start_header_id|end_header_id|eot_id|eom_id|end|user|assistant|system)\|>"
EXACT, FULL, HALF = 0, 1, 2

_TAG = re.compile(
    r"""(?P<open>[(（\[［【{｛<＜〈《])?[\s*_`"'“”„‘’«「『\\]*
        (?: (?P<entity>entit(?:y|ies)|实体|實體|エンティティ|개체)
          | (?P<relationship>relation(?:ship)?s?|关系|關係|関係|관계)
          | (?P<keywords>(?:(?:content|high[ _-]?level)\\?[ _-]?)?key[ _-]?words?|内容关键词|关键词|關鍵詞|キーワード))
        (?:[ _]?\d{1,3})?[*_`"'“”‘’»」』\\:：]*(?P<space>\s*)\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_TAG_WINDOW = 80
# Most fields are no tags: a look at how they end is much cheaper than the expression.
_TAG_ENDS = tuple(
    "entity entities relation relations relationship relationships keyword keywords key_words 实体 實體 エンティティ 개체 "
    "关系 關係 関係 관계 关键词 關鍵詞 キーワード".split()
) + ("key words", "key word")
_TAG_TAIL = "*_`\"'“”‘’»」』\\:： \t\n0123456789"
_BULLET = re.compile(r"""[\s>*#+\-–—·●○▪•|`]*(?:\(?\d{1,4}[.)、:：]|[a-zA-Z][.)])?[\s*_`"'“|]*""")
_BRACKETS = {**dict.fromkeys("(（", "()（）"), **dict.fromkeys("[［【", "[]［］【】"), **dict.fromkeys("{｛", "{}｛｝")}
_BRACKETS |= dict.fromkeys("<＜〈《", "<>＜＞〈〉《》")
_CLOSERS = ")）]］】}｝>＞〉》"


@dataclass(slots=True)
class Delimiter:
    start: int
    end: int
    rank: int
    """EXACT as set, FULL for its family (`<|#|>`), HALF for what may also be text (`|>`)."""


@dataclass(slots=True)
class Piece:
    """One record: its kind and the places of its fields in the text."""

    kind: str
    fields: list[tuple[int, int]]
    start: int
    end: int
    bracketed: bool
    """It opens with a bracket."""
    closed: bool
    """A bracket closes it."""
    ended: bool
    """Something shows that it was written to its end: a bracket, a separator, a line break."""
    num_variants: int
    """Delimiters that weren't exact."""


@dataclass(slots=True)
class _Anchor:
    at: int
    """Which of the delimiters follows the tag."""
    start: int
    kind: str
    bracket: str


@lru_cache(maxsize=64)
def scanner(layout: Layout) -> re.Pattern[str]:
    """Finds completion marks, special tokens and delimiters, in one pass; the group's name says which."""
    mark = re.escape(layout.completion)
    word = re.escape(layout.completion.strip(" <>|#*[](){}\\"))
    if word.isalpha():
        before, after = rf"(?:{_LESS}[|｜#\\ ]{{0,4}}|[|｜])", rf"(?:[|｜#\\ ]{{0,4}}{_GREATER}|[|｜])"
        mark += rf"|(?i:{before}{word}d?{after})|(?m:^[ \t*_\"`(\[]{{0,4}}{word}[ \t*_\"`)\].]{{0,4}}$)"
    return re.compile(
        rf"(?P<mark>{mark})|(?P<special>{_SPECIAL})|(?P<exact>{re.escape(layout.tuple_delimiter)})|(?P<full>{_FULL})|(?P<half>{_HALF})"
    )


# What a model falls back on when it knows no delimiter at all: `<>`, quoted fields with commas, the cells of a table.
FALLBACKS = tuple(re.compile(rf"(?P<exact>{delimiter})") for delimiter in (r"<>", r"[\"”][ ]?[,，][ ]{0,3}[\"“]?", r"[|｜]"))


def find_delimiters(text: str, pattern: re.Pattern[str]) -> list[Delimiter]:
    ranks = {"exact": EXACT, "full": FULL, "half": HALF}
    return [
        Delimiter(found.start(), found.end(), ranks[found.lastgroup])
        for found in pattern.finditer(text)
        if found.lastgroup in ranks
    ]


def num_fields(kind: str, layout: Layout) -> int:
    """Fields after the tag in a record to the letter."""
    return {"entity": 3, "relationship": len(layout.relationship)}.get(kind, 1)


def find_pieces(text: str, pattern: re.Pattern[str], layout: Layout) -> tuple[list[Piece], list[Delimiter]]:
    """The records of the text in order, and the delimiters that belong to none of them."""
    delimiters = find_delimiters(text, pattern)
    anchors = list(_find_anchors(text, delimiters, layout))
    pieces: list[Piece] = []
    left_over = delimiters[: anchors[0].at] if anchors else delimiters
    for anchor, following in zip(anchors, [*anchors[1:], None], strict=True):
        mine = delimiters[anchor.at : following.at if following else None]
        end = following.start if following else len(text)
        piece = _cut_piece(text, anchor, mine, end, layout)
        pieces.append(piece)
        left_over += [delimiter for delimiter in mine if delimiter.start >= piece.end]
    return pieces, left_over


def _find_anchors(text: str, delimiters: list[Delimiter], layout: Layout) -> Iterator[_Anchor]:
    previous: _Anchor | None = None
    for at, delimiter in enumerate(delimiters):
        begin = delimiters[at - 1].end if at else 0
        window = max(begin, delimiter.start - _TAG_WINDOW)
        if not text[window : delimiter.start].rstrip(_TAG_TAIL).lower().endswith(_TAG_ENDS):
            continue
        tag = _TAG.search(text, window, delimiter.start)
        if tag is None:
            continue
        kind = next(kind for kind in ("entity", "relationship", "keywords") if tag[kind])
        if not tag["open"] and not _begins_record(text, begin, tag, kind, layout):
            # Mid-line and bare it may be the end of a field. It is a tag only where a field can't be expected.
            if tag["space"] or (previous and at - previous.at < num_fields(previous.kind, layout)):
                continue
            if tag.start() and text[tag.start() - 1].isalpha() and text[tag.start(kind)].isascii():
                continue
        previous = _Anchor(at, tag.start("open") if tag["open"] else tag.start(), kind, tag["open"] or "")
        yield previous


def _begins_record(text: str, begin: int, tag: re.Match[str], kind: str, layout: Layout) -> bool:
    """True if the tag stands where a record can begin: first thing, on a new line, after a separator or a bracket."""
    window = max(begin, tag.start() - _TAG_WINDOW)
    before = text[window : tag.start(kind)]
    if begin and not before.strip("\"'“”‘’*_` \t\n"):
        return False  # Nothing between it and the delimiter before it: it is a field.
    _, line_break, line = before.rpartition("\n")
    if (line_break or window == 0) and _BULLET.fullmatch(line):
        return True
    before = before.rstrip("\"'“”‘’*_` \t\n,;，；")
    separator = layout.record_delimiter.strip()
    return before.endswith(tuple(_CLOSERS)) or (separator != "" and before.endswith(separator))


def _cut_piece(text: str, anchor: _Anchor, mine: list[Delimiter], limit: int, layout: Layout) -> Piece:
    """The record that begins at the anchor and ends before ``limit``."""
    num_variants = sum(delimiter.rank != EXACT for delimiter in mine)
    # `|>` may be an operator that the text is about: laxer delimiters count only where the stricter ones don't suffice.
    wanted = num_fields(anchor.kind, layout)
    for rank in (EXACT, FULL):
        strict = [delimiter for delimiter in mine if delimiter.rank <= rank]
        if len(strict) >= wanted and strict[0] is mine[0]:
            mine = strict
            break
    fields: list[tuple[int, int]] = []
    brackets = _Brackets(anchor.bracket)
    end, closed, ended = limit, False, False
    for at, delimiter in enumerate(mine):
        begin, last = delimiter.end, at + 1 == len(mine)
        field_end = limit if last else mine[at + 1].start
        end, closed, ended = _find_end(text, begin, field_end, last, brackets, layout)
        fields.append((begin, end))
        if ended or last:
            break
    trimmed = _without_closer(text, *fields[-1])
    if not closed and trimmed < fields[-1][1]:
        fields[-1] = (fields[-1][0], trimmed)
        closed = ended = True
    num_variants = min(num_variants, sum(delimiter.rank != EXACT for delimiter in mine[: len(fields)]))
    return Piece(anchor.kind, fields, anchor.start, end, bool(anchor.bracket), closed, ended, num_variants)


class _Brackets:
    """Depth of the brackets of the kind that opened the record, from its first field on."""

    def __init__(self, opener: str) -> None:
        pair = _BRACKETS.get(opener, "")
        self.pattern = re.compile(f"[{re.escape(pair)}]") if pair else None
        self.depth = self.lowest = 0
