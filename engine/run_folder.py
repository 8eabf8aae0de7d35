"""The run folder: Parquet tables and one manifest, the only state of an index.

A shard is written under a temporary name, fsynced, renamed, and only then listed in the manifest, which is replaced in
the same way. A crash at any moment leaves the last manifest and every shard it lists; whatever else lies in the
folder is litter that the next writer removes. Readers need no lock: a listed shard never changes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from graphmill.engine.interrupts import interrupts_wait

FORMAT = 2
"""Version of the layout below; a folder of another version is refused."""

MANIFEST = "manifest.json"
ANEW = "index the corpus again into another folder"
ROWS_PER_GROUP = 65_536


class IndexFolderError(Exception):
    """The folder can't be used as an index; the message says why and what to do."""


@dataclass
class Table:
    """A table's entry in the manifest: its shards in order, and what it was made from."""

    fingerprint: str
    finished: bool = False
    shards: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(int(shard["rows"]) for shard in self.shards)

    @property
    def hash(self) -> str:
        """Hash over the shards' content hashes: the same rows in the same shards give the same hash."""
        return blake2b("".join(shard["hash"] for shard in self.shards).encode(), digest_size=16).hexdigest()


class RunFolder:
    """An index on disk. Open it with ``RunFolder.open`` to read and with ``RunFolder.lock`` to write."""

    def __init__(self, root: Path, tables: dict[str, Table], facts: dict[str, Any]) -> None:
        self.root = root
        self.tables = tables
        self.facts = facts
        self.damaged: list[str] = []
        """Shards that were missing or cut off when the folder was locked; their tables are made again."""
        self._held = 0
        self._replaced: list[str] = []

    @staticmethod
    def open(root: Path) -> RunFolder:
        """Opens an existing index for reading; raises IndexFolderError when there is none."""
        if not root.is_dir():
            why = "it is a file, not a folder" if root.is_file() else "there is no such folder"
            raise IndexFolderError(f"no index at {root}: {why}; make one with `graphmill index`")
        tables, facts = _read_manifest(root)
        return RunFolder(root, tables, facts)

    @staticmethod
    @contextlib.contextmanager
    def lock(root: Path) -> Iterator[RunFolder]:
        """Opens an index for writing, making it if need be; one writer at a time."""
        _make_writable(root)
        with (root / ".lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise IndexFolderError(
                    f"another process is writing to the index {root}; wait for it or stop it"
                ) from error
            if (root / MANIFEST).exists():
                tables, facts = _read_manifest(root)
            elif any(p.name not in (".lock", f"{MANIFEST}.part") for p in root.iterdir()):
                raise IndexFolderError(
                    f"{root} is not empty and holds no {MANIFEST}, so it is not an index; name another folder"
                )
            else:
                tables, facts = {}, {}
            folder = RunFolder(root, tables, facts)
            folder._forget_damaged()
            if not tables:
                folder.save()  # so that what is left by a run that is stopped early is known as an index
            folder._remove_litter()
            yield folder

    @property
    def state(self) -> str:
        """Hash over the contents of all tables: what a finished run notes, and a run that was stopped has changed."""
        hashes = "".join(f"{name} {table.hash} " for name, table in sorted(self.tables.items()))
        return blake2b(hashes.encode(), digest_size=16).hexdigest()

    def is_finished(self, name: str, fingerprint: str) -> bool:
        table = self.tables.get(name)
        return table is not None and table.finished and table.fingerprint == fingerprint

    def read(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The whole table, its shards one after another."""
        return pa.concat_tables(list(self.shards(name, columns)))

    def shards(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The table shard by shard, so that it need not fit in memory."""
        if name not in self.tables:
            raise IndexFolderError(f"the index {self.root} has no table {name}: its run did not get that far")
        for shard in self.tables[name].shards:
            path = self.root / shard["file"]
            try:
                yield read_parquet(path, columns)
            except FileNotFoundError as error:
                raise IndexFolderError(
                    f"{path} is missing; run `graphmill index` on the index again, which makes it anew"
                ) from error
            except (OSError, pa.ArrowInvalid) as error:
                raise IndexFolderError(
                    f"can't read {path}: {error}; where the file is broken, remove it and run `graphmill index` on the "
                    "index again, which makes it anew"
                ) from error

    def start(self, name: str, fingerprint: str) -> TableWriter:
        """A writer for a table. Shards that an unfinished run with the same fingerprint left are kept."""
        table = self.tables.get(name)
        if table is None or table.fingerprint != fingerprint:
            table = Table(fingerprint)
        return TableWriter(self, name, Table(fingerprint, False, list(table.shards)))

    def restart(self, name: str, fingerprint: str) -> TableWriter:
        """A writer for a table that is made anew; what is there stays listed until the new one is finished."""
        return TableWriter(self, name, Table(fingerprint), listed=False)

    def write(self, name: str, fingerprint: str, table: pa.Table) -> None:
        """A table that is made whole at once."""
        writer = self.restart(name, fingerprint)
        writer.append(table)
        writer.finish()

    def put_facts(self, facts: Mapping[str, Any]) -> None:
        self.facts.update(facts)
        self.save()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is appended and finished inside is listed in the manifest as one, or not at all.

        An interrupt from the keyboard waits until it is written: what a model has taken an hour for is not to be
        lost to a Ctrl-C in the wrong millisecond.
        """
        with interrupts_wait():
            self._held += 1
            try:
                yield
            finally:
                self._held -= 1
            self.save()

    def save(self) -> None:
        """Replaces the manifest, and removes the shards that it no longer lists."""
        if self._held:
            return
        document = {
            "format": FORMAT,
            "facts": self.facts,
            "tables": {
                name: {"fingerprint": t.fingerprint, "finished": t.finished, "rows": t.rows, "shards": t.shards}
                for name, t in self.tables.items()
            },
        }
        write_bytes(self.root / MANIFEST, json.dumps(document, ensure_ascii=False, indent=1).encode())
        while self._replaced:
            (self.root / self._replaced.pop()).unlink(missing_ok=True)

    def _put(self, name: str, table: Table) -> None:
        """Lists a table in the place of the one of its name, whose shards go once the manifest is written."""
        before = self.tables.get(name)
        if before is not None:
            kept = {shard["file"] for shard in table.shards}
            self._replaced += [shard["file"] for shard in before.shards if shard["file"] not in kept]
        self.tables[name] = table
        self.save()

    def _forget_damaged(self) -> None:
        """Takes tables that miss a part off the list, each with those that the same stage made of the same input."""
        self.damaged = [
            shard["file"]
            for table in self.tables.values()
            for shard in table.shards
            if _num_rows(self.root / shard["file"]) != shard["rows"]
        ]
        broken = {t.fingerprint for t in self.tables.values() if any(s["file"] in self.damaged for s in t.shards)}
        for name in [name for name, table in self.tables.items() if table.fingerprint in broken]:
            del self.tables[name]

    def _remove_litter(self) -> None:
        listed = {shard["file"] for table in self.tables.values() for shard in table.shards}
        for path in self.root.glob("*/*"):
            relative = path.relative_to(self.root).as_posix()
            if path.name.endswith(".part") and path.is_dir():  # a word index that was being built
                shutil.rmtree(path)
            elif path.name.endswith(".part") or (path.suffix == ".parquet" and relative not in listed):
                path.unlink()


class TableWriter:
    """Appends shards to a table; each is safe on disk when ``append`` returns.

    A ``listed`` table is in the manifest shard by shard; one that is not takes the place of what is there when it is
    finished.
    """

    def __init__(self, folder: RunFolder, name: str, table: Table, listed: bool = True) -> None:
        self.folder, self.name, self.table, self.listed = folder, name, table, listed

    def append(self, rows: pa.Table) -> None:
        """Writes one shard."""
        directory = self.folder.root / self.name
        directory.mkdir(exist_ok=True)
        content, content_hash = _encode(rows)
        file = f"{self.name}/{len(self.table.shards):05d}-{content_hash[:16]}.parquet"
        write_bytes(self.folder.root / file, content)
        self.table.shards.append({"file": file, "rows": rows.num_rows, "hash": content_hash})
        if self.listed:
            self.folder._put(self.name, self.table)

    def finish(self) -> None:
        """Marks the table as whole."""
        self.table.finished = True
        self.folder._put(self.name, self.table)


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file as a table; read with one thread a column, which is as fast for shards and kinder to memory."""
    return pq.read_table(path, columns=columns, memory_map=True)


def _num_rows(path: Path) -> int | None:
    """Rows of a shard by its footer, which is its end; None where it is missing or cut off."""
    try:
        rows: int = pq.read_metadata(path).num_rows
    except (OSError, pa.ArrowInvalid):
        return None
    return rows


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Writes a file so that it is there whole, and on disk, or not at all."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _fsync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if error.errno == errno.ENOSPC:
            raise IndexFolderError(
                f"the disk is full: {path} needs {len(content):,} bytes; free some space; the same command then "
                "goes on from here"
            ) from error
        raise IndexFolderError(f"can't write {path}: {error.strerror}") from error


def _encode(rows: pa.Table) -> tuple[memoryview, str]:
    sink = pa.BufferOutputStream()
    if any(pa.types.is_fixed_size_list(field.type) for field in rows.schema):
        # Vectors are noise to a compressor and to a dictionary.
        pq.write_table(rows, sink, compression="none", use_dictionary=False, row_group_size=ROWS_PER_GROUP)
    else:
        pq.write_table(rows, sink, compression="zstd", compression_level=1, row_group_size=ROWS_PER_GROUP)
    content = memoryview(sink.getvalue())
    return content, blake2b(content, digest_size=16).hexdigest()


def _read_manifest(root: Path) -> tuple[dict[str, Table], dict[str, Any]]:
    try:
        document = json.loads((root / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise IndexFolderError(f"no index at {root}: it holds no {MANIFEST}; make one with `graphmill index`") from None
    except (OSError, ValueError) as error:
        raise IndexFolderError(f"can't read {root / MANIFEST}: {error}; {ANEW}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else None
        raise IndexFolderError(
            f"the index {root} has format {found}, and this version of graphmill reads format {FORMAT}; "
            f"{ANEW}, or use the version that made it"
        )
    try:
        tables = {
            name: Table(
                entry["fingerprint"],
                entry["finished"],
                [{"file": s["file"], "rows": s["rows"], "hash": s["hash"]} for s in entry["shards"]],
            )
            for name, entry in document["tables"].items()
        }
        return tables, dict(document["facts"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise IndexFolderError(f"can't read {root / MANIFEST}: it is not what graphmill writes; {ANEW}") from error


def _make_writable(root: Path) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
        (root / ".lock").touch()
    except OSError as error:
        raise IndexFolderError(f"can't write to the index {root}: {error.strerror}") from error


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
