"""Near duplicates by MinHash: texts whose sets of word shingles overlap by at least a threshold (Jaccard similarity).

A. Z. Broder, "On the resemblance and containment of documents", 1997; candidates by banding, as in Leskovec, Rajaraman
and Ullman, "Mining of Massive Datasets", chapter 3. The similarity that two signatures agree on has a standard error
of sqrt(s (1 - s) / NUM_HASHES), some 0.035 at 0.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from graphmill.kernels.backend import NUMPY, Backend

Hashes = NDArray[np.uint64]
Signatures = NDArray[np.uint32]

NUM_HASHES = 128
SHINGLE = 5
"""Words in a shingle; a character of a script without spaces counts as a word."""
RECALL = 0.99
"""Of pairs just at the threshold, how many the bands are to bring up."""
BATCH = {"cpu": 1 << 16, "cuda": 1 << 24}
"""Shingles that are hashed at a time: on the CPU few enough for its caches."""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]|[^\W_]+")
_MULTIPLIERS = np.random.default_rng(1).integers(1, 2**64, NUM_HASHES, dtype=np.uint64) | np.uint64(1)
_OFFSETS = np.random.default_rng(2).integers(0, 2**64, NUM_HASHES, dtype=np.uint64)
_PLACES = np.random.default_rng(3).integers(1, 2**64, SHINGLE, dtype=np.uint64) | np.uint64(1)


def shingles(text: str, known: dict[str, int]) -> Hashes:
    """Hashes of the distinct shingles of a text, uint64 [n]; a text of fewer than SHINGLE words is one shingle.

    known  hashes of words seen before, which are added to
    """
    words = _WORD.findall(text.casefold())
    for word in words:
        if word not in known:
            known[word] = int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=8).digest(), "little")
    hashes = np.fromiter((known[word] for word in words), np.uint64, len(words))
    if len(hashes) < SHINGLE:
        hashes = np.pad(hashes, (0, SHINGLE - len(hashes)))
    windows = np.lib.stride_tricks.sliding_window_view(hashes, SHINGLE)
    mixed = (windows * _PLACES).sum(axis=1, dtype=np.uint64)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return np.unique(mixed)


def signatures(texts: Iterable[str], backend: Backend = NUMPY) -> Signatures:
    """The least of each of NUM_HASHES hashes over a text's shingles, uint32 [num_texts, NUM_HASHES]."""
    least = _least if backend.name == "cpu" else _least_cuda
    known: dict[str, int] = {}
    made: list[Signatures] = []
    held: list[Hashes] = []
    size = 0
    for text in texts:
        held.append(shingles(text, known))
        size += len(held[-1])
        if size >= BATCH[backend.name]:
            made.append(least(held))
            held, size = [], 0
    if held:
        made.append(least(held))
    return np.concatenate([np.empty((0, NUM_HASHES), np.uint32), *made])


def _least(sets: Sequence[Hashes]) -> Signatures:
    starts = np.cumsum([0, *(len(one) for one in sets[:-1])])
    values = np.concatenate(sets)
    least = np.empty((len(sets), NUM_HASHES), np.uint32)
    for number, (multiplier, offset) in enumerate(zip(_MULTIPLIERS, _OFFSETS, strict=True)):
        hashed = ((values * multiplier + offset) >> np.uint64(32)).astype(np.uint32)
        least[:, number] = np.minimum.reduceat(hashed, starts)
    return least


def _least_cuda(sets: Sequence[Hashes]) -> Signatures:
    """What _least() gives, on the device."""
    import cupy
    import cupyx

    owner = cupy.asarray(np.repeat(np.arange(len(sets)), [len(one) for one in sets]))
    values = cupy.asarray(np.concatenate(sets))
    least = cupy.full((NUM_HASHES, len(sets)), 2**32 - 1, cupy.uint32)
    for number, (multiplier, offset) in enumerate(zip(_MULTIPLIERS, _OFFSETS, strict=True)):
        hashed = ((values * multiplier + offset) >> cupy.uint64(32)).astype(cupy.uint32)
        cupyx.scatter_min(least[number], owner, hashed)
    return np.asarray(cupy.asnumpy(least.T))


def rows_per_band(threshold: float) -> int:
    """The most rows a band can have for pairs at the threshold to share one with probability RECALL."""
    fits = [r for r in range(1, NUM_HASHES + 1) if 1 - (1 - threshold**r) ** (NUM_HASHES // r) >= RECALL]
    return max(fits, default=1)


def near_duplicates(
    sketches: Signatures, threshold: float, backend: Backend = NUMPY
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For each text the row of the one that it repeats, itself where it repeats none, and how similar the two are.

    A text repeats the earliest one, itself no repetition, that shares a band with it and whose signature agrees with
    its own in at least ``threshold`` of the places: int64 [n], float64 [n].
    """
    num = len(sketches)
    same_as = np.arange(num)
    similarity = np.ones(num)
    candidates = _candidates(sketches, rows_per_band(threshold), backend)
    starts = np.searchsorted(candidates[:, 1], np.arange(num + 1))
    for row in np.flatnonzero(np.diff(starts)):
        others = np.unique(same_as[candidates[starts[row] : starts[row + 1], 0]])
        agree = (sketches[others] == sketches[row]).mean(axis=1)
        near = np.flatnonzero(agree >= threshold)
        if len(near):
            same_as[row], similarity[row] = others[near[0]], agree[near[0]]
    return same_as, similarity


def _candidates(sketches: Signatures, width: int, backend: Backend) -> NDArray[np.int64]:
    """Pairs (earlier, later) of texts to be compared, sorted by the later one, int64 [n, 2].

    Of the texts that share a band, each is paired with the first and with the one before it: where many are alike,
    that is enough, and all pairs would be too many.
    """
    xp, num = backend.xp, max(len(sketches), 1)
    found = xp.empty(0, np.int64)
    columns = xp.asarray(sketches).astype(np.uint64)
    for band in range(NUM_HASHES // width):
        bucket = xp.zeros(len(columns), np.uint64)
        for column in range(band * width, (band + 1) * width):
            # Two bands of one bucket may yet differ, which only adds a pair to be compared.
            bucket = (bucket ^ columns[:, column]) * np.uint64(0x9E3779B97F4A7C15)
            bucket ^= bucket >> np.uint64(31)
        order = xp.argsort(bucket, kind="stable")
        ordered = bucket[order]
        later = xp.flatnonzero(ordered[1:] == ordered[:-1]) + 1
        first = order[xp.searchsorted(ordered, ordered[later])]
        pairs = [order[later] * num + first, order[later] * num + order[later - 1]]
        found = xp.unique(xp.concatenate([found, *pairs]))
    found = backend.asnumpy(found)
    return np.stack([found % num, found // num], 1)
