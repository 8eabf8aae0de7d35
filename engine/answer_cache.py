"""Answers that are kept in an index and given again, to the same question or to one that asks the same in other words.

They are in one SQLite file, from Python's own library. What an answer was made with, all but the question, is its
frame: the index's content, the model, the prompts, the parameters, the conversation. Answers of another frame are never
given.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.answer import Answer
from graphmill.engine.config import CacheConfig
from graphmill.engine.contexts import Reference
from graphmill.engine.decode_text import clean
from graphmill.engine.ids import content_id
from graphmill.engine.models import Generator, Tokenizer
from graphmill.engine.query_param import QueryParam

Vectors = NDArray[np.float32]
FORMAT = "1"
NAMELESS = "function"
"""What functions are called that were given no name."""
MAX_FRAMES = 64
"""Frames whose vectors are held in memory."""
_UNSHAPING = ("only_need_context", "only_need_prompt", "stream", "conversation_history", "history_turns")
"""Parameters that do not shape the answer; of the conversation, what of it is shown does."""
_PROMPTS = ("answer", "cache", "keywords")
"""Prompt files by which a question is answered."""
_KEPT = ("mode", "answer", "references", "context", "data", "keywords", "follow_ups", "warnings")


class CacheError(Exception):
    """What is kept can't be read or written; the message says why. A question is then answered anew."""


class Kept(NamedTuple):
    """An answer that is kept, and the question that it was given to."""

    key: str
    question: str
    text: str


class AnswerCache:
    """Answers in ``folder``/answers.sqlite, which is made where it is missing. Threads of one process may share it.

    Its methods raise CacheError.

    content  a hash of the index's tables: answers from another content are dropped
    """

    def __init__(self, folder: Path, config: CacheConfig, content: str) -> None:
        self.config, self._content, self._prompts = config, content, _prompts_print()
        self.path = folder / "answers.sqlite"
        self._lock = threading.RLock()
        self._known: dict[str, tuple[list[str], list[Vectors]]] = {}
        """Of each frame that was searched: the keys of its answers, and the unit vectors of their questions."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, timeout=30.0, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, frame TEXT NOT NULL, content TEXT NOT NULL, "
                "question TEXT NOT NULL, vector BLOB, answer BLOB NOT NULL, used INTEGER NOT NULL)"
            )
            self._database.execute("CREATE INDEX IF NOT EXISTS frames ON answers (frame)")
            self._database.execute("DELETE FROM answers WHERE content != ?", (self._stamp,))
            self._database.commit()
        except (sqlite3.Error, OSError) as error:
            raise OSError(
                f"can't use the kept answers in {self.path}: {error}; remove the file, or set cache.answers to off"
            ) from error
        (self._used,) = self._database.execute("SELECT coalesce(max(used), 0) FROM answers").fetchone()

    @property
    def _stamp(self) -> str:
        return f"{FORMAT} {self._content}"

    def frame(self, param: QueryParam, generator: Generator, reranker: Any, tokenizer: Tokenizer) -> str:
        """Hash of what an answer is made with, but for the question.

        Raises CacheError where that has no name: two functions can't be told apart.
        """
        for what, named in (("model", generator), ("reranker", reranker)):
            if named is not None and getattr(named, "model", None) in (None, "", NAMELESS):
                raise CacheError(f"the {what} has no name of its own; give it one as `model`")
        shaping = {f.name: getattr(param, f.name) for f in fields(param) if f.name not in _UNSHAPING}
        how = [self._prompts, generator.model, generator.context_tokens, tokenizer.name]
        how += [type(reranker).__name__, getattr(reranker, "model", None)]
        history = [dict(message) for message in param.history]
        return content_id("frame", self._stamp, json.dumps([shaping, how, history], sort_keys=True, default=str))

    def get(self, frame: str, question: str) -> Answer | None:
        """The answer that was given to the very question."""
        return self.take(content_id("answer", frame, question), question)

    def take(self, key: str, question: str) -> Answer | None:
        """The answer under a key, as one to ``question``."""
        with self._guarded():
            row = self._database.execute("SELECT question, answer FROM answers WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            self._used += 1
            with self._database:
                self._database.execute("UPDATE answers SET used = ? WHERE key = ?", (self._used, key))
            document = json.loads(zlib.decompress(row[1]))
            document["references"] = [Reference(**reference) for reference in document["references"]]
            return Answer(question=question, cached=row[0], **document)

    def near(self, frame: str, vector: Vectors, k: int) -> list[Kept]:
        """Up to k answers whose questions are nearest to a unit vector float32 [d], and near enough, nearest first."""
        with self._guarded():
            keys, vectors = self._vectors(frame)
            if not keys:
                return []
            scores = np.stack(vectors) @ vector
            best = np.argsort(-scores, kind="stable")[:k]
            found = []
            for row in best[scores[best] >= self.config.min_similarity]:
                select = "SELECT key, question, answer FROM answers WHERE key = ?"
                kept = self._database.execute(select, (keys[row],)).fetchone()
                if kept is not None:
                    found.append(Kept(kept[0], kept[1], json.loads(zlib.decompress(kept[2]))["answer"]))
            return found

    def put(self, frame: str, answer: Answer, vector: Vectors | None) -> None:
        """Keeps an answer; the last one to a question stays."""
        key, question = content_id("answer", frame, answer.question), clean(answer.question)
        document = {name: getattr(answer, name) for name in _KEPT}
        document["references"] = [asdict(reference) for reference in answer.references]
        packed = zlib.compress(json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        blob = None if vector is None else np.asarray(vector, np.float32).tobytes()
        with self._guarded():
            self._used += 1
            row = (key, frame, self._stamp, question, blob, packed, self._used)
            with self._database:
                self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                surplus = len(self) - self.config.max_answers
                if surplus > 0:
                    # Some more than there must, so that it is not done with every answer.
                    oldest = "SELECT key FROM answers ORDER BY used LIMIT ?"
                    many = min(surplus + self.config.max_answers // 10, self.config.max_answers)
                    self._database.execute(f"DELETE FROM answers WHERE key IN ({oldest})", (many,))
                    self._known.clear()
            if frame in self._known and vector is not None and key not in self._known[frame][0]:
                self._known[frame][0].append(key)
                self._known[frame][1].append(np.asarray(vector, np.float32))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except (sqlite3.Error, zlib.error, ValueError, TypeError, KeyError) as error:
            raise CacheError(f"{self.path}: {type(error).__name__}: {error}") from error

    def _vectors(self, frame: str) -> tuple[Sequence[str], Sequence[Vectors]]:
        if frame not in self._known:
            if len(self._known) >= MAX_FRAMES:
                self._known.clear()
            select = "SELECT key, vector FROM answers WHERE frame = ? AND vector IS NOT NULL ORDER BY key"
            rows = self._database.execute(select, (frame,)).fetchall()
            self._known[frame] = [key for key, _ in rows], [np.frombuffer(blob, np.float32) for _, blob in rows]
        return self._known[frame]

    def __len__(self) -> int:
        count: int = self._database.execute("SELECT count(*) FROM answers").fetchone()[0]
        return count

    def close(self) -> None:
        """Closes the file. Doing it twice is fine."""
        with self._lock:
            self._database.close()

    def __enter__(self) -> AnswerCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _prompts_print() -> str:
    """Hash of the packaged prompts that shape answers: with another version of them, answers are others."""
    folder = files("graphmill.engine") / "prompts"
    shaping = sorted((f.name, f.read_text("utf-8")) for f in folder.iterdir() if f.name.split(".")[0] in _PROMPTS)
    return content_id("prompts", *(part for file in shaping for part in file))
