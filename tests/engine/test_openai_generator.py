from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from model_server import Answer, ModelServer, chat, chat_events, models, refusing, serving, wait_until

import graphmill
from graphmill.engine.config import Config
from graphmill.engine.extract import ExtractConfig
from graphmill.engine.function_models import HashingEmbedder
from graphmill.engine.models import Generator, Reply, Request
from graphmill.engine.open_models import open_generator
from graphmill.engine.openai_generator import GeneratorGone, OpenAIGenerator
from graphmill.engine.query_param import MODES
from graphmill.engine.server import ServerError
from graphmill.engine.tokenizers import WordTokenizer

SECRET = "sk-not-for-anyones-eyes"


def ask(identity: str, text: str = "hello", **kwargs: Any) -> Request:
    return Request(identity, [{"role": "user", "content": text}], **kwargs)


def connect(url: str, **kwargs: Any) -> OpenAIGenerator:
    return OpenAIGenerator(url, **{"model": "m", "context_tokens": 4096, "first_wait_s": 0.01, **kwargs})


def collect_all(generator: Generator, requests: Iterable[Request]) -> dict[str, Reply]:
    requests = list(requests)
    for request in requests:
        generator.submit(request)
    replies: dict[str, Reply] = {}
    while len(replies) < len(requests):
        replies.update({reply.id: reply for reply in generator.collect()})
    return replies


def one(script: Any, request: Request | None = None, **kwargs: Any) -> Reply:
    with serving(script) as server, connect(server.url, **kwargs) as generator:
        return collect_all(generator, [request or ask("a")])["a"]


def test_it_is_a_generator() -> None:
    with connect("http://127.0.0.1:9/v1") as generator:
        assert isinstance(generator, Generator)


def test_a_request_goes_out_whole_and_the_reply_comes_back_with_its_counts() -> None:
    schema = {"type": "object"}
    request = ask("a", "é\ud800 <|im_end|>", max_tokens=77, temperature=0.5, schema=schema, options={"seed": 3})
    with serving(lambda path, body: chat("hi", "length")) as server, connect(server.url) as generator:
        reply = collect_all(generator, [request])["a"]
    path, body, _ = server.requests[0]
    assert reply == Reply("a", "hi", "length", 7, 3)
    assert path == "/v1/chat/completions"
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "é? <|im_end|>"}],
        "max_tokens": 77,
        "temperature": 0.5,
        "seed": 3,
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}},
    }


def test_options_replace_fields_and_take_them_out() -> None:
    options = {"response_format": {"type": "json_object"}, "temperature": None, "max_completion_tokens": 9}
    with serving(lambda path, body: chat("{}")) as server, connect(server.url) as generator:
        collect_all(generator, [ask("a", schema={"type": "object"}, options=options)])
    body = server.requests[0][1]
    assert body["response_format"] == {"type": "json_object"}
    assert body["max_completion_tokens"] == 9
    assert not {"temperature", "max_tokens"} & set(body)


SCHEMA = {"type": "object", "properties": {"points": {"type": "array"}}}


def taking(*forms: str | None, refusal: Answer) -> Any:
    """A server that takes these types of response_format, None for no format at all, and refuses others."""
    return lambda path, body: chat("{}") if body.get("response_format", {}).get("type") in forms else refusal


def forms(server: ModelServer) -> list[str | None]:
    """The types of response_format that a server was asked for, in order."""
    return [body.get("response_format", {}).get("type") for _, body, _ in server.requests]


def refused(status: int, message: Any) -> Answer:
    return Answer({"error": {"message": message, "type": "invalid_request_error"}}, status)


REFUSALS = {
    "deepseek": refused(400, "This response_format type is unavailable now"),
    "axum": Answer("response_format: unknown variant `json_schema`, expected `regex`", 422),
    "fastapi": Answer({"detail": [{"loc": ["body", "response_format", "type"], "msg": "Input should be 'text'"}]}, 422),
    "groq": refused(400, "This model does not support response format `json_schema`."),
    "vllm": Answer({"message": "The provided JSON schema contains features not supported by xgrammar."}, 400),
    "llama.cpp": refused(500, 'response_format type must be one of "text" or "json_object", but got: json_schema'),
    "long": refused(400, f"1 validation error: {'x' * 500} 'loc': ('body', 'response_format')"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=list(REFUSALS))
def test_a_server_that_refuses_a_schema_is_asked_for_an_object_and_from_then_on_at_once(refusal: Answer) -> None:
    told: list[str] = []
    script = taking("json_object", None, refusal=refusal)
    with serving(script) as server, connect(server.url, max_retries=0, warn=told.append) as generator:
        for name in "abc":
            assert collect_all(generator, [ask(name, schema=SCHEMA)])[name].text == "{}"
        assert not getattr(generator, "enforces_schema", False)
    assert forms(server) == ["json_schema", "json_object", "json_object", "json_object"]
    (warning,) = told
    assert "can't hold the replies of m to a schema" in warning
    assert "asked for a JSON object in its place" in warning
    assert str(refusal.status) in warning


def test_whoever_opens_a_server_by_its_address_is_told_that_it_refuses_a_schema() -> None:
    told: list[str] = []
    with serving(taking(None, refusal=REFUSALS["deepseek"])) as server:
        generator = open_generator(f"{server.url}#m", context_tokens=4096, warn=told.append)
        assert generator is not None
        assert collect_all(generator, [ask("a", schema=SCHEMA)])["a"].text == "{}"
        generator.close()
    assert len(told) == 1


def test_a_server_that_knows_no_format_is_asked_without_one() -> None:
    script = taking(None, refusal=refused(400, "Unrecognized request argument supplied: response_format"))
    with serving(script) as server, connect(server.url) as generator:
        replies = collect_all(generator, [ask("a", schema=SCHEMA)]) | collect_all(generator, [ask("b", schema=SCHEMA)])
    assert {reply.text for reply in replies.values()} == {"{}"}
    assert forms(server) == ["json_schema", "json_object", None, None]


def test_all_requests_that_are_in_flight_when_a_schema_is_refused_are_mended() -> None:
    def script(path: str, body: Any) -> Answer:
        if body.get("response_format", {}).get("type") != "json_schema":
            return chat("{}")
        wait_until(lambda: server.max_in_flight >= 8)
        return REFUSALS["deepseek"]

    told: list[str] = []
    with serving(script) as server, connect(server.url, warn=told.append) as generator:
        replies = collect_all(generator, [ask(str(n), schema=SCHEMA) for n in range(8)])
    assert {reply.text for reply in replies.values()} == {"{}"}
    assert len(told) == 1


def test_a_format_that_is_refused_with_an_error_of_the_servers_is_not_tried_again_by_those_in_line_either() -> None:
    def script(path: str, body: Any) -> Answer:
        if "response_format" not in body:
            return chat("{}")
        wait_until(lambda: server.max_in_flight >= 4)
        return refused(500, "Failed to parse grammar for response_format")

    with serving(script) as server, connect(server.url, max_in_flight=4) as generator:
        replies = collect_all(generator, [ask(str(n), schema=SCHEMA) for n in range(12)])
    assert {reply.text for reply in replies.values()} == {"{}"}
    asked = Counter(forms(server))
    assert (asked["json_schema"], asked[None]) == (4, 12)
    assert asked["json_object"] <= 4


def test_an_error_that_names_the_format_is_tried_again_where_none_is_asked_for() -> None:
    failure = refused(500, "the json_schema worker is starting")
    answers = [failure, failure, failure, chat("{}")]
    with serving(lambda path, body: answers.pop(0)) as server, connect(server.url) as generator:
        assert collect_all(generator, [ask("a", schema=SCHEMA)])["a"].text == "{}"
    assert forms(server) == ["json_schema", "json_object", None, None]


def test_one_schema_that_is_refused_does_not_take_the_others_their_own() -> None:
    def script(path: str, body: Any) -> Answer:
        given = body["response_format"]
        return REFUSALS["vllm"] if given.get("json_schema", {}).get("schema") == SCHEMA else chat("{}")

    with serving(script) as server, connect(server.url) as generator:
        for number, schema in enumerate([{"type": "object"}, SCHEMA, {"type": "object"}, SCHEMA]):
            assert not collect_all(generator, [ask(str(number), schema=schema)])[str(number)].error
    assert forms(server) == ["json_schema", "json_schema", "json_object", "json_schema", "json_object"]


def test_an_index_is_made_with_the_json_profile_and_asked_in_every_mode_over_a_server_without_schemas(
    tmp_path: Path,
) -> None:
    people = [{"name": name, "type": "person", "description": f"{name} sails."} for name in ("Ada", "Elias")]
    tie = {"source": "Ada", "target": "Elias", "description": "They met.", "keywords": ["sea"], "strength": 5}
    report = {"title": "Sailors", "summary": "Ada met Elias.", "rating": 5, "rating_explanation": "x", "findings": []}
    points = {"points": [{"description": "Ada met Elias [1].", "score": 60}], "follow_ups": ["Who sails?"]}
    keywords = {"high_level_keywords": ["sea"], "low_level_keywords": ["Ada"]}
    # What is right for every request: each reads its own members.
    text = json.dumps({"entities": people, "relationships": [tie], "keywords": [], **report, **points, **keywords})

    def script(path: str, body: Any) -> Answer:
        refuses = body.get("response_format", {}).get("type") == "json_schema"
        return REFUSALS["deepseek"] if refuses else chat(text)

    config = Config(extract=ExtractConfig(profile="json"))
    models = (HashingEmbedder(32), WordTokenizer())
    with serving(script) as server, connect(server.url, context_tokens=32_768, max_retries=0) as generator:
        documents = [(f"{n}.txt", f"Ada met Elias on day {n}.") for n in range(3)]
        summary = graphmill.index(documents, tmp_path / "kb", generator, *models, config)
        with graphmill.open(tmp_path / "kb", None, generator, *models) as kb:
            answers = {mode: kb.query("Who met Ada?", graphmill.QueryParam(mode=mode)) for mode in MODES}
    assert summary["entities"] == 2
    assert {mode: answer.warnings for mode, answer in answers.items()} == {mode: [] for mode in MODES}
    assert all("Ada met Elias" in answer.answer for answer in answers.values())


def test_a_stream_falls_back_too() -> None:
    def script(path: str, body: Any) -> Answer:
        assert body["stream"]
        refuses = body.get("response_format", {}).get("type") == "json_schema"
        return REFUSALS["deepseek"] if refuses else Answer(events=chat_events('{"po', 'ints": []}'))

    with serving(script) as server, connect(server.url) as generator:
        for name in "ab":
            assert "".join(generator.stream(ask(name, schema=SCHEMA))) == '{"points": []}'
    assert forms(server) == ["json_schema", "json_object", "json_object"]


@pytest.mark.parametrize("refusal", [refused(400, "the context is 8 tokens"), refused(401, "json_schema needs a key")])
def test_what_is_refused_for_something_else_is_not_asked_again(refusal: Answer) -> None:
    with serving(lambda path, body: refusal) as server, connect(server.url) as generator:
        reply = collect_all(generator, [ask("a", schema=SCHEMA)])["a"]
    assert forms(server) == ["json_schema"]
    assert refusal.body["error"]["message"] in (reply.error or "")


def test_what_is_refused_whatever_the_format_is_an_error_and_teaches_nothing() -> None:
    told: list[str] = []
    answers = [*[refused(400, "messages: too long, in {'response_format': ...}")] * 3, chat("{}")]
    with serving(lambda path, body: answers.pop(0)) as server, connect(server.url, warn=told.append) as generator:
        assert "too long" in (collect_all(generator, [ask("a", schema=SCHEMA)])["a"].error or "")
        assert collect_all(generator, [ask("b", schema=SCHEMA)])["b"].text == "{}"
    assert forms(server) == ["json_schema", "json_object", None, "json_schema"]
    assert not told


def test_a_format_that_was_asked_for_by_name_is_not_replaced() -> None:
    options = {"response_format": {"type": "regex", "value": "a+"}}
    with serving(taking(None, refusal=REFUSALS["deepseek"])) as server, connect(server.url) as generator:
        reply = collect_all(generator, [ask("a", schema=SCHEMA, options=options)])["a"]
    assert forms(server) == ["regex"]
    assert "unavailable" in (reply.error or "")


def test_all_calls_settle_and_the_limit_holds_when_every_tenth_fails() -> None:
    """Case O04."""

    def script(path: str, body: Any) -> Answer:
        number = int(body["messages"][0]["content"])
        if number % 10 == 0:
            return Answer("<h1>no</h1>", status=400) if number % 20 else Answer(hang_up=True)
        wait_until(lambda: server.max_in_flight >= 4)
        return Answer(chat(str(number)).body, wait_s=0.01)

    with serving(script) as server, connect(server.url, max_in_flight=4, max_retries=1) as generator:
        replies = collect_all(generator, [ask(str(n), str(n)) for n in range(100)])
        again = collect_all(generator, [ask(f"x{n}", "7") for n in range(12)])
    assert {n for n, reply in replies.items() if reply.error} == {str(n) for n in range(0, 100, 10)}
    assert all(reply.text == n for n, reply in replies.items() if not reply.error)
    assert all(reply.text == "7" for reply in again.values())
    assert server.max_in_flight == 4


def test_submit_returns_at_once_and_replies_come_in_the_order_they_finish() -> None:
    gate = threading.Event()

    def script(path: str, body: Any) -> Answer:
        if body["messages"][0]["content"] == "slow":
            gate.wait(60)
        return chat("done")

    with serving(script) as server, connect(server.url) as generator:
        generator.submit(ask("slow", "slow"))
        generator.submit(ask("quick", "quick"))
        assert [reply.id for reply in generator.collect()] == ["quick"]
        gate.set()
        assert [reply.id for reply in generator.collect()] == ["slow"]


@pytest.mark.parametrize(
    "failure", [Answer({}, 429), Answer({}, 500), Answer("<p>bad gateway", 502), Answer({}, 408), Answer(hang_up=True)]
)
def test_passing_failures_are_tried_again(failure: Answer) -> None:
    answers = iter([failure, failure, chat("third time")])
    assert one(lambda path, body: next(answers)).text == "third time"


def test_a_failure_that_lasts_is_an_error_after_the_retries() -> None:
    busy = Answer({"error": {"message": "overloaded"}}, 503)
    with serving(lambda path, body: busy) as server, connect(server.url, max_retries=2) as generator:
        reply = collect_all(generator, [ask("a")])["a"]
    assert len(server.requests) == 3
    assert reply.text == ""
    assert reply.error == f"HTTP 503 from {server.url}/chat/completions: overloaded (3 tries)"


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_request_that_is_refused_is_not_tried_again(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHMILL_API_KEY", raising=False)
    refusal = Answer({"error": {"message": "context is 8 tokens"}}, status)
    with serving(lambda path, body: refusal) as server, connect(server.url) as generator:
        reply = collect_all(generator, [ask("a")])["a"]
    assert len(server.requests) == 1
    assert "context is 8 tokens" in (reply.error or "")
    assert str(status) in (reply.error or "")
    assert ("GRAPHMILL_API_KEY is not set" in (reply.error or "")) == (status == 401)


@pytest.mark.parametrize("in_seconds", [True, False])
def test_retry_after_is_waited_for(in_seconds: bool) -> None:
    times: list[float] = []

    def script(path: str, body: Any) -> Answer:
        times.append(time.monotonic())
        if len(times) > 1:
            return chat("later")
        # A date has whole seconds, of which up to one may be gone. It is made here, since all else takes its time too.
        value = "1" if in_seconds else format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
        return Answer({}, 429, {"Retry-After": value})

    assert one(script).text == "later"
    assert times[1] - times[0] >= 0.5


def test_a_wait_longer_than_the_deadline_is_not_begun() -> None:
    reply = one(lambda path, body: Answer({}, 429, {"Retry-After": "3600"}), timeout_s=60.0)
    assert "HTTP 429" in (reply.error or "")


def test_an_answer_that_does_not_come_in_time_is_an_error_that_says_so() -> None:
    reply = one(lambda path, body: Answer(chat("late").body, wait_s=1.0), timeout_s=0.2)
    assert "within timeout_s=0.2" in (reply.error or "")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer("<html><body>Sign in</body></html>"), "text/html, not JSON: Sign in"),
        (Answer([1, 2]), "malformed reply: expected an object"),
        (Answer({"choices": []}), "no choices"),
        (Answer({"choices": None}), "no choices"),
        (Answer({"error": {"message": "engine dead"}}), "engine dead"),
        (Answer({"choices": [{"text": "old style"}]}), "no message"),
        (chat(None), "no content"),
        (chat(None, reasoning_content="hmm" * 5), "nothing but thinking (15 characters)"),
        (chat(None, "length", reasoning_content="hmm"), "cut off while thinking"),
        (chat(None, refusal="I can't help"), "the model refused: I can't help"),
    ],
)
def test_a_body_that_is_no_completion_is_an_error_that_names_it(answer: Answer, said: str) -> None:
    reply = one(lambda path, body: answer)
    assert said in (reply.error or "")
    assert reply.text == ""


def test_content_in_parts_is_joined_and_missing_usage_counts_nothing() -> None:
    body = {"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}}]}
    assert one(lambda path, sent: Answer(body)) == Reply("a", "ab")


def test_an_empty_content_is_an_empty_text() -> None:
    assert one(lambda path, body: chat("")) == Reply("a", "", "stop", 7, 3)


def test_a_request_that_can_not_be_sent_is_an_error() -> None:
    reply = one(lambda path, body: chat("hi"), ask("a", options={"seed": {1, 2}}))
    assert "TypeError" in (reply.error or "")


def test_the_model_and_its_context_are_asked_of_the_server() -> None:
    def script(path: str, body: Any) -> Answer:
        adapter = {"id": "adapter", "parent": "base", "max_model_len": None}
        return Answer({"data": [{"id": "base", "max_model_len": 1234}, adapter]})

    with serving(script) as server, OpenAIGenerator(server.url) as generator:
        assert (generator.model, generator.context_tokens) == ("base", 1234)
    with serving(script) as server, OpenAIGenerator(f"http://127.0.0.1:{server.port}/", "adapter") as generator:
        assert (generator.model, generator.context_tokens) == ("adapter", 32_768)
        assert server.paths() == ["/v1/models"]


def test_a_choice_of_models_has_to_be_made() -> None:
    with serving(lambda path, body: models("one", "two")) as server, pytest.raises(ServerError, match="one, two"):
        OpenAIGenerator(server.url)


def test_a_server_without_a_list_of_models_needs_the_name() -> None:
    with serving(lambda path, body: Answer({}, 404)) as server:
        assert OpenAIGenerator(server.url, "mine").model == "mine"
        with pytest.raises(ServerError, match="404"):
            OpenAIGenerator(server.url)


def test_a_dead_server_is_named_before_any_work() -> None:
    with refusing() as address:
        url = address.replace("//", "//user:pa55word@")
        with pytest.raises(ServerError, match="Connection refused") as caught:
            OpenAIGenerator(url)
        assert address in str(caught.value)
        assert "pa55word" not in str(caught.value)
        with connect(url) as generator, pytest.raises(ServerError, match="vllm serve"):
            generator.check()


def test_check_waits_for_a_server_that_is_still_loading() -> None:
    server = ModelServer(lambda path, body: models("m"), is_up=False)
    with connect(server.url) as generator:
        timer = threading.Timer(0.3, server.start)
        timer.start()
        generator.check(wait_s=60.0)
        timer.join()
        server.stop()


def test_few_requests_to_a_dead_server_fail_one_by_one() -> None:
    with refusing() as url, connect(url, max_retries=1) as generator:
        replies = collect_all(generator, [ask("a"), ask("b")])
    assert all("Connection refused (2 tries)" in (reply.error or "") for reply in replies.values())


def test_a_server_that_dies_in_the_middle_is_gone_and_no_request_is_blamed() -> None:
    server = ModelServer(lambda path, body: chat("ok"))
    with connect(server.url, max_retries=1, max_in_flight=3) as generator:
        collect_all(generator, [ask("first")])
        down = server.go_down()
        with pytest.raises(GeneratorGone, match=r"is gone.*Connection refused") as caught:
            collect_all(generator, [ask(str(n)) for n in range(40)])
        assert server.url in str(caught.value)
        with pytest.raises(GeneratorGone):
            generator.collect()
        down.stop()


def test_a_server_that_comes_back_within_the_retries_loses_nothing() -> None:
    server = ModelServer(lambda path, body: chat("ok"))
    with connect(server.url, max_retries=8, first_wait_s=0.05) as generator:
        collect_all(generator, [ask("first")])
        revived = server.go_down()
        revived.script = lambda path, body: chat("back")
        timer = threading.Timer(0.3, revived.start)
        timer.start()
        replies = collect_all(generator, [ask(str(n)) for n in range(20)])
        timer.join()
        revived.stop()
    assert {reply.text for reply in replies.values()} == {"back"}


def test_the_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def script(path: str, body: Any) -> Answer:
        return Answer({"error": {"message": f"wrong key {SECRET}"}}, 401)

    monkeypatch.setenv("GRAPHMILL_API_KEY", SECRET)
    with serving(script) as server, connect(server.url) as generator:
        reply = collect_all(generator, [ask("a")])["a"]
        with pytest.raises(ServerError, match="refused the key in GRAPHMILL_API_KEY") as caught:
            generator.check()
        shown = [str(reply), str(caught.value), repr(generator), str(vars(generator)), str(vars(generator.server))]
    assert server.requests[0][2]["authorization"] == f"Bearer {SECRET}"
    assert not any(SECRET in text for text in shown)


def test_a_key_that_is_meant_for_another_service_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHMILL_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with serving(lambda path, body: chat("hi")) as server, connect(server.url) as generator:
        collect_all(generator, [ask("a")])
    assert "authorization" not in server.requests[0][2]


def test_a_user_in_the_url_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHMILL_API_KEY", raising=False)
    refusal = Answer({"message": "not you, pa55word"}, 403)
    with serving(lambda path, body: refusal) as server, connect(f"http://me:pa55word@{server.url[7:]}") as generator:
        reply = collect_all(generator, [ask("a")])["a"]
        assert "pa55word" not in f"{reply}{generator!r}{generator.server!r}"
    assert server.requests[0][2]["authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host/v1", "http://", "http://host/v1?key=secret", "http://host/v1#m"]
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="server's URL must") as caught:
        connect(url)
    assert "secret" not in str(caught.value)


def test_closing_cancels_promptly_what_is_in_flight_and_wakes_collect() -> None:
    gate = threading.Event()

    def script(path: str, body: Any) -> Answer:
        gate.wait(30)
        return chat("too late")

    with serving(script) as server:
        generator = connect(server.url)
        generator.submit(ask("a"))
        timer = threading.Timer(0.2, generator.close)
        timer.start()
        for _ in range(2):  # the second time there is nothing left to be woken by
            with pytest.raises(RuntimeError, match="was closed"):
                generator.collect()
        timer.join()
        generator.close()
        with pytest.raises(RuntimeError, match="is closed"):
            generator.submit(ask("b"))
        gate.set()


def test_a_request_that_is_taken_back_is_hung_up_on_and_the_others_go_on() -> None:
    gate = threading.Event()

    def script(path: str, body: Any) -> Answer:
        text = body["messages"][0]["content"]
        if text == "slow":
            gate.wait(60)
        return Answer(chat(text).body, wait_s=120 if text == "hang" else 0)

    with serving(script) as server, connect(server.url, max_in_flight=3) as generator:
        for identity, text in (("a", "hang"), ("b", "hang"), ("c", "slow"), ("d", "quick"), ("e", "quick")):
            generator.submit(ask(identity, text))
        wait_until(lambda: len(server.requests) == 3)
        generator.abort({"a", "b", "e", "never asked"})
        assert [reply.id for reply in generator.collect()] == ["d"]
        gate.set()
        assert [reply.id for reply in generator.collect()] == ["c"]
        wait_until(lambda: server.num_hung_up == 2)
        with pytest.raises(RuntimeError, match="no request open"):
            generator.collect()
        generator.submit(ask("a", "quick"))  # its id is free again
        assert [reply.text for reply in generator.collect()] == ["quick"]
        wait_until(lambda: not generator._futures)


def test_a_reply_that_has_come_and_was_taken_back_is_not_collected() -> None:
    with serving(lambda path, body: chat("hi")) as server, connect(server.url) as generator:
        for identity in "abc":
            generator.submit(ask(identity))
        wait_until(lambda: generator._replies.qsize() == 3)
        generator.abort({"a", "b"})
        assert [reply.id for reply in generator.collect()] == ["c"]


def test_replies_that_are_held_back_come_when_the_requests_they_waited_for_are_taken_back() -> None:
    with serving(lambda path, body: Answer({}, wait_s=120)) as server, connect(server.url, max_retries=0) as generator:
        generator.submit(ask("slow"))
        wait_until(lambda: len(server.requests) == 1)
        down = server.go_down()
        generator.submit(ask("unreachable"))
        wait_until(lambda: len(generator._held) == 1)
        generator.abort({"slow"})
        assert [reply.id for reply in generator.collect()] == ["unreachable"]
        down.stop()


def test_collecting_nothing_is_an_error_and_no_endless_wait() -> None:
    with connect("http://127.0.0.1:9/v1") as generator, pytest.raises(RuntimeError, match="no request open"):
        generator.collect()


def test_a_program_that_ends_or_is_interrupted_with_requests_open_ends_quietly() -> None:
    gate = threading.Event()

    def script(path: str, body: Any) -> Answer:
        gate.wait(60)
        return chat("too late")

    program = (
        "import sys\n"
        "from graphmill.engine.models import Request\n"
        "from graphmill.engine.openai_generator import OpenAIGenerator\n"
        "generator = OpenAIGenerator(sys.argv[1], 'm', context_tokens=1000)\n"
        "try:\n"
        "    generator.submit(Request('a', [{'role': 'user', 'content': 'x'}]))\n"
        "    generator.collect()\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    with (
        serving(script) as server,
        subprocess.Popen(
            [sys.executable, "-c", program, server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child,
    ):
        wait_until(lambda: len(server.requests) == 1)
        child.send_signal(signal.SIGINT)
        said, told = child.communicate(timeout=60)
        gate.set()
    assert (child.returncode, said) == (0, "interrupted\n")
    assert "Traceback" not in told
