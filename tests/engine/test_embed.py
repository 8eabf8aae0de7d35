"""Windows, bad rows, equal texts, and the embedder that an index was made with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from graphmill.engine.embed import (
    WrongEmbedderError,
    check_embedder,
    embed,
    embed_texts,
    vectors_matrix,
    vectors_table,
    windows_of,
)


class WordTokenizer:
    """A token is a word."""

    name = "words"

    def spans(self, texts: Sequence[str]) -> list[np.ndarray]:
        out = []
        for text in texts:
            rows, start = [], 0
            for word in text.split():
                start = text.index(word, start)
                rows.append((start, start + len(word)))
                start += len(word)
            out.append(np.array(rows, np.int64).reshape(-1, 2))
        return out

    def count(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([len(text.split()) for text in texts], np.int64)


class CountingEmbedder:
    """Vectors of word counts; texts named bad fail as often as they are asked for."""

    model, dimension, languages = "counting", 3, None
    tokenizer = WordTokenizer()

    def __init__(self, max_tokens: int = 8, bad: dict[str, list[float]] | None = None, heals: bool = False) -> None:
        self.max_tokens, self.bad, self.heals = max_tokens, bad or {}, heals
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.calls.append(list(texts))
        rows = [self.bad.get(text, [1.0, float(text.count("a")), float(len(text.split()))]) for text in texts]
        if self.heals:
            self.bad = {}
        return np.array(rows, np.float32).reshape(-1, 3)

    def close(self) -> None: ...


def test_bad_rows_are_tried_again_alone_then_left_out_and_named() -> None:
    texts = [f"text {row}" for row in range(12)]
    bad = {"text 3": [np.nan, 0, 0], "text 5": [0.0, 0, 0], "text 9": [np.inf, 1, 1]}
    embedder = CountingEmbedder(bad=bad)
    (batch,) = embed([f"id{row}" for row in range(12)], texts, embedder)
    table, bad_ids = batch
    assert bad_ids == ["id3", "id5", "id9"]
    assert table.num_rows == 9
    assert embedder.calls[1:] == [["text 3"], ["text 5"], ["text 9"]]
    assert np.allclose(np.linalg.norm(vectors_matrix(table), axis=1), 1)


def test_a_row_that_is_good_the_second_time_is_kept() -> None:
    embedder = CountingEmbedder(bad={"flaky": [np.nan, 0, 0]}, heals=True)
    ((table, bad_ids),) = embed(["a", "b"], ["flaky", "fine"], embedder)
    assert bad_ids == []
    assert table["id"].to_pylist() == ["a", "b"]


def test_a_long_text_becomes_one_vector_from_windows_within_the_limit() -> None:
    embedder = CountingEmbedder(max_tokens=4)
    text = " ".join(f"wa{n}" for n in range(9))
    vector = embed_texts([text], embedder)
    windows = embedder.calls[0]
    assert len(windows) == 3
    assert max(len(window.split()) for window in windows) <= 4
    assert " ".join(windows) == text
    units = np.array([[1.0, 3.0, 3.0]] * 3) / np.sqrt(19)
    assert np.allclose(vector[0], units.mean(axis=0) / np.linalg.norm(units.mean(axis=0)))


def test_a_text_with_one_bad_window_is_bad_as_a_whole() -> None:
    embedder = CountingEmbedder(max_tokens=2, bad={"c d": [np.nan] * 3})
    assert np.isnan(embed_texts(["a b c d", "a b"], embedder)[0]).all()
    assert np.isfinite(embed_texts(["a b c d", "a b"], embedder)[1]).all()


def test_equal_texts_are_embedded_once_and_each_gets_its_vector() -> None:
    embedder = CountingEmbedder()
    ((table, _),) = embed(["1", "2", "3"], ["same", "other a", "same"], embedder)
    assert embedder.calls == [["same", "other a"]]
    matrix = vectors_matrix(table)
    assert (matrix[0] == matrix[2]).all()
    assert (matrix[0] != matrix[1]).any()


def test_batches_follow_the_order_of_ids() -> None:
    batches = list(embed([str(n) for n in range(5)], [f"t{n}" for n in range(5)], CountingEmbedder(), max_rows=2))
    assert [table["id"].to_pylist() for table, _ in batches] == [["0", "1"], ["2", "3"], ["4"]]


def test_an_embedder_that_returns_the_wrong_shape_is_named() -> None:
    embedder = CountingEmbedder()
    embedder.dimension = 4
    with pytest.raises(ValueError, match=r"counting must return shape \(1, 4\), got \(1, 3\)"):
        embed_texts(["x"], embedder)


def test_another_embedding_model_is_refused_with_both_names_and_the_way_to_rebuild() -> None:
    with pytest.raises(WrongEmbedderError) as caught:
        check_embedder(CountingEmbedder(), "big-model", 1024, "kb")
    message = str(caught.value)
    for part in ("big-model", "1024", "counting", "3 dimensions", "rebuild", "--embedder"):
        assert part in message


def test_vectors_survive_the_table_bit_for_bit() -> None:
    vectors = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    assert (vectors_matrix(vectors_table([str(n) for n in range(7)], vectors)) == vectors).all()
    assert vectors_matrix(vectors_table([], np.empty((0, 5), np.float32))).shape == (0, 5)


def test_short_texts_are_not_tokenized_at_all() -> None:
    class Untouchable(WordTokenizer):
        def spans(self, texts: Sequence[str]) -> list[np.ndarray]:
            raise AssertionError("a text shorter in bytes than the limit in tokens needs no counting")

    embedder = CountingEmbedder(max_tokens=8)
    embedder.tokenizer = Untouchable()
    windows, owner = windows_of(["short", "also"], embedder)
    assert windows == ["short", "also"]
    assert owner.tolist() == [0, 1]
