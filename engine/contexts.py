"""What a mode puts in front of the model: rows of the index, each with its reference number, within token budgets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphmill.engine.index import Index
from graphmill.engine.query_param import QueryParam
from graphmill.engine.rows import Rows
from graphmill.kernels.pack import pack

LINE_OVERHEAD_TOKENS = 24
"""About what the fields round a row's own text take: braces, names of fields, reference number, time."""


@dataclass(frozen=True)
class Reference:
    """Something in the context that an answer can cite, and where it stands in the corpus."""

    number: int
    kind: str
    """"entity", "relationship", "report" or "chunk"."""
    label: str
    document: str
    chunk_id: str
    start: int
    """Character span [start, end) of the chunk in its document."""
    end: int


@dataclass
class Context:
    """The rows that a question brought up, as the model gets them."""

    sections: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not any(self.sections.values())

    @property
    def next_number(self) -> int:
        """Number for the next row. References with one number are places of one row."""
        return self.references[-1].number + 1 if self.references else 1

    def render(self) -> str:
        """Each section as JSON lines under its name."""
        parts = []
        for name, rows in self.sections.items():
            if rows:
                lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
                parts.append(f"-----{name}-----\n{lines}")
        return "\n\n".join(parts)


def naive_context(index: Index, texts: Rows, param: QueryParam) -> Context:
    """The texts themselves, in the order they were found."""
    context = Context()
    chunks = index.chunks_of_text.values[index.chunks_of_text.offsets[texts]] if len(texts) else texts
    _add_chunks(context, index, chunks, param.naive_max_token_for_text_unit)
    return context


def local_context(index: Index, entities: Rows, param: QueryParam) -> Context:
    """Entities with the reports of their communities, their relationships and their chunks."""
    context = Context()
    _add_reports(context, index, reports_of(index, entities, param), param.local_max_token_for_community_report)
    kept = _within(index.tokens_of["entities"][entities], param.max_entity_tokens)
    _add_entities(context, index, entities[kept], param.max_entity_tokens)
    edges = relationships_of(index, entities)
    kept = _within(index.tokens_of["relationships"][edges], param.local_max_token_for_local_context)
    _add_relationships(context, index, edges[kept], param.local_max_token_for_local_context)
    _add_chunks(context, index, chunks_of(index, entities), param.local_max_token_for_text_unit)
    return context


def reports_of(index: Index, entities: Rows, param: QueryParam) -> Rows:
    """Communities of the entities at most ``level`` deep: by how many of the entities they hold, then by rating."""
    found = index.communities_of_entity.gather(entities)
    communities, held = np.unique(found[index.level[found] <= param.level], return_counts=True)
    order = np.lexsort((communities, -index.rating[communities], -held))
    return communities[order][: 1 if param.local_community_single_one else None]


def relationships_of(index: Index, entities: Rows) -> Rows:
    """All relationships of the entities: by rank, then by weight."""
    edges = np.unique(index.edges.gather(entities))
    return edges[np.lexsort((edges, -index.weight[edges], -index.combined_degree[edges]))]


def chunks_of(index: Index, entities: Rows) -> Rows:
    """The entities' chunks: in the order of the entities, then by how many one-hop neighbours stand in the chunk too.

    Of chunks with the same text the first stands for all.
    """
    num_chunks = index.chunks.num_rows
    ordered = []
    for entity in entities:
        own = index.chunks_of_entity[entity]
        neighbours = index.neighbours[entity]
        shared = np.bincount(index.chunks_of_entity.gather(neighbours), minlength=num_chunks)[own]
        ordered.append(own[np.lexsort((own, -shared))])
    return _first_of_each(np.concatenate([*ordered, np.empty(0, np.int64)]))


def global_reports(index: Index, param: QueryParam) -> Rows:
    """Reports that a global question considers: by occurrence, then by rating, best first."""
    fits = (index.level <= param.level) & (index.rating >= param.global_min_community_rating)
    rows = np.flatnonzero(fits)
    order = np.lexsort((rows, -index.rating[rows], -index.occurrence[rows]))
    return rows[order][: param.global_max_consider_community]


def without_relatives(index: Index, reports: Rows) -> Rows:
    """Reports, best first, less those of which a part or a whole has come before: they would say the same twice."""
    kept: dict[int, None] = {}
    above: set[int] = set()
    for report in reports.tolist():
        ancestors = []
        parent = int(index.parent[report])
        while parent >= 0:
            ancestors.append(parent)
            parent = int(index.parent[parent])
        if report not in above and not any(ancestor in kept for ancestor in ancestors):
            kept[report] = None
            above.update(ancestors)
    return np.array(list(kept), np.int64)


def reports_context(index: Index, reports: Rows, max_tokens: int) -> Context:
    """Whole reports in the order given, within the budget."""
    context = Context()
    _add_reports(context, index, reports, max_tokens)
    return context


def _within(tokens: Rows, budget: int) -> Any:
    return pack(np.zeros(len(tokens), np.int64), tokens + LINE_OVERHEAD_TOKENS, budget)


def _fitting(
    index: Index, keys: Sequence[Any] | Rows, lines: Sequence[dict[str, Any]], budget: int
) -> list[tuple[Any, dict[str, Any]]]:
    """The keys and lines that fit the budget as they are written; ``_within`` has only judged by the rows' own text."""
    written = [json.dumps({"reference": 99_999, **line}, ensure_ascii=False) for line in lines]
    pairs = list(zip(keys, lines, strict=True))
    if sum(len(text.encode("utf-8", "replace")) + 1 for text in written) <= budget:  # a token is a byte or more
        return pairs
    kept = pack(np.zeros(len(written), np.int64), index.tokenizer.count(written) + 1, budget)
    return [pair for pair, keep in zip(pairs, kept, strict=True) if keep]


def _first_of_each(rows: Rows) -> Rows:
    _, first = np.unique(rows, return_index=True)
    return rows[np.sort(first)]


def _add_chunks(context: Context, index: Index, chunks: Rows, budget: int) -> None:
    """Texts of the chunks, each once; a text that stands in several documents is cited in each under one number."""
    chunks = _first_text_of_each(index, chunks)
    chunks = chunks[_within(index.tokens_of["chunks"][chunks], budget)]
    lines = [
        {"created_at": _day(index.created_at[chunk["document_id"]]), "path": chunk["path"], "text": chunk["text"]}
        for chunk in _take(index.chunks, chunks)
    ]
    rows = context.sections.setdefault("Sources", [])
    for row, line in _fitting(index, chunks, lines, budget):
        number = context.next_number
        for place in index.chunks_of_text[index.text_of_chunk[row]]:
            _cite(context, index, "chunk", index.chunks["path"][int(place)].as_py(), int(place), number)
        rows.append({"reference": number, **line})


def _first_text_of_each(index: Index, chunks: Rows) -> Rows:
    if not len(chunks):
        return chunks
    _, first = np.unique(index.text_of_chunk[chunks], return_index=True)
    return chunks[np.sort(first)]


def _add_entities(context: Context, index: Index, entities: Rows, budget: int) -> None:
    chunks = [int(index.chunks_of_entity[row][0]) for row in entities]
    lines = [
        {
            "entity": entity["name"],
            "type": entity["type"],
            "description": entity["description"],
            "rank": entity["degree"],
            "created_at": _day(index.created_at[index.chunks["document_id"][chunk].as_py()]),
        }
        for chunk, entity in zip(chunks, _take(index.entities, entities), strict=True)
    ]
    rows = context.sections.setdefault("Entities", [])
    for chunk, line in _fitting(index, chunks, lines, budget):
        rows.append({"reference": _cite(context, index, "entity", line["entity"], chunk), **line})


def _add_relationships(context: Context, index: Index, edges: Rows, budget: int) -> None:
    chunks = [int(index.chunks_of_relationship[row][0]) for row in edges]
    lines = [
        {
            "source": edge["source"],
            "target": edge["target"],
            "description": edge["description"],
            "weight": round(edge["weight"], 3),
            "rank": edge["combined_degree"],
            "created_at": _day(index.created_at[index.chunks["document_id"][chunk].as_py()]),
        }
        for chunk, edge in zip(chunks, _take(index.relationships, edges), strict=True)
    ]
    rows = context.sections.setdefault("Relationships", [])
    for chunk, line in _fitting(index, chunks, lines, budget):
        label = f"{line['source']} - {line['target']}"
        rows.append({"reference": _cite(context, index, "relationship", label, chunk), **line})


def _add_reports(context: Context, index: Index, reports: Rows, budget: int) -> None:
    reports = reports[_within(index.tokens_of["reports"][reports], budget)]
    taken = _take(index.reports, reports)
    lines = [{"rating": report["rating"], "report": report["full_text"]} for report in taken]
    found = [
        (int(index.chunks_of_community[row][0]), report["title"]) for row, report in zip(reports, taken, strict=True)
    ]
    rows = context.sections.setdefault("Reports", [])
    for (chunk, title), line in _fitting(index, found, lines, budget):
        rows.append({"reference": _cite(context, index, "report", title, chunk), **line})


def _cite(context: Context, index: Index, kind: str, label: str, chunk: int, number: int = 0) -> int:
    """Adds a reference and gives its number. An entity is cited with the first chunk that it stands in."""
    number = number or context.next_number
    place = {name: index.chunks[name][chunk].as_py() for name in ("path", "chunk_id", "start", "end")}
    context.references.append(
        Reference(number, kind, label, place["path"], place["chunk_id"], place["start"], place["end"])
    )
    return number


def _take(table: Any, rows: Rows) -> Sequence[dict[str, Any]]:
    taken: Sequence[dict[str, Any]] = table.take(rows).to_pylist()
    return taken


def _day(moment: Any) -> str:
    return str(moment.date()) if moment is not None else ""
