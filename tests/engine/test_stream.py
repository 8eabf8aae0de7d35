"""Replies in pieces: from a server that streams, from one that doesn't, from vLLM, and through a question."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import graphmill
from graphmill.engine.function_models import FunctionGenerator, HashingEmbedder
from graphmill.engine.models import Generator, Pieces, Reply, Request
from graphmill.engine.openai_generator import OpenAIGenerator
from graphmill.engine.query import AnswerError
from graphmill.engine.stream import stream
from graphmill.engine.tokenizers import WordTokenizer
from graphmill.engine.vllm_generator import VLLMGenerator
from graphmill.engine.vllm_process import EngineGone
from tests.engine.model_server import Answer, ModelServer, chat, chat_events, serving, wait_until

REQUEST = Request("query/answer1", [{"role": "user", "content": "Who?"}], 10)


def generator_of(server: ModelServer, **options: object) -> OpenAIGenerator:
    return OpenAIGenerator(server.url, "m", context_tokens=1000, first_wait_s=0.01, **options)  # type: ignore[arg-type]


def taken(pieces: Pieces) -> tuple[list[str], Reply]:
    found = []
    while True:
        try:
            found.append(next(pieces))
        except StopIteration as stop:
            return found, stop.value


def test_a_server_that_streams_gives_the_reply_in_pieces_and_counts_its_tokens() -> None:
    with serving(lambda path, body: Answer(events=chat_events("A\u2028b", "", "é 中"))) as server:
        with generator_of(server) as generator:
            pieces, reply = taken(stream(generator, REQUEST))
        assert server.requests[0][1]["stream"] is True
    assert pieces == ["A\u2028b", "é 中"]
    assert reply == Reply("query/answer1", "A\u2028bé 中", "stop", 7, 3)


def test_a_server_that_knows_no_streams_gives_it_in_one() -> None:
    with serving(lambda path, body: chat("whole")) as server, generator_of(server) as generator:
        assert taken(stream(generator, REQUEST)) == (["whole"], Reply("query/answer1", "whole", "stop", 7, 3))


def test_a_busy_server_is_asked_again_but_a_reply_that_has_begun_is_not() -> None:
    answers = iter([Answer(status=503), Answer(events=chat_events("well")[:1], cut_off=True)])
    with serving(lambda path, body: next(answers)) as server, generator_of(server) as generator:
        pieces, reply = taken(stream(generator, REQUEST))
        assert len(server.requests) == 2
    assert pieces == ["well"]
    assert "broke off" in str(reply.error)


@pytest.mark.parametrize(
    ("events", "says"),
    [
        (({"error": {"message": "no room"}},), "no room"),
        (("data: [DONE]\n\n",), "no content"),
        (({"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": "length"}]},), "cut off while thinking"),
        (("data: {not json\n\n", "event: ping\n\n", {"choices": []}), "broke off after 0 characters"),
        (({"choices": [{"delta": {"content": "", "refusal": "I won't"}}]}, "data: [DONE]\n\n"), "refused: I won't"),
    ],
)
def test_a_stream_without_a_text_is_an_error_that_says_why(events: tuple[object, ...], says: str) -> None:
    with serving(lambda path, body: Answer(events=events)) as server, generator_of(server) as generator:
        pieces, reply = taken(stream(generator, REQUEST))
    assert not pieces
    assert says in str(reply.error)


def test_a_refusal_is_an_error_and_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHMILL_API_KEY", "sk-secret")
    refusal = Answer({"error": {"message": "bad key sk-secret"}}, status=401)
    with serving(lambda path, body: refusal) as server, generator_of(server) as generator:
        pieces, reply = taken(stream(generator, REQUEST))
    assert not pieces
    assert "401" in str(reply.error)
    assert "sk-secret" not in str(reply.error)


def test_a_stream_that_ends_before_its_end_is_no_whole_reply() -> None:
    cut_off = Answer(events=chat_events("Ada met", " Elia")[:2])
    with serving(lambda path, body: cut_off) as server, generator_of(server) as generator:
        pieces, reply = taken(stream(generator, REQUEST))
    assert pieces == ["Ada met", " Elia"]
    assert reply.error == "the reply broke off after 12 characters"


def test_content_in_parts_is_text_too() -> None:
    parts = {"choices": [{"delta": {"content": [{"type": "text", "text": "a"}]}, "finish_reason": "stop"}]}
    with serving(lambda path, body: Answer(events=(parts,))) as server, generator_of(server) as generator:
        assert taken(stream(generator, REQUEST))[0] == ["a"]


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[VLLMGenerator]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("scripted_vllm")))
    generator = VLLMGenerator("org/model", context_tokens=1000)
    yield generator
    generator.close()


def test_vllm_gives_pieces_as_they_are_decoded(vllm: VLLMGenerator) -> None:
    request = Request("query/answer1", [{"role": "user", "content": "say in three"}], 10)
    pieces, reply = taken(stream(vllm, request))
    assert len(pieces) == 3
    assert "".join(pieces) == reply.text
    assert (reply.id, reply.finish_reason, reply.completion_tokens) == ("query/answer1", "stop", 3)


def test_replies_that_come_while_another_is_streamed_are_kept_for_whoever_collects(vllm: VLLMGenerator) -> None:
    vllm.submit(Request("query/other", [{"role": "user", "content": "let the slow go"}], 10))
    slow = Request("query/answer1", [{"role": "user", "content": "be slow"}], 10)
    taken(stream(vllm, slow))
    assert [reply.id for reply in vllm.collect()] == ["query/other"]


def test_a_reader_who_has_had_enough_takes_the_request_back(vllm: VLLMGenerator) -> None:
    request = Request("query/answer1", [{"role": "user", "content": "say in three, then hang"}], 10)
    pieces = stream(vllm, request)
    assert next(pieces)
    pieces.close()
    vllm.submit(Request("query/answer2", [{"role": "user", "content": "was it stopped?"}], 10))
    (reply,) = vllm.collect()
    assert reply.id == "query/answer2"
    assert "stopped: 1" in reply.text


def test_a_batch_that_is_left_ends_what_the_engine_has_of_it(vllm: VLLMGenerator, path: Path) -> None:
    def texts() -> Iterator[tuple[str, graphmill.QueryParam]]:
        for text in ("quick", *(f"hang for ever {n}" for n in range(3))):
            yield text, graphmill.QueryParam(mode="bypass")

    with opened(path, vllm) as kb:
        answers = kb.query_each(texts())
        assert next(answers)[0] == 0
        vllm.submit(Request("mine", [{"role": "user", "content": "hang for ever"}], 10))
        vllm.submit(Request("last", [{"role": "user", "content": "quick"}], 10))
        assert [reply.id for reply in vllm.collect()] == ["last"]  # so the engine has begun with those before it
        answers.close()  # type: ignore[attr-defined]
        assert list(vllm._open.values()) == [("mine", 0)]
        after = kb.query("was it stopped?", graphmill.QueryParam(mode="bypass"))
    assert "stopped: 3|" in after.answer


def test_a_batch_that_raises_hangs_up_on_its_server(path: Path) -> None:
    def script(_: str, body: Any) -> Answer:
        hangs = "hang" in body["messages"][-1]["content"]
        return Answer(chat("So.").body, wait_s=120 if hangs else 0)

    param = graphmill.QueryParam(mode="bypass")
    with serving(script) as server, opened(path, generator_of(server)) as kb:

        def read() -> None:
            for number, _ in kb.query_each([("quick", param), ("hang 1", param), ("hang 2", param)]):
                wait_until(lambda: len(server.requests) == 3)
                raise LookupError(number)

        with pytest.raises(LookupError):
            read()
        wait_until(lambda: server.num_hung_up == 2)
        assert kb.query("quick", param).answer == "So."


def test_two_streams_and_what_is_collected_beside_them_keep_apart(vllm: VLLMGenerator) -> None:
    requests = [Request(f"query/answer{n}", [{"role": "user", "content": f"say in three {n}"}], 10) for n in range(2)]
    one, other = (vllm.stream(request) for request in requests)
    begun = next(one), next(other)
    vllm.submit(Request("query/other", [{"role": "user", "content": "quick"}], 10))
    assert [reply.id for reply in vllm.collect()] == ["query/other"]
    for first, pieces, request in zip(begun, (one, other), requests, strict=True):
        rest, reply = taken(pieces)
        assert first + "".join(rest) == reply.text
        assert request.messages[0]["content"] in reply.text


def test_a_closed_engine_ends_its_streams_and_is_not_loaded_again(vllm: VLLMGenerator) -> None:
    pieces = vllm.stream(Request("query/answer1", [{"role": "user", "content": "say in three, then hang"}], 10))
    assert next(pieces)
    vllm.close()
    with pytest.raises(EngineGone, match="while a reply was being written"):
        taken(pieces)
    with pytest.raises(RuntimeError, match="is closed"):
        next(vllm.stream(REQUEST))
    assert vllm.starts == 1


class InPieces(FunctionGenerator):
    """Streams what it answers, three characters at a time; counts the streams that were closed early."""

    num_closed = 0

    def stream(self, request: Request) -> Pieces:
        self.submit(request)
        (reply,) = self.collect()
        try:
            for start in range(0, len(reply.text), 3):
                yield reply.text[start : start + 3]
        except GeneratorExit:
            self.num_closed += 1
            raise
        return reply


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "kb"
    documents = [(f"d{n}.txt", f"Ada Thornbury met Elias Wren at Saltmere Castle on day {n}.") for n in range(8)]
    graphmill.index(documents, path, None, HashingEmbedder(16), WordTokenizer())
    return path


def opened(path: Path, generator: Generator | None) -> graphmill.OpenIndex:
    return graphmill.open(path, None, generator, HashingEmbedder(16), WordTokenizer())


TEXT = "<think>[3]?</think>Elias Wren [1], not Bea [99].\n\n### References\n\n- [1] d0"


@pytest.mark.parametrize("mode", ["naive", "local", "mix"])
def test_a_streamed_answer_is_the_one_that_comes_whole(path: Path, mode: str) -> None:
    with opened(path, InPieces(lambda request: TEXT)) as kb:
        whole = kb.query("Who met Ada?", graphmill.QueryParam(mode=mode))
        answer = kb.query("Who met Ada?", graphmill.QueryParam(mode=mode, stream=True))
        assert answer.context == whole.context  # there before the first piece
        pieces = list(answer)
    assert len(pieces) > 5
    assert "".join(pieces) == answer.answer == whole.answer
    assert answer.references == whole.references
    assert [reference.number for reference in answer.references] == [1]
    assert answer.document().keys() == whole.document().keys()


def test_str_takes_the_whole_stream_and_a_second_look_gives_the_same(path: Path) -> None:
    with opened(path, InPieces(lambda request: TEXT)) as kb:
        answer = kb.query("Who met Ada?", graphmill.QueryParam(mode="naive", stream=True))
        assert str(answer).startswith("Elias Wren [1], not Bea.")
        assert "".join(answer) == str(answer)


def test_str_takes_what_is_left_of_a_stream_that_was_read_in_part(path: Path) -> None:
    generator = InPieces(lambda request: TEXT)
    with opened(path, generator) as kb:
        answer = kb.query("Who met Ada?", graphmill.QueryParam(mode="naive", stream=True))
        pieces = iter(answer)
        first = next(pieces)
        assert str(answer).startswith("Elias Wren [1], not Bea.")
        assert str(answer).startswith(first)
        assert list(pieces) == []
    assert generator.num_closed == 0
    assert [reference.number for reference in answer.references] == [1]


def test_a_stream_that_is_left_keeps_what_was_shown_and_ends_the_request(path: Path) -> None:
    generator = InPieces(lambda request: TEXT)
    with opened(path, generator) as kb:
        answer = kb.query("Who met Ada?", graphmill.QueryParam(mode="naive", stream=True))
        pieces = iter(answer)
        first = next(pieces)
        pieces.close()  # type: ignore[attr-defined]
    assert answer.answer == first
    assert generator.num_closed == 1
    assert answer.references == []


def test_a_stream_that_is_left_has_the_references_that_its_text_cites(path: Path) -> None:
    with opened(path, InPieces(lambda request: "So [reference 2], or [1]. And [3], which is not read.")) as kb:
        answer = kb.query("Who met Ada?", graphmill.QueryParam(mode="naive", stream=True))
        shown = ""
        for piece in answer:
            shown += piece
            if "[1]" in shown:
                break
    del piece
    assert answer.answer == shown
    assert [reference.number for reference in answer.references] == [2, 1]


def test_a_model_that_fails_raises_where_the_pieces_are_read(path: Path) -> None:
    with opened(path, FunctionGenerator(lambda request: Reply("", error="busy"))) as kb:
        answer = kb.query("Who met Ada?", graphmill.QueryParam(mode="naive", stream=True))
        with pytest.raises(AnswerError, match="busy"):
            list(answer)


def test_without_a_model_and_without_a_context_the_text_comes_in_one(path: Path) -> None:
    with opened(path, None) as kb:
        answer = kb.query("Who met Ada?", graphmill.QueryParam(mode="naive", stream=True))
        assert list(answer) == [answer.answer]
        assert "".join(kb.query(" ", graphmill.QueryParam(mode="naive", stream=True))).endswith("[no-context]")


def test_brackets_of_an_answer_in_bypass_are_its_own(path: Path) -> None:
    with opened(path, InPieces(lambda request: "A list [1] of.")) as kb:
        assert "".join(kb.query("x", graphmill.QueryParam(mode="bypass", stream=True))) == "A list [1] of."


@pytest.mark.parametrize("streams", [True, False])
def test_a_question_within_a_stream_or_a_batch_gets_its_own_answer(path: Path, streams: bool) -> None:
    def reply(request: Request) -> str:
        return f"About {request.messages[-1]['content'][-9:]} [1]."

    param = graphmill.QueryParam(mode="naive")
    with opened(path, (InPieces if streams else FunctionGenerator)(reply)) as kb:
        whole = {text: kb.query(text, param).answer for text in ("Who met A?", "Who met B?", "Who met C?")}
        answer = kb.query("Who met A?", graphmill.QueryParam(mode="naive", stream=True))
        for piece in answer:
            assert piece
            assert kb.query("Who met B?", param).answer == whole["Who met B?"]
        assert answer.answer == whole["Who met A?"]
        for _, found in kb.query_each([("Who met A?", param), ("Who met B?", param)] * 3):
            assert found.answer == whole[found.question]
            assert kb.query("Who met C?", param).answer == whole["Who met C?"]


def test_threads_share_an_index_and_its_server(path: Path) -> None:
    def script(_: str, body: Any) -> Answer:
        return chat(f"About {body['messages'][-1]['content'][-9:]} [1].")

    with serving(script) as server, opened(path, generator_of(server)) as kb, ThreadPoolExecutor(4) as pool:
        questions = [f"Who met {n:03d}?" for n in range(40)]
        answers = pool.map(lambda q: kb.query(q, graphmill.QueryParam(mode="naive")).answer, questions, timeout=60)
        for question, answer in zip(questions, answers, strict=True):
            assert answer.startswith(f"About {question[-9:]} [1].")


def test_half_a_character_and_control_characters_are_no_part_of_an_answer(path: Path) -> None:
    with opened(path, InPieces(lambda request: "Elias \ud83d\x1b]0;x [1].")) as kb:
        answer = kb.query("Who met Ada?", graphmill.QueryParam(mode="naive", stream=True))
        assert "".join(answer) == answer.answer
        assert answer.answer.startswith("Elias \ufffd]0;x [1].")
