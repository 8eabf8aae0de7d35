"""A file or a folder as a stream of documents, in the order of their paths."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from graphmill.engine.decode_text import NotTextError, clean_line, decode
from graphmill.engine.ids import content_id
from graphmill.engine.read_records import Columns, read_csv, read_jsonl, read_parquet
from graphmill.engine.source import Document, Skipped, document_or_skipped, too_large

MAX_DOCUMENT_BYTES = 256 << 20

TEXT_SUFFIXES = frozenset(["txt", "text", "md", "markdown", "rst", "debian"])
"""Read as text; "debian" for README.Debian and its like. So are names without a suffix, where they hold text."""


def read_corpus(
    path: Path,
    *,
    text_column: str | None = None,
    id_column: str | None = None,
    title_column: str | None = None,
    max_document_bytes: int = MAX_DOCUMENT_BYTES,
    exclude: Collection[Path] = (),
) -> Iterator[Document | Skipped]:
    """Every document of a file or folder, and every file or record that gives none, with the reason.

    Text (txt, md, rst, names without a suffix), jsonl, csv, tsv and parquet, all but parquet also with ``.gz``.
    Whatever can't be read is a Skipped, never an exception, except that ``path`` itself must exist
    (FileNotFoundError). Passed over in silence: hidden files and folders, ``exclude`` and any graphmill index.

    A text keeps its line breaks as they are (spans refer to it); see ``decode_text.clean`` for what is taken out.
    """
    if not path.exists():
        raise FileNotFoundError(f"no file or folder {path}")
    return _read_all(path, Columns(text_column, id_column, title_column), max_document_bytes, exclude)


def _read_all(
    path: Path, columns: Columns, max_document_bytes: int, exclude: Collection[Path]
) -> Iterator[Document | Skipped]:
    for entry in _walk(path, exclude):
        if isinstance(entry, Skipped):
            yield entry
            continue
        try:
            yield from _read_file(entry, columns, max_document_bytes)
        except (OSError, EOFError, zlib.error) as error:
            yield Skipped(entry.path, "unreadable", _why(error))


def corpus_fingerprint(path: Path, exclude: Collection[Path] = ()) -> str:
    """Hash of the paths, sizes and modification times of what ``read_corpus`` would read; reads no file."""
    parts: list[str] = []
    for entry in _walk(path, exclude):
        if isinstance(entry, Skipped):
            parts += [entry.path, entry.reason, entry.detail]
        else:
            parts += [entry.path, str(entry.size), str(entry.mtime_ns)]
    return content_id(*parts)


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    file: Path
    size: int
    mtime_ns: int


def _walk(root: Path, exclude: Collection[Path]) -> Iterator[_File | Skipped]:
    """Files below a folder, sorted by path; or the one file."""
    if not root.exists():
        raise FileNotFoundError(f"no file or folder {root}")
    if not root.is_dir():
        yield _entry(_text_of(root.name), root)
        return
    top = root.resolve()
    left_out = {place.resolve() for place in exclude}
    visited: set[tuple[int, int]] = set()
    yield from _walk_folder("", root, top, left_out, visited)


def _walk_folder(
    prefix: str, folder: Path, top: Path, left_out: set[Path], visited: set[tuple[int, int]]
) -> Iterator[_File | Skipped]:
    # A stack, not recursion: a deep folder must not meet Python's limit. Last in, first out, so pushed in reverse.
    stack: list[tuple[str, Path, bool]] = [(prefix, folder, True)]
    while stack:
        path, place, is_folder = stack.pop()
        if not is_folder:
            yield _entry(path, place)
            continue
        try:
            if _is_left_out(place, path, left_out):
                continue
            if place.is_symlink() and path and not _is_apart(place.resolve(), top):
                yield Skipped(path.rstrip("/"), "link", f"leads to {place.resolve()}, which is part of the corpus")
                continue
            found = place.stat()
            if (found.st_dev, found.st_ino) in visited:
                yield Skipped(path.rstrip("/"), "link", "leads to a folder that is read already")
                continue
            visited.add((found.st_dev, found.st_ino))
            with os.scandir(place) as entries:
                inside = [(_text_of(e.name), e.name, _is_folder(e)) for e in entries if not e.name.startswith(".")]
        except OSError as error:
            yield Skipped(path.rstrip("/") or place.name, "unreadable", _why(error))
            continue
        # With the slash a folder's name sorts as its files' paths do.
        named = sorted((path + name + "/" * is_dir, place / raw, is_dir) for name, raw, is_dir in inside)
        stack.extend(reversed(named))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links that lead in a ring; that entry alone is told of, when it is read
        return False


def _is_left_out(place: Path, path: str, left_out: set[Path]) -> bool:
    if left_out and place.resolve() in left_out:
        return True
    return bool(path) and (place / "manifest.json").is_file() and (place / ".lock").is_file()


def _is_apart(target: Path, top: Path) -> bool:
    return not (target.is_relative_to(top) or top.is_relative_to(target))


def _entry(path: str, file: Path) -> _File | Skipped:
    try:
        found = file.stat()
    except OSError as error:
        return Skipped(path, "unreadable", _why(error))
    if not stat.S_ISREG(found.st_mode):
        return Skipped(path, "unsupported", "not a file")
    return _File(path, file, found.st_size, found.st_mtime_ns)


def _read_file(entry: _File, columns: Columns, max_document_bytes: int) -> Iterator[Document | Skipped]:
    name = entry.file.name.lower()
    is_gzip = name.endswith(".gz")
    suffix = _suffix(name.removesuffix(".gz"))
    if suffix == "parquet" and not is_gzip:
        yield from read_parquet(entry.path, entry.file, columns, max_document_bytes)
    elif suffix in ("jsonl", "ndjson", "csv", "tsv"):
        with _open(entry.file, is_gzip) as stream:
            if suffix in ("jsonl", "ndjson"):
                yield from read_jsonl(entry.path, stream, columns, max_document_bytes)
            else:
                delimiter = "\t" if suffix == "tsv" else None
                yield from read_csv(entry.path, stream, delimiter, columns, max_document_bytes)
    elif suffix in TEXT_SUFFIXES or not suffix:
        yield _read_text(entry, is_gzip, max_document_bytes)
    else:
        yield Skipped(entry.path, "unsupported", f".{suffix} files are not read")


def _read_text(entry: _File, is_gzip: bool, max_document_bytes: int) -> Document | Skipped:
    with _open(entry.file, is_gzip) as stream:
        data = stream.read(max_document_bytes + 1)
    if len(data) > max_document_bytes:
        return too_large(entry.path, None if is_gzip else entry.size, max_document_bytes)
    try:
        text = decode(data)
    except NotTextError as error:
        return Skipped(entry.path, "binary", str(error))
    return document_or_skipped(entry.path, text, entry.path.rpartition("/")[2], 4 * max_document_bytes)


def _open(file: Path, is_gzip: bool) -> BinaryIO:
    return cast(BinaryIO, gzip.open(file, "rb")) if is_gzip else file.open("rb")


def _suffix(name: str) -> str:
    """What follows the last dot; nothing where that is no kind of file, as in ``changelog.1`` or ``LICENSE-2.0``."""
    stem, _, suffix = name.rpartition(".")
    return suffix if stem and suffix[:1].isalpha() else ""


def _text_of(name: str) -> str:
    """A file's name as text: bytes that are not UTF-8 are replaced, since Arrow can't hold them."""
    return clean_line(os.fsencode(name).decode("utf-8", "replace"))


def _why(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
