"""An index opened for questions: its tables, vectors and adjacency in memory, loaded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.embed import check_embedder, embed_texts, vectors_matrix
from graphmill.engine.index_vectors import index_folder
from graphmill.engine.language import detect_language
from graphmill.engine.lexical import LexicalIndex
from graphmill.engine.lines import ContextLines
from graphmill.engine.models import Embedder, Tokenizer
from graphmill.engine.order import sort_chunks
from graphmill.engine.rows import Lists, Rows, id_lists, inverted, is_in, lists_by, rows_of
from graphmill.engine.run_folder import IndexFolderError, RunFolder
from graphmill.engine.vector_index import VectorIndex
from graphmill.kernels.backend import Backend
from graphmill.kernels.fuse import reciprocal_rank_fusion
from graphmill.kernels.rank import adjacency

Scores = NDArray[np.float32]

CANDIDATES = 3
"""Each channel gives this many times k rows to the fusion, so that a row second in both can win."""
MIN_WORD_ROWS = 1000
"""Rows that the words are searched for, at least, where only some rows are asked after."""
FOREIGN_WEIGHT = 0.25
"""Weight of the vectors' ranks for a question in a language that the embedder doesn't know: near to noise."""


@dataclass(frozen=True)
class Searchable:
    """What can be searched: the vectors with the table row of each, and the word index of the same table."""

    vectors: VectorIndex
    row_of_vector: Rows
    words: LexicalIndex | None
    row_of_words: Rows | None = None
    """The table row of each text of the word index, where some rows have no text."""

    @cached_property
    def vector_of_row(self) -> Rows:
        """The vector of each table row up to the last that has one; -1 where a row has none."""
        vectors = np.full(int(self.row_of_vector.max(initial=-1)) + 1, -1, np.int64)
        vectors[self.row_of_vector] = np.arange(len(self.row_of_vector))
        return vectors

    def by_words(self, question: str, k: int) -> Rows:
        """The k best rows by their words; none where there is no word index."""
        if self.words is None:
            return np.empty(0, np.int64)
        _, rows = self.words.search(question, k)
        return rows if self.row_of_words is None else self.row_of_words[rows]


class Index:
    """Tables of an index and what is derived from them. Rows below are row numbers of these tables.

    chunks         sorted by (path, position); ``texts`` are their distinct texts, in order of first appearance
    entities       sorted by entity id; relationships likewise
    communities    sorted by community number, reports row for row beside them

    ``by_rank`` are the relationships by rank, then by weight, and ``place_by_rank`` is each one's place there.
    """

    def __init__(self, folder: RunFolder, embedder: Embedder, tokenizer: Tokenizer, backend: Backend) -> None:
        self.folder, self.embedder, self.tokenizer, self.backend = folder, embedder, tokenizer, backend
        made_with = folder.facts.get("embedder")
        if "summary" not in folder.facts or made_with is None:
            raise IndexFolderError(
                f"the index {folder.root} is not finished; `graphmill index` on it again goes on from where it stopped"
            )
        if folder.facts.get("state") != folder.state:
            raise IndexFolderError(
                f"the index {folder.root} is being updated, or an update was stopped half-way; `graphmill index` on "
                "it again goes on from where it stopped"
            )
        check_embedder(embedder, made_with["model"], made_with["dimension"], str(folder.root))
        self.chunks = sort_chunks(folder.read("chunks"))
        self.entities, self.relationships = folder.read("entities"), folder.read("relationships")
        self.communities, self.reports = folder.read("communities"), folder.read("reports")
        documents = folder.read("documents", ["document_id", "created_at"])
        self.created_at = dict(zip(*(documents[c].to_pylist() for c in ("document_id", "created_at")), strict=True))
        self._derive()
        self.search_texts = self._searchable("chunks", self.text_ids)
        self.search_entities = self._searchable("entities", self.entities["entity_id"])
        self.search_relationships = self._searchable("relationships", self.relationships["relationship_id"])
        self.search_reports = self._searchable("reports", self.reports["community_id"])
        self.lines = ContextLines(self)
        self.found_by_titles: dict[Any, tuple[Rows, Scores]] = {}
        """Entities that titles of reports have found, by what was wanted and whether words were searched."""

    def _derive(self) -> None:
        self.text_ids = pc.unique(self.chunks["text_id"])
        self.text_of_chunk = rows_of(self.chunks["text_id"], self.text_ids)
        self.chunks_of_text = lists_by(self.text_of_chunk, len(self.text_ids))
        self.chunks_of_entity, self.chunks_of_relationship, self.chunks_of_community = (
            id_lists(table["chunk_ids"], self.chunks["chunk_id"])
            for table in (self.entities, self.relationships, self.communities)
        )
        self.entities_of_chunk = inverted(self.chunks_of_entity, self.chunks.num_rows)
        entity_ids = self.entities["entity_id"]
        source, target = (rows_of(self.relationships[c], entity_ids) for c in ("source_id", "target_id"))
        self.source, self.target = source, target
        indptr, neighbour, edge = adjacency(source, target, len(entity_ids))
        self.neighbours, self.edges = Lists(indptr, neighbour), Lists(indptr, edge)
        members = id_lists(self.communities["entity_ids"], entity_ids)
        self.communities_of_entity = inverted(members, len(entity_ids))
        self.level = self.communities["level"].to_numpy()
        self.parent = self.communities["parent"].to_numpy()
        self.occurrence = self.communities["occurrence"].to_numpy()
        self.rating = self.reports["rating"].to_numpy()
        self.rank = self.relationships["rank"].to_numpy()
        self.weight = self.relationships["weight"].to_numpy()
        self.by_rank = np.lexsort((-self.weight, -self.rank))
        self.place_by_rank = np.empty(len(self.by_rank), np.int64)
        self.place_by_rank[self.by_rank] = np.arange(len(self.by_rank))
        self.tokens_of = {
            name: getattr(self, name)["num_tokens"].to_numpy().astype(np.int64)
            for name in ("chunks", "entities", "relationships", "reports")
        }

    def _searchable(self, name: str, ids: Any) -> Searchable | None:
        """The vectors and words of a table; None where it is not embedded."""
        if f"vectors_{name}" not in self.folder.tables:
            return None
        table, content = self.folder.read(f"vectors_{name}"), self.folder.tables[f"vectors_{name}"].hash
        place = index_folder(self.folder, name)
        vectors = VectorIndex.load(place, vectors_matrix(table), self.backend, content)
        has_text = None
        if name == "relationships" and not pc.all(has := pc.not_equal(self.relationships["description"], "")).as_py():
            has_text = np.flatnonzero(has.to_numpy())
        return Searchable(vectors, rows_of(table["id"], ids), self._words(name), has_text)

    def _words(self, name: str) -> LexicalIndex | None:
        words = self.folder.root / "words" / name
        if not words.is_dir():
            return None
        try:
            return LexicalIndex.open(words)
        except (OSError, ValueError) as error:
            raise IndexFolderError(
                f"can't open {words}: {error}; run `graphmill index` on the index again, which makes it anew"
            ) from error

    def embed_question(self, question: str) -> Scores:
        """Unit vector float32 [1, d]."""
        return embed_texts([question], self.embedder)

    def search(
        self, what: Searchable | None, question: str, vector: Scores, k: int, lexical: bool | None
    ) -> tuple[Rows, Scores]:
        """The k best rows for a question and their scores, best first.

        Scores are cosine similarities, or reciprocal rank sums where the lexical channel is fused in (``lexical``; None
        stands for: where the embedder does not know the question's language).
        """
        return self.search_each(what, [question], vector, k, lexical)[0]

    def search_among(
        self, what: Searchable | None, question: str, vector: Scores, rows: Rows, lexical: bool | None
    ) -> Rows:
        """Those of some rows that are embedded, best first: for a choice that is small beside the table."""
        if what is None:
            return np.empty(0, np.int64)
        place = what.vector_of_row[rows[rows < len(what.vector_of_row)]]
        place = np.sort(place[place >= 0])
        vectors = what.vectors.vectors
        # Not by a matrix product, which adds up a row by its place, so that equal rows may differ at the last bit.
        if 2 * len(place) > len(vectors):
            scores = np.vecdot(vectors, vector[0])[place]
        else:
            scores = np.vecdot(vectors[place], vector[0])
        scores[np.isnan(scores)] = -np.inf
        by_vector = what.row_of_vector[place[np.argsort(-scores, kind="stable")]]
        foreign, fuse = self._channels(what, question, lexical)
        if not fuse:
            return by_vector
        by_words = what.by_words(question, CANDIDATES * max(len(rows), MIN_WORD_ROWS))
        by_words = by_words[is_in(by_words, np.sort(rows))]
        weights = [FOREIGN_WEIGHT if foreign else 1.0, 1.0]
        return reciprocal_rank_fusion([by_vector, by_words], weights, len(rows))[0]

    def _channels(self, what: Searchable, question: str, lexical: bool | None) -> tuple[bool, bool]:
        """Whether the embedder does not know the question's language, and whether words are searched too."""
        languages = self.embedder.languages
        foreign = languages is not None and detect_language(question) not in languages
        return foreign, (foreign if lexical is None else bool(lexical)) and what.words is not None

    def search_each(
        self, what: Searchable | None, questions: Sequence[str], vectors: Scores, k: int, lexical: bool | None
    ) -> list[tuple[Rows, Scores]]:
        """What ``search`` gives for each of several questions, whose vectors, float32 [q, d], are searched together."""
        if what is None or not questions:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in questions]
        channels = [self._channels(what, question, lexical) for question in questions]
        results: list[tuple[Rows, Scores]] = [(np.empty(0, np.int64), np.empty(0, np.float32))] * len(questions)
        for is_fused in (False, True):  # apart, so that a question is looked for as deep as by itself
            group = [n for n, (_, fuse) in enumerate(channels) if fuse is is_fused]
            if group:
                scores, found = what.vectors.search(vectors[group], k * CANDIDATES if is_fused else k)
                for n, of_one, places in zip(group, scores, found, strict=True):
                    results[n] = (what.row_of_vector[places], of_one)
            for n in group if is_fused else ():
                by_words = what.by_words(questions[n], k * CANDIDATES)
                weights = [FOREIGN_WEIGHT if channels[n][0] else 1.0, 1.0]
                results[n] = reciprocal_rank_fusion([results[n][0], by_words], weights, k)
        return results


def open_folder(path: Path | str) -> RunFolder:
    """The folder of a finished index."""
    return RunFolder.open(Path(path))


def strings(column: pa.ChunkedArray, rows: Sequence[int] | Rows) -> list[str]:
    """The strings at some rows of a column."""
    values: list[str] = column.take(pa.array(np.asarray(rows, dtype=np.int64))).to_pylist()
    return values
