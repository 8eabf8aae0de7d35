"""The process of embedder and reranker with several threads, with one that dies again and again, and its name."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from graphmill.engine import vllm_pooling
from graphmill.engine.tokenizers import WordTokenizer
from graphmill.engine.vllm_embedder import VLLMEmbedder
from graphmill.engine.vllm_pooling import EngineClosed, PoolingProcess, identity
from graphmill.engine.vllm_process import EngineGone, VLLMProcess
from graphmill.engine.vllm_reranker import VLLMReranker

JOIN_S = 60.0
Starts = list[VLLMProcess]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Starts]:
    """The processes that were started, of a scripted stand-in for vLLM."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("scripted_vllm")))
    started: Starts = []

    def start(*arguments: Any) -> VLLMProcess:
        started.append(VLLMProcess(*arguments))
        return started[-1]

    monkeypatch.setattr(vllm_pooling, "VLLMProcess", start)
    yield started
    for process in started:
        process.close()


def in_threads(work: Callable[[int], Any], num_threads: int = 4) -> list[Any]:
    """What ``work`` gave in each thread; a thread that hangs fails the test."""
    found: list[Any] = [None] * num_threads

    def run(number: int) -> None:
        try:
            found[number] = work(number)
        except EngineGone as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_S)
    assert not any(thread.is_alive() for thread in threads)
    return found


def test_threads_share_one_reranker_which_is_loaded_once(starts: Starts) -> None:
    reranker = VLLMReranker("org/cross")
    reranker.TEXTS_A_MESSAGE = 2

    def rank(number: int) -> list[list[float]]:
        return [reranker.rank("q", ["x" * (number + n) for n in range(5)]).tolist() for _ in range(10)]

    assert in_threads(rank) == [[[number + n for n in range(5)]] * 10 for number in range(4)]
    assert len(starts) == 1


def test_threads_share_one_embedder_which_is_loaded_once(starts: Starts) -> None:
    embedder = VLLMEmbedder("org/embedder", WordTokenizer())
    found = in_threads(lambda number: [embedder.embed(["x" * (number + 1)] * 3).tolist() for _ in range(10)])
    one = [embedder.embed(["x" * (number + 1)] * 3).tolist() for number in range(4)]
    assert found == [[vectors] * 10 for vectors in one]
    assert len({str(vectors) for vectors in one}) == 4
    assert len(starts) == 1


def test_a_model_that_can_not_be_loaded_is_loaded_once_for_all_threads(starts: Starts) -> None:
    reranker = VLLMReranker("org/too-big")
    found = in_threads(lambda number: reranker.rank("q", ["a"]))
    assert all("CUDA out of memory" in str(error) for error in found)
    assert len(starts) == 1


def test_an_engine_that_died_twice_in_a_row_is_not_loaded_again_until_it_is_closed(starts: Starts) -> None:
    reranker = VLLMReranker("org/cross")
    for _ in range(2):
        with pytest.raises(EngineGone, match="exit code 3"):
            reranker.rank("q", ["kill yourself"])
    for _ in range(2):
        with pytest.raises(EngineGone, match=r"died 2 times in a row and is not loaded again: .*exit code 3"):
            reranker.rank("q", ["abc"])
    assert len(starts) == 2
    reranker.close()
    assert reranker.rank("q", ["abc"]).tolist() == [3]


def test_an_answer_between_two_deaths_makes_them_no_two_in_a_row(starts: Starts) -> None:
    reranker = VLLMReranker("org/cross")
    for _ in range(3):
        with pytest.raises(EngineGone, match="exit code 3"):
            reranker.rank("q", ["kill yourself"])
        assert reranker.rank("q", ["abc"]).tolist() == [3]
    assert len(starts) == 4


class Silent:
    """A process that is loaded at once, or never, and gives no replies."""

    def __init__(self, deliver: Callable[[dict[str, Any] | None], None], is_loaded: bool) -> None:
        self._deliver, self._gone = deliver, threading.Event()
        self._is_loaded, self.asked = is_loaded, queue.SimpleQueue[Mapping[str, Any]]()

    def wait_ready(self) -> dict[str, Any]:
        if not self._is_loaded:
            self.asked.put({})
            self._gone.wait()
            raise EngineGone("its log is gone")
        return {"version": "0.32.0"}

    def send(self, message: Mapping[str, Any]) -> None:
        self.asked.put(message)

    def last_words(self) -> str:
        raise FileNotFoundError("a process that was closed has no log")

    def close(self) -> None:
        self._gone.set()
        self._deliver(None)


class Turns:
    """A lock that tells how many threads have come to it."""

    def __init__(self) -> None:
        self.came, self._known, self._lock = threading.Semaphore(0), set[int](), threading.RLock()

    def __enter__(self) -> None:
        if threading.get_ident() not in self._known:
            self._known.add(threading.get_ident())
            self.came.release()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_close_ends_what_is_under_way_and_nobody_who_waited_loads_it_again(
    monkeypatch: pytest.MonkeyPatch, is_loaded: bool
) -> None:
    started: list[Silent] = []

    def start(setup: Mapping[str, Any], deliver: Callable[[dict[str, Any] | None], None], python: str | None) -> Silent:
        started.append(Silent(deliver, is_loaded))
        return started[-1]

    monkeypatch.setattr(vllm_pooling, "VLLMProcess", start)
    pooling = PoolingProcess({}, None)
    pooling._turn = Turns()  # type: ignore[assignment]

    def ask(number: int) -> Any:
        if number:
            return pooling.ask([{"texts": ["a"]}])
        for _ in range(3):
            assert pooling._turn.came.acquire(timeout=JOIN_S)  # type: ignore[attr-defined]
        started[0].asked.get()  # one thread is being served, the others wait
        pooling.close()
        return None

    found = in_threads(ask)
    assert [type(error) for error in found[1:]] == [EngineClosed] * 3
    assert len(started) == 1


def test_a_models_name_tells_all_that_shapes_what_it_gives() -> None:
    plain = identity("org/cross", {})
    shaping: list[dict[str, Any]] = [
        {"quantization_config": {"a": 1}}, {"override_pooler_config": {"x": 1}}, {"pooler_config": {"x": 1}},
        {"tokenizer_mode": "slow"}, {"hf_overrides": {"rope_scaling": 2}}, {"rope_scaling": {"factor": 2}},
        {"dtype": "float16"}, {"convert": "classify"},
    ]  # fmt: skip
    names = {identity("org/cross", args) for args in shaping}
    assert len(names | {plain}) == len(shaping) + 1
    assert identity("org/cross", {"gpu_memory_utilization": 0.2, "max_num_seqs": 8}) == plain
    templates = (None, "{query} {document}", "{document} {query}")
    assert len({VLLMReranker("org/cross", template=template).model for template in templates}) == 3
