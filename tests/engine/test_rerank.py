"""Rerankers: by a function, and by the forms that servers have for it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_server import Answer, models, serving

from graphmill.engine.rerank import FunctionReranker, Reranker, ServerReranker, as_reranker, open_reranker
from graphmill.engine.server import ServerError

TEXTS = ["one", "three", "to", "sixteen"]


def ranked(body: Any) -> Answer:
    """Scores by length, best first, as Jina, Cohere and vLLM give them."""
    results = [{"index": n, "relevance_score": len(text)} for n, text in enumerate(body["documents"])]
    return Answer({"results": sorted(results, key=lambda r: -r["relevance_score"])})


def script(path: str, body: Any) -> Answer:
    if path.endswith("/models"):
        return models("cross")
    return ranked(body) if path.endswith("/rerank") else Answer({"error": "no such path"}, 404)


def test_a_function_gives_one_score_a_text_or_is_told_so() -> None:
    reranker = as_reranker(lambda question, texts: [len(text) for text in texts])
    assert isinstance(reranker, Reranker)
    assert reranker.rank("q", TEXTS).tolist() == [3, 5, 2, 7]
    with pytest.raises(ValueError, match=r"must give 4 scores, got shape \(1,\)"):
        FunctionReranker(lambda question, texts: [1.0]).rank("q", TEXTS)


@pytest.mark.parametrize("size", [1, 3, 64])
def test_a_servers_scores_come_in_the_order_of_the_texts_over_many_batches(size: int) -> None:
    with serving(script) as server:
        reranker = ServerReranker(server.url, max_batch_texts=size)
        assert reranker.model == "cross"
        assert reranker.rank("q", TEXTS).tolist() == [3, 5, 2, 7]
        assert reranker.rank("q", []).tolist() == []
        bodies = [body for path, body, _ in server.requests if path == "/v1/rerank"]
        reranker.close()
    assert all(body["query"] == "q" and body["model"] == "cross" for body in bodies)
    assert sorted(text for body in bodies for text in body["documents"]) == sorted(TEXTS)


def test_a_server_without_rerank_is_asked_for_scores() -> None:
    def score(path: str, body: Any) -> Answer:
        if not path.endswith("/score"):
            return script(path, body) if body is None else Answer("not here", 404)
        return Answer({"data": [{"index": n, "score": len(text)} for n, text in enumerate(body["text_2"])]})

    with serving(score) as server:
        assert ServerReranker(server.url).rank("q", TEXTS).tolist() == [3, 5, 2, 7]


def test_an_address_that_names_its_path_is_taken_at_its_word() -> None:
    with serving(script) as server:
        root = server.url.removesuffix("/v1")
        assert ServerReranker(f"{root}/rerank", "mine").rank("q", TEXTS).tolist() == [3, 5, 2, 7]
        assert server.paths()[-1] == "/rerank"
        opened = open_reranker(f"{root}/v2/rerank#other")
        assert opened is not None
        assert opened.rank("q", TEXTS)[1] == 5
        assert (server.paths()[-1], server.requests[-1][1]["model"]) == ("/v2/rerank", "other")


def test_texts_that_a_server_leaves_out_have_no_score() -> None:
    def best_only(path: str, body: Any) -> Answer:
        return script(path, body) if body is None else Answer({"results": ranked(body).body["results"][:1]})

    with serving(best_only) as server:
        scores = ServerReranker(server.url).rank("q", TEXTS)
    assert scores[3] == 7
    assert np.isnan(scores[:3]).all()


@pytest.mark.parametrize(
    "body", [{"results": []}, {"nothing": 1}, {"results": [{"index": 9, "score": 1}]}, {"results": [{"index": 0}]}]
)
def test_a_malformed_ranking_is_an_error_that_names_the_server(body: Any) -> None:
    with serving(lambda path, asked: script(path, asked) if asked is None else Answer(body)) as server:
        reranker = ServerReranker(server.url, max_retries=0)
        with pytest.raises(ServerError, match=r"the reranker at http.*malformed ranking"):
            reranker.rank("q", TEXTS)


def test_what_names_no_reranker_is_refused(tmp_path: Path) -> None:
    assert open_reranker("none") is None
    for spec in ("bge", "vllm:", "vllm: "):
        with pytest.raises(
            ValueError, match=f"can't open the reranker '{spec.strip()}': expected none, the address of"
        ):
            open_reranker(spec)
    with pytest.raises(ValueError, match=f"did you mean vllm:{tmp_path}"):
        open_reranker(str(tmp_path))
    with pytest.raises(ValueError, match=r"can't read its template .*no\.jinja"):
        open_reranker("vllm:org/model", template=str(tmp_path / "no.jinja"))


def test_texts_that_are_too_long_for_a_server_are_cut_until_it_takes_them() -> None:
    def short_sighted(path: str, body: Any) -> Answer:
        if body is not None and any(len(text) > 600 for text in body["documents"]):
            return Answer({"message": "This model's maximum context length is 512 tokens"}, 400)
        return script(path, body)

    with serving(short_sighted) as server:
        reranker = ServerReranker(server.url)
        assert reranker.rank("q", [*TEXTS, "long " * 1000])[:4].tolist() == [3, 5, 2, 7]
        num_asked = len(server.requests)
        reranker.rank("q", ["long " * 1000])
        assert len(server.requests) == num_asked + 1  # it is remembered


def test_what_a_function_raises_is_told_and_the_question_goes_on() -> None:
    def broken(question: str, texts: list[str]) -> list[float]:
        raise RuntimeError("out of memory")

    with pytest.raises(ValueError, match="reranker function: RuntimeError: out of memory"):
        FunctionReranker(broken).rank("q", TEXTS)


def test_questions_are_put_to_a_server_beside_each_other_and_one_that_fails_stops_no_other() -> None:
    def picky(path: str, body: Any) -> Answer:
        if body and body.get("query") == "bad":
            return Answer({"error": {"message": "not that"}}, 422)
        return script(path, body)

    with serving(picky) as server:
        reranker = ServerReranker(server.url, max_retries=0)
        first, second, third = reranker.rank_each([("bad", TEXTS), ("a", TEXTS[:2]), ("b", [])])
        reranker.close()
    assert isinstance(first, ServerError)
    assert "not that" in str(first)
    assert [np.asarray(second).tolist(), np.asarray(third).tolist()] == [[3, 5], []]


def test_a_server_that_takes_one_text_at_a_time_is_given_time_for_all() -> None:
    turn = threading.Lock()

    def slow(path: str, body: Any) -> Answer:
        if not body:
            return script(path, body)
        with turn:
            time.sleep(0.05)
        return script(path, body)

    with serving(slow) as server:
        reranker = ServerReranker(server.url, timeout_s=2, max_in_flight=4)
        found = reranker.rank_each([("q", TEXTS)] * 60)  # 3 s in all
        reranker.close()
    assert [np.asarray(scores).tolist() for scores in found] == [[3, 5, 2, 7]] * 60


def test_questions_that_are_refused_together_halve_their_texts_once() -> None:
    lengths = []

    def strict(path: str, body: Any) -> Answer:
        if not body:
            return script(path, body)
        longest = max(map(len, body["documents"]))
        lengths.append(longest)
        return Answer({"error": {"message": "too long"}}, 400) if longest > 3000 else script(path, body)

    with serving(strict) as server:
        reranker = ServerReranker(server.url)
        reranker.rank("q", TEXTS)  # finds the path
        found = reranker.rank_each([("q", ["x" * 4000])] * 20)
        reranker.close()
    assert [np.asarray(scores).tolist() for scores in found] == [[2000]] * 20
    assert set(lengths) == {7, 4000, 2000}
