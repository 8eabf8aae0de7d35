"""Model replies kept on disk, so that a run that asks the same again asks no model.

They are in one SQLite file, from Python's own library: a look-up reads a page or two however many millions there are,
with nothing to load at the start, and a batch of replies is either there whole or not at all after a kill.
"""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import threading
import time
import zlib
from collections import deque
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from graphmill.engine.abort import abort
from graphmill.engine.metered import rest
from graphmill.engine.models import AbortingGenerator, Generator, Reply, Request, Tokenizer
from graphmill.engine.reply_key import is_kept, request_key

MAX_WAITING = 256
MAX_KNOWN = 200_000
"""Keys that are held in memory, some 20 MB."""
MAX_REMEMBERED = 10_000
"""Replies that ``forget`` can drop."""
MAX_WAIT_S = 1.0
"""Replies are written as soon as one comes when so many wait, or the first has waited so long."""
_NUMBERS = itertools.count(1)
_COLUMNS = "key, model, messages, text, finish_reason, prompt_tokens, completion_tokens"


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply as it is kept; ``messages`` only where the store keeps them."""

    key: str
    model: str
    text: str
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    messages: list[dict[str, str]] | None = None

    def reply(self, request_id: str) -> Reply:
        """As the reply to a request."""
        return Reply(request_id, self.text, self.finish_reason, self.prompt_tokens, self.completion_tokens)


class ReplyStore:
    """Replies in ``folder``/replies.sqlite, which is made where it is missing. Threads of one process may share it.

    keep_messages  also keeps what was asked, compressed, so that the store can be read by a person
    """

    def __init__(self, folder: str | Path, *, keep_messages: bool = False) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "replies.sqlite"
        self.keep_messages = keep_messages
        self.num_hits = self.num_misses = 0
        self._lock = threading.RLock()
        self._waiting: dict[str, tuple[Any, ...]] = {}
        self._first_waited = 0.0
        self._database = _open(self.path)
        self._known = _known_keys(self._database)

    def get(self, key: str, max_tokens: int | None = None) -> StoredReply | None:
        """The reply kept under a key, unless it has more than ``max_tokens`` tokens; counts hits and misses."""
        with self._lock:
            row = self._waiting.get(key)
            if row is None and (self._known is None or bytes.fromhex(key) in self._known):
                select = f"SELECT {_COLUMNS} FROM replies WHERE key = ?"
                row = self._database.execute(select, (bytes.fromhex(key),)).fetchone()
            found = None if row is None else _stored(row)
            if found is not None and max_tokens is not None and found.completion_tokens > max_tokens:
                found = None
            self.num_hits += found is not None
            self.num_misses += found is None
            return found

    def put(self, key: str, model: str, request: Request, reply: Reply) -> bool:
        """Keeps a reply if it is whole, and tells whether it did. The first one kept under a key stays."""
        if not is_kept(reply, request.max_tokens):
            return False
        messages = None
        if self.keep_messages:
            messages = zlib.compress(json.dumps([dict(message) for message in request.messages]).encode())
        text = reply.text.encode("utf-8", "surrogatepass")
        counts = (reply.prompt_tokens, reply.completion_tokens)
        with self._lock:
            if not self._waiting:
                self._first_waited = time.monotonic()
            self._waiting.setdefault(key, (bytes.fromhex(key), model, messages, text, reply.finish_reason, *counts))
            if len(self._waiting) >= MAX_WAITING or time.monotonic() - self._first_waited >= MAX_WAIT_S:
                self.flush()
        return True

    def drop(self, key: str) -> None:
        """Forgets one reply, such as one that turned out to be of no use."""
        with self._lock, self._database:
            self._waiting.pop(key, None)
            self._database.execute("DELETE FROM replies WHERE key = ?", (bytes.fromhex(key),))

    def flush(self) -> None:
        """Writes what has gathered, in one transaction."""
        with self._lock:
            if not self._waiting:
                return
            insert = f"INSERT OR IGNORE INTO replies ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
            with self._database:
                self._database.executemany(insert, self._waiting.values())
            if self._known is not None:
                self._known.update(row[0] for row in self._waiting.values())
                if len(self._known) > MAX_KNOWN:
                    self._known = None
            self._waiting.clear()

    def __len__(self) -> int:
        with self._lock:
            self.flush()
            count: int = self._database.execute("SELECT count(*) FROM replies").fetchone()[0]
            return count

    def __iter__(self) -> Iterator[StoredReply]:
        """All replies, by key."""
        self.flush()
        last = b""
        while True:  # a page at a time, so that others may write between
            select = f"SELECT {_COLUMNS} FROM replies WHERE key > ? ORDER BY key LIMIT 1000"
            with self._lock:
                rows = self._database.execute(select, (last,)).fetchall()
            if not rows:
                return
            yield from map(_stored, rows)
            last = rows[-1][0]

    @property
    def enforces_schema(self) -> bool:
        """Whether a model that holds its replies to a schema has answered here."""
        with self._lock:
            return bool(self._database.execute("PRAGMA user_version").fetchone()[0])

    @enforces_schema.setter
    def enforces_schema(self, value: bool) -> None:
        with self._lock, self._database:
            self._database.execute(f"PRAGMA user_version = {int(value)}")

    def models(self) -> set[str]:
        """Names of the models that said what is kept."""
        with self._lock:
            self.flush()
            return {model for (model,) in self._database.execute("SELECT DISTINCT model FROM replies")}

    def close(self) -> None:
        """Writes what has gathered. Doing it twice is fine."""
        with self._lock:
            self.flush()
            self._database.close()

    def __enter__(self) -> ReplyStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StoredGenerator:
    """A generator whose replies are kept: what the store has is not asked again and comes with the next ``collect``."""

    def __init__(self, generator: Generator, store: ReplyStore) -> None:
        self.generator, self.store = generator, store
        self.model: str = generator.model
        self.context_tokens: int = generator.context_tokens
        self.max_in_flight: int = generator.max_in_flight
        self.tokenizer: Tokenizer | None = generator.tokenizer
        self.enforces_schema: bool = getattr(generator, "enforces_schema", False)
        if self.enforces_schema and not store.enforces_schema:
            store.enforces_schema = True
        self.anew: frozenset[str] = frozenset()
        """What to ask anew whatever is kept, by the second part of a request's id ("extract/TEXT_ID/1")."""
        self._found: list[Reply] = []
        # Ids with a number of their own: two open requests may come with one id, and the generator may still hold some
        # of an earlier run that was interrupted.
        self._asked: dict[str, tuple[Request, str]] = {}
        self._late: dict[str, tuple[Request, str]] = {}
        """What was taken back here but not in the generator: a reply that still comes is kept, and not handed out."""
        self._given: deque[str] = deque(maxlen=MAX_REMEMBERED)

    def submit(self, request: Request) -> None:
        """Looks the request up, and passes it on where no reply is kept."""
        key = request_key(self.model, request)
        if self.anew and request.id.split("/")[1:2] and request.id.split("/")[1] in self.anew:
            self.store.drop(key)
        stored = self.store.get(key, request.max_tokens)
        if stored is not None:
            self._given.append(key)
            self._found.append(stored.reply(request.id))
            return
        own_id = f"{request.id}/{next(_NUMBERS)}"
        self._asked[own_id] = request, key
        self.generator.submit(replace(request, id=own_id))

    def collect(self) -> Sequence[Reply]:
        """Replies that were kept, at once, or else those that have come in."""
        if self._found:
            found, self._found = self._found, []
            return found
        replies: list[Reply] = []
        while not replies and (arrived := self.generator.collect()):
            for reply in arrived:
                is_late = reply.id in self._late
                asked = (self._late if is_late else self._asked).pop(reply.id, None)
                if asked is not None:
                    request, key = asked
                    self.store.put(key, self.model, request, reply)
                    if not is_late:
                        self._given.append(key)
                        replies.append(replace(reply, id=request.id))
        return replies

    def abort(self, request_ids: Set[str]) -> None:
        """Takes requests back; where the generator can't, replies to them are kept for whoever asks again."""
        self._found = [reply for reply in self._found if reply.id not in request_ids]
        taken = {own_id: asked for own_id, asked in self._asked.items() if asked[0].id in request_ids}
        for own_id in taken:
            del self._asked[own_id]
        if isinstance(self.generator, AbortingGenerator):
            abort(self.generator, taken.keys())
        else:
            self._late |= taken

    def forget(self) -> None:
        """Drops the last replies that were handed out: they turned out to be of no use, and are to be asked anew."""
        for key in self._given:
            self.store.drop(key)
        self._given.clear()

    def rest(self) -> None:
        """Has the generator give its memory back, if it can."""
        rest(self.generator)

    def close(self) -> None:
        """Writes what the store has gathered and closes the generator; the store stays open."""
        self.store.flush()
        self.generator.close()


def export_replies(store: ReplyStore, file: str | Path) -> int:
    """Writes all replies to a JSONL file that ``ReplayGenerator`` reads, ordered by key; returns how many."""
    file = Path(file)
    partial = file.with_name(file.name + ".partial")
    num_written = 0
    with partial.open("w", encoding="utf-8", newline="\n") as out:
        for stored in store:
            row = {name: getattr(stored, name) for name in StoredReply.__slots__}
            row["enforces_schema"] = store.enforces_schema or None
            out.write(json.dumps({name: value for name, value in row.items() if value is not None}) + "\n")
            num_written += 1
        out.flush()
        os.fsync(out.fileno())
    partial.replace(file)
    return num_written


def _open(path: Path) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(path, timeout=30.0, check_same_thread=False)
        # A write-ahead log keeps readers and the writer out of each other's way. NORMAL: a power cut may lose the last
        # replies, a killed process none that were written, and neither harms the file.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(
            "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, model TEXT NOT NULL, messages BLOB, "
            "text BLOB NOT NULL, finish_reason TEXT, prompt_tokens INTEGER NOT NULL, "
            "completion_tokens INTEGER NOT NULL)"
        )
        database.commit()
    except sqlite3.Error as error:
        raise OSError(
            f"can't use the kept replies in {path}: {error}; remove the file to start without them"
        ) from error
    return database


def _known_keys(database: sqlite3.Connection) -> set[bytes] | None:
    """The keys, where they are few: then what is not there, which on a first run is everything, takes no query."""
    (count,) = database.execute("SELECT count(*) FROM (SELECT 1 FROM replies LIMIT ?)", (MAX_KNOWN + 1,)).fetchone()
    return {key for (key,) in database.execute("SELECT key FROM replies")} if count <= MAX_KNOWN else None


def _stored(row: tuple[Any, ...]) -> StoredReply:
    key, model, messages, text, finish_reason, prompt_tokens, completion_tokens = row
    said = json.loads(zlib.decompress(messages)) if messages is not None else None
    decoded = text.decode("utf-8", "surrogatepass")
    return StoredReply(key.hex(), model, decoded, finish_reason, prompt_tokens, completion_tokens, said)
