from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from model_server import Answer, serving, wait_until

from graphmill.engine import server_tokenizer
from graphmill.engine.models import Tokenizer
from graphmill.engine.server import Server, ServerError
from graphmill.engine.server_tokenizer import ServerTokenizer
from graphmill.engine.tokenizers import WordTokenizer


def words(path: str, body: Any) -> Answer:
    """Tokens are words with the space before them, as byte-level vocabularies write them."""
    strings = ["Ġ" + word if n else word for n, word in enumerate(body["prompt"].split(" "))]
    told = {"count": len(strings), "max_model_len": 4096, "tokens": list(range(len(strings)))}
    return Answer(told | ({"token_strs": strings} if body["return_token_strs"] else {}))


def test_counts_come_from_the_server_once_a_text() -> None:
    with serving(words) as server:
        tokenizer = ServerTokenizer(server.url, "m")
        assert isinstance(tokenizer, Tokenizer)
        assert tokenizer.count(["a b c", "", "a", "a b c"]).tolist() == [3, 0, 1, 3]
        assert tokenizer.count(["a", "a b"]).tolist() == [1, 2]
        tokenizer.close()
    assert sorted(body["prompt"] for _, body, _ in server.requests) == ["a", "a b", "a b c"]
    path, body, _ = server.requests[0]
    assert path == "/tokenize"
    assert (body["model"], body["add_special_tokens"]) == ("m", False)


def test_spans_come_from_the_token_strings_and_empty_texts_are_not_sent() -> None:
    with serving(words) as server:
        spans = ServerTokenizer(server.url).spans(["ab cd", "", "x"])
    assert [s.tolist() for s in spans] == [[[0, 2], [2, 5]], [], [[0, 1]]]
    assert len(server.requests) == 2


def test_a_long_text_is_sent_in_slices_whose_tokens_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_tokenizer, "SLICE_CHARS", 30)
    text = "word other\n" * 20

    def by_line(path: str, body: Any) -> Answer:
        lines = body["prompt"].replace("\n", "Ċ").replace(" ", "Ġ")
        strings = [part for line in lines.split("Ċ") if line for part in (*line.replace("Ġ", "|Ġ").split("|"), "Ċ")]
        return Answer({"count": len(strings), "token_strs": strings})

    with serving(by_line) as server:
        tokenizer = ServerTokenizer(server.url)
        (spans,) = tokenizer.spans([text])
        assert tokenizer.count([text])[0] == len(spans) == 60
    assert [text[a:b] for a, b in spans] == ["word", " other", "\n"] * 20
    assert max(len(body["prompt"]) for _, body, _ in server.requests) <= 30


def test_a_server_that_only_counts_has_its_tokens_spread_evenly() -> None:
    with serving(lambda path, body: Answer({"tokens": [1, 2, 3]})) as server:
        tokenizer = ServerTokenizer(server.url)
        assert tokenizer.spans(["abcdef"])[0].tolist() == [[0, 2], [2, 4], [4, 6]]
        assert tokenizer.count(["abcdef"]).tolist() == [3]


def test_many_texts_are_in_flight_at_once_and_keep_their_places() -> None:
    def together(path: str, body: Any) -> Answer:
        wait_until(lambda: server.max_in_flight > 4)
        return words(path, body)

    texts = ["x " * n + "x" for n in range(60)]
    with serving(together) as server:
        assert ServerTokenizer(server.url).count(texts).tolist() == list(range(1, 61))
    assert server.max_in_flight > 4


@pytest.mark.parametrize("answer", [Answer({}, 404), Answer("<html>", 200), Answer({"detail": "x"}, 422), Answer({})])
def test_a_server_without_tokenize_is_told_apart(answer: Answer) -> None:
    with serving(lambda path, body: answer) as server:
        tokenizer = ServerTokenizer(server.url)
        assert not tokenizer.is_there()
        with pytest.raises(ServerError):
            tokenizer.count(["a"])


def test_a_server_in_trouble_is_not_taken_for_one_without_tokenize() -> None:
    with serving(lambda path, body: Answer({"message": "loading"}, 503)) as server:
        tokenizer = ServerTokenizer(Server(server.url, first_wait_s=0.01))
        with pytest.raises(ServerError, match=r"503.*loading"):
            tokenizer.is_there()


def test_the_user_of_the_url_is_taken_over_from_the_model_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHMILL_API_KEY", raising=False)
    with serving(words) as server:
        assert ServerTokenizer(Server(server.url.replace("//", "//me:pw@"))).is_there()
    assert server.requests[0][2]["authorization"].startswith("Basic ")


def test_lone_surrogates_are_counted_and_placed() -> None:
    with serving(words) as server:
        tokenizer = ServerTokenizer(server.url)
        assert tokenizer.count(["a \ud800"]).tolist() == [2]
        assert tokenizer.spans(["a \ud800"])[0].tolist() == [[0, 1], [1, 3]]


def test_word_tokenizer_is_a_tokenizer() -> None:
    assert isinstance(WordTokenizer(), Tokenizer)
    assert np.array_equal(WordTokenizer().count(["a b"]), [2])
