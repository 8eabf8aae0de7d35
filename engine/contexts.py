"""What a mode puts in front of the model: rows of the index, each with its reference number, within token budgets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple

from graphmill.engine.index import Index
from graphmill.engine.keywords import Keywords
from graphmill.engine.lines import ContextLines, Line
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


@dataclass(slots=True)  # not frozen: a frozen one takes four times as long to make, and there may be thousands
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


class Shown(NamedTuple):
    """Rows of a table, int64, in the order in which they are shown, and the reference number of each."""

    table: str
    rows: Rows
    numbers: list[int]


class Section(NamedTuple):
    """Rows of a table that are to be shown, the first of them first, and the most tokens for them."""

    table: str
    rows: Rows
    budget: int


@dataclass(eq=False)
class Context:
    """The rows that a question brought up, as the model gets them.

    It holds row numbers. What stands in the rows is written for the prompt (``render``); as objects with their ids
    (``tables``) and as places in the corpus (``references``) it is put together when that is asked for.
    """

    room: int = UNLIMITED
    """Tokens that may still be filled, whatever a section's own budget is."""
    shown: list[Shown] = field(default_factory=list)
    """What was added, in that order."""
    keywords: Keywords = field(default_factory=Keywords)
    """What was searched for, in the keyword modes."""
    follow_ups: list[str] = field(default_factory=list)
    """Questions that were drawn from the reports, in drift."""
    unfit: dict[str, int] = field(default_factory=dict)
    """Tables of which rows were found and none fitted, and the tokens that there were for them."""
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    """Reference number of each row that was shown, by table: the same in every context that shares this."""
    citable: Collection[int] | None = None
    """Numbers that can be cited; None stands for all that are shown."""
    _lines: ContextLines | None = field(default=None, repr=False, compare=False)

    @property
    def is_empty(self) -> bool:
        return not self.shown

    def shown_numbers(self) -> set[int]:
        """Reference numbers of the rows that are shown."""
        return {number for shown in self.shown for number in shown.numbers}

    def render(self) -> str:
        """Each section as JSON lines under its name."""
        if self._lines is None:
            return ""
        sections: dict[str, list[str]] = {}
        for table, rows, numbers in self.shown:
            sections.setdefault(table, [f"-----{SECTIONS[table]}-----"]).extend(
                self._lines.written(table, rows, numbers)
            )
        return "\n\n".join("\n".join(lines) for lines in sections.values())

    def lines(self, table: str) -> list[Line]:
        """The rows of a table as objects."""
        if self._lines is None:
            return []
        shown = (self._lines.lines(*part) for part in self.shown if part.table == table)
        return [line for lines in shown for line in lines]

    def tables(self) -> dict[str, list[Line]]:
        """The rows with their ids, by table; none is left out for being empty."""
        found: dict[str, list[Line]] = {table: [] for table in SECTIONS}
        if self._lines is not None:
            for table, rows, numbers in self.shown:
                (ids,) = self._lines.strings(table, (_IDS[table],), rows)
                lines = self._lines.lines(table, rows, numbers)
                found[table] += [{_IDS[table]: row_id, **line} for row_id, line in zip(ids, lines, strict=True)]
        return found

    def references(self) -> list[Reference]:
        """What can be cited: of a text each place where it stands, of all else the first chunk that it was read in."""
        if self._lines is None:
            return []
        found = [reference for shown in self.shown for reference in _references(self._lines, *shown)]
        return found if self.citable is None else [one for one in found if one.number in self.citable]

    def add(self, index: Index, table: str, rows: Rows, budget: int = UNLIMITED) -> int:
        """Shows as many of the rows, from the first on, as fit the budget and the room; returns the tokens of these."""
        self._lines = index.lines
        heading = 0 if any(shown.table == table for shown in self.shown) else HEADING_TOKENS
        limit = min(budget, self.room - heading)
        kept, used = index.lines.fitting(table, rows, limit)
        if not len(kept):
            self.unfit.update({table: limit} if len(rows) else {})
            return 0
        self.room -= used + heading
        known = self.numbers
        numbers = [known.setdefault((table, row), len(known) + 1) for row in kept.tolist()]
        self.shown.append(Shown(table, kept, numbers))
        return used

    def add_before(self, index: Index, sections: Sequence[Section], passages: Section) -> None:
        """Adds sections, and leaves room for the passages that are to be added after them.

        Where there is no room for all that the budgets allow, passages are left what they need, up to half of it or
        one of them, and the sections have equal parts of the rest; what one does not need is the others'.
        """
        budgets, num_left = [section.budget for section in sections], len(sections)
        room = max(self.room - HEADING_TOKENS * (num_left + 1), 0)
        if sum(budgets) + min(passages.budget, room // 2) > room:
            fitting = index.lines.fitting
            room -= (
                fitting("chunks", passages.rows, min(passages.budget, room // 2))[1]
                or fitting("chunks", passages.rows[:1], min(passages.budget, room))[1]
            )
            needs = [fitting(table, rows, min(budget, room))[1] for table, rows, budget in sections]
            for place in sorted(range(num_left), key=needs.__getitem__):
                budgets[place] = min(budgets[place], room // num_left)
                room -= min(needs[place], budgets[place])
                num_left -= 1
        for (table, rows, _), budget in zip(sections, budgets, strict=True):
            self.add(index, table, rows, budget)

    def include(self, other: Context) -> None:
        """Takes in the rows of a context that shares the numbers, those that are not here yet, and what was unfit."""
        known = self.shown_numbers()
        self._lines = self._lines or other._lines
        for table, rows, numbers in other.shown:
            new = [place for place, number in enumerate(numbers) if number not in known]
            if new:
                self.shown.append(Shown(table, rows[new], [numbers[place] for place in new]))
        self.unfit.update(other.unfit)


def _references(lines: ContextLines, table: str, rows: Rows, numbers: list[int]) -> Iterator[Reference]:
    chunks, labels = lines.first_chunks(table, rows), _labels(lines, table, rows)
    if table == "chunks":
        chunks, lengths = lines.same_text(chunks)
        numbers = [n for n, times in zip(numbers, lengths, strict=True) for _ in range(times)]
    places = lines.places(chunks)
    return map(Reference, numbers, repeat(_KINDS[table]), places.paths if labels is None else labels, *places)


def _labels(lines: ContextLines, table: str, rows: Rows) -> list[str] | None:
    """What a reference to each row says; None for chunks, which say where they stand."""
    if table == "chunks":
        return None
    if table == "relationships":
        return list(map("{} - {}".format, *lines.strings(table, ("source", "target"), rows)))
    column = {"reports": "title", "entities": "name", "claims": "subject"}[table]
    return lines.strings(table, (column,), rows)[0]
