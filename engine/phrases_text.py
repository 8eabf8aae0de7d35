"""Cuts text into sentences after blanking what is no prose: code, addresses, paths, markup.

Blanking keeps offsets: a sentence's span in the blanked text is its span in the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

FILL, MAIL = "\x01", "\x02"
MAX_SENTENCE_CHARS = 1000


class Span(NamedTuple):
    """One sentence or heading: text[start:end]."""

    start: int
    end: int
    heading: bool


# Each pattern starts at a literal or at a fixed edge and runs over a bounded or possessive length, so a line of a
# million characters costs a million steps, not their square.
_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n(?s:.{0,2000}?)^[ \t]*\1[ \t]*$", re.MULTILINE)
_TAG = re.compile(r"</?[A-Za-z!][^<>\n]{0,300}+>|&[a-z]{2,8};|&#\d{1,6};")
_CODE_SPAN = re.compile(r"`{1,2}[^`\n]{1,200}+`{1,2}")
_LINK_TARGET = re.compile(r"(?<=\])\([^()\s]{1,400}+(?: \"[^\"\n]{0,200}+\")?\)")
# A run of printable ASCII that holds a sign which words of prose don't have.
_SIGNED = re.compile(r"(?<![!-~])[!\"%&'()*+,\-.0-9:;?A-Z\[\]a-z]*+[#$/<=>@\\^_`{|}~][!-~]*+")
_SLASHED = re.compile(r"[(\"']?[A-Za-z-]+/[A-Za-z-]+[)\"',.;:!?]*")
_EDGE = "_*~`\"'()[]<>|.,;:!?#="
_MARKUP = str.maketrans(dict.fromkeys("#$/<=>@\\^_`{|}~", FILL))

_CODE_START = (
    ">>>",
    "...",
    "$ ",
    "% ",
    "#!",
    "#include",
    "import ",
    "from ",
    "def ",
    "class ",
    "return ",
    "@",
    "%%",
    "diff ",
    "+++",
    "---",
    "@@",
    "..",
)
_CODE_END = ("{", "}", ";", "\\", "=>", "->", "({", "});", "*/", "__")
_SYMBOLS = "{}()[];=<>|+*\\_&$@^%"
_BULLET = re.compile(r"(?:[-*+•·o#>|‣–—]+|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)])(?=\s)")
_FIELD = re.compile(r"[A-Z][\w-]{1,30}:(?:\s|$)")
_END = re.compile(
    r"[.!?]+[\"'”’)\]*]*\s+(?=[\"'“‘(\[*]*[^a-z\s\"'“‘(\[*])|[。！？!?…]+[”’」』）)]*|[;；]\s*(?=[\u4e00-\u9fff])"
)
_ABBREVIATIONS = frozenset(
    [
        "dr",
        "mr",
        "mrs",
        "ms",
        "prof",
        "st",
        "sr",
        "jr",
        "rev",
        "hon",
        "capt",
        "col",
        "gen",
        "lt",
        "sgt",
        "maj",
        "gov",
        "sen",
        "rep",
        "pres",
        "mt",
        "ft",
        "e.g",
        "i.e",
        "etc",
        "cf",
        "vs",
        "viz",
        "al",
        "approx",
        "ca",
        "no",
        "nos",
        "vol",
        "vols",
        "pp",
        "p",
        "fig",
        "figs",
        "eq",
        "sec",
        "ch",
        "ed",
        "eds",
        "est",
        "dept",
        "univ",
        "inc",
        "ltd",
        "co",
        "corp",
        "bros",
        "jan",
        "feb",
        "mar",
        "apr",
        "jun",
        "jul",
        "aug",
        "sep",
        "sept",
        "oct",
        "nov",
        "dec",
    ]
)


def blank(text: str) -> str:
    """The text with code, addresses, paths and markup overwritten by FILL, e-mail addresses by MAIL, offsets kept."""
    if "```" in text or "~~~" in text:
        text = _FENCE.sub(_fill, text)
    if "<" in text or "&" in text:
        text = _TAG.sub(_fill, text)
    if "`" in text:
        text = _CODE_SPAN.sub(_fill, text)
    if "](" in text:
        text = _LINK_TARGET.sub(_fill, text)
    return _SIGNED.sub(_blank_word, text)


def _fill(match: re.Match[str]) -> str:
    """As many FILLs as characters; line breaks stay, they mark out the blocks."""
    found = match.group()
    if "\n" not in found:
        return FILL * len(found)
    return "\n".join(FILL * len(line) for line in found.split("\n"))


def _blank_word(match: re.Match[str]) -> str:
    word = match.group()
    if _SLASHED.fullmatch(word):
        return word.replace("/", FILL)
    core = word.strip(_EDGE)
    if core == core.translate(_MARKUP):
        return word.translate(_MARKUP)
    fill = MAIL if "@" in core and "." in core and "/" not in core else FILL
    tail = word[-1] if word[-1] in ".!?," else fill
    return fill * (len(word) - 1) + tail


def sentences(text: str) -> Iterator[Span]:
    """Spans of the sentences of a blanked text, in order, none longer than MAX_SENTENCE_CHARS."""
    for start, end, heading in _blocks(text):
        if heading:
            yield Span(start, min(end, start + MAX_SENTENCE_CHARS), True)
            continue
        at = start
        for match in _END.finditer(text, start, end):
            if match.group()[0] == "." and _is_abbreviation(text, at, match.start()):
                continue
            yield from _pieces(text, at, match.end())
            at = match.end()
        if at < end:
            yield from _pieces(text, at, end)


def _is_abbreviation(text: str, start: int, stop: int) -> bool:
    word = text[max(start, stop - 8) : stop].rsplit(None, 1)[-1:]
    if not word:
        return False
    bare = word[0].lstrip("(\"'“").lower()
    return bare in _ABBREVIATIONS or (len(bare) == 1 and bare.isalpha() and bare != "i")


def _pieces(text: str, start: int, end: int) -> Iterator[Span]:
    while end - start > MAX_SENTENCE_CHARS:
        cut = text.rfind(" ", start, start + MAX_SENTENCE_CHARS)
        cut = cut + 1 if cut > start else start + MAX_SENTENCE_CHARS
        yield Span(start, cut, False)
        start = cut
    yield Span(start, end, False)


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Paragraphs, list items and headings: lines are joined where a writer only wrapped them."""
    start, end, at, last_length = -1, -1, 0, 0
    for line in text.split("\n"):
        begin, at = at, at + len(line) + 1
        bare = line.strip()
        if not bare or _is_code(bare):
            if start >= 0:
                yield start, end, _is_heading(text, start, end)
            start = -1
            continue
        bullet = _BULLET.match(bare)
        joins = start >= 0 and not bullet and not _FIELD.match(bare) and (last_length >= 45 or bare[0].islower())
        if start >= 0 and not joins:
            yield start, end, _is_heading(text, start, end)
        if not joins:
            start = begin + line.index(bare[0]) + (bullet.end() if bullet else 0)
        end, last_length = begin + len(line.rstrip()), len(bare)
        if bare[0] == "#" or (
            bare[0] == FILL and bullet is None and line.lstrip(FILL)[:1] == " " and len(bare) < 100 and start == begin
        ):
            yield start, end, True
            start = -1
    if start >= 0:
        yield start, end, _is_heading(text, start, end)


def _is_code(line: str) -> bool:
    if line.startswith(_CODE_START) or line.endswith(_CODE_END) or " :: " in line:
        return True
    size = len(line)
    return (size > 5000 and " " not in line and line.isascii()) or sum(map(line.count, _SYMBOLS)) + line.count(
        FILL
    ) // 4 > 0.15 * size


def _is_heading(text: str, start: int, end: int) -> bool:
    return end - start < 100 and text[end - 1] not in ".!?:;,。！？：；，…”\"')" and "\n" not in text[start:end]
