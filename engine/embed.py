"""Texts to unit vectors: long ones in windows, bad rows set aside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from graphmill.engine.models import Embedder

MAX_BATCH_ROWS = 2048
MAX_BATCH_CHARS = 256_000
"""What is embedded between two signs of progress: some ten seconds' work for a small model on two cores."""

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class EmbedConfig:
    """What is embedded. Relationships that co-occurrence made have no text of their own and are left out."""

    chunks: bool = True
    entities: bool = True
    relationships: bool = True
    reports: bool = True
    lexical: bool = True
    """Keep a lexical index (BM25) of chunks, entities, reports, and relationships that are embedded, beside the
    vectors."""


class WrongEmbedderError(ValueError):
    """The index was made with another embedding model than the one at hand."""


def vectors_schema(dimension: int) -> pa.Schema:
    """Schema of a table of vectors: id string, vector float32 [dimension], unit length."""
    return pa.schema([("id", pa.string()), ("vector", pa.list_(pa.float32(), dimension))])


def embed(
    ids: Sequence[str],
    texts: Sequence[str],
    embedder: Embedder,
    max_rows: int = MAX_BATCH_ROWS,
    max_chars: int = MAX_BATCH_CHARS,
) -> Iterator[tuple[pa.Table, list[str]]]:
    """Yields batches of vectors in the order of ``ids``, each with the ids that could not be embedded.

    A text longer than the model's limit is cut into windows, whose unit vectors are averaged and normalised again.
    Equal texts of a batch are embedded once. A row that comes back not finite or all zero is tried once more alone,
    then left out.
    """
    known: dict[str, int] = {}
    for start, end in _batches(texts, max_rows, max_chars):
        batch_ids, batch = ids[start:end], texts[start:end]
        known.clear()
        row_of = np.array([known.setdefault(text, len(known)) for text in batch], dtype=np.int64)
        vectors = embed_texts(list(known), embedder)[row_of]
        good = np.isfinite(vectors[:, 0])
        bad_ids = [batch_ids[row] for row in np.flatnonzero(~good).tolist()]
        good_ids = [batch_ids[row] for row in np.flatnonzero(good).tolist()]
        yield vectors_table(good_ids, vectors[good]), bad_ids


def _batches(texts: Sequence[str], max_rows: int, max_chars: int) -> Iterator[tuple[int, int]]:
    """Rows [start, end) of each batch, within both limits but for a single longer text."""
    start = chars = 0
    for row, text in enumerate(texts):
        if row > start and (row - start >= max_rows or chars + len(text) > max_chars):
            yield start, row
            start, chars = row, 0
        chars += len(text)
    if start < len(texts):
        yield start, len(texts)


def vectors_table(ids: Sequence[str], vectors: Vectors) -> pa.Table:
    """Ids and float32 [n, d] as a table of vectors."""
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    return pa.table([pa.array(ids, pa.string()), column], schema=vectors_schema(vectors.shape[1]))


def vectors_matrix(table: pa.Table) -> Vectors:
    """The vectors of a table as float32 [n, d]."""
    dimension = table.schema.field("vector").type.list_size
    if table.num_rows == 0:
        return np.empty((0, dimension), np.float32)
    column = table["vector"].combine_chunks()
    flat = (
        column.flatten()
        if isinstance(column, pa.FixedSizeListArray)
        else pa.concat_arrays([c.flatten() for c in column.chunks])
    )
    matrix: Vectors = flat.to_numpy(zero_copy_only=False).reshape(-1, dimension)
    return matrix


def embed_texts(texts: Sequence[str], embedder: Embedder) -> Vectors:
    """Unit vectors float32 [n, d]; a row that can't be embedded is NaN throughout."""
    if not texts:
        return np.empty((0, embedder.dimension), np.float32)
    windows, owner = windows_of(texts, embedder)
    vectors = _unit_or_nan(_checked(embedder, windows))
    for row in np.flatnonzero(np.isnan(vectors[:, 0])):
        vectors[row] = _unit_or_nan(_checked(embedder, [windows[row]]))[0]
    if len(windows) == len(texts):
        return vectors
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    counts = np.diff(np.append(starts, len(owner)))[:, None]
    # A text with one bad window is bad as a whole: a mean over the rest would speak for text it has not seen.
    return _unit_or_nan((np.add.reduceat(vectors, starts, axis=0) / counts).astype(np.float32))


def windows_of(texts: Sequence[str], embedder: Embedder) -> tuple[list[str], NDArray[np.int64]]:
    """Texts cut so that none is longer than the model's limit, and for each window the row of its text."""
    # A token covers at least one byte, so a text this short needs no counting.
    maybe_long = [
        row
        for row, text in enumerate(texts)
        if len(text) * 4 > embedder.max_tokens and len(text.encode("utf-8", "replace")) > embedder.max_tokens
    ]
    if not maybe_long:
        return list(texts), np.arange(len(texts), dtype=np.int64)
    spans = dict(zip(maybe_long, embedder.tokenizer.spans([texts[row] for row in maybe_long]), strict=True))
    windows: list[str] = []
    owner: list[int] = []
    for row, text in enumerate(texts):
        pieces = _cut(text, spans[row], embedder.max_tokens) if row in spans else [text]
        windows.extend(pieces)
        owner.extend([row] * len(pieces))
    return windows, np.array(owner, dtype=np.int64)


def check_embedder(embedder: Embedder, model: str, dimension: int, index: str) -> None:
    """Refuses an embedder that did not make the vectors of the index, before any work."""
    if (embedder.model, embedder.dimension) != (model, dimension):
        raise WrongEmbedderError(
            f"the index {index} was made with the embedding model {model} ({dimension} dimensions); the one given is "
            f"{embedder.model} ({embedder.dimension} dimensions); give --embedder {model}, or rebuild the vectors: run "
            f"`graphmill index` on it again with --embedder {embedder.model}"
        )


def _cut(text: str, spans: NDArray[np.int64], max_tokens: int) -> list[str]:
    """Pieces of nearly equal length, each of at most max_tokens tokens as the whole text was tokenized."""
    num_tokens = len(spans)
    if num_tokens <= max_tokens:
        return [text]
    num_windows = -(-num_tokens // max_tokens)
    edges = [num_tokens * i // num_windows for i in range(num_windows + 1)]
    return [text[spans[a, 0] : spans[b - 1, 1]] for a, b in pairwise(edges)]


def _checked(embedder: Embedder, texts: list[str]) -> Vectors:
    vectors = np.asarray(embedder.embed(texts), dtype=np.float32)
    if vectors.shape != (len(texts), embedder.dimension):
        raise ValueError(
            f"embedder {embedder.model} must return shape ({len(texts)}, {embedder.dimension}), got {vectors.shape}"
        )
    return vectors


def _unit_or_nan(vectors: Vectors) -> Vectors:
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        norm = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        unit: Vectors = (vectors / norm[:, None]).astype(np.float32)
    unit[~(np.isfinite(norm) & (norm > 0))] = np.nan
    return unit
