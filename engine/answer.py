"""What comes of a question: the text, what it cites, and what the model was given."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import pyarrow as pa

from graphmill.engine.contexts import Reference
from graphmill.engine.models import Message
from graphmill.engine.on_demand import OnDemand

SHOWN_CHARS = 100


@dataclass(repr=False)
class Answer:
    """What came of a question. ``str(answer)`` is its text, and what a notebook shows; ``repr`` is one line about it.

    Iterating over it gives the text in pieces: as the model writes them, where the question was asked with ``stream``
    (then all that comes of the text, ``answer`` and ``references``, is there at the end), and else in one. Of a stream
    that was read in part, a second iteration and ``str`` read the rest; leaving the loop takes the request back.

    ``references``, ``data`` and ``prompt`` are put together when they are first read; until then an answer holds on to
    its index.
    """

    question: str
    mode: str
    answer: str = ""
    references: OnDemand[list[Reference]] = OnDemand(list)
    """What the answer cites, at most five; all of the context's, where only that was asked for."""
    context: str = ""
    prompt: OnDemand[list[Message]] = OnDemand(list)
    data: OnDemand[dict[str, list[dict[str, Any]]]] = OnDemand(dict)
    """The context's rows with their ids and reference numbers: reports, entities, relationships, claims, chunks."""
    keywords: dict[str, list[str]] = field(default_factory=dict)
    """"high_level" and "low_level", in the keyword modes."""
    follow_ups: list[str] = field(default_factory=list)
    """Questions that were drawn from the reports, in drift."""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by step."""
    warnings: list[str] = field(default_factory=list)
    """What went wrong on the way and left the answer with less to go by."""
    cached: str = ""
    """The question that this answer was given to before, where it is one that was kept."""
    error: str = ""
    """Why there is no answer, where many questions were asked together; a single one raises it."""
    _pieces: Iterator[str] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        for _ in self:
            pass
        return self.answer

    def __repr__(self) -> str:
        """What is there already, without reading a stream or having anything put together."""
        state = f"failed: {_start(self.error)}" if self.error else repr(_start(self.answer))
        parts = [state, *(["still being written"] if self._pieces is not None else [])]
        references = vars(self)["_references"]
        if not callable(references):
            parts.append(f"{len(references):,} reference{'s' * (len(references) != 1)}")
        parts.append(f"{len(self.context):,} characters of context")
        return f"<Answer to {_start(self.question)!r} ({self.mode}): {', '.join(parts)}>"

    def _repr_markdown_(self) -> str | None:
        """The text of a finished answer; of what has none yet, a notebook shows the ``repr``."""
        return self.answer if self.answer and self._pieces is None else None

    def __iter__(self) -> Iterator[str]:
        if self._pieces is None:
            if self.answer:
                yield self.answer
            return
        try:
            yield from self._pieces
        finally:
            self._pieces = None

    def __getstate__(self) -> dict[str, Any]:
        if self._pieces is not None:
            raise TypeError(
                "an answer that is still being written can't be copied or pickled; read it to its end first"
            )
        return {**vars(self), "_references": self.references, "_data": self.data, "_prompt": self.prompt}

    def stream(self, pieces: Iterator[str]) -> None:
        """Has the text come out of ``pieces``, which sets ``answer`` and ``references`` at its end."""
        self._pieces = pieces

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Adds the seconds that a block takes to ``timings``; in a batch, also those in which others go on."""
        begin = time.perf_counter()
        yield
        self.timings[step] = round(self.timings.get(step, 0.0) + time.perf_counter() - begin, 6)

    def take(self, other: Answer) -> None:
        """Takes over what came of another question, or of this one at another time."""
        for f in fields(self):
            if f.name not in ("question", "timings", "warnings", "_pieces"):
                setattr(self, f.name, getattr(other, f.name))
        self.warnings += other.warnings

    def document(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """The fields of these names, or all, as JSON holds them."""
        wanted = [f.name for f in fields(self) if f.name != "_pieces"] if names is None else names
        return {name: _plain(getattr(self, name)) for name in wanted}

    def tables(self) -> dict[str, pa.Table]:
        """``data`` as Arrow tables."""
        return {name: pa.Table.from_pylist(rows) for name, rows in self.data.items()}


def _start(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    return value
