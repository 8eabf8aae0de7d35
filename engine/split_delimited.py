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
from graphmill.engine.scan_delimiters import EXACT, FULL, Delimiter

_TAG = re.compile(
    r"""(?P<open>[(（\[［【{｛<＜〈《])?[\s*_`"'“”„‘’«「『\\]*
        (?: (?P<entity>entit(?:y|ies)|实体|實體|エンティティ|개체)
          | (?P<relationship>relation(?:ship)?s?|关系|關係|関係|관계)
          | (?P<keywords>(?:(?:content|high[ _-]?level)\\?[ _-]?)?key[ _-]?words?|内容关键词|关键词|關鍵詞|キーワード))
        (?:[ _]?\d{1,3})?[*_`"'“”‘’»」』\\:：]*(?P<space>\s*)\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_TAG_WINDOW = 48
# Most fields are no tags: a look at how they end is much cheaper than the expression.
_TAG_ENDS = (
    *("entity", "entities", "relation", "relations", "relationship", "relationships"),
    *("keyword", "keywords", "key word", "key words", "key_words"),
    *("实体", "實體", "エンティティ", "개체", "关系", "關係", "関係", "관계", "关键词", "關鍵詞", "キーワード"),
)
_MARKUP = "\"'“”‘’*_` \t\n"
_TAG_TAIL = "*_`\"'“”‘’»」』\\:： \t\n0123456789"
_BULLET = re.compile(r"""[\s>*#+\-–—·●○▪•|`]*(?:\(?\d{1,4}[.)、:：]|[a-zA-Z][.)])?[\s*_`"'“|]*""")
_BRACKETS = {
    opener: re.compile(f"[{re.escape(pairs)}]")
    for pairs in ("()（）", "[]［］【】", "{}｛｝", "<>＜＞〈〉《》")
    for opener in pairs[::2]
}
_CLOSERS = ")）]］】}｝>＞〉》"


@dataclass(slots=True)
class Piece:
    """One record: its kind and the places of its fields in the text."""

    kind: str
    fields: list[tuple[int, int]]
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


def num_fields(kind: str, layout: Layout) -> int:
    """Fields after the tag in a record to the letter."""
    return {"entity": 3, "relationship": len(layout.relationship)}.get(kind, 1)


def find_pieces(
    text: str, delimiters: list[Delimiter], begin: int, end: int, layout: Layout
) -> tuple[list[Piece], list[Delimiter]]:
    """The records of a section of the text in order, and the section's delimiters that belong to none of them."""
    anchors = list(_find_anchors(text, delimiters, begin, layout))
    pieces: list[Piece] = []
    left_over = delimiters[: anchors[0].at] if anchors else list(delimiters)
    for anchor, following in zip(anchors, [*anchors[1:], None], strict=False):
        mine = delimiters[anchor.at : following.at if following else None]
        piece = _cut_piece(text, anchor, mine, following.start if following else end, layout)
        pieces.append(piece)
        left_over += [delimiter for delimiter in mine if delimiter.start >= piece.end]
    return pieces, left_over


def _find_anchors(text: str, delimiters: list[Delimiter], begin: int, layout: Layout) -> Iterator[_Anchor]:
    previous: _Anchor | None = None
    section = begin
    for at, delimiter in enumerate(delimiters):
        window = max(begin, delimiter.start - _TAG_WINDOW)
        tail = text[window : delimiter.start].rstrip(_TAG_TAIL).lower()
        tag = _TAG.search(text, window, delimiter.start) if tail.endswith(_TAG_ENDS) else None
        if tag:
            kind = next(kind for kind in ("entity", "relationship", "keywords") if tag[kind])
            full = previous is None or at - previous.at >= num_fields(previous.kind, layout)
            head = tag.start("open") if tag["open"] else tag.start(kind)
            if (
                (tag["open"] and tag["open"] in "(（")
                or _begins_record(text, begin, begin == section, head, layout)
                or (full and _is_bare_tag(text, tag, kind))
            ):
                # What closes the field before, a star or a quote, may look like the beginning of this record's line.
                start = tag.start() if tag["open"] else max(tag.start(), text.rfind("\n", begin, tag.start(kind)) + 1)
                previous = _Anchor(at, start, kind, tag["open"] or "")
                yield previous
        begin = delimiter.end


def _is_bare_tag(text: str, tag: re.Match[str], kind: str) -> bool:
    """True if a tag in mid-line, after a record that has all of its fields, is no word of a sentence."""
    before = text[tag.start(kind) - 1] if tag.start(kind) else ""
    return not tag["space"] and not (before.isalpha() and before.isascii())


def _begins_record(text: str, begin: int, first: bool, tag: int, layout: Layout) -> bool:
    """True if the tag stands where a record can begin: first thing, on a new line, after a separator.

    ``begin`` is the end of the delimiter before it or, for the ``first`` one, the beginning of the section.
    """
    window = max(begin, tag - _TAG_WINDOW)
    before = text[window:tag]
    if not first and not before.strip(_MARKUP):
        return False  # Nothing stands between the two: it is a field.
    _, line_break, line = before.rpartition("\n")
    if (line_break or (first and window == begin)) and _BULLET.fullmatch(line):
        return True
    separator = layout.record_delimiter.strip()
    return separator != "" and before.rstrip(_MARKUP).endswith(separator)


def _cut_piece(text: str, anchor: _Anchor, mine: list[Delimiter], limit: int, layout: Layout) -> Piece:
    """The record that begins at the anchor and ends before ``limit``."""
    # `|>` may be an operator that the text is about: laxer delimiters count only where the stricter ones don't suffice.
    for rank in (EXACT, FULL):
        strict = mine[:1] + [delimiter for delimiter in mine[1:] if delimiter.rank <= rank]
        if len(strict) >= num_fields(anchor.kind, layout):
            mine = strict
            break
    fields: list[tuple[int, int]] = []
    end, closed, ended = limit, False, False
    brackets = _Brackets(anchor.bracket)
    for delimiter, following in zip(mine, [*mine[1:], None], strict=True):
        find = _find_end if following else _find_last_end
        end, closed, ended = find(text, delimiter.end, following.start if following else limit, brackets, layout)
        fields.append((delimiter.end, end))
        if ended:
            break
    if not closed:
        # The bracket that closes a record whose opening one is missing.
        trimmed = _without_closer(text, fields[min(2, len(fields) - 1)][0], end)
        if trimmed < end:
            fields[-1] = (fields[-1][0], max(trimmed, fields[-1][0]))
            closed = ended = True
    num_variants = sum(delimiter.rank != EXACT for delimiter in mine[: len(fields)])
    return Piece(anchor.kind, fields, end, bool(anchor.bracket), closed, ended, num_variants)


class _Brackets:
    """Depth of the brackets of the kind that opened the record, counted from its first field on."""

    def __init__(self, opener: str) -> None:
        self.pattern = _BRACKETS.get(opener)
        self.depth = self.lowest = 0

    def closers(self, text: str, begin: int, end: int) -> Iterator[int]:
        """Where a bracket closes that wasn't opened since: one of these ends the record."""
        for found in self.pattern.finditer(text, begin, end) if self.pattern else ():
            self.depth += -1 if found[0] in _CLOSERS else 1
            if self.depth < self.lowest:
                self.lowest = self.depth
                yield found.start()


@lru_cache(maxsize=64)
def _boundary(record_delimiter: str, last: bool) -> re.Pattern[str]:
    """What has to follow a closing bracket for it to end a record: the line's end, a separator or the next record."""
    # The counts are bounded: a long run of brackets is looked at from each of its members.
    ends = [
        r"[ \t]{0,80}\n",
        r"[ \t]{0,80}" + (re.escape(record_delimiter.strip()) or r"\n"),
        *([r"\s*\Z"] if last else []),
    ]
    return re.compile(rf"""[ \t*_`"'”’)）\]]{{0,4}}[,;，；。.]?(?:{"|".join(ends)})""")


def _find_end(text: str, begin: int, end: int, brackets: _Brackets, layout: Layout) -> tuple[int, bool, bool]:
    """(end, closed, ended) of a field that a delimiter follows: mostly the record goes on, but it may have ended."""
    boundary = _boundary(layout.record_delimiter, last=False)
    for closer in brackets.closers(text, begin, end):
        if boundary.match(text, closer + 1, end):
            return closer, True, True
    if not brackets.pattern:
        field = text[begin:end]
        line_break = field.find("\n", len(field) - len(field.lstrip()))
        if line_break >= 0 and field[line_break:].strip():
            return begin + line_break, False, True
    return end, False, False


def _find_last_end(text: str, begin: int, end: int, brackets: _Brackets, layout: Layout) -> tuple[int, bool, bool]:
    """(end, closed, ended) of the field after a record's last delimiter; ``end`` is where the next record begins."""
    boundary = _boundary(layout.record_delimiter, last=True)
    mid_line: int | None = None
    for closer in brackets.closers(text, begin, end):
        if boundary.match(text, closer + 1, end):
            return closer, True, True
        mid_line = closer if mid_line is None else mid_line
    if mid_line is not None:
        return mid_line, True, True  # Prose follows on the same line.
    field = text[begin:end]
    separator = layout.record_delimiter.strip()
    line_break = field.find("\n", len(field) - len(field.lstrip()))
    line = (field if line_break < 0 else field[:line_break]).rstrip()
    if separator and line.endswith(separator):
        return begin + len(line) - len(separator), False, True
    whole = field.rstrip()
    if separator and whole.endswith(separator) and whole.count(separator) == 1 and "\n\n" not in whole:
        return begin + len(whole) - len(separator), False, True  # A description of several lines.
    return begin + len(line), False, line_break >= 0


def _without_closer(text: str, begin: int, end: int) -> int:
    """End of the text without a closing bracket that nothing in it opens."""
    field = text[begin:end].rstrip(" \t\n*`")
    # Not the angle ones: a text may well end in an arrow.
    for pattern in (_BRACKETS["("], _BRACKETS["["], _BRACKETS["{"]):
        if field and field[-1] in _CLOSERS and pattern.match(field, len(field) - 1):
            brackets = pattern.findall(field)
            if 2 * sum(bracket in _CLOSERS for bracket in brackets) > len(brackets):
                return begin + len(field) - 1
    return end
