"""What a source of documents gives: a document, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphmill.engine.decode_text import clean, clean_line, is_blank
from graphmill.engine.ids import content_id

Reason = Literal[
    "empty",  # no text but white space
    "too large",  # over the limit, which the detail names
    "unreadable",  # the file system or the decompressor refused
    "binary",  # no text
    "unsupported",  # a kind of file that is not read
    "broken file",  # a file of records that can't be read, or not to its end
    "bad record",  # one record that is not what its file's others are
    "no text column",  # a file of records without a column of text
    "duplicate",  # same path and text as a document before
    "link",  # a linked folder that is read elsewhere, or leads back to itself
]


@dataclass(frozen=True, slots=True)
class Document:
    """A text and where it is from. The path is relative to the corpus, with forward slashes: ``notes/a.md``, or
    ``papers.jsonl#17`` for a record."""

    path: str
    text: str
    title: str = ""

    @property
    def document_id(self) -> str:
        return content_id(self.path, self.text)


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was left out, and why."""

    path: str
    reason: Reason
    detail: str = ""


def document_or_skipped(path: str, text: str, title: str, max_document_bytes: int) -> Document | Skipped:
    """The document, cleaned, unless its text is empty or too large."""
    if len(text) > max_document_bytes // 4 and (size := len(text.encode("utf-8", "replace"))) > max_document_bytes:
        return too_large(path, size, max_document_bytes)
    text = clean(text)
    if is_blank(text):
        return Skipped(path, "empty")
    return Document(path, text, clean_line(title))


def too_large(path: str, size: int | None, max_document_bytes: int) -> Skipped:
    found = "got more" if size is None else f"got {size}"
    return Skipped(path, "too large", f"max_document_bytes is {max_document_bytes}, {found}")
