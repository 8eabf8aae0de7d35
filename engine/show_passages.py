"""The passages that a context ends with, in the order of a reranker where there is one."""

from __future__ import annotations

import numpy as np

from graphmill.engine.contexts import Context, Section
from graphmill.engine.dialogue import Dialogue, Rank
from graphmill.engine.search import Search


def show_passages(search: Search, context: Context, passages: Section) -> Dialogue[None]:
    """Adds the best ``chunk_top_k`` of the passages, as the reranker puts them, or else in their order."""
    index, chunks = search.index, passages.rows[: search.num_chunks()]
    if search.reranker is not None and len(chunks):
        texts = index.lines.strings("chunks", ("text",), chunks)[0]
        yield (rank := Rank(search.reranker, search.question.search_text, texts))
        if rank.scores is None:
            search.warnings.append(f"the chunks could not be reranked: {rank.error}")
        else:
            chunks = chunks[np.argsort(-np.nan_to_num(rank.scores, nan=-np.inf), kind="stable")]
    context.add(index, "chunks", chunks[: search.param.chunk_top_k], passages.budget)
