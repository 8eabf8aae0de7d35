"""A question on its way through an index: what it has found so far, and what it may look for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from graphmill.engine.graph_rows import chunks_of_texts
from graphmill.engine.index import Index, Scores, Searchable
from graphmill.engine.keywords import Keywords
from graphmill.engine.look_up import Found, Lookup, Want, found_rows, look_up, no_vector
from graphmill.engine.models import Generator
from graphmill.engine.query_param import QueryParam
from graphmill.engine.question import Question
from graphmill.engine.rerank import Reranker
from graphmill.engine.rows import Rows

WIDER = 3
"""A reranker gets this many times as many chunks as are wanted, so that it has something to choose from."""


@dataclass
class Search:
    """A question on its way through an index."""

    index: Index
    question: Question
    param: QueryParam
    generator: Generator | None = None
    reranker: Reranker | None = None
    warnings: list[str] = field(default_factory=list)
    num_limits: int = 0
    """How many of the warnings are of limits."""
    keywords: Keywords = field(default_factory=Keywords)
    """What the keyword modes search for."""
    found: Found = field(default_factory=Found)
    """What was looked up for it before the mode asks, with other questions' where many are asked together."""

    def warn_of_limit(self, warning: str) -> None:
        """Warns of what the index or the parameters leave out: that would be so again, so an answer can be kept."""
        self.warnings.append(warning)
        self.num_limits += 1

    def look_up(self, wants: Sequence[Want]) -> None:
        """Finds what was not looked up before, with one call to the embedder."""
        look_up(self.index, [Lookup(list(wants), self.found, self.param.lexical)])

    def nearest(self, want: Want) -> tuple[Rows, Scores]:
        """The rows that are nearest to a text, and how near they are."""
        if want not in self.found.rows:
            self.look_up([want])
        return found_rows(self.found, want)

    def entities(self, text: str) -> Rows:
        """The entities that are nearest to a text."""
        return self.nearest(Want(text, "entities", self.param.top_k))[0]

    def chunks(self, text: str, k: int) -> Rows:
        """The chunks that are nearest to a text, one of each text."""
        return chunks_of_texts(self.index, self.nearest(Want(text, "texts", k))[0])

    def among(self, what: Searchable | None, rows: Rows) -> Rows:
        """Some rows of a table, the nearest to the question first."""
        text = self.question.search_text
        if text not in self.found.vectors:
            self.look_up([Want(text)])
        vector = self.found.vectors[text]
        if not np.isfinite(vector).all():
            raise no_vector(text)
        return self.index.search_among(what, text, vector, rows, self.param.lexical)

    def searched_for(self) -> tuple[str, str]:
        """What the keyword modes search entities and relationships for: keywords, or else the question."""
        found, question = self.keywords, self.question.search_text
        return ", ".join(found.low_level) or question, ", ".join(found.high_level) or question

    def num_chunks(self) -> int:
        """How many chunks are wanted before the reranker, if there is one, has chosen."""
        return self.param.chunk_top_k * (1 if self.reranker is None else WIDER)
