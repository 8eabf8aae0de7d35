from __future__ import annotations

import numpy as np
import pytest

from graphmill.engine.function_models import FunctionEmbedder, FunctionGenerator, HashingEmbedder
from graphmill.engine.models import Embedder, Generator, Reply, Request


def ask(identity: str) -> Request:
    return Request(identity, [{"role": "user", "content": identity}])


def test_the_function_is_called_when_replies_are_collected_at_most_max_in_flight_at_once() -> None:
    called: list[str] = []

    def answer(request: Request) -> str:
        called.append(request.id)
        return request.id.upper()

    generator = FunctionGenerator(answer, model="oracle", max_in_flight=2)
    assert isinstance(generator, Generator)
    for name in "abc":
        generator.submit(ask(name))
    assert called == []
    assert generator.collect() == [Reply("a", "A", "stop"), Reply("b", "B", "stop")]
    assert generator.collect() == [Reply("c", "C", "stop")]
    with pytest.raises(RuntimeError, match="no request open"):
        generator.collect()


def test_what_the_function_raises_is_the_error_of_that_reply_alone() -> None:
    def answer(request: Request) -> str | Reply:
        if request.id == "b":
            raise ValueError("no idea")
        return Reply("whatever", "cut", "length") if request.id == "c" else "fine"

    generator = FunctionGenerator(answer)
    for name in "abc":
        generator.submit(ask(name))
    assert generator.collect() == [
        Reply("a", "fine", "stop"),
        Reply("b", error="ValueError: no idea"),
        Reply("c", "cut", "length"),
    ]


def test_a_function_embedder_checks_the_shape() -> None:
    embedder = FunctionEmbedder(lambda texts: [[len(text), 1] for text in texts], 2, model="lengths")
    assert isinstance(embedder, Embedder)
    assert embedder.embed(["ab", ""]).tolist() == [[2, 1], [0, 1]]
    assert embedder.embed([]).shape == (0, 2)
    with pytest.raises(ValueError, match=r"lengths must give shape \(1, 3\), got \(1, 2\)"):
        FunctionEmbedder(lambda texts: [[1, 2]], 3, model="lengths").embed(["a"])


def test_texts_that_share_words_hash_to_near_vectors_the_same_ones_every_time() -> None:
    texts = ["The river gate was opened", "the gate was opened!", "声峡 北岭大学", "a study of 北岭大学", ""]
    vectors = HashingEmbedder(256).embed(texts)
    assert np.array_equal(vectors, HashingEmbedder(256).embed(texts))
    near = vectors @ vectors.T
    assert near[0, 1] > 0.8
    assert near[2, 3] > 0.4
    assert abs(near[0, 2]) < 0.3
    assert np.allclose(np.linalg.norm(vectors[:4], axis=1), 1)
    assert not vectors[4].any()


def test_an_answer_that_is_no_text_is_an_error_of_its_request() -> None:
    generator = FunctionGenerator(lambda request: None)  # type: ignore[arg-type,return-value]
    generator.submit(ask("a"))
    assert generator.collect() == [Reply("a", error="expected a text or a Reply, got NoneType")]
