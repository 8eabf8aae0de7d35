"""One model for several callers: each gets its own replies, errors reach all that wait, and nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graphmill.engine.function_models import FunctionGenerator
from graphmill.engine.models import Reply, Request
from graphmill.engine.openai_generator import OpenAIGenerator
from graphmill.engine.run_dialogues import replies_to
from graphmill.engine.shared_generator import Caller, SharedGenerator
from graphmill.engine.vllm_generator import VLLMGenerator
from graphmill.engine.vllm_process import EngineGone
from tests.engine.model_server import Answer, serving, wait_until


def ask(name: str, num: int = 1) -> list[Request]:
    return [Request(f"{name}-{n}", [{"role": "user", "content": f"{name}-{n}"}]) for n in range(num)]


def echo(request: Request) -> str:
    return str(request.messages[0]["content"])


class Slow(FunctionGenerator):
    """One reply at a time, the last one first, and the most requests that were ever open."""

    most_open = 0

    def collect(self) -> Sequence[Reply]:
        self.most_open = max(self.most_open, len(self._open))
        time.sleep(0.001)
        return [self._reply(self._open.pop())]


def test_callers_in_threads_get_their_own_replies_and_share_the_places() -> None:
    generator = Slow(echo, max_in_flight=3)
    shared = SharedGenerator(generator)

    def one(name: str) -> list[str]:
        return [reply.text for reply in replies_to(ask(name, 20), shared.caller())]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(one, "abcdef"))
    assert found == [[request.id for request in ask(name, 20)] for name in "abcdef"]
    assert generator.most_open <= 3


def test_what_the_generator_raises_is_raised_in_every_caller_that_waits_and_the_next_begins_anew() -> None:
    submitted, dies = threading.Barrier(3), threading.Event()

    class Dying(FunctionGenerator):
        is_dead = True

        def collect(self) -> Sequence[Reply]:
            if self.is_dead:
                dies.wait(10)
                raise EngineGone("the engine is gone")
            return super().collect()

    generator = Dying(echo)
    shared = SharedGenerator(generator)

    def one(name: str) -> str:
        caller = shared.caller()
        caller.submit(ask(name)[0])
        submitted.wait(10)
        try:
            return str(caller.collect())
        except EngineGone as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(one, name) for name in "ab"]
        submitted.wait(10)
        dies.set()
        assert [future.result(10) for future in futures] == ["the engine is gone"] * 2
    generator.is_dead = False
    generator.close()
    assert replies_to(ask("c"), shared.caller())[0].text == "c-0"


def test_an_interrupt_while_collecting_leaves_the_others_working(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = FunctionGenerator(echo)
    shared = SharedGenerator(generator)
    caller = shared.caller()
    caller.submit(ask("a")[0])
    with monkeypatch.context() as patched:
        patched.setattr(generator, "collect", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            caller.collect()
    del caller
    assert replies_to(ask("b"), shared.caller())[0].text == "b-0"


def test_what_a_caller_takes_back_gives_its_places_to_the_others_at_once() -> None:
    class Hanging(FunctionGenerator):
        """Never answers what says so, and waits, as a model does, while it has nothing else."""

        def collect(self) -> Sequence[Reply]:
            while all("hang" in str(request.messages) for request in list(self._open)):
                time.sleep(0.001)
            return [self._reply(self._open.pop())]

    generator = Hanging(echo, max_in_flight=2)
    shared = SharedGenerator(generator)
    hanging, other = shared.caller(), shared.caller()
    for request in ask("hang", 5):
        hanging.submit(request)
    with ThreadPoolExecutor(1) as pool:
        other.submit(ask("a")[0])
        waits = pool.submit(other.collect)
        time.sleep(0.05)
        assert not waits.done()
        hanging.abort({f"hang-{n}" for n in range(5)} | {"a-0"})  # the last one is not its own
        assert [reply.text for reply in waits.result(10)] == ["a-0"]
    assert [reply.text for reply in replies_to(ask("b", 9), shared.caller())] == [f"b-{n}" for n in range(9)]
    with pytest.raises(RuntimeError, match="no request open"):
        hanging.collect()


def test_a_generator_that_can_not_take_requests_back_is_not_given_more_than_it_takes() -> None:
    class Plain(Slow):
        abort = None  # type: ignore[assignment]

    generator = Plain(echo, max_in_flight=3)
    shared = SharedGenerator(generator)
    first = shared.caller()
    for request in ask("a", 5):
        first.submit(request)
    first.abort({f"a-{n}" for n in range(5)})
    assert [reply.id for reply in replies_to(ask("b", 6), shared.caller())] == [f"b-{n}" for n in range(6)]
    assert generator.most_open == 3


def test_a_reply_that_has_come_and_was_taken_back_is_not_handed_out() -> None:
    generator = FunctionGenerator(echo)
    shared = SharedGenerator(generator)
    first, second = shared.caller(), shared.caller()
    for request in ask("a", 2):
        first.submit(request)
    second.submit(ask("b")[0])
    assert second.collect()[0].id == "b-0"
    first.abort({"a-0"})
    assert [reply.id for reply in first.collect()] == ["a-1"]


def test_a_submit_that_fails_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = FunctionGenerator(echo)
    shared = SharedGenerator(generator)
    caller = shared.caller()
    with monkeypatch.context() as patched:
        patched.setattr(generator, "submit", lambda request: (_ for _ in ()).throw(ValueError("no")))
        with pytest.raises(ValueError, match="no"):
            caller.submit(ask("a")[0])
    with pytest.raises(RuntimeError, match="no request open"):
        caller.collect()
    assert replies_to(ask("a"), caller)[0].text == "a-0"


def test_loading_keeps_nobody_from_a_reply_that_is_there() -> None:
    loading, may_go_on = threading.Event(), threading.Event()

    class Loading(FunctionGenerator):
        is_cold = False

        def load(self) -> None:
            if self.is_cold:
                loading.set()
                may_go_on.wait(10)

    generator = Loading(echo)
    shared = SharedGenerator(generator)
    first = shared.caller()
    first.submit(ask("a")[0])
    generator.is_cold = True
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(lambda: replies_to(ask("b"), shared.caller()))
        loading.wait(10)
        assert first.collect()[0].text == "a-0"
        may_go_on.set()
        assert second.result(10)[0].text == "b-0"


def _asking(shared: SharedGenerator, num: int) -> list[threading.Thread]:
    """Threads that are to wait for a reply each, and keep what they get as ``found``; none has begun."""

    def wait(caller: Caller) -> None:
        try:
            caller.collect()
        except Exception as error:
            threading.current_thread().found = error  # type: ignore[attr-defined]

    threads = []
    for n in range(num):
        caller = shared.caller()
        caller.submit(Request(f"slow/{n}", [{"role": "user", "content": "hang for ever"}], 5))
        threads.append(threading.Thread(target=wait, args=(caller,), daemon=True))
    return threads


def _closed(generator: OpenAIGenerator | VLLMGenerator, is_waited_for: bool) -> list[object]:
    """What comes of three callers when the generator is closed while they wait, or before they do."""
    shared = SharedGenerator(generator)
    threads = _asking(shared, 3)
    if not is_waited_for:
        generator.close()
    for thread in threads:
        thread.start()
    if is_waited_for:
        wait_until(lambda: shared._is_collecting)
        generator.close()
    for thread in threads:
        thread.join(60)
    return [thread.found for thread in threads]  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_closing_a_server_ends_everybodys_wait(is_waited_for: bool) -> None:
    with serving(lambda path, body: Answer({}, wait_s=60)) as server:
        generator = OpenAIGenerator(server.url, "m", context_tokens=1000)
        found = _closed(generator, is_waited_for)
    assert ["was closed" in str(error) for error in found] == [True] * 3


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_closing_vllm_ends_everybodys_wait(monkeypatch: pytest.MonkeyPatch, is_waited_for: bool) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("scripted_vllm")))
    found = _closed(VLLMGenerator("org/model", context_tokens=1000), is_waited_for)
    assert [type(error) for error in found] == [EngineGone] * 3


def test_closing_vllm_between_a_look_at_what_is_open_and_the_wait_for_it_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("scripted_vllm")))
    generator = VLLMGenerator("org/model", context_tokens=1000)

    class Looked(dict[str, tuple[str, int]]):
        def __len__(self) -> int:
            is_open = super().__len__()
            generator.close()
            return is_open

    (thread,) = _asking(SharedGenerator(generator), 1)
    generator._open = Looked(generator._open)
    thread.start()
    thread.join(60)
    assert isinstance(thread.found, EngineGone)  # type: ignore[attr-defined]


def test_closing_vllm_before_a_request_goes_out_is_told_to_who_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("scripted_vllm")))
    generator = VLLMGenerator("org/model", context_tokens=1000)
    load = generator.load

    def load_and_close() -> None:
        load()
        generator.close()

    monkeypatch.setattr(generator, "load", load_and_close)
    with pytest.raises(EngineGone):
        generator.submit(Request("a", [{"role": "user", "content": "say hi"}]))
    assert not generator._open
    with pytest.raises(RuntimeError, match="is closed"):
        generator.submit(Request("a", [{"role": "user", "content": "say hi"}]))
