"""What each mode looks up for a question: rows of the index, put into one context. ``MODES`` lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from graphmill.engine.contexts import UNLIMITED, Context
from graphmill.engine.embed import embed_texts
from graphmill.engine.graph_rows import (
    by_rank,
    chunks_of,
    chunks_of_texts,
    claims_of,
    ends_of,
    first_of_each,
    global_reports,
    in_turn,
    relationships_of,
    reports_of,
    without_relatives,
)
from graphmill.engine.index import Index, Scores
from graphmill.engine.keywords import Keywords, find_keywords
from graphmill.engine.models import Generator
from graphmill.engine.query_param import KEYWORD_MODES, QueryParam
from graphmill.engine.question import Question
from graphmill.engine.rerank import Reranker
from graphmill.engine.rows import Rows
from graphmill.engine.run_folder import IndexFolderError
from graphmill.engine.server import ServerError

WIDER = 3
"""A reranker gets this many times as many chunks as are wanted, so that it has something to choose from."""
RANKED_CHUNKS = 100
"""Chunks nearest to a question that are told apart by how near they are; of all others the graph gives the order."""
CLAIMS_SHARE = 4
"""One part in so many of the local context's budget is claims', where there are any about the entities."""
DRIFT_REPORTS = 5
"""Reports that follow-up questions are drawn from, and most follow-ups."""
FEW_REPORTS, FEW_NEAREST = 4096, 256
"""Reports up to which all are scored for these; and how many of the nearest are looked at, since many say the same of a
part and of its whole, or lie too deep."""


@dataclass
class Search:
    """A question on its way through an index."""

    index: Index
    question: Question
    param: QueryParam
    generator: Generator | None = None
    reranker: Reranker | None = None
    warnings: list[str] = field(default_factory=list)

    def embed(self, *texts: str) -> Mapping[str, Scores]:
        """A unit vector float32 [1, d] of each distinct text, from one call."""
        distinct = list(dict.fromkeys(texts))
        vectors = embed_texts(distinct, self.index.embedder)
        return {text: vectors[n : n + 1] for n, text in enumerate(distinct)}

    def entities(self, text: str, vector: Scores) -> Rows:
        """The entities that are nearest to a text."""
        index, param = self.index, self.param
        return index.search(index.search_entities, text, vector, param.top_k, param.lexical)[0]

    def chunks(self, text: str, vector: Scores, k: int) -> Rows:
        """The chunks that are nearest to a text, one of each text."""
        index = self.index
        texts, _ = index.search(index.search_texts, text, vector, k, self.param.lexical)
        return chunks_of_texts(index, texts)

    def num_chunks(self) -> int:
        """How many chunks are wanted before the reranker, if there is one, has chosen."""
        return self.param.chunk_top_k * (1 if self.reranker is None else WIDER)

    def chosen(self, chunks: Rows) -> Rows:
        """The best ``chunk_top_k`` of the chunks, as the reranker puts them, or else in their order."""
        if self.reranker is not None and len(chunks):
            chunks = chunks[: self.num_chunks()]
            texts = self.index.lines.strings("chunks", ("text",), chunks)[0]
            try:
                scores = self.reranker.rank(self.question.text, texts)
                chunks = chunks[np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")]
            except (ServerError, ValueError) as error:
                self.warnings.append(f"the chunks could not be reranked: {error}")
        return chunks[: self.param.chunk_top_k]


def naive(search: Search, context: Context) -> None:
    """The chunks that are nearest to the question."""
    text = search.question.search_text
    chunks = search.chunks(text, search.embed(text)[text], search.num_chunks())
    context.add(search.index, "chunks", search.chosen(chunks), search.param.naive_max_token_for_text_unit)


def local(search: Search, context: Context) -> None:
    """The entities that are nearest to the question, and what stands round them."""
    text = search.question.search_text
    add_local(search.index, search.param, search.entities(text, search.embed(text)[text]), context)


def add_local(index: Index, param: QueryParam, entities: Rows, context: Context) -> None:
    """Entities with the reports of their communities, their relationships, claims and chunks."""
    add_graph(index, param, reports_of(index, entities, param), entities, context)
    chunks = chunks_of(index, entities, param.local_max_token_for_text_unit)
    context.add(index, "chunks", chunks, param.local_max_token_for_text_unit)


def add_graph(index: Index, param: QueryParam, reports: Rows, entities: Rows, context: Context) -> None:
    """The local context but for its chunks."""
    context.add(index, "reports", reports, param.local_max_token_for_community_report)
    context.add(index, "entities", entities, param.max_entity_tokens)
    budget = param.local_max_token_for_local_context
    claims = claims_of(index, entities)
    if len(claims):
        budget -= context.add(index, "claims", claims, budget // CLAIMS_SHARE)
    context.add(index, "relationships", relationships_of(index, entities), budget)


def global_(search: Search, context: Context) -> None:
    """The reports that a global question considers. Without a model, which scores them, their vectors rank them.

    They are all scored as the question is asked: the nearest of the whole table might hold none of them.
    """
    index, param = search.index, search.param
    allowed = global_reports(index, param)
    if search.generator is not None:
        context.add(index, "reports", allowed)
        return
    text = search.question.search_text
    reports = index.search_among(index.search_reports, text, search.embed(text)[text], allowed, param.lexical)
    context.add(index, "reports", without_relatives(index, reports), param.global_max_token_for_community_report)


def nearest_reports(search: Search) -> Rows:
    """The DRIFT_REPORTS reports that are nearest to the question, none with a part or the whole of another."""
    index, param, text = search.index, search.param, search.question.search_text
    vector = search.embed(text)[text]
    allowed = np.flatnonzero(index.level <= param.level)
    if len(allowed) <= FEW_REPORTS:
        reports = index.search_among(index.search_reports, text, vector, allowed, param.lexical)
        return without_relatives(index, reports[:FEW_NEAREST])[:DRIFT_REPORTS]
    found, _ = index.search(index.search_reports, text, vector, FEW_NEAREST, param.lexical)
    return without_relatives(index, found[index.level[found] <= param.level])[:DRIFT_REPORTS]


def by_keywords(search: Search, context: Context) -> None:
    """What the low-level keywords find among the entities and the high-level ones among the relationships.

    Both in turn in hybrid, and in mix with the chunks that are nearest to the question.
    """
    index, param, mode = search.index, search.param, search.param.mode
    context.keywords = keywords = _keywords(search)
    question = search.question.search_text
    low, high = (", ".join(words) or question for words in (keywords.low_level, keywords.high_level))
    vectors = search.embed(low, high, question)
    ranked = search.chunks(question, vectors[question], max(RANKED_CHUNKS, search.num_chunks()))
    entities, edges = [], []
    if mode != "keywords-global":
        found = search.entities(low, vectors[low])
        entities.append(found)
        edges.append(relationships_of(index, found))
    if mode != "keywords-local":
        related = by_rank(index, relationships_near(search, high, vectors[high]))
        entities.append(ends_of(index, related))
        edges.append(related)
    found, related = in_turn(*entities), in_turn(*edges)
    context.add(index, "entities", found, param.entity_tokens)
    context.add(index, "relationships", related, param.relation_tokens)
    chunks = chunks_round(index, found, ranked, search.num_chunks())
    if mode == "mix":
        chunks = in_turn(ranked[: search.num_chunks()], chunks)
    limit = param.max_token_for_text_unit
    context.add(index, "chunks", search.chosen(chunks), UNLIMITED if limit is None else limit)


def chunks_round(index: Index, entities: Rows, ranked: Rows, k: int) -> Rows:
    """At least k chunks of the entities, as far as there are so many: those among the ``ranked`` in the order of these,
    then the others in the order that the graph gives."""
    texts = index.text_of_chunk[index.chunks_of_entity.gather(entities)]
    near = ranked[np.isin(index.text_of_chunk[ranked], texts)]
    if len(near) >= k:
        return near
    return first_of_each(np.concatenate([near, chunks_of(index, entities, UNLIMITED)]))


def _keywords(search: Search) -> Keywords:
    """Those that are given, or else what the question's are found to be."""
    param, question = search.param, search.question
    if param.hl_keywords or param.ll_keywords:
        return Keywords(tuple(param.hl_keywords), tuple(param.ll_keywords))
    # A model is shown the conversation; the phrase finder reads the last question with this one.
    text = question.text if search.generator is not None else question.search_text
    found, warning = find_keywords(text, question.language, question.history, search.generator)
    search.warnings += [warning] if warning else []
    return found


def relationships_near(search: Search, text: str, vector: Scores) -> Rows:
    """The ``top_k`` relationships that are nearest to a text.

    Those that co-occurrence made have no text, and so no vectors: there the ones with the nearest ends are taken.
    """
    index, param = search.index, search.param
    what = index.search_relationships
    if what is None:
        told = (
            f"the index {index.folder.root} has no vectors of relationships, which the mode {param.mode} searches: set "
            "embed.relationships = true, and run `graphmill index` on it again"
        )
        if param.mode == "keywords-global":
            raise IndexFolderError(told)
        search.warnings.append(told)
    elif len(what.row_of_vector) or not index.relationships.num_rows:
        return index.search(what, text, vector, param.top_k, param.lexical)[0]
    entities, scores = index.search(index.search_entities, text, vector, WIDER * param.top_k, param.lexical)
    near = np.zeros(index.entities.num_rows, np.float32)
    near[entities] = scores
    edges = np.unique(index.edges.gather(entities))
    closeness = near[index.source[edges]] + near[index.target[edges]]
    return edges[np.lexsort((edges, -index.rank[edges], -closeness))][: param.top_k]


def drift_without_model(search: Search, context: Context) -> None:
    """The nearest reports, whose titles are the follow-ups, and what stands round the entities that these find."""
    index, param = search.index, search.param
    reports = nearest_reports(search)
    context.follow_ups = list(dict.fromkeys(index.lines.strings("reports", ("title",), reports)[0]))
    texts = [search.question.search_text, *context.follow_ups]
    vectors = embed_texts(texts, index.embedder)
    found = [rows for rows, _ in index.search_each(index.search_entities, texts, vectors, param.top_k, param.lexical)]
    entities = first_of_each(np.concatenate([found[0], in_turn(*found[1:])]))[: WIDER * param.top_k]
    around = first_of_each(np.concatenate([reports, reports_of(index, entities, param)]))
    add_graph(index, param, around, entities, context)
    ranked = search.chunks(texts[0], vectors[:1], RANKED_CHUNKS)
    chunks = in_turn(
        chunks_round(index, entities, ranked, param.chunk_top_k),
        chunks_of(index, found[0], param.local_max_token_for_text_unit),
    )
    context.add(index, "chunks", chunks, param.local_max_token_for_text_unit)


MODES: Mapping[str, Callable[[Search, Context], None]] = {
    "naive": naive,
    "local": local,
    "global": global_,
    "drift": drift_without_model,
    **dict.fromkeys(KEYWORD_MODES, by_keywords),
}
"""What fills the context of each mode; with a model drift is made of several (drift.py)."""
