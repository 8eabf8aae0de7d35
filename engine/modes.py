"""What each mode looks up for a question: rows of the index, put into one context. ``MODES`` lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graphmill.engine.contexts import UNLIMITED, Context, Section
from graphmill.engine.graph_rows import (
    by_rank,
    chunks_of,
    chunks_of_texts,
    claims_of,
    ends_of,
    global_reports,
    in_turn,
    relationships_of,
    reports_of,
    without_relatives,
)
from graphmill.engine.index import Index
from graphmill.engine.look_up import Want
from graphmill.engine.query_param import KEYWORD_MODES, QueryParam
from graphmill.engine.rows import Rows, distinct, first_of_each, is_in
from graphmill.engine.run_folder import IndexFolderError
from graphmill.engine.search import WIDER, Search

FEW_TEXTS, FEW_AROUND = 250_000, 16_384
"""Texts of an index, and those of a question's entities, up to which these are all scored."""
RANKED_CHUNKS = 100
"""Where there are more, or entities come by relationships, chunks nearest to a question that are told apart."""
CLAIMS_SHARE = 4
"""One part in so many of the local context's budget is claims', where there are any about the entities."""
DRIFT_REPORTS = 5
"""Reports that follow-up questions are drawn from, and most follow-ups."""
MAX_TITLES = 8192
"""Titles of reports that are kept with the entities they find."""
FEW_REPORTS, FEW_NEAREST = 4096, 256
"""Reports up to which all are scored for these; and how many of the nearest are looked at, since many say the same of a
part and of its whole, or lie too deep."""


def naive(search: Search, context: Context) -> Section:
    """The chunks that are nearest to the question."""
    chunks = search.chunks(search.question.search_text, search.num_chunks())
    return Section("chunks", chunks, search.param.naive_max_token_for_text_unit)


def local(search: Search, context: Context) -> None:
    """The entities that are nearest to the question, and what stands round them."""
    add_local(search.index, search.param, search.entities(search.question.search_text), context)


def add_local(index: Index, param: QueryParam, entities: Rows, context: Context) -> None:
    """Entities with the reports of their communities, their relationships, claims and chunks."""
    tokens = param.local_max_token_for_text_unit
    passages = Section("chunks", chunks_of(index, entities, tokens), tokens)
    add_graph(index, param, reports_of(index, entities, param), entities, context, passages)
    context.add(index, *passages)


def add_graph(
    index: Index, param: QueryParam, reports: Rows, entities: Rows, context: Context, passages: Section
) -> None:
    """The local context but for its passages, which are to follow."""
    sections = [
        Section("reports", reports, param.local_max_token_for_community_report),
        Section("entities", entities, param.max_entity_tokens),
    ]
    budget = param.local_max_token_for_local_context
    claims = claims_of(index, entities)
    if len(claims):
        sections.append(Section("claims", claims, budget // CLAIMS_SHARE))
        budget -= index.lines.fitting(*sections[-1])[1]
    sections.append(Section("relationships", relationships_of(index, entities), budget))
    context.add_before(index, sections, passages)


def global_(search: Search, context: Context) -> None:
    """The reports that a global question considers. Without a model, which scores them, their vectors rank them.

    They are all scored as the question is asked: the nearest of the whole table might hold none of them.
    """
    index, param = search.index, search.param
    allowed = global_reports(index, param)
    if search.generator is not None:
        context.add(index, "reports", allowed)
        return
    reports = without_relatives(index, search.among(index.search_reports, allowed))
    context.add(index, "reports", reports, param.global_max_token_for_community_report)


def nearest_reports(search: Search) -> Rows:
    """The DRIFT_REPORTS reports that are nearest to the question, none with a part or the whole of another."""
    if search.found.reports is None:
        index, level = search.index, search.param.level
        found = np.empty(0, np.int64)
        if (want := _want_reports(search)).table:
            near, _ = search.nearest(want)
            found = without_relatives(index, near[index.level[near] <= level], DRIFT_REPORTS)
        if len(found) < DRIFT_REPORTS:  # there are few, or most of the nearest of all lie too deep
            near = search.among(index.search_reports, np.flatnonzero(index.level <= level))[:FEW_NEAREST]
            found = without_relatives(index, near, DRIFT_REPORTS)
        search.found.reports = found
    return search.found.reports


def _want_reports(search: Search) -> Want:
    """The nearest of many reports, or the vector alone, which a few are then scored with."""
    few = np.count_nonzero(search.index.level <= search.param.level) <= FEW_REPORTS
    question = search.question.search_text
    return Want(question) if few else Want(question, "reports", FEW_NEAREST)


def by_keywords(search: Search, context: Context) -> Section:
    """What the low-level keywords find among the entities and the high-level ones among the relationships.

    Both in turn in hybrid, and in mix with the chunks that are nearest to the question.
    """
    index, param, mode = search.index, search.param, search.param.mode
    context.keywords = search.keywords
    low, high = search.searched_for()
    search.look_up(wanted(search))  # all at once
    entities, edges = [], []
    if mode != "keywords-global":
        found = search.entities(low)
        entities.append(found)
        edges.append(relationships_of(index, found))
    if mode != "keywords-local":
        related = by_rank(index, relationships_near(search, high))
        entities.append(ends_of(index, related))
        edges.append(related)
    found, related = in_turn(*entities), in_turn(*edges)
    chunks = chunks_round(search, found, search.num_chunks(), UNLIMITED)
    if mode == "mix":
        nearest = search.chunks(search.question.search_text, _num_nearest(search))
        chunks = in_turn(nearest[: search.num_chunks()], chunks)
    limit = UNLIMITED if param.max_token_for_text_unit is None else param.max_token_for_text_unit
    sections = [
        Section("entities", found, param.entity_tokens),
        Section("relationships", related, param.relation_tokens),
    ]
    context.add_before(index, sections, Section("chunks", chunks[: param.chunk_top_k], limit))
    return Section("chunks", chunks, limit)


def chunks_round(search: Search, entities: Rows, k: int, tokens: int) -> Rows:
    """The chunks of entities, one of each text, the nearest to the question first.

    Where those are many, only the ones among the nearest of all chunks are put in order so; behind them come others as
    the graph puts them, until there are k or these have so many tokens.
    """
    index = search.index
    texts = distinct(index.text_of_chunk[index.chunks_of_entity.gather(entities)])
    if _is_ranked(search) or len(texts) > FEW_AROUND:
        ranked = search.chunks(search.question.search_text, _num_nearest(search))
        near = ranked[is_in(index.text_of_chunk[ranked], texts)]
    else:
        near = chunks_of_texts(index, search.among(index.search_texts, texts))
    if len(near) >= k:
        return near
    return first_of_each(np.concatenate([near, chunks_of(index, entities, tokens, k)]))


def _is_ranked(search: Search) -> bool:
    """Whether the nearest of all chunks are looked up before it is known which ones stand round the entities: in mix,
    which shows them too, where entities come by relationships, which makes them and their chunks many, and where there
    are very many chunks."""
    return search.param.mode not in ("keywords-local", "drift") or len(search.index.text_ids) > FEW_TEXTS


def _num_nearest(search: Search) -> int:
    return max(RANKED_CHUNKS, search.num_chunks())


def relationships_near(search: Search, text: str) -> Rows:
    """The ``top_k`` relationships that are nearest to a text.

    Those that co-occurrence made have no text, and so no vectors: there the ones with the nearest ends are taken.
    """
    index, param = search.index, search.param
    if index.search_relationships is None:
        told = (
            f"the index {index.folder.root} has no vectors of relationships, which the mode {param.mode} searches: set "
            "embed.relationships = true, and run `graphmill index` on it again"
        )
        if param.mode == "keywords-global":
            raise IndexFolderError(told)
        search.warn_of_limit(told)
    want = _want_relationships(index, text, param)
    found, scores = search.nearest(want)
    if want.table == "relationships":
        return found
    near = np.zeros(index.entities.num_rows, np.float32)
    near[found] = scores
    edges = distinct(index.edges.gather(found))
    closeness = near[index.source[edges]] + near[index.target[edges]]
    return edges[np.lexsort((edges, -index.rank[edges], -closeness))][: param.top_k]


def _want_relationships(index: Index, text: str, param: QueryParam) -> Want:
    """Relationships by their vectors, or, where they have none, the entities that may be their ends."""
    what = index.search_relationships
    if what is not None and (len(what.row_of_vector) or not index.relationships.num_rows):
        return Want(text, "relationships", param.top_k)
    return Want(text, "entities", WIDER * param.top_k)


def drift_without_model(search: Search, context: Context) -> None:
    """The nearest reports, whose titles are the follow-ups, and what stands round the entities that these find."""
    index, param, question = search.index, search.param, search.question.search_text
    reports = nearest_reports(search)
    further = wanted_further(search)
    search.look_up([*wanted(search), *further])
    context.follow_ups = [want.text for want in further if want in search.found.rows]
    _keep_titles(search, further)
    found = [search.entities(text) for text in (question, *context.follow_ups)]
    entities = first_of_each(np.concatenate([found[0], in_turn(*found[1:])]))[: WIDER * param.top_k]
    around = first_of_each(np.concatenate([reports, reports_of(index, entities, param)]))
    tokens = param.local_max_token_for_text_unit
    nearest = chunks_round(search, entities, param.chunk_top_k, tokens)
    passages = Section("chunks", in_turn(nearest, chunks_of(index, found[0], tokens)), tokens)
    add_graph(index, param, around, entities, context, passages)
    context.add(index, *passages)


def wanted(search: Search) -> list[Want]:
    """What the mode of a question searches for, as far as that is known when it begins."""
    mode, param, question = search.param.mode, search.param, search.question.search_text
    if search.question.is_empty or mode == "bypass":
        return []
    if mode == "naive":
        return [Want(question, "texts", search.num_chunks())]
    if mode == "local":
        return [Want(question, "entities", param.top_k)]
    if mode == "global":
        return [Want(question)] if search.generator is None else []
    if mode == "drift":
        wants = [_want_reports(search)]
        if search.generator is None:  # else the follow-ups alone find entities
            wants += [Want(question, "entities", param.top_k), *_want_chunks(search)]
        return wants
    low, high = search.searched_for()
    wants = _want_chunks(search)
    if mode != "keywords-global":
        wants.append(Want(low, "entities", param.top_k))
    if mode != "keywords-local":
        wants.append(_want_relationships(search.index, high, param))
    return wants


def _want_chunks(search: Search) -> list[Want]:
    """The nearest chunks, or the vector alone, which those that stand round the entities are then scored with."""
    question = search.question.search_text
    return [Want(question, "texts", _num_nearest(search))] if _is_ranked(search) else [Want(question)]


def wanted_further(search: Search) -> list[Want]:
    """What drift without a model goes on with, once the reports are found: the entities nearest to their titles."""
    if search.param.mode != "drift" or search.generator is not None or search.question.is_empty:
        return []
    titles = search.index.lines.strings("reports", ("title",), nearest_reports(search))[0]
    wants = [Want(title, "entities", search.param.top_k) for title in dict.fromkeys(titles)]
    known = search.index.found_by_titles
    search.found.rows |= {want: found for want in wants if (found := known.get((want, search.param.lexical)))}
    return wants


def _keep_titles(search: Search, wants: Sequence[Want]) -> None:
    """Keeps what titles have found, since the same few come with many questions."""
    known = search.index.found_by_titles
    if len(known) > MAX_TITLES:
        known.clear()
    known.update({(want, search.param.lexical): search.found.rows[want] for want in wants if want in search.found.rows})


MODES: Mapping[str, Callable[[Search, Context], Section | None]] = {
    "naive": naive,
    "local": local,
    "global": global_,
    "drift": drift_without_model,
    **dict.fromkeys(KEYWORD_MODES, by_keywords),
}
"""What fills the context of each mode, but for the passages that it returns, which a reranker may put in order before
they are shown (show_passages.py); with a model drift is made of several (drift.py)."""
