"""From rows of one table of an open index to those of another: what stands round the entities that were found."""

from __future__ import annotations

import numpy as np

from graphmill.engine.index import Index
from graphmill.engine.query_param import QueryParam
from graphmill.engine.rows import Rows, distinct, first_of_each, is_in

RELATED = 32
"""Reports whose ancestors are looked up at a time."""


def reports_of(index: Index, entities: Rows, param: QueryParam) -> Rows:
    """Communities of the entities at most ``level`` deep: by how many of the entities they hold, then by rating."""
    found = index.communities_of_entity.gather(entities)
    found = np.sort(found[index.level[found] <= param.level])
    first = np.flatnonzero(np.diff(found, prepend=-1))
    communities, held = found[first], np.diff(first, append=len(found))
    order = np.lexsort((communities, -index.rating[communities], -held))
    return communities[order][: 1 if param.local_community_single_one else None]


def relationships_of(index: Index, entities: Rows) -> Rows:
    """All relationships of the entities: by rank, then by weight."""
    ranked: Rows = index.by_rank[distinct(index.place_by_rank[index.edges.gather(entities)])]
    return ranked


def by_rank(index: Index, edges: Rows) -> Rows:
    """Relationships by rank, then by weight."""
    ranked: Rows = index.by_rank[np.sort(index.place_by_rank[edges])]
    return ranked


def ends_of(index: Index, edges: Rows) -> Rows:
    """Both entities of the relationships, each where it first comes."""
    return first_of_each(np.stack([index.source[edges], index.target[edges]], axis=1).ravel())


def chunks_of(index: Index, entities: Rows, tokens: int, k: int | None = None) -> Rows:
    """The entities' chunks: in the order of the entities, then by how many one-hop neighbours stand in the chunk too.

    Of chunks with the same text the first stands for all. Entities whose chunks come after so many tokens, or after k
    texts, are not looked at any more.
    """
    ordered = []
    seen: set[int] = set()
    for entity in entities.tolist():
        own = np.sort(index.chunks_of_entity[entity])
        # By the entities of the own chunks rather than by the chunks of the neighbours, which are many times as many.
        is_neighbour = is_in(index.entities_of_chunk.gather(own), np.sort(index.neighbours[entity]))
        place = np.repeat(np.arange(len(own)), index.entities_of_chunk.lengths(own))
        shared = np.bincount(place[is_neighbour], minlength=len(own))
        ordered.append(own[np.lexsort((own, -shared))])
        of_text = dict(zip(index.text_of_chunk[own].tolist(), own.tolist(), strict=True))  # a text is shown once
        new = [chunk for text, chunk in of_text.items() if text not in seen]
        seen.update(of_text)
        tokens -= int(index.tokens_of["chunks"][new].sum())
        if tokens < 0 or (k is not None and len(seen) >= k):
            break
    return distinct_texts(index, np.concatenate([*ordered, np.empty(0, np.int64)]))


def chunks_of_texts(index: Index, texts: Rows) -> Rows:
    """The first chunk of each distinct text."""
    first: Rows = index.chunks_of_text.values[index.chunks_of_text.offsets[texts]]
    return first


def distinct_texts(index: Index, chunks: Rows) -> Rows:
    """Chunks in their order, the first of those with the same text for all of them."""
    return chunks_of_texts(index, first_of_each(index.text_of_chunk[chunks]))


def claims_of(index: Index, entities: Rows) -> Rows:
    """Claims about the entities, in their order: as subject, then as object."""
    return first_of_each(index.lines.claims_of_entity.gather(entities))


def global_reports(index: Index, param: QueryParam) -> Rows:
    """Reports that a global question considers: by occurrence, then by rating, best first."""
    fits = (index.level <= param.level) & (index.rating >= param.global_min_community_rating)
    rows = np.flatnonzero(fits)
    order = np.lexsort((rows, -index.rating[rows], -index.occurrence[rows]))
    return rows[order][: param.global_max_consider_community]


def without_relatives(index: Index, reports: Rows, k: int | None = None) -> Rows:
    """Reports, best first, less those of which a part or a whole has come before: they would say the same twice.

    At most the first k of them, where that is given.
    """
    kept: dict[int, None] = {}
    seen: set[int] = set()
    for start in range(0, len(reports), RELATED):
        above = [reports[start : start + RELATED]]
        while (above[-1] >= 0).any():  # as often as the tree has levels
            above.append(np.where(above[-1] >= 0, index.parent[above[-1]], -1).astype(np.int64))
        for report, *ancestors in np.stack(above, axis=1).tolist():
            if report not in seen and kept.keys().isdisjoint(ancestors):
                kept[report] = None
                seen.update(ancestors)
                if len(kept) == k:
                    return np.array(list(kept), np.int64)
    return np.array(list(kept), np.int64)


def in_turn(*lists: Rows) -> Rows:
    """The first of each list, then the second of each, and so on, without repeats."""
    rows = np.concatenate([*lists, np.empty(0, np.int64)])
    turn = np.concatenate([np.arange(len(one)) for one in lists] + [np.empty(0, np.int64)])
    return first_of_each(rows[np.argsort(turn, kind="stable")])
