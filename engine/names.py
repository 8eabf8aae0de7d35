"""Spelling of names and texts: what is shown, and the key under which spellings are one thing."""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

_MAX_CACHED_CHARS = 256
"""Longer names are garbage more often than not; they are worked out each time, so that the cache stays small."""

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ESCAPED_AMPERSAND = re.compile(r"&(?:(?:amp|AMP|#0{0,5}38|#[xX]0{0,4}26);)+")

# Characters that show nothing: C0 and C1 controls that aren't white space, soft hyphen, zero-width and bidi marks,
# fillers, byte order mark, non-characters and lone surrogates (UTF-8 and XML refuse the last two).
_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff"
    "]"
    # A joiner means something after an emoji and in Arabic and Indic scripts, and nothing elsewhere.
    "|(?<![\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])[\u200c\u200d]"
)

_DOUBLE_QUOTES = '"“”„‟＂«»〝〞〟″'
_SINGLE_QUOTES = "'‘’‚‛＇`´′"
_CORNER_QUOTES = {"「": "」", "『": "』", "‹": "›", "｢": "｣"}
QUOTE_MARKS = frozenset(_DOUBLE_QUOTES + _SINGLE_QUOTES + "".join([*_CORNER_QUOTES, *_CORNER_QUOTES.values()]) + "*")
"""What may stand at the ends of a text and come off."""
_BRACKETS = {
    "(": ")",
    "[": "]",
    "{": "}",
    "<": ">",
    "〈": "〉",
    "《": "》",
    "「": "」",
    "『": "』",
    "【": "】",
    "〔": "〕",
}


def without_invisible(text: str) -> str:
    """The text without control and zero-width characters; white space, line breaks included, stays as it is."""
    return text if text.replace("\n", "").isprintable() else _INVISIBLE.sub("", text)


def unescape(text: str) -> str:
    """Decodes HTML entities until none is left. Without its semicolon it is none: `?a=1&copy=2` stays as it is."""
    for _ in range(8):
        if "&" not in text or ";" not in text:
            break
        # A chain such as &amp;amp;amp;lt; would take a pass a link: the whole chain goes at once.
        decoded = _ENTITY.sub(lambda found: html.unescape(found[0]), _ESCAPED_AMPERSAND.sub("&", text))
        if decoded == text:
            break
        text = decoded
    return text


def clean_text(text: str) -> str:
    """A description as it is shown: entities decoded, invisible characters and outer quotes removed, on one line."""
    if "&" in text:
        text = unescape(text)
    if not text.isprintable():
        lines = (line.strip() for line in _INVISIBLE.sub("", text).splitlines())
        text = " ".join(line for line in lines if line).replace("\t", " ").replace("\x1f", " ")
    return strip_quotes(text.strip())


def clean_name(text: str) -> str:
    """A name as it is shown: like a description, with its white space folded to single spaces. Spelling stays."""
    return " ".join(clean_text(text).split())


def name_key(name: str) -> str:
    """What equal names have in common: NFKC, casefold, white space folded, quotes or brackets round the whole removed.

    Idempotent. "" for a name of which nothing is left.
    """
    return _cached_key(name) if len(name) <= _MAX_CACHED_CHARS else _make_key(name)


def _make_key(name: str) -> str:
    if name.isascii() and name.isprintable():
        key = " ".join(name.lower().split())
        return key if not key or (key[0].isalnum() and key[-1].isalnum()) else _unwrap(key)
    key = name
    # Casefolding can undo NFKC and the other way round; two rounds suffice for all but a few code points.
    for _ in range(4):
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _INVISIBLE.sub("", key)).casefold())
        folded = _unwrap(" ".join(folded.split()))
        if folded == key:
            break
        key = folded
    return key


_cached_key = lru_cache(maxsize=1 << 16)(_make_key)


def _unwrap(text: str) -> str:
    for _ in range(8):
        inner = strip_brackets(strip_quotes(text))
        if inner == text:
            break
        text = inner
    return text


def strip_brackets(text: str) -> str:
    """The text without a pair of brackets round the whole of it; `(a) and (b)` has none."""
    closer = _BRACKETS.get(text[:1])
    if closer is None or len(text) < 2 or text[-1] != closer:
        return text
    depth = 0
    for found in re.finditer("[" + re.escape(text[0] + closer) + "]", text):
        depth += 1 if found[0] == text[0] else -1
        if depth == 0 and found.end() < len(text):
            return text
    return text[1:-1].strip() if depth == 0 else text


def strip_quotes(text: str) -> str:
    """The text without quotes, backticks or emphasis round the whole of it; `"a" and "b"` keeps all of its quotes."""
    # Bounded, as each round copies the text: no model nests quotes deeper, and a megabyte of quotes must stay cheap.
    for _ in range(6):
        if len(text) < 2 or (text[0] not in QUOTE_MARKS and text[-1] not in QUOTE_MARKS):
            break
        inner = _inside_quotes(text)
        if inner == text:
            break
        text = inner
    return "" if text in ('"', "'", "`", "“", "”") else text


def _inside_quotes(text: str) -> str:
    first, last = text[0], text[-1]
    for marks in (_DOUBLE_QUOTES, _SINGLE_QUOTES):
        if first in marks and last in marks:
            return text if _closes_early(text, marks) else text[1:-1].strip()
    if _CORNER_QUOTES.get(first) == last:
        return text if last in text[1:-1] else text[1:-1].strip()
    for mark in ("**", "*"):
        if text.startswith(mark) and text.endswith(mark) and len(text) > 2 * len(mark):
            inner = text[len(mark) : -len(mark)]
            return text if "*" in inner else inner.strip()
    # A quote that lost its partner. An inch mark (6") and an apostrophe ('tis) have none to lose.
    if first in _DOUBLE_QUOTES:
        rest = text[1:]
    elif last in _DOUBLE_QUOTES and not text[-2].isdigit():
        rest = text[:-1]
    else:
        return text
    return text if any(mark in rest for mark in _DOUBLE_QUOTES) else rest.strip()


def _closes_early(text: str, marks: str) -> bool:
    """True if the quote that opens the text is closed before its end."""
    for found in re.finditer(f"[{marks}]", text[1:-1]):
        before = text[found.start()]
        after = text[found.end() + 1]
        if before.isalnum() and after.isalnum():
            continue  # An apostrophe.
        return not (found.start() == 0 or before.isspace() or before in "([{（【")
    return False
