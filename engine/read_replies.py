"""Reads many replies at once: the well-formed ones as frames, the others one by one.

What comes of a reply is what ``read_reply`` makes of it, to the letter and either way; only the speed differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from graphmill.engine.names import name_key
from graphmill.engine.read_reply import read_reply
from graphmill.engine.read_well_formed import RECORDS, WellFormed, read_well_formed
from graphmill.engine.records import Layout, Reading
from graphmill.kernels.backend import Backend
from graphmill.kernels.backend import backend as choose_backend
from graphmill.kernels.device_memory import is_out_of_memory

MIN_TOGETHER = 192
"""Replies of one look that are worth a frame; fewer are read one by one. On one core both take as long at some 150."""

_USUAL = Layout("usual")


@dataclass(slots=True)
class Told:
    """A reply, and what came of it."""

    text: str
    layout: Layout
    finish_reason: str | None = None
    reading: Reading | None = None
    """Where it was read by itself."""
    complete: bool = False
    reasons: Counter[str] = field(default_factory=Counter)
    """Rejected records by reason."""

    def read(self) -> Reading:
        """Reads it by itself, if it hasn't been yet."""
        if self.reading is None:
            self.reading = read_reply(self.text, self.layout, self.finish_reason)
        return self.reading


def can_wait(reply: Told) -> bool:
    """Whether a glance shows for certain that the reply holds a record or is complete.

    Then its conversation goes on the same way whatever is read in it. No reasoning can be in it, and the model stopped
    by itself or the mark ends the reply. Braces may turn out to be JSON, which is complete by another rule.
    """
    text = reply.text.strip()
    if not _is_usual(reply.layout) or "THINK]" in text or "▷" in text:
        return False
    marked = text.endswith(_USUAL.completion)
    num_delimiters = text.count(_USUAL.tuple_delimiter)
    if text.count("<") != num_delimiters + marked:
        return False
    if reply.finish_reason == "stop" or text == _USUAL.completion:
        return True
    return marked and num_delimiters > 0 and "{" not in text


def read_replies(replies: Sequence[Told], backend: Backend) -> pa.Table:
    """The RECORDS of all replies, in order; what else came of each is noted on it."""
    parts = []
    one_by_one = np.ones(len(replies), np.bool_)
    for (layout, separator), (numbers, bodies) in _alike(replies).items():
        if len(numbers) < MIN_TOGETHER:
            continue
        well_formed, tables, rejected = _read_together(bodies, separator, layout, backend)
        place = np.array(numbers)
        one_by_one[place[well_formed]] = False
        parts += [table.set_column(0, "reply", pa.array(place[table["reply"].to_numpy()])) for table in tables]
        for at, reason in rejected:
            replies[numbers[at]].reasons[reason] += 1
    parts.append(_read_one_by_one(replies, np.flatnonzero(one_by_one).tolist()))
    records = pa.concat_tables(parts).combine_chunks()
    if len(parts) == 1:
        return records
    order = np.lexsort((records["place"].to_numpy(), records["reply"].to_numpy()))
    return records.take(pa.array(order)).combine_chunks()


def _read_together(bodies: list[str], separator: str, layout: Layout, backend: Backend) -> WellFormed:
    """What ``read_well_formed`` gives; on the CPU where the model, which runs meanwhile, leaves the device no room."""
    try:
        return read_well_formed(bodies, separator, layout, backend)
    except Exception as error:
        if backend.name == "cpu" or not is_out_of_memory(error):
            raise
    return read_well_formed(bodies, separator, layout, choose_backend("cpu"))


def _is_usual(layout: Layout) -> bool:
    """Whether a reply's structure can be told by the delimiters that everything here was thought out for."""
    delimiters = (layout.tuple_delimiter, layout.record_delimiter, layout.completion)
    usual = (_USUAL.tuple_delimiter, _USUAL.record_delimiter, _USUAL.completion)
    return layout.format == "delimited" and delimiters == usual


def _alike(replies: Sequence[Told]) -> dict[tuple[Layout, str], tuple[list[int], list[str]]]:
    """Replies that may be well formed, by their layout and by what separates their records: numbers and bodies.

    A body is what lies between the brackets that open the first record and close the last.
    """
    groups: dict[tuple[Layout, str], tuple[list[int], list[str]]] = {}
    layouts: dict[tuple[str, ...], Layout] = {}  # types, which may differ, mean nothing to well-formed replies
    for number, reply in enumerate(replies):
        if reply.reading is not None or not _is_usual(reply.layout):
            continue
        text = reply.text.strip()
        marked = text.endswith(_USUAL.completion)
        if marked:
            text = text[: -len(_USUAL.completion)].rstrip()
        if len(text) < 3 or text[0] != "(" or text[-1] != ")" or "THINK]" in text or "\0" in text:
            continue
        if not text.isascii() and not text.replace("\n", "").isprintable():
            continue
        reply.complete = marked or reply.finish_reason == "stop"
        separator = next((one for one in (")##\n(", ")\n(") if one in text), ")##(")
        layout = layouts.setdefault(reply.layout.relationship, reply.layout)
        numbers, bodies = groups.setdefault((layout, separator), ([], []))
        numbers.append(number)
        bodies.append(text[1:-1])
    return groups


def _read_one_by_one(replies: Sequence[Told], numbers: Sequence[int]) -> pa.Table:
    for number in numbers:
        reading = replies[number].read()
        replies[number].complete, replies[number].reasons = reading.complete, reading.reasons
    owned = [(number, record) for number in numbers for record in replies[number].read().records]
    records = [record for _, record in owned]
    names, targets = (
        pa.array(column, pa.string()) for column in ([r.name for r in records], [r.target for r in records])
    )
    offsets = np.cumsum([0, *(len(record.keywords) for record in records)], dtype=np.int32)
    words = pa.array([word for record in records for word in record.keywords], pa.string())
    columns = [
        [number for number, _ in owned],
        np.arange(len(records)),
        [record.kind for record in records],
        names,
        _keys(names),
        [record.type for record in records],
        targets,
        _keys(targets),
        [record.description for record in records],
        pa.ListArray.from_arrays(pa.array(offsets), words),
        [record.strength for record in records],
    ]
    return pa.table(columns, schema=RECORDS)


def _keys(names: pa.Array) -> pa.Array:
    """Keys of names, made once for each spelling."""
    spellings = names.dictionary_encode()
    keys = pa.array([name_key(spelling) for spelling in spellings.dictionary.to_pylist()], pa.string())
    return keys.take(spellings.indices)
