"""Texts with the places of their tokens, found in one pass, and exact counts of any stretch without a second one."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from graphmill.engine.cuts import Ints
from graphmill.engine.models import Tokenizer

Span = tuple[int, int]

CALL_CHARS = 2 << 20
"""Text that goes to the tokenizer in one call: a tokenizer may take some 200 bytes a character until it returns."""
UNIT_CHARS = 16 << 10
"""A longer text is tokenized in parts of about this size: in parallel, and in memory that does not grow with it."""
_WINDOW, _SYNC = 256, 16
# Cut before or after a space, the rest may cost a token more: "ran" is not " ran", and some put a space before a text.
_PROBE = "The old mill ran on the river"
_PROBE_CUTS = (len("The old mill"), len("The old mill "))
_PROBE_TAILS = [_PROBE[cut:] for cut in _PROBE_CUTS]


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text, the starts of its tokens (int64, ascending), and the seams of the units that were tokenized apart."""

    text: str
    starts: Ints
    seams: list[int]

    def starts_in(self, start: int, end: int) -> Ints:
        return self.starts[np.searchsorted(self.starts, start) : np.searchsorted(self.starts, end)]


def tokenize(texts: Sequence[str], tokenizer: Tokenizer, *, cuts_tokens: bool) -> tuple[list[TokenizedText], int]:
    """The texts' tokens, and how many more a text costs for starting in the middle of another (mostly 0).

    cuts_tokens  whether texts will also be cut where no token starts
    """
    seams = [_seams(text) for text in texts]
    units = [text[a:b] for text, at in zip(texts, seams, strict=True) for a, b in between(at, len(text))]
    *found, whole, with_space, without = _token_starts(tokenizer, [*units, _PROBE, *_PROBE_TAILS])
    unit = iter(found)
    tokenized = []
    for text, at in zip(texts, seams, strict=True):
        parts = [next(unit) + start for start, _ in between(at, len(text))]
        tokenized.append(TokenizedText(text, np.concatenate(parts), at))
    tails = zip(_PROBE_CUTS, (with_space, without), strict=True)
    slack = [len(tail) - int((whole >= cut).sum()) for cut, tail in tails if cuts_tokens or cut in whole]
    return tokenized, max([0, *slack])


def count_spans(chunks: Sequence[tuple[TokenizedText, Span]], tokenizer: Tokenizer) -> list[int]:
    """Tokens of each stretch as a text of its own, without a second pass over text whose tokens are known already.

    Cutting a stretch out of its text, or a text into units, changes tokens near the cuts only. So a window round each
    cut is tokenized by itself, up to a space between words on the inner side: where its tokens fall in with the
    text's again before that space, the stretch has the text's tokens with the window's in their place. Where they
    don't, or there is no such space near, the whole stretch is counted.
    """
    counts = [len(item.starts_in(*span)) for item, span in chunks]
    places: list[tuple[int, _Window]] = []
    whole: set[int] = set()
    for number, (item, span) in enumerate(chunks):
        windows = _windows(item, span)
        if windows is None:
            whole.add(number)
        else:
            places += [(number, window) for window in windows]
    found = _token_starts(tokenizer, [chunks[n][0].text[w.start : w.end] for n, w in places])
    for (number, window), starts in zip(places, found, strict=True):
        known = chunks[number][0].starts_in(window.start, window.end)
        alone = starts + window.start
        if window.agrees(known, alone):
            counts[number] += len(alone) - len(known)
        else:
            whole.add(number)
    again = sorted(whole)
    for number, count in zip(again, _token_counts(tokenizer, [_text(chunks[n]) for n in again]), strict=True):
        counts[number] = count
    return counts


def _text(chunk: tuple[TokenizedText, Span]) -> str:
    item, (start, end) = chunk
    return item.text[start:end]


@dataclass(frozen=True, slots=True)
class _Window:
    """A stretch round a cut; ``open_left`` and ``open_right`` where the chunk goes on."""

    start: int
    end: int
    open_left: bool
    open_right: bool

    def agrees(self, known: Ints, alone: Ints) -> bool:
        """Whether the token starts are the same over the SYNC characters at each open side."""
        low, high = self.start + _SYNC, self.end - _SYNC
        left = not self.open_left or _equal(known[known < low], alone[alone < low])
        return left and (not self.open_right or _equal(known[known >= high], alone[alone >= high]))


def _equal(known: Ints, alone: Ints) -> bool:
    return len(known) > 0 and np.array_equal(known, alone)


def _windows(item: TokenizedText, span: Span) -> list[_Window] | None:
    """Windows round the cuts that made a chunk; none for a text that was tokenized just so, None if one has no end."""
    start, end = span
    seams = item.seams[bisect_right(item.seams, start) : bisect_left(item.seams, end)]
    cuts = [cut for cut in (start, *seams, end) if 0 < cut < len(item.text)]
    if cuts and end - start < 4 * _WINDOW:
        return None
    found: list[Span] = []
    for cut in cuts:
        low = start if cut - start <= _WINDOW else _last_gap(item.text, cut - _WINDOW, cut - 2 * _SYNC)
        gap = _WORD_GAP.search(item.text, cut + 2 * _SYNC, cut + _WINDOW)
        high = end if end - cut <= _WINDOW else gap.start() if gap is not None else None
        if low is None or high is None:
            return None
        if found and low < found[-1][1]:  # two cuts near each other share a window, or their change would count twice
            low = found.pop()[0]
        found.append((low, high))
    return [_Window(low, high, low > start, high < end) for low, high in found]


def _token_starts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Ints]:
    """Character starts of each text's tokens, int64, ascending."""
    found: list[Ints] = []
    for group in _calls(texts):
        found += [np.maximum.accumulate(spans[:, 0].astype(np.int64)) for spans in tokenizer.spans(group)]
    return found


def _token_counts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    return [int(count) for group in _calls(texts) for count in tokenizer.count(group)]


def _calls(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in groups for one call each."""
    start = size = 0
    for i, text in enumerate(texts):
        if size and size + len(text) > CALL_CHARS:
            yield texts[start:i]
            start, size = i, 0
        size += len(text)
    if start < len(texts):
        yield texts[start:]


def between(cuts: Sequence[int], length: int) -> list[Span]:
    """The stretches that ``length`` characters fall into at the cuts, ascending and inside."""
    return list(zip([0, *cuts], [*cuts, length], strict=True))


_LINE_START = re.compile(r"\n(?=\S)")
_WORD_GAP = re.compile(r"(?<=\w)(?=[ 、。，．！？；：]\w)")


def _seams(text: str) -> list[int]:
    """Where a text longer than a unit is cut to be tokenized: at a line's start, else a space, else anywhere."""
    seams: list[int] = []
    at = 0
    while len(text) - at > UNIT_CHARS:
        low, high = at + UNIT_CHARS // 2, at + UNIT_CHARS
        lines = [match.end() for match in _LINE_START.finditer(text, low, high)]
        at = lines[-1] if lines else _last_gap(text, low, high) or high
        seams.append(at)
    return seams


def _last_gap(text: str, low: int, high: int) -> int | None:
    """Place of the last single space between two words, or of the last Chinese punctuation mark between two."""
    gaps = [match.start() for match in _WORD_GAP.finditer(text, low, high)]
    return gaps[-1] if gaps else None
