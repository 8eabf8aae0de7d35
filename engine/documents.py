"""Documents: from files or from Python values to the two tables, documents and skipped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from graphmill.engine.decode_text import NotTextError, clean, clean_line, decode
from graphmill.engine.ids import content_id
from graphmill.engine.language import detect_language
from graphmill.engine.read_files import MAX_DOCUMENT_BYTES, corpus_fingerprint, read_corpus
from graphmill.engine.source import Document, Reason, Skipped, document_or_skipped

__all__ = [
    "DOCUMENTS", "SKIPPED", "Document", "Reason", "Skipped", "corpus_fingerprint", "created_at", "document_batches",
    "from_iterable", "read_corpus",
]  # fmt: skip

DOCUMENTS = pa.schema(
    [
        ("document_id", pa.string()),
        ("path", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("language", pa.string()),
        ("created_at", pa.timestamp("s", tz="UTC")),
    ]
)
SKIPPED = pa.schema([("path", pa.string()), ("reason", pa.string()), ("detail", pa.string())])

MAX_EPOCH = 253402300799
"""The last second of the year 9999, past which Python has no date."""


def from_iterable(
    documents: Iterable[Any], *, max_document_bytes: int = MAX_DOCUMENT_BYTES
) -> Iterator[Document | Skipped]:
    """Documents from Python values: texts, (path, text) pairs, mappings, or Documents.

    A mapping has ``text`` (or ``content``) and may have ``path`` (or ``id``) and ``title``. A text without a path gets
    ``text-`` and the start of its hash. The same path with the same text is skipped as a duplicate; the same path with
    another text is another document. Anything else is skipped as a bad record.
    """
    seen: set[bytes] = set()
    for number, value in enumerate(documents, 1):
        item = _from_value(value, number, max_document_bytes)
        if isinstance(item, Document):
            key = bytes.fromhex(item.document_id)
            if key in seen:
                item = Skipped(item.path, "duplicate")
            seen.add(key)
        yield item


def document_batches(
    items: Iterable[Document | Skipped],
    now: datetime,
    known: Mapping[str, datetime] | None = None,
    max_bytes: int = 32 << 20,
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Items -> pairs of DOCUMENTS and SKIPPED, of at most ``max_bytes`` of text or one document; at least one pair.

    ``created_at`` is the time a document was first ingested: that in ``known`` (by document id), else
    SOURCE_DATE_EPOCH, else ``now``.
    """
    created = created_at(now)
    known = known or {}
    rows: list[tuple[Any, ...]] = []
    skipped: list[tuple[str, str, str]] = []
    size = 0
    yielded = False
    for item in items:
        added = len(item.text.encode("utf-8")) if isinstance(item, Document) else len(item.path) + len(item.detail) + 64
        if size and size + added > max_bytes:
            yield _table(rows, DOCUMENTS), _table(skipped, SKIPPED)
            rows, skipped, size, yielded = [], [], 0, True
        size += added
        if isinstance(item, Document):
            document_id = item.document_id
            first = known.get(document_id, created)
            rows.append((document_id, item.path, item.title, item.text, detect_language(item.text), first))
        else:
            skipped.append((item.path, item.reason, item.detail))
    if size or not yielded:
        yield _table(rows, DOCUMENTS), _table(skipped, SKIPPED)


def created_at(now: datetime) -> datetime:
    """SOURCE_DATE_EPOCH where it is set, else ``now`` to the second; raises ValueError for one that is no time."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "").strip()
    if not epoch:
        return (now if now.tzinfo else now.replace(tzinfo=UTC)).astimezone(UTC).replace(microsecond=0)
    if not (epoch.isascii() and epoch.isdigit()) or int(epoch) > MAX_EPOCH:
        raise ValueError(f"SOURCE_DATE_EPOCH must be whole seconds in [0, {MAX_EPOCH}], got {epoch!r}")
    return datetime.fromtimestamp(int(epoch), UTC)


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _from_value(value: Any, number: int, max_document_bytes: int) -> Document | Skipped:
    if isinstance(value, Skipped):
        return value
    if isinstance(value, Document):
        path, text, title = value.path, value.text, value.title
    elif isinstance(value, Mapping):
        path = value.get("path", value.get("id"))
        text, title = value.get("text", value.get("content")), value.get("title") or ""
    elif isinstance(value, tuple | list) and len(value) == 2:
        (path, text), title = value, ""
    else:
        path, text, title = None, value, ""
    return _checked(path, text, title, number, max_document_bytes)


def _checked(path: Any, text: Any, title: Any, number: int, max_document_bytes: int) -> Document | Skipped:
    name = "" if path is None else clean_line(str(path)).replace("\\", "/")
    if isinstance(text, bytes):
        try:
            text = decode(text)
        except NotTextError as error:
            return Skipped(name or f"item-{number}", "binary", str(error))
    if not isinstance(text, str):
        wanted = "a text, a (path, text) pair, a mapping with a text, or a Document"
        return Skipped(name or f"item-{number}", "bad record", f"expected {wanted}, got {type(text).__name__}")
    if not name and text.strip():
        name = f"text-{content_id(clean(text))[:16]}"
    return document_or_skipped(name or f"item-{number}", text, str(title), max_document_bytes)
