"""Tolerant reader of delimited records: clears the text, has it split, and decides what of a cut-off reply is kept."""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphmill.engine.names import unescape, without_invisible
from graphmill.engine.records import Layout, Reading, reject
from graphmill.engine.scan_delimiters import FALLBACKS, HALF, SPECIAL_TOKEN, Delimiter, completion_word, scan
from graphmill.engine.sort_fields import add_pieces
from graphmill.engine.split_delimited import Piece, find_pieces, num_fields

_ESCAPED_TAG = re.compile(r'\\"(?:entity|relation(?:ship)?|content_keywords)\\"\s{0,4}[<|]', re.IGNORECASE)
_TAG_WORD = re.compile(r"entit|relation|实体|实體|實體|关系|關係|関係", re.IGNORECASE)
_ENDS_WITH_TOKEN = re.compile(rf"(?:{SPECIAL_TOKEN})\Z")
_BEGUN_TAG = re.compile(r"""(?:\A|[\n#)）])[\s*\-•`\d.]{0,8}(?P<open>[(（]\s?)?["“']?(?P<word>\w{0,24})["”']?\Z""")
_SENTENCE_ENDS = tuple(".。!！?？…\"”'’")


def read_delimited(text: str, layout: Layout, finish_reason: str | None) -> Reading:
    """Reads a reply that has no reasoning in it. Whatever the text, it returns."""
    reading = Reading()
    text, marked = _prepare(text, layout, reading)
    ended = marked or finish_reason == "stop"
    text, sections, num_marks = _find_sections(text, layout, reading)
    last = sections[-1].pieces
    cut = False
    if not ended and (last or not num_marks):
        if last and _is_cut(text, last, layout, finish_reason):
            del last[-1]
            cut = True
        else:
            cut = _has_begun_tag(text, last[-1].end if last else 0)
    pieces = [piece for section in sections for piece in section.pieces]
    add_pieces(reading, text, pieces, layout)
    for section in sections:
        for _ in range(_num_untagged(text, section.left_over, layout)):
            reject(reading, "unknown tag")
    if cut:
        reject(reading, "cut off")
    reading.complete = (ended or num_marks > 0) and not cut
    return reading


def _prepare(text: str, layout: Layout, reading: Reading) -> tuple[str, bool]:
    """The text without what hides its structure, and whether it ends with the completion mark as a bare word."""
    visible = without_invisible(text)
    if visible != text:
        reading.repairs["invisible characters"] += 1
    text = visible.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\x85", "\n")
    if _ESCAPED_TAG.search(text):
        text = text.replace('\\"', '"').replace("\\n", "\n")
        reading.repairs["escapes"] += 1
    if "&lt;" in text and layout.tuple_delimiter not in text:
        text = unescape(text)
        reading.repairs["escapes"] += 1
    whole = text
    text = text.rstrip()
    for _ in range(4):
        token = _ENDS_WITH_TOKEN.search(text, max(0, len(text) - 40))
        if not token:
            break
        text = text[: token.start()].rstrip()
    word = completion_word(layout)
    head, _, line = text.rstrip("`\n ").rpartition("\n")
    if word and line.strip(" \t*_`\"'()[].#<|>\\").upper() == word.upper():
        return head, True
    for length in range(len(layout.completion) - 1, 2, -1):
        if text.endswith(layout.completion[:length]) and not text[-length].isalnum():
            # The mark itself was cut off, which shows that the record before it is whole.
            return text[:-length] + layout.record_delimiter, False
    # A line break is the end of a record that has no bracket to end it.
    return text + ("\n" if "\n" in whole[len(text) :] else ""), False


@dataclass(slots=True)
class _Section:
    """What is between two completion marks."""

    pieces: list[Piece]
    left_over: list[Delimiter]


def _find_sections(text: str, layout: Layout, reading: Reading) -> tuple[str, list[_Section], int]:
    """The text that the pieces' places are in, its sections (one more than there are marks), the number of marks."""
    delimiters, marks = scan(text, layout)
    sections = _sections(text, delimiters, marks, layout)
    if not any(section.pieces for section in sections) and _TAG_WORD.search(text):
        plain = "\n".join(line.strip().strip("|").strip() for line in text.split("\n"))
        for fallback in FALLBACKS:
            found = _sections(plain, scan(plain, layout, fallback)[0], scan(plain, layout)[1], layout)
            if any(section.pieces for section in found):
                reading.repairs["delimiter"] += 1
                for section in found:
                    section.left_over.clear()  # Heads and rules of tables.
                return plain, found, len(found) - 1
    return text, sections, len(marks)


def _sections(text: str, delimiters: list[Delimiter], marks: list[tuple[int, int]], layout: Layout) -> list[_Section]:
    sections = []
    at = 0
    for begin, end in zip([0, *(end for _, end in marks)], [*(start for start, _ in marks), len(text)], strict=True):
        mine = []
        while at < len(delimiters) and delimiters[at].start < end:
            if delimiters[at].start >= begin:
                mine.append(delimiters[at])
            at += 1
        sections.append(_Section(*find_pieces(text, mine, begin, end, layout)))
    return sections


def _is_cut(text: str, pieces: list[Piece], layout: Layout, finish_reason: str | None) -> bool:
    """True if the last record of a reply that may have been cut off is not known to be whole."""
    *earlier, last = pieces
    if last.closed:
        return False
    separator = layout.record_delimiter.strip()
    if last.ended and (not last.bracketed or (separator and text.startswith(separator, last.end))):
        return False
    never_closed = bool(earlier) and not any(piece.closed for piece in earlier)
    if last.bracketed and not never_closed:
        return True
    if last.ended:
        return False
    if finish_reason == "length" or (earlier and not never_closed) or len(last.fields) < num_fields(last.kind, layout):
        return True
    # Nothing but the style is left to go by: a description without its full stop, where the others have theirs.
    ends = [text[piece.fields[-1][0] : piece.fields[-1][1]].rstrip().endswith(_SENTENCE_ENDS) for piece in pieces]
    return len(ends) > 2 and all(ends[:-1]) and not ends[-1]


def _has_begun_tag(text: str, begin: int) -> bool:
    """True if the text ends in the middle of a record's tag."""
    found = _BEGUN_TAG.search(text[max(begin, len(text) - 60) :].rstrip(' \n<|#"”'))
    if not found or (not found["open"] and len(found["word"]) < 3):
        return False
    return any(
        tag.startswith(found["word"].lower()) for tag in ("entity", "relationship", "content_keywords", "实体", "关系")
    )


def _num_untagged(text: str, left_over: list[Delimiter], layout: Layout) -> int:
    """Number of lines that look like a record whose tag is missing or unknown."""
    lines: list[list[Delimiter]] = []
    previous_end = 0
    for delimiter in left_over:
        between = text[previous_end : delimiter.start]
        if not lines or "\n" in between or layout.record_delimiter in between:
            lines.append([])
        if delimiter.rank != HALF:
            lines[-1].append(delimiter)
        previous_end = delimiter.end
    return sum(len(line) > 1 and _is_record_line(text, line) for line in lines)


def _is_record_line(text: str, line: list[Delimiter]) -> bool:
    """Prose that speaks of delimiters sets them off with spaces and begins with a word."""
    head = text[max(0, line[0].start - 200) : line[0].start].rpartition("\n")[2].lstrip(" \t-*•>#`)")
    spaced = any(text[delimiter.end : delimiter.end + 1].isspace() for delimiter in line)
    return head[:1] in ("(", "（", "[", '"', "“") or not spaced
