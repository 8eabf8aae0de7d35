"""Rows of an open index as contexts show them: JSON lines, what they take in tokens, and where they stand.

Tokens come from the columns that were counted when the rows were made. Where the model that answers has another
tokenizer than the one the index was counted with, a line is counted when it is first wanted, and that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from graphmill.engine.claim_rows import CLAIM_COLUMNS, claim_rows
from graphmill.engine.claims import NONE
from graphmill.engine.context_tokens import tokens_print
from graphmill.engine.rows import Rows

if TYPE_CHECKING:
    from graphmill.engine.index import Index

Line = dict[str, Any]
LARGEST_REFERENCE = 99_999
SLACK = 4
"""Tokens by which a line may exceed its parts, since what stands where they meet is cut otherwise."""
DECODED_BYTES, STRING_BYTES = 1 << 28, 64
"""Columns are kept as Python's strings once they were wanted, up to this size of all: Arrow takes ten times as long.
And what a string takes beside its characters."""
KEPT_CHARS = 1 << 28
"""Characters of lines that are kept as they were written."""
MAX_ARRAY_BYTES = 2**31 - 2**20
"""What one array of strings can hold."""
FEW_PATHS = 4096
"""Documents up to which the paths of all are counted with the first, in some milliseconds."""
BLOCK = 64
"""Lines that are counted at a time, where they were not before."""

_HEAD = '{"reference":'
_SAMPLES: dict[str, tuple[str, Line]] = {
    # What was counted of a line, and the line, with the longest of what else may stand in it.
    "entities": (
        '{"entity":"x","type":"x","description":"x"}',
        {"entity": "x", "type": "x", "description": "x", "rank": 0.0001234, "created_at": "2026-12-31"},
    ),
    "relationships": (
        '{"source":"x","target":"x","description":"x"}',
        {
            "source": "x", "target": "x", "description": "x", "weight": 12345.678, "rank": 0.0001234,
            "created_at": "2026-12-31",
        },
    ),
    "reports": ('"x"', {"rating": 10.0, "report": "x"}),
    "chunks": ('"x"', {"created_at": "2026-12-31", "path": "", "text": "x"}),
}  # fmt: skip


class Places(NamedTuple):
    """Where some chunks stand: the characters [start, end) of a document each."""

    paths: list[str]
    chunk_ids: list[str]
    starts: list[int]
    ends: list[int]


def as_json(line: Line) -> str:
    """The line as it is written into a context: what is not known is left out."""
    known = {name: value for name, value in line.items() if value != ""} if "" in line.values() else line
    return orjson.dumps(known).decode()


class ContextLines:
    """Lines of the rows of each table: "entities", "relationships", "reports", "chunks" and "claims"."""

    def __init__(self, index: Index) -> None:
        self._index, self._tokenizer = index, index.tokenizer
        self._columns: dict[tuple[str, str], Any] = {}
        self._decoded_bytes = 0
        self._written: dict[str, dict[int, str]] = {}
        """Of each table, a row's line less its reference number."""
        self._kept_chars = 0
        self._fixed_tokens: dict[str, int] = {}
        chunks = index.chunks
        self._starts, self._ends = (chunks[name].to_numpy() for name in ("start", "end"))
        # Of a document rather than of each of its chunks, which are many more.
        documents = pc.unique(chunks["document_id"])
        self._document = pc.index_in(chunks["document_id"], value_set=documents).to_numpy()
        self._days = [_day(index.created_at[document_id]) for document_id in documents.to_pylist()]
        first = pc.index_in(documents, value_set=chunks["document_id"].combine_chunks())
        self._paths: list[str] = chunks["path"].take(first).to_pylist()
        self._path_tokens = np.full(len(documents), -1, np.int64)
        self.claims, self.claims_of_entity, self.chunk_of_claim = claim_rows(index)
        self._entity_rank = index.entities["rank"].to_numpy()
        self._tokens = {name: self._counted(name) for name in (*_SAMPLES, "claims")}
        self._paths_apart = bool(len(self._tokens["chunks"])) and int(self._tokens["chunks"][0]) >= 0

    def fitting(self, table: str, rows: Rows, budget: int) -> tuple[Rows, int]:
        """As many of the rows, from the first on, as have lines within the budget, and what these take at most."""
        used, kept = 0, 0
        for start in range(0, len(rows), BLOCK):
            total = used + np.cumsum(self.tokens(table, rows[start : start + BLOCK]))
            here = int(np.searchsorted(total, budget, "right"))
            kept += here
            used = int(total[here - 1]) if here else used
            if here < len(total):
                break
        return rows[:kept], used

    def tokens(self, table: str, rows: Rows) -> Rows:
        """Tokens that each row's line, with its line break, takes at most."""
        known = self._tokens[table]
        if (known[rows] < 0).any():
            missing = np.unique(rows[known[rows] < 0])
            lines = self.lines(table, missing, [LARGEST_REFERENCE] * len(missing))
            known[missing] = self._tokenizer.count(list(map(as_json, lines))) + 1
        tokens: Rows = known[rows]
        return tokens + self._tokens_of_paths(rows) if table == "chunks" and self._paths_apart else tokens

    def count_fixed(self, text: str) -> int:
        """Tokens of a text that comes again and again, such as instructions."""
        if text not in self._fixed_tokens:
            self._fixed_tokens[text] = int(self._tokenizer.count([text])[0])
        return self._fixed_tokens[text]

    def lines(self, table: str, rows: Rows, numbers: Sequence[int]) -> list[Line]:
        """The rows as JSON objects with these reference numbers."""
        if table == "claims":
            columns = self.strings(table, CLAIM_COLUMNS, rows)
            known = (
                [n, *("" if value == NONE else value for value in row)]
                for n, *row in zip(numbers, *columns, strict=True)
            )
            return [dict(zip(("reference", *CLAIM_COLUMNS), row, strict=True)) for row in known]
        if table == "chunks":
            (texts,) = self.strings(table, ("text",), rows)
            found = zip(numbers, self._days_of(rows), self._paths_of(rows), texts, strict=True)
            return [{"reference": n, "created_at": day, "path": path, "text": text} for n, day, path, text in found]
        if table == "reports":
            (texts,) = self.strings(table, ("full_text",), rows)
            rated = zip(numbers, self._index.rating[rows].tolist(), texts, strict=True)
            return [{"reference": n, "rating": rating, "report": text} for n, rating, text in rated]
        days = self._days_of(self.first_chunks(table, rows))
        if table == "entities":
            columns = self.strings(table, ("name", "type", "description"), rows)
            ranks = map(_rank, self._entity_rank[rows].tolist())
            return [
                {"reference": n, "entity": name, "type": type_, "description": text, "rank": rank, "created_at": day}
                for n, name, type_, text, rank, day in zip(numbers, *columns, ranks, days, strict=True)
            ]
        columns = self.strings(table, ("source", "target", "description"), rows)
        weights = np.round(self._index.weight[rows], 3).tolist()
        ranks = map(_rank, self._index.rank[rows].tolist())
        return [
            {
                "reference": n, "source": one, "target": other, "description": text, "weight": weight, "rank": rank,
                "created_at": day,
            }
            for n, one, other, text, weight, rank, day in zip(numbers, *columns, weights, ranks, days, strict=True)
        ]  # fmt: skip

    def written(self, table: str, rows: Rows, numbers: Sequence[int]) -> list[str]:
        """Lines of the rows as ``as_json`` writes them; all of one but its reference number is kept."""
        kept = self._written.setdefault(table, {})
        tails = list(map(kept.get, rows.tolist()))
        new = [place for place, tail in enumerate(tails) if tail is None]
        if new:
            added = [as_json(line)[len(_HEAD) + 1 :] for line in self.lines(table, rows[new], [0] * len(new))]
            for place, tail in zip(new, added, strict=True):
                tails[place] = tail
            self._keep(table, rows[new].tolist(), added)
        return [f"{_HEAD}{number}{tail}" for number, tail in zip(numbers, tails, strict=True)]

    def _keep(self, table: str, rows: list[int], tails: list[str]) -> None:
        """Keeps the text of lines, as much as there is room for; then all are dropped, and it begins anew."""
        self._kept_chars += sum(map(len, tails))
        if self._kept_chars > KEPT_CHARS:
            self._written.clear()
            self._kept_chars = sum(map(len, tails))
        self._written.setdefault(table, {}).update(zip(rows, tails, strict=True))

    def first_chunks(self, table: str, rows: Rows) -> Rows:
        """The chunk that each row is cited with: the first that it was read in."""
        if table in ("chunks", "claims"):
            return rows if table == "chunks" else self.chunk_of_claim[rows]
        index = self._index
        lists = {
            "entities": index.chunks_of_entity,
            "relationships": index.chunks_of_relationship,
            "reports": index.chunks_of_community,
        }[table]
        first: Rows = lists.values[lists.offsets[rows]]
        return first

    def same_text(self, chunks: Rows) -> tuple[Rows, list[int]]:
        """All chunks that have the texts of these, one text's after another's, and how many of each text there are."""
        texts, chunks_of_text = self._index.text_of_chunk[chunks], self._index.chunks_of_text
        return chunks_of_text.gather(texts), chunks_of_text.lengths(texts).tolist()

    def places(self, chunks: Rows) -> Places:
        """Where the chunks stand."""
        (ids,) = self.strings("chunks", ("chunk_id",), chunks)
        return Places(self._paths_of(chunks), ids, self._starts[chunks].tolist(), self._ends[chunks].tolist())

    def strings(self, table: str, columns: Sequence[str], rows: Rows) -> list[list[str]]:
        """Some rows of columns of strings, column by column."""
        return [self._column(table, name, rows) for name in columns]

    def _column(self, table: str, name: str, rows: Rows) -> list[str]:
        column = self._columns.get((table, name))
        if column is None:
            source = (self.claims if table == "claims" else getattr(self._index, table))[name]
            num_bytes = source.nbytes + STRING_BYTES * len(source)
            if self._decoded_bytes + num_bytes <= DECODED_BYTES:
                self._decoded_bytes += num_bytes
                column = np.array(source.to_pylist(), dtype=object)
            else:
                column = source.combine_chunks() if source.nbytes < MAX_ARRAY_BYTES else source
            self._columns[table, name] = column
        taken = column[rows].tolist() if isinstance(column, np.ndarray) else column.take(pa.array(rows)).to_pylist()
        values: list[str] = taken
        return values

    def _days_of(self, chunks: Rows) -> list[str]:
        return [self._days[document] for document in self._document[chunks].tolist()]

    def _paths_of(self, chunks: Rows) -> list[str]:
        return [self._paths[document] for document in self._document[chunks].tolist()]

    def _tokens_of_paths(self, chunks: Rows) -> Rows:
        documents = self._document[chunks]
        if (self._path_tokens[documents] < 0).any():
            few = len(self._paths) <= FEW_PATHS
            new = np.arange(len(self._paths)) if few else np.unique(documents[self._path_tokens[documents] < 0])
            paths = [as_json({"path": self._paths[document]}) for document in new.tolist()]
            self._path_tokens[new] = self._tokenizer.count(paths)
        tokens: Rows = self._path_tokens[documents]
        return tokens

    def _counted(self, table: str) -> Rows:
        """Tokens of each row's line, paths of chunks apart; -1 where they are not known."""
        index = self._index
        num_rows = self.claims.num_rows if table == "claims" else getattr(index, table).num_rows
        own = np.full(num_rows, -1, np.int64)
        if table in ("entities", "relationships"):
            made_with = index.folder.facts["summary"].get("models", {}).get("tokenizer")
            if made_with == self._tokenizer.name:
                own = index.tokens_of[table]
        elif table in ("chunks", "reports"):
            own = self._counted_quotes(table, own)
        if not num_rows or own[0] < 0:
            return own.copy()
        counted, line = _SAMPLES[table]
        before, after = self._tokenizer.count([counted, as_json({"reference": LARGEST_REFERENCE, **line})]).tolist()
        bounds: Rows = own + (int(after) - int(before) + SLACK + 1)
        return bounds

    def _counted_quotes(self, table: str, unknown: Rows) -> Rows:
        index = self._index
        folder, name = index.folder, f"tokens_{table}"
        if not folder.is_finished(name, tokens_print(folder, table, self._tokenizer.name)):
            return unknown
        counted = folder.read(name)
        ids = index.chunks["text_id"] if table == "chunks" else index.reports["community_id"]
        place = pc.index_in(ids, value_set=counted["id"].combine_chunks())
        tokens: Rows = counted["num_tokens"].to_numpy()[place.to_numpy()].astype(np.int64)
        return tokens


def _rank(rank: float) -> int | float:
    """A degree as the whole number that it is, another rank to four digits."""
    return int(rank) if rank.is_integer() else float(f"{rank:.4g}")


def _day(moment: Any) -> str:
    return str(moment.date()) if moment is not None else ""
