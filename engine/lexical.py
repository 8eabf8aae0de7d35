"""BM25 over words, and over character bigrams of Chinese, Japanese and Korean: the channel beside the vectors.

Tantivy keeps the postings on disk and in its own threads. Latin words go through its word tokenizer with English
stemming; runs of Han, kana and Hangul are cut into overlapping bigrams here, since they have no spaces to cut at.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.decode_text import clean
from graphmill.engine.interrupts import interrupts_wait

CJK_RUN = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff]+")
MAX_WORD = 64
WRITER_HEAP_BYTES = 128_000_000


def bigrams(text: str) -> str:
    """Overlapping character pairs of every CJK run, separated by spaces; a run of one character stands for itself."""
    out: list[str] = []
    for run in CJK_RUN.findall(text):
        out.extend([run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)])
    return " ".join(out)


class LexicalIndex:
    """BM25 search over the texts of one table; rows are numbered in the order they were added."""

    def __init__(self, index: Any) -> None:
        self._index = index
        index.reload()
        self._searcher = index.searcher()
        self._links: tempfile.TemporaryDirectory[str] | None = None

    @staticmethod
    def build(folder: Path, texts: Iterable[Sequence[str]]) -> LexicalIndex:
        """Writes an index of batches of texts, replacing what the folder held."""
        import tantivy

        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        index = _with_analyzers(tantivy.Index(_schema(), path=str(part)))
        # One thread, so that the segments, and with them the order of ties, are the same in every run.
        writer = index.writer(heap_size=WRITER_HEAP_BYTES, num_threads=1)
        row = 0
        for batch in texts:
            for text in batch:
                cjk = "" if text.isascii() else bigrams(text)
                document = tantivy.Document()
                document.add_unsigned("row", row)
                document.add_text("words", text)
                if cjk:
                    document.add_text("bigrams", cjk)
                writer.add_document(document)
                row += 1
        writer.commit()
        writer.wait_merging_threads()
        shutil.rmtree(folder, ignore_errors=True)
        part.replace(folder)
        return LexicalIndex.open(folder)

    @staticmethod
    def open(folder: Path) -> LexicalIndex:
        """Opens an index; one in a folder that can't be written to is opened by way of links to its files."""
        with interrupts_wait():
            import tantivy

        if os.access(folder, os.W_OK) or not folder.is_dir():
            return LexicalIndex(_with_analyzers(tantivy.Index.open(str(folder))))
        # Tantivy makes a lock file even to read.
        links = tempfile.TemporaryDirectory(prefix="graphmill-")
        for file in (file for file in folder.iterdir() if file.suffix != ".lock"):
            (Path(links.name) / file.name).symlink_to(file.resolve())
        opened = LexicalIndex(_with_analyzers(tantivy.Index.open(links.name)))
        opened._links = links
        return opened

    @staticmethod
    def is_whole(folder: Path) -> bool:
        """Whether the folder holds an index that can be opened."""
        try:
            LexicalIndex.open(folder)
        except (OSError, ValueError):
            return False
        return True

    def search(self, question: str, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The k best rows: scores float32 [<=k] descending, rows int64 [<=k]; ties go to the lower row."""
        query = self._query(question)
        if query is None or k < 1 or self._searcher.num_docs == 0:
            return np.empty(0, np.float32), np.empty(0, np.int64)
        hits = self._searcher.search(query, limit=min(k, self._searcher.num_docs)).hits
        scores = np.array([score for score, _ in hits], np.float32)
        rows = np.array(self._searcher.fast_field_values("row", [address for _, address in hits]), np.int64)
        order = np.lexsort((rows, -scores))
        return scores[order], rows[order]

    def _query(self, question: str) -> Any | None:
        import tantivy

        question = clean(question)  # half a surrogate pair has no UTF-8
        # Terms rather than the query parser: a question is never syntax, and one of stop words alone matches nothing.
        terms = [("words", word) for word in _words_analyzer().analyze(question)]
        terms += [("bigrams", pair) for pair in bigrams(question).split()]
        clauses = [
            (tantivy.Occur.Should, tantivy.Query.term_query(self._index.schema, field, term, index_option="freq"))
            for field, term in dict.fromkeys(terms)
        ]
        return tantivy.Query.boolean_query(clauses) if clauses else None


def _schema() -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("row", stored=False, indexed=False, fast=True)
    builder.add_text_field("words", stored=False, tokenizer_name="words", index_option="freq")
    builder.add_text_field("bigrams", stored=False, tokenizer_name="bigrams", index_option="freq")
    return builder.build()


def _words_analyzer() -> Any:
    import tantivy

    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(MAX_WORD))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .filter(tantivy.Filter.stopword("english"))
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )


def _with_analyzers(index: Any) -> Any:
    import tantivy

    index.register_tokenizer("words", _words_analyzer())
    index.register_tokenizer("bigrams", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
    return index
