"""Where a text may be cut: between characters as a reader sees them, at word starts, after separators."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_EXTENDS, _WORD = 1, 2
_TABLE_SIZE = 0x20000
_JOINER = 0x200D
_FLAG_LETTERS = (0x1F1E6, 0x1F1FF)
MAX_CLUSTER = 64
"""Characters after which a run of combining marks is cut all the same."""


def codepoints(text: str) -> NDArray[np.uint32]:
    """uint32 [len(text)]."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8).astype(np.uint32)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def safe_cuts(codes: NDArray[np.uint32], positions: Ints) -> Bools:
    """Whether a cut before each position splits no character with its marks, emoji sequence, flag, or CRLF.

    positions  int64 [n], ascending, each in (0, len(codes))
    A run of more than MAX_CLUSTER characters that hang together may be cut after each MAX_CLUSTER.
    """
    if not len(positions):
        return np.zeros(0, np.bool_)
    before, after = codes[positions - 1], codes[positions]
    joined = (before == ord("\r")) & (after == ord("\n"))
    if codes.max() >= 0x300:
        joined |= (_kinds(after) & _EXTENDS).astype(bool) | (before == _JOINER)
        joined |= _inside_flag(codes, positions)
    last_safe = np.maximum.accumulate(np.where(joined, 0, positions))
    safe: Bools = ~joined | (positions - last_safe >= MAX_CLUSTER)
    return safe


def word_starts(codes: NDArray[np.uint32], positions: Ints) -> Bools:
    """Whether each position is inside no word: not between two letters or digits, Chinese and Japanese left out."""
    if not len(positions):
        return np.zeros(0, np.bool_)
    return ~(_kinds(codes[positions - 1]) & _kinds(codes[positions]) & _WORD).astype(bool)


def piece_ends(text: str, separators: Sequence[str]) -> Ints:
    """Ends of the pieces of a text, int64 [n], ascending, in (0, len(text)): after each run of separators.

    A line feed in a separator stands for any line break: LF, CRLF or CR.
    """
    if len(separators) == 1 and "\r" not in text:
        return _ends_of(separators[0].replace("\r\n", "\n"), text)
    matches = _separator_pattern(tuple(separators)).finditer(text)
    ends = np.fromiter((match.end() for match in matches), np.int64)
    return ends[ends < len(text)]


def _ends_of(separator: str, text: str) -> Ints:
    """piece_ends of one separator as it stands, which the search for a plain string finds some ten times faster."""
    ends: list[int] = []
    at = text.find(separator)
    while at >= 0:
        end = at + len(separator)
        if ends and ends[-1] == at:  # a run of separators ends one piece
            ends.pop()
        ends.append(end)
        at = text.find(separator, end)
    return np.array([end for end in ends if end < len(text)], np.int64)


@cache
def _separator_pattern(separators: tuple[str, ...]) -> re.Pattern[str]:
    # CRLF is tried first and never given up half, so that it can't count as the two breaks of a blank line.
    line_break = r"(?:\r\n|\n|\r(?!\n))"
    longest_first = sorted((s.replace("\r\n", "\n") for s in separators), key=len, reverse=True)
    choices = [line_break.join(map(re.escape, s.split("\n"))) for s in longest_first]
    return re.compile(f"(?:{'|'.join(choices)})+")


def _kinds(codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
    kinds = _kind_table()[np.minimum(codes, _TABLE_SIZE - 1)]
    kinds[codes >= 0xE0000] = _EXTENDS  # tags and variation selectors
    return kinds


@cache
def _kind_table() -> NDArray[np.uint8]:
    """What each code point below _TABLE_SIZE is; made once, in some 50 ms."""
    table = np.zeros(_TABLE_SIZE, np.uint8)
    for code in range(_TABLE_SIZE - 1):
        category = unicodedata.category(chr(code))
        if category[0] == "M" or code in (_JOINER, 0x200C, 0xFF9E, 0xFF9F):
            table[code] = _EXTENDS
        elif category[0] in "LN" and not 0x2E80 <= code < 0xA000:
            table[code] = _WORD
    table[0x1F3FB:0x1F400] = _EXTENDS  # skin tones
    table[0x1160:0x1200] = table[0xD7B0:0xD800] = _EXTENDS  # vowels and finals of decomposed Hangul
    table[0xF900:0xFB00] = 0
    return table


def _inside_flag(codes: NDArray[np.uint32], positions: Ints) -> Bools:
    """Whether each position is between the two letters of a flag: they pair off from the start of a run."""
    is_letter = (codes >= _FLAG_LETTERS[0]) & (codes <= _FLAG_LETTERS[1])
    if not is_letter.any():
        return np.zeros(len(positions), np.bool_)
    index = np.arange(len(codes))
    run_start = np.maximum.accumulate(np.where(is_letter, 0, index + 1))
    odd: Bools = is_letter[positions] & ((positions - run_start[positions]) % 2 == 1)
    return odd
