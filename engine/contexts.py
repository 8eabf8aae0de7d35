"""What a mode puts in front of the model: rows of the index, each with its reference number, within token budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from graphmill.engine.index import Index
from graphmill.engine.keywords import Keywords
from graphmill.engine.lines import Line, as_json_each
from graphmill.engine.rows import Rows

UNLIMITED = 2**62
HEADING_TOKENS = 16
"""About what a section's heading takes, and the line breaks round it; two lines of dashes and a word."""
SECTIONS = {
    "reports": "Reports",
    "entities": "Entities",
    "relationships": "Relationships",
    "claims": "Claims",
    "chunks": "Sources",
}
_IDS = {
    "reports": "community_id",
    "entities": "entity_id",
    "relationships": "relationship_id",
    "claims": "claim_id",
    "chunks": "chunk_id",
}
_KINDS = {
    "reports": "report",
    "entities": "entity",
    "relationships": "relationship",
    "claims": "claim",
    "chunks": "chunk",
}


@dataclass(slots=True)  # not frozen: a context makes hundreds, and a frozen one takes four times as long to make
class Reference:
    """Something in the context that an answer can cite, and where it stands in the corpus."""

    number: int
    kind: str
    """"entity", "relationship", "report", "claim" or "chunk"."""
    label: str
    document: str
    chunk_id: str
    start: int
    """Character span [start, end) of the chunk in its document."""
    end: int


@dataclass
class Context:
    """The rows that a question brought up, as the model gets them."""

    room: int = UNLIMITED
    """Tokens that may still be filled, whatever a section's own budget is."""
    sections: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Lines of each section, in the order in which they are shown."""
    written: dict[str, list[str]] = field(default_factory=dict)
    """The lines as text, where they came from the index."""
    ids: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the sections' rows in the tables of the index."""
    references: list[Reference] = field(default_factory=list)
    keywords: Keywords = field(default_factory=Keywords)
    """What was searched for, in the keyword modes."""
    follow_ups: list[str] = field(default_factory=list)
    """Questions that were drawn from the reports, in drift."""
    unfit: dict[str, int] = field(default_factory=dict)
    """Tables of which rows were found and none fitted, and the tokens that there were for them."""
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    """Reference number of each row that was shown, by table: the same in every context that shares this."""

    @property
    def is_empty(self) -> bool:
        return not any(self.sections.values())

    def render(self) -> str:
        """Each section as JSON lines under its name."""
        parts = []
        for name, rows in self.sections.items():
            if rows:
                written = self.written.get(name, [])
                lines = written if len(written) == len(rows) else as_json_each(rows)
                parts.append("\n".join([f"-----{name}-----", *lines]))
        return "\n\n".join(parts)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The rows with their ids, by table; none is left out for being empty."""
        found = {}
        for table, section in SECTIONS.items():
            rows, ids = self.sections.get(section, []), self.ids.get(section, [])
            found[table] = [{_IDS[table]: row_id, **row} for row_id, row in zip(ids, rows, strict=True)]
        return found

    def add(self, index: Index, table: str, rows: Rows, budget: int = UNLIMITED) -> int:
        """Shows as many of the rows, from the first on, as fit the budget and the room; returns the tokens of these."""
        section = SECTIONS[table]
        heading = 0 if self.sections.get(section) else HEADING_TOKENS
        limit = min(budget, self.room - heading)
        kept, used = index.lines.fitting(table, rows, limit)
        shown, ids = self.sections.setdefault(section, []), self.ids.setdefault(section, [])
        if not len(kept):
            self.unfit.update({table: limit} if len(rows) else {})
            return 0
        rows = kept
        self.room -= used + heading
        known = self.numbers
        numbers = [known.setdefault((table, row), len(known) + 1) for row in rows.tolist()]
        lines = index.lines.lines(table, rows, numbers)
        shown += lines
        self.written.setdefault(section, []).extend(index.lines.written(table, rows, lines))
        ids += index.lines.strings(table, (_IDS[table],), rows)[0]
        self._cite(index, table, rows, numbers, _labels(index, table, rows, lines))
        return used

    def _cite(self, index: Index, table: str, rows: Rows, numbers: Sequence[int], labels: Sequence[str]) -> None:
        """Adds references: of a text each place where it stands, of all else the first chunk that it was read in."""
        kind = _KINDS[table]
        chunks = index.lines.first_chunks(table, rows)
        if table == "chunks":
            texts = index.text_of_chunk[chunks]
            lengths = index.chunks_of_text.lengths(texts)
            chunks = index.chunks_of_text.gather(texts)
            numbers = [n for n, times in zip(numbers, lengths.tolist(), strict=True) for _ in range(times)]
        places = index.lines.places(chunks)
        if table == "chunks":
            labels = places.paths
        self.references += map(Reference, numbers, repeat(kind), labels, *places)

    def include(self, other: Context) -> None:
        """Takes in the rows of a context that shares the numbers, those that are not here yet."""
        known = {reference.number for reference in self.references}
        for section, rows in other.sections.items():
            self.written.pop(section, None)
            shown, ids = self.sections.setdefault(section, []), self.ids.setdefault(section, [])
            for row, row_id in zip(rows, other.ids.get(section, []), strict=True):
                if row["reference"] not in known:
                    shown.append(row)
                    ids.append(row_id)
        self.references += [reference for reference in other.references if reference.number not in known]


def _labels(index: Index, table: str, rows: Rows, lines: Sequence[Line]) -> list[str]:
    """What a reference to each row says, but for chunks, which say where they stand."""
    if table == "chunks":
        return []
    if table == "reports":
        return index.lines.strings(table, ("title",), rows)[0]
    if table == "relationships":
        return [f"{line['source']} - {line['target']}" for line in lines]
    return [line["entity" if table == "entities" else "subject"] for line in lines]
