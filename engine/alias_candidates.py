"""Pairs of names that may mean one thing: near in meaning, near in spelling, one within the other, or an acronym.

No name is compared with all others letter by letter. Names are nearest neighbours by two kinds of vectors, those of the
embedding model and hashed counts of their character n-grams, and only neighbours are compared. The search for them is
exact: its products grow with the square of the number of names, and run at the speed of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.alias_spelling import (
    Spelling,
    acronym_of,
    initials_of,
    is_within,
    may_be_one,
    similarities,
    spelling,
)
from graphmill.engine.embed import MAX_BATCH_ROWS, embed_texts
from graphmill.engine.language import detect_language
from graphmill.engine.models import Embedder
from graphmill.kernels.backend import NUMPY, Backend
from graphmill.kernels.topk import topk

Vectors = NDArray[np.float32]
Ints = NDArray[np.int64]

WITHIN, ACRONYM = 0.8, 0.9
"""What a name within another, and an acronym with its long form, count as at least: their letters don't show it."""
OTHER_TYPE = 0.1
"""What a pair of two different known types falls back by where there are too many."""
NEIGHBOURS = 10
"""Nearest names by spelling that are compared."""
GRAM_DIMENSION = 256
"""Of hashed n-gram counts; a chance likeness is some 1 / sqrt(256), and what is near is compared exactly anyway."""
QUERY_ROWS = 1024
GRAM_ROWS = 4096
MAX_CHARS = 200
"""Of a name, the rest of which is not compared: what is longer is no name."""


@dataclass(frozen=True)
class Candidates:
    """Pairs of rows, the lower one first, in ascending order."""

    one: Ints
    other: Ints
    similarity: NDArray[np.float64]
    """The better of the cosine of the vectors and the likeness of the spellings, float64 [n] in [0, 1]."""
    num_left_out: int = 0
    """Pairs beyond ``max_pairs``."""


@dataclass(frozen=True)
class Names:
    """The names that are compared, by key, with what they are compared by."""

    names: Sequence[str]
    types: Sequence[str]
    num_chunks: Ints
    spellings: Sequence[Spelling]
    vectors: Vectors
    """Unit vectors, float32 [n, d]; NaN where the embedding model can't tell."""

    def similarity(self, one: Ints, other: Ints) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Cosine, 0 where it is not known, and likeness of the spellings of pairs of rows, float64 [n] each."""
        cosine: NDArray[np.float64] = np.zeros(len(one))
        for start in range(0, len(one), GRAM_ROWS):
            part = slice(start, start + GRAM_ROWS)
            left, right = (self.vectors[rows[part]].astype(np.float64) for rows in (one, other))
            cosine[part] = np.einsum("nd,nd->n", left, right)
        cosine = np.clip(np.nan_to_num(cosine), 0.0, 1.0).round(6)
        alike = similarities([self.spellings[row] for row in one], [self.spellings[row] for row in other])
        return cosine, alike

    def each(self, test: Callable[[Spelling, Spelling], bool], one: Ints, other: Ints) -> NDArray[np.bool_]:
        """What a test says of the spellings of pairs of rows, bool [n]."""
        pairs = zip(one.tolist(), other.tolist(), strict=True)
        return np.array([test(self.spellings[a], self.spellings[b]) for a, b in pairs], np.bool_)


def names_to_compare(names: Sequence[str], types: Sequence[str], num_chunks: Ints, embedder: Embedder) -> Names:
    """Vectors and spellings of names. Names in a language that the embedder doesn't know get no vector."""
    names = [name[:MAX_CHARS] for name in names]
    known = [
        row
        for row, name in enumerate(names)
        if embedder.languages is None or detect_language(name) in embedder.languages
    ]
    vectors = np.full((len(names), embedder.dimension), np.nan, np.float32)
    for start in range(0, len(known), MAX_BATCH_ROWS):
        rows = known[start : start + MAX_BATCH_ROWS]
        vectors[rows] = embed_texts([names[row] for row in rows], embedder)
    return Names(names, types, num_chunks, [spelling(name) for name in names], vectors)


def candidate_pairs(
    names: Names, min_cosine: float, min_ratio: float, max_per_entity: int, max_pairs: int, backend: Backend = NUMPY
) -> Candidates:
    """Pairs that are worth a question.

    A pair counts where its cosine or its spelling reaches its minimum, where one name holds all words of the other, or
    is its acronym; never where the numbers in them differ. Each name keeps its ``max_per_entity`` best, and a pair
    stays that is one of the best of either end.
    """
    spelled = neighbours(gram_vectors([s.sorted for s in names.spellings]), NEIGHBOURS, backend)
    meant = neighbours(names.vectors, max_per_entity, backend)
    short = _acronyms(names, max_per_entity)
    num = max(len(names.names), 1)
    numbers = [pairs.min(axis=1) * num + pairs.max(axis=1) for pairs in (spelled, meant, short)]
    number = np.unique(np.concatenate(numbers))
    number = number[names.each(may_be_one, number // num, number % num)]
    one, other = number // num, number % num
    cosine, alike = names.similarity(one, other)
    within, acronym = names.each(is_within, one, other), np.isin(number, numbers[-1])
    kept = (cosine >= min_cosine) | (alike >= min_ratio) | within | acronym
    best = np.maximum.reduce([cosine, alike, WITHIN * within, ACRONYM * acronym])
    return _best(Candidates(one[kept], other[kept], best[kept]), names.types, max_per_entity, max_pairs)


def gram_vectors(forms: Sequence[str]) -> Vectors:
    """Unit vectors float32 [n, GRAM_DIMENSION] of the 2- and 3-grams of texts, the rarer ones weighing more.

    Each gram adds to one place or takes from it, both by its hash (K. Weinberger et al., "Feature hashing for large
    scale multitask learning", 2009), so that products are those of the counts themselves, give or take chance.
    """
    known: dict[str, int] = {}
    grams = [sorted({f" {form} "[at : at + n] for n in (2, 3) for at in range(len(form) + 3 - n)}) for form in forms]
    codes = [np.fromiter((known.setdefault(gram, len(known)) for gram in row), np.int64, len(row)) for row in grams]
    hashes = [blake2b(gram.encode("utf-8", "replace"), digest_size=8).digest() for gram in known]
    hashed = np.frombuffer(b"".join(hashes), "<u8")
    place = (hashed % np.uint64(GRAM_DIMENSION)).astype(np.int64)
    sign = np.where(hashed >> np.uint64(63), -1.0, 1.0)
    seen = np.bincount(np.concatenate([np.zeros(0, np.int64), *codes]), minlength=len(known))
    weight = sign * np.log1p(len(forms) / np.maximum(seen, 1))
    vectors = np.zeros((len(forms), GRAM_DIMENSION), np.float32)
    for start in range(0, len(forms), GRAM_ROWS):
        part = codes[start : start + GRAM_ROWS]
        code = np.concatenate(part)
        cell = np.repeat(np.arange(len(part)), [len(row) for row in part]) * GRAM_DIMENSION + place[code]
        sums = np.bincount(cell, weight[code], len(part) * GRAM_DIMENSION).reshape(len(part), GRAM_DIMENSION)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        vectors[start : start + len(part)] = np.divide(sums, norms, out=sums, where=norms > 0)
    return vectors


def neighbours(vectors: Vectors, k: int, backend: Backend = NUMPY) -> Ints:
    """Pairs of each row and its k nearest others, int64 [m, 2]; rows that aren't finite have none."""
    rows = np.flatnonzero(np.isfinite(vectors).all(axis=1))
    pairs = [np.empty((0, 2), np.int64)]
    finite = vectors[rows] if len(rows) < len(vectors) else vectors
    corpus = backend.xp.asarray(finite)
    for start in range(0, len(rows), QUERY_ROWS):
        _, near = topk(finite[start : start + QUERY_ROWS], corpus, k + 1, backend=backend)
        own = np.repeat(np.arange(start, start + len(near)), near.shape[1])
        pairs.append(np.stack([rows[own], rows[near.ravel()]], 1)[own != near.ravel()])
    return np.concatenate(pairs)


def _acronyms(names: Names, most: int) -> Ints:
    """Pairs of an acronym and a name with its initials, int64 [m, 2]: those of the names that most chunks have."""
    long_forms: dict[str, list[int]] = {}
    for row in np.argsort(-names.num_chunks, kind="stable").tolist():
        for initials in initials_of(names.spellings[row]):
            long_forms.setdefault(initials, []).append(row)
    found = [
        (row, long_form)
        for row, name in enumerate(names.names)
        for long_form in long_forms.get(acronym_of(name), [])[:most]
        if long_form != row
    ]
    return np.array(found, np.int64).reshape(-1, 2)


def _best(found: Candidates, types: Sequence[str], max_per_entity: int, max_pairs: int) -> Candidates:
    """The best pairs of each end, and of those the best of all."""
    known = [kind if kind != "UNKNOWN" else "" for kind in types]
    differ = np.array(
        [bool(known[a] and known[b] and known[a] != known[b]) for a, b in zip(found.one, found.other, strict=True)],
        bool,
    )
    rank = found.similarity - OTHER_TYPE * differ
    end, across = np.concatenate([found.one, found.other]), np.concatenate([found.other, found.one])
    order = np.lexsort((across, -np.tile(rank, 2), end))
    place = np.arange(len(end)) - np.searchsorted(end[order], end[order])
    pair = np.unique(np.tile(np.arange(len(rank)), 2)[order[place < max_per_entity]])
    chosen = np.sort(pair[np.argsort(-rank[pair], kind="stable")[:max_pairs]])
    return Candidates(
        found.one[chosen], found.other[chosen], found.similarity[chosen], num_left_out=len(pair) - len(chosen)
    )
