"""Files of records: JSON lines, CSV and TSV, Parquet. One document a record, in bounded memory.

A record that can't be read is skipped and the rest go on; a file whose first records are all unreadable is given up as
one, so that a wrong file is one line of the skipped table and not a million.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from graphmill.engine.decode_text import NotTextError, clean_line, decode, detect_encoding
from graphmill.engine.source import Document, Skipped, document_or_skipped, too_large

TEXT_COLUMNS = (
    "text", "content", "body", "document", "page_content", "contents", "article", "passage", "raw_content", "markdown",
    "abstract", "description",
)  # fmt: skip
ID_COLUMNS = ("id", "_id", "doc_id", "document_id", "docid", "uuid")
TITLE_COLUMNS = ("title", "headline", "subject")
"""Looked for in this order, in any case, where no column is named."""

GIVE_UP_AFTER = 100
"""Records without a text at the start of a file after which the file is given up."""

_HEAD_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns hold what; None looks among the usual names."""

    text: str | None = None
    id: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class _Failure:
    """What is wrong with a record, or with all of the file from there on (``fatal``)."""

    skipped: Skipped
    fatal: bool = False


_Row = tuple[int, Mapping[str, Any]]


def read_jsonl(path: str, stream: BinaryIO, columns: Columns, max_document_bytes: int) -> Iterator[Document | Skipped]:
    """JSON lines. Numbered by line from 1; blank lines are passed over."""
    return _documents(path, _jsonl_rows(path, stream, max_document_bytes), columns, max_document_bytes)


def read_csv(
    path: str, stream: BinaryIO, delimiter: str | None, columns: Columns, max_document_bytes: int
) -> Iterator[Document | Skipped]:
    """CSV with a header. Numbered by record from 1. Without a delimiter: that of , ; tab | with the most columns."""
    return _documents(
        path, _csv_rows(path, stream, delimiter, columns, max_document_bytes), columns, max_document_bytes
    )


def read_parquet(path: str, file: Path, columns: Columns, max_document_bytes: int) -> Iterator[Document | Skipped]:
    """Parquet, a few rows at a time. Numbered by row from 1."""
    return _documents(path, _parquet_rows(path, file, columns), columns, max_document_bytes)


def _documents(
    path: str, rows: Iterator[_Row | _Failure], columns: Columns, max_document_bytes: int
) -> Iterator[Document | Skipped]:
    """Rows -> documents, less those whose path and text were there before."""
    held: list[Skipped] = []
    started = False
    seen: set[bytes] = set()
    for row in rows:
        if isinstance(row, _Failure):
            item: Document | Skipped = row.skipped
            if row.fatal:
                yield from held
                yield item
                return
        else:
            item = _document(path, *row, columns, max_document_bytes)
        if isinstance(item, Document):
            key = bytes.fromhex(item.document_id)
            if key in seen:
                item = Skipped(item.path, "duplicate")
            seen.add(key)
        elif not started and item.reason in ("bad record", "no text column"):
            held.append(item)
            if len(held) == GIVE_UP_AFTER:
                break
            continue
        yield from held
        held, started = [], True
        yield item
    if len(held) == GIVE_UP_AFTER or (held and all(item.reason == "no text column" for item in held)):
        reason = held[0].reason if all(item.reason == held[0].reason for item in held) else "broken file"
        yield Skipped(path, reason, f"none of the first {len(held)} records has a text: {held[0].detail}")
    else:
        yield from held


def _document(
    path: str, number: int, row: Mapping[str, Any], columns: Columns, max_document_bytes: int
) -> Document | Skipped:
    text_column, id_column, title_column = _roles(columns, tuple(row))
    record_id = _name(row.get(id_column)) if id_column is not None else ""
    path = f"{path}#{record_id or number}"
    if text_column is None:
        return Skipped(path, "no text column", _no_text_column(columns, row))
    text = row[text_column]
    if isinstance(text, bytes):
        try:
            text = decode(text)
        except NotTextError as error:
            return Skipped(path, "binary", str(error))
    if text is None:
        return Skipped(path, "empty")
    if not isinstance(text, str):
        return Skipped(path, "bad record", f"{text_column} must be a string, got {type(text).__name__}")
    title = _name(row.get(title_column)) if title_column is not None else ""
    return document_or_skipped(path, text, title, max_document_bytes)


@lru_cache(maxsize=64)
def _roles(columns: Columns, names: tuple[str, ...]) -> tuple[str | None, str | None, str | None]:
    return (
        _find(columns.text, TEXT_COLUMNS, names),
        _find(columns.id, ID_COLUMNS, names),
        _find(columns.title, TITLE_COLUMNS, names),
    )


def _find(wanted: str | None, usual: Sequence[str], names: Sequence[str]) -> str | None:
    if wanted is not None:
        return wanted if wanted in names else None
    lower = {name.strip().lower(): name for name in reversed(names)}
    return next((lower[name] for name in usual if name in lower), None)


def _no_text_column(columns: Columns, names: Iterable[str]) -> str:
    wanted = repr(columns.text) if columns.text is not None else f"of text (one of {', '.join(TEXT_COLUMNS)})"
    return f"no column {wanted}; the columns are {', '.join(map(str, names)) or 'none'}"


def _name(value: Any) -> str:
    return clean_line(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _open_text(stream: BinaryIO) -> io.TextIOWrapper:
    """The stream from its start as text, its line breaks as they are; raises NotTextError."""
    encoding, mark = detect_encoding(stream.read(_HEAD_BYTES))
    stream.seek(mark)
    return io.TextIOWrapper(stream, encoding=encoding, errors="strays", newline="")


def _max_line(max_document_bytes: int) -> int:
    """Longest line that can hold a record, in characters: JSON may write a character as six, and has other fields."""
    return 6 * max_document_bytes + (1 << 20)


def _jsonl_rows(path: str, stream: BinaryIO, max_document_bytes: int) -> Iterator[_Row | _Failure]:
    try:
        lines = _open_text(stream)
    except NotTextError as error:
        yield _Failure(Skipped(path, "binary", str(error)), fatal=True)
        return
    limit = _max_line(max_document_bytes)
    number = 0
    while line := lines.readline(limit):
        number += 1
        if len(line) >= limit and line[-1] not in "\r\n":
            while line and line[-1] not in "\r\n":
                line = lines.readline(limit)
            yield _Failure(too_large(f"{path}#{number}", None, max_document_bytes))
            continue
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield _Failure(Skipped(f"{path}#{number}", "bad record", f"not JSON: {error}"))
            continue
        if isinstance(record, dict):
            yield number, record
        else:
            detail = f"a record must be a JSON object, got {type(record).__name__}"
            yield _Failure(Skipped(f"{path}#{number}", "bad record", detail))


def _csv_rows(
    path: str, stream: BinaryIO, delimiter: str | None, columns: Columns, max_document_bytes: int
) -> Iterator[_Row | _Failure]:
    number = 0
    try:
        lines = _csv_lines(_open_text(stream), _max_line(max_document_bytes))
        first = next(lines, "")
        # The limit is the process's, and is read while rows are read: it can only be raised, not set for one file.
        csv.field_size_limit(max(csv.field_size_limit(), min(_max_line(max_document_bytes), 2**31 - 1)))
        records = csv.reader(chain([first], lines), delimiter=delimiter or _delimiter(first, columns))
        header = [clean_line(name) for name in next(records, [])]
        if _find(columns.text, TEXT_COLUMNS, header) is None:
            if header:
                yield _Failure(Skipped(path, "no text column", _no_text_column(columns, header)), fatal=True)
            else:
                yield _Failure(Skipped(path, "empty"), fatal=True)
            return
        for record in records:
            if not record:
                continue
            number += 1
            if len(record) < len(header) or any(record[len(header) :]):
                detail = f"{len(record)} fields where the header has {len(header)}"
                yield _Failure(Skipped(f"{path}#{number}", "bad record", detail))
            else:
                yield number, dict(zip(header, record, strict=False))
    except NotTextError as error:
        yield _Failure(Skipped(path, "binary", str(error)), fatal=True)
    except csv.Error as error:
        yield _Failure(Skipped(path, "broken file", f"after record {number}: {error}"), fatal=True)


def _csv_lines(lines: io.TextIOWrapper, limit: int) -> Iterator[str]:
    while line := lines.readline(limit):
        if len(line) >= limit:
            raise csv.Error(f"line of more than {limit} characters")
        yield line.replace("\0", "")


def _delimiter(header: str, columns: Columns) -> str:
    fields = {mark: next(csv.reader([header], delimiter=mark), []) for mark in ",;\t|"}
    return max(fields, key=lambda mark: (columns.text in fields[mark], len(fields[mark])))


def _parquet_rows(path: str, file: Path, columns: Columns) -> Iterator[_Row | _Failure]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20) as parquet:
            schema = parquet.schema_arrow
            roles = _roles(columns, tuple(schema.names))
            if roles[0] is None or not _is_text(schema.field(roles[0]).type):
                detail = (
                    f"{roles[0]} is {schema.field(roles[0]).type}"
                    if roles[0]
                    else _no_text_column(columns, schema.names)
                )
                yield _Failure(Skipped(path, "no text column", detail), fatal=True)
                return
            names = [name for name in roles if name is not None]
            for batch in parquet.iter_batches(_rows_per_batch(parquet.metadata), columns=names):
                values = [_values(batch.column(name)) for name in names]
                for row in zip(*values, strict=True):
                    number += 1
                    yield number, dict(zip(names, row, strict=True))
    except (pa.ArrowException, OSError) as error:
        yield _Failure(Skipped(path, "broken file", f"after record {number}: {_first_line(error)}"), fatal=True)


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    checks = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary)
    return any(check(kind) for check in checks)


def _rows_per_batch(metadata: Any) -> int:
    """Rows of some 16 MiB, by the largest row group's mean."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    row_bytes = max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=1.0)
    return max(1, min(1024, int((16 << 20) / max(1.0, row_bytes))))


def _values(column: Any) -> list[Any]:
    import pyarrow as pa

    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:  # a writer that did not check: the bytes are read like any file's
        values = column.cast(pa.large_binary()).to_pylist()
    except (ValueError, OverflowError):  # a date that Python has no value for
        values = column.cast(pa.string()).to_pylist()
    return values


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
