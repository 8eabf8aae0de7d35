"""Where a text's tokens are, from the strings that a vocabulary has for them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.tokenizers import byte_spans

Ints = NDArray[np.int64]
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_WORD_MARK = "\u2581"  # sentencepiece's space
ANCHOR_CHARS = 3
"""A token this long, found a little further on, tells where the text goes on after tokens that were not found."""


def spans_from_strings(text: str, strings: Sequence[str]) -> Ints:
    """Character spans [start, end) of the tokens, int64 [len(strings), 2], starts ascending.

    Strings of byte-level vocabularies ("Ġthe"), of sentencepiece ("▁the", "<0xE4>") and plain ones give exact spans
    where they spell the text out. Where they don't (a text that was normalised, unknown tokens), those that are found
    are placed, and the others are spread evenly between them.
    """
    whole = text.encode("utf-8", "replace")
    text = whole.decode("utf-8")
    for read in (_byte_level, _sentencepiece, _plain):
        pieces = [read(string) for string in strings]
        joined = b"".join(pieces)
        if joined == b" " + whole and pieces[0].startswith(b" "):  # sentencepiece puts a space before the text
            pieces[0], joined = pieces[0][1:], whole
        if joined == whole:
            return byte_spans(text, np.array([len(piece) for piece in pieces], np.int64))
    return _align(text, [_surface(string, strings) for string in strings])


def spread(start: int, end: int, num_tokens: int) -> Ints:
    """Spans of tokens that share [start, end) evenly; one that holds part of a character spans the whole of it."""
    edges = np.arange(num_tokens + 1, dtype=np.int64) * (end - start)
    first = start + edges[:-1] // max(num_tokens, 1)
    last = start - (-edges[1:] // max(num_tokens, 1))
    return np.stack([first, np.minimum(np.maximum(last, first + 1), end)], axis=1)


def _align(text: str, surfaces: Sequence[str]) -> Ints:
    """Places each surface at or a little after the end of the last; what is not found is spread over the gaps."""
    folded = text.lower()
    if len(folded) != len(text):
        folded = text
    spans = np.zeros((len(surfaces), 2), np.int64)
    position, first_lost = 0, 0
    for number, surface in enumerate(surfaces):
        core = surface.strip().lower()
        if not core:
            continue
        reach = 64 + 16 * (number - first_lost)
        found = folded.find(core, position, position + len(core) + reach)
        if found < 0 or (len(core) < ANCHOR_CHARS and text[position:found].strip()):
            continue
        if number > first_lost:
            spans[first_lost:number] = spread(position, found, number - first_lost)
        position = found + len(core)
        spans[number] = found, position
        first_lost = number + 1
    spans[first_lost:] = spread(position, len(text), len(surfaces) - first_lost)
    return spans


def _surface(string: str, strings: Sequence[str]) -> str:
    if any("\u0120" in other for other in strings):
        return _byte_level(string).decode("utf-8", "ignore")
    if _WORD_MARK in string or _BYTE_TOKEN.fullmatch(string):
        return _sentencepiece(string).decode("utf-8", "ignore")
    return string.removeprefix("##")


def _byte_level(string: str) -> bytes:
    octets = [_BYTE_OF.get(character) for character in string]
    return (
        string.encode("utf-8", "replace") if None in octets else bytes(octet for octet in octets if octet is not None)
    )


def _sentencepiece(string: str) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(string)
    return bytes([int(byte[1], 16)]) if byte else string.replace(_WORD_MARK, " ").encode("utf-8", "replace")


def _plain(string: str) -> bytes:
    return string.encode("utf-8", "replace")


def _byte_alphabet() -> dict[str, int]:
    """Byte-level vocabularies write visible Latin-1 characters as they are, and the other bytes from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(0x100) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + n): byte for n, byte in enumerate(hidden)}


_BYTE_OF = _byte_alphabet()
