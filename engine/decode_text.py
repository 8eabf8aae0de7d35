"""Bytes of unknown encoding to clean text."""

from __future__ import annotations

import codecs
import re

SAMPLE_BYTES = 16 * 1024
"""What a guess of the encoding looks at: its cost doesn't grow with the file."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (b"%PDF-", b"PK\x03\x04", b"\x7fELF", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
# Only these are guessed: the rarer ones win by chance on short texts.
_GUESSES = [
    "gb18030", "big5", "cp932", "euc_jp", "cp949", "cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "cp1254", "cp1255",
    "cp1256", "iso8859_2",
]  # fmt: skip
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_OTHER_BREAKS = re.compile("[\x0b\x0c\x85]")
_SUSPECTS = bytes([*range(9), *range(11, 13), *range(14, 32), 127, 0xC2])
_BLANK = " \t\r\n\x0b\x0c\u00a0\u00ad\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060\u3000\ufeff\ufffd"


class NotTextError(ValueError):
    """The bytes are no text."""


def decode(data: bytes) -> str:
    """Text of a whole file; raises NotTextError. UTF-8 costs one decoding, any other encoding a bounded look besides.

    Order: byte order mark, UTF-8, UTF-16 and UTF-32 without a mark, UTF-8 with stray Windows-1252 bytes, a guess.
    """
    encoding, skip = _marked(data)
    if encoding is not None:
        return data[skip:].decode(encoding, "replace")
    if data.startswith(_MAGIC):
        raise NotTextError("starts like a binary format")
    if b"\0" not in data[: 64 * 1024]:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return data.decode(_without_mark(data), "strays")
        if _is_mostly_controls(data[:SAMPLE_BYTES]):
            raise NotTextError("mostly control characters")
        return text
    return data.decode(_without_mark(data), "replace")


def detect_encoding(head: bytes) -> tuple[str, int]:
    """Encoding of a file from its first bytes, and the length of its byte order mark; raises NotTextError.

    For files that are read as a stream; decode with ``errors="strays"``.
    """
    encoding, skip = _marked(head)
    if encoding is not None:
        return encoding, skip
    if head.startswith(_MAGIC):
        raise NotTextError("starts like a binary format")
    return _without_mark(head), 0


def clean(text: str) -> str:
    """Takes out control characters (tab, CR and LF stay) and mends surrogates; line breaks stay as they are written.

    Vertical tab, form feed and NEL become LF, since a word may end there. Surrogate pairs are joined, lone ones become
    U+FFFD. A byte order mark at the start goes.
    """
    try:
        encoded = text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        encoded = text.encode("utf-8")
    # Looking for what may be wrong in the bytes is 40 times faster than a regular expression over the text.
    if len(encoded.translate(None, _SUSPECTS)) < len(encoded) or b"\xef\xbf" in encoded:
        text = _CONTROLS.sub("", _OTHER_BREAKS.sub("\n", text))
    return text.removeprefix("\ufeff")


def clean_line(text: str) -> str:
    """A name, title or path: cleaned, on one line."""
    return " ".join(clean(text).split())


def is_blank(text: str) -> bool:
    """No character to read: white space, zero-width and replacement characters only."""
    return not text.strip(_BLANK).strip()


def _strays(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are wrong in UTF-8 are read as Windows-1252, and in any other encoding replaced."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    if error.encoding.replace("_", "-").lower() not in ("utf-8", "utf8"):
        return "\ufffd", error.end
    return wrong.decode("cp1252", "replace"), error.end


codecs.register_error("strays", _strays)


def _marked(data: bytes) -> tuple[str | None, int]:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return encoding, len(mark)
    return None, 0


def _without_mark(data: bytes) -> str:
    head = data[: 4 * SAMPLE_BYTES]
    if b"\0" in head:
        return _wide(head)
    if _is_mostly_controls(head):
        raise NotTextError("mostly control characters")
    # An ASCII start says nothing of the rest, so the first lines that aren't ASCII are looked at.
    sample = _lines_with_high_bytes(data)
    return "utf-8" if _is_utf8(head) and _is_utf8(sample) else _guess(sample)


def _wide(head: bytes) -> str:
    """UTF-16 or UTF-32 without a mark, by where the zero bytes stand."""
    head = head[: len(head) // 4 * 4] or head
    zeros = [head[i::4].count(0) for i in range(4)]
    quarter = max(1, len(head) // 4)
    if zeros[2] == zeros[3] == quarter and zeros[0] < quarter // 2:
        return "utf-32-le"
    if zeros[0] == zeros[1] == quarter and zeros[3] < quarter // 2:
        return "utf-32-be"
    even, odd = zeros[0] + zeros[2], zeros[1] + zeros[3]
    for encoding, here, there in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        # Text has ASCII in it, if only line breaks: their upper bytes are zero; a lower byte seldom is.
        if there * 4 <= here and _reads_as(head, encoding):
            return encoding
    if sum(zeros) * 50 <= len(head) and _is_utf8(head) and not _is_mostly_controls(head.replace(b"\0", b"")):
        return "utf-8"
    raise NotTextError("NUL bytes")


def _reads_as(head: bytes, encoding: str) -> bool:
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head)
    odd = sum(1 for char in text if not (char.isprintable() or char.isspace()) or char == "\ufffd")
    return odd * 50 <= len(text)


def _is_utf8(sample: bytes) -> bool:
    """At most one byte in eight of those above ASCII is wrong. Text in another encoding hardly ever is valid UTF-8."""
    wrong = len(sample) - len(sample.decode("utf-8", "ignore").encode("utf-8"))
    high = len(sample) - len(sample.translate(None, bytes(range(128, 256))))
    return wrong * 8 <= high


def _is_mostly_controls(head: bytes) -> bool:
    controls = len(head) - len(head.translate(None, bytes([*range(9), *range(14, 27), *range(28, 32), 127])))
    return controls * 25 > len(head)


def _lines_with_high_bytes(data: bytes) -> bytes:
    """Up to SAMPLE_BYTES of the lines that aren't ASCII. No encoding guessed has a line feed inside a character."""
    first = re.search(rb"[\x80-\xff]", data)
    if first is None:
        return data[:SAMPLE_BYTES]
    kept: list[bytes] = []
    size = 0
    start = data.rfind(b"\n", 0, first.start()) + 1
    for line in data[start : start + 16 * SAMPLE_BYTES].splitlines(keepends=True):
        if not line.isascii():
            kept.append(line[: SAMPLE_BYTES - size])
            size += len(kept[-1])
            if size >= SAMPLE_BYTES:
                break
    return b"".join(kept)


def _guess(sample: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=_GUESSES, enable_fallback=False).best()
    return "cp1252" if best is None else best.encoding
