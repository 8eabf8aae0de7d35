from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from model_server import Answer, models, serving, wait_until

from graphmill.engine.models import Embedder
from graphmill.engine.openai_embedder import OpenAIEmbedder
from graphmill.engine.server import ServerError
from graphmill.engine.tokenizers import WordTokenizer


def vector(text: str) -> list[float]:
    return [float(len(text)), 0.5, -1.0]


def embeddings(body: Any, as_lists: bool = False) -> Answer:
    """Vectors that tell the length of their text, last text first, as no order is promised but that of the index."""
    data: list[dict[str, Any]] = []
    for index, text in enumerate(body["input"]):
        value: Any = vector(text)
        if body["encoding_format"] == "base64" and not as_lists:
            value = base64.b64encode(np.array(value, "<f4").tobytes()).decode()
        data.insert(0, {"index": index, "embedding": value})
    return Answer({"data": data, "model": "m"})


def script(path: str, body: Any) -> Answer:
    return models("m", max_model_len=514) if path.endswith("/models") else embeddings(body)


def connect(url: str, **kwargs: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder(url, WordTokenizer(), **{"first_wait_s": 0.01, "max_retries": 2, **kwargs})


def test_model_dimension_and_length_are_asked_of_the_server() -> None:
    with serving(script) as server:
        embedder = connect(server.url)
    assert isinstance(embedder, Embedder)
    assert (embedder.model, embedder.dimension, embedder.max_tokens) == ("m", 3, 512)
    assert embedder.languages is None


@pytest.mark.parametrize("as_lists", [False, True])
def test_rows_keep_the_order_of_the_texts_over_many_batches(as_lists: bool) -> None:
    def answer(path: str, body: Any) -> Answer:
        return script(path, body) if body is None else embeddings(body, as_lists)

    texts = ["w " * n for n in range(1, 120)]
    with serving(answer) as server:
        embedder = connect(server.url, max_batch_texts=7, max_batch_tokens=300)
        vectors = embedder.embed(texts)
        assert embedder.embed([]).shape == (0, 3)
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [vector(text) for text in texts]
    batches = [body["input"] for path, body, _ in server.requests[2:] if path.endswith("/embeddings")]
    assert max(map(len, batches)) == 7
    assert all(sum(WordTokenizer().count(batch) + 2) <= 300 for batch in batches)


def test_several_requests_are_in_flight() -> None:
    def together(path: str, body: Any) -> Answer:
        if body is not None and body["input"] == ["a"]:
            wait_until(lambda: server.max_in_flight >= 2)
        return Answer(script(path, body).body, wait_s=0.05)

    with serving(together) as server:
        connect(server.url, max_batch_texts=1, max_in_flight=4).embed(["a"] * 16)
    assert 2 <= server.max_in_flight <= 4


def test_a_text_that_is_refused_is_a_row_of_nan_and_harms_no_other() -> None:
    def answer(path: str, body: Any) -> Answer:
        if body is not None and "bad" in body["input"]:
            return Answer({"error": {"message": "no"}}, 400)
        if body is not None and "burst" in body["input"]:
            return Answer({"error": {"message": "Out of range float values are not JSON compliant"}}, 500)
        return script(path, body)

    with serving(answer) as server:
        embedder = connect(server.url)
        vectors = embedder.embed(["a", "bad", "ccc"])
        alone = embedder.embed(["burst"])
        among = embedder.embed(["a", "burst", "ccc"])
    assert np.isnan(vectors).all(axis=1).tolist() == [False, True, False]
    assert np.isnan(alone).all()
    assert among[[0, 2]].tolist() == [vector("a"), vector("ccc")]


def test_a_vector_that_is_not_finite_reaches_the_caller() -> None:
    def answer(path: str, body: Any) -> Answer:
        if body is not None and len(body["input"]) == 2:
            return Answer('{"data": [{"embedding": [NaN, 1, 2]}, {"embedding": [0, 0, 0]}]}')
        return script(path, body)

    with serving(answer) as server:
        vectors = connect(server.url).embed(["a", "b"])
    assert np.isnan(vectors[0, 0])
    assert not vectors[1].any()


@pytest.mark.parametrize(
    "body",
    [
        {"data": []},
        {"error": "x"},
        {"data": [{"index": 5, "embedding": [1, 2, 3]}]},
        {"data": [{"embedding": None}]},
        {"data": [{}]},
        "<html>",
    ],
)
def test_a_body_without_the_vectors_is_a_row_of_nan(body: Any) -> None:
    def answer(path: str, sent: Any) -> Answer:
        return Answer(body) if sent is not None and sent["input"] == ["odd"] else script(path, sent)

    with serving(answer) as server:
        assert np.isnan(connect(server.url).embed(["odd"])).all()


def test_a_server_that_refuses_every_text_is_an_error_and_no_table_of_nothing() -> None:
    def answer(path: str, body: Any) -> Answer:
        return (
            script(path, body) if body is None or body["input"] == ["dimension"] else Answer({"detail": "broken"}, 500)
        )

    with serving(answer) as server, pytest.raises(ServerError, match=r"none of 3 texts.*broken"):
        connect(server.url, max_retries=0).embed(["a", "b", "c"])


@pytest.mark.parametrize("status", [401, 404, 503])
def test_a_server_in_trouble_is_an_error_that_names_it(status: int) -> None:
    def answer(path: str, body: Any) -> Answer:
        return script(path, body) if body is None or body["input"] == ["dimension"] else Answer({}, status)

    with serving(answer) as server, pytest.raises(ServerError, match=str(status)) as caught:
        connect(server.url).embed(["a", "b"])
    assert server.url in str(caught.value)


def test_a_server_without_embeddings_is_named_before_any_work() -> None:
    def answer(path: str, body: Any) -> Answer:
        return script(path, body) if body is None else Answer({"error": {"message": "generates only"}}, 400)

    with serving(answer) as server, pytest.raises(ServerError, match=r"no embeddings from m.*generates only"):
        connect(server.url)


def test_a_server_that_knows_no_base64_is_asked_for_lists() -> None:
    def answer(path: str, body: Any) -> Answer:
        if body is not None and body["encoding_format"] == "base64":
            return Answer({"error": "encoding_format"}, 400)
        return script(path, body)

    with serving(answer) as server:
        assert connect(server.url).embed(["ab"]).tolist() == [vector("ab")]


def test_another_dimension_in_the_middle_is_an_error() -> None:
    with serving(script) as server, pytest.raises(ServerError, match="gave 3 dimensions, expected 5"):
        connect(server.url, dimension=5).embed(["a"])
