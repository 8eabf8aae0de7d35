"""MinHash against sets of shingles compared outright."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.kernels.backend import Backend
from graphmill.kernels.minhash import NUM_HASHES, near_duplicates, rows_per_band, shingles, signatures


def jaccard(one: str, other: str) -> float:
    a, b = (set(shingles(text, {}).tolist()) for text in (one, other))
    return len(a & b) / len(a | b)


def text_of(random: np.random.Generator, num_words: int = 300) -> list[str]:
    return [f"w{n}" for n in random.integers(0, 5000, num_words)]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.05, 0.2])
def test_the_agreement_of_signatures_is_the_overlap_of_the_shingles(share: float, backend: Backend) -> None:
    random = np.random.default_rng(7)
    off = []
    for _ in range(40):
        words = text_of(random)
        changed = [f"x{n}" if random.random() < share else word for n, word in enumerate(words)]
        one, other = " ".join(words), " ".join(changed)
        first, second = signatures([one, other], backend)
        off.append((first == second).mean() - jaccard(one, other))
    assert abs(np.mean(off)) < 0.02  # unbiased
    assert np.abs(off).max() <= 5 * np.sqrt(0.25 / NUM_HASHES)


def test_copies_with_a_few_words_changed_are_found_and_nothing_else_is(backend: Backend) -> None:
    random = np.random.default_rng(3)
    originals = [text_of(random) for _ in range(200)]
    texts = [" ".join(words) for words in originals]
    for number in range(0, 200, 4):
        copy = list(originals[number])
        copy[10] = copy[150] = "changed"
        texts.append(" ".join(copy))
    same_as, similarity = near_duplicates(signatures(texts, backend), 0.8, backend)
    np.testing.assert_array_equal(same_as[:200], np.arange(200))
    np.testing.assert_array_equal(same_as[200:], np.arange(0, 200, 4))
    assert ((similarity[200:] >= 0.8) & (similarity[200:] < 1)).all()


def test_what_a_text_repeats_is_never_itself_a_repetition(backend: Backend) -> None:
    random = np.random.default_rng(5)
    words = text_of(random)
    texts = []
    for _ in range(60):  # each a little further from the first
        words[int(random.integers(len(words)))] = f"y{len(texts)}"
        texts.append(" ".join(words))
    same_as, _ = near_duplicates(signatures(texts, backend), 0.7, backend)
    assert (same_as[same_as] == same_as).all()
    assert (same_as <= np.arange(60)).all()
    assert 1 < len(np.unique(same_as)) < 60


def test_case_and_space_do_not_count_and_chinese_is_compared_by_its_characters(backend: Backend) -> None:
    texts = [
        "The  Long Mole fell\nin the storm of 1990",
        "the long mole FELL in the storm of 1990",
        "灯笼海带在深水中发光，因为它含有一种特殊的酶。",
        "灯笼海带在深水中发光，因为它含有一种特殊的酶！",
    ]
    same_as, _ = near_duplicates(signatures(texts, backend), 0.9, backend)
    assert same_as.tolist() == [0, 0, 2, 2]


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text(max_size=60), max_size=12))
def test_equal_texts_have_equal_signatures_whatever_they_hold(texts: list[str], backend: Backend) -> None:
    sketches = signatures([*texts, *texts], backend)
    np.testing.assert_array_equal(sketches[: len(texts)], sketches[len(texts) :])
    same_as, _ = near_duplicates(sketches, 0.9, backend)
    assert (same_as[len(texts) :] < len(texts)).all()


def test_bands_are_as_wide_as_the_threshold_allows() -> None:
    widths = [rows_per_band(threshold) for threshold in (0.3, 0.5, 0.7, 0.9)]
    assert widths == sorted(widths)
    assert widths[0] >= 1
    assert widths[-1] > 8
