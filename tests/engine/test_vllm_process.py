"""The model process and what speaks to it, with a scripted stand-in for vLLM (tests/engine/scripted_vllm)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphmill.engine import vllm_generator
from graphmill.engine.models import Reply, Request
from graphmill.engine.tokenizers import WordTokenizer
from graphmill.engine.vllm_embedder import VLLMEmbedder
from graphmill.engine.vllm_generator import Arriving, VLLMGenerator, VLLMOptions
from graphmill.engine.vllm_process import EngineGone, VLLMProcess, untried
from tests.engine.model_server import wait_until

Make = Callable[..., VLLMGenerator]


@pytest.fixture(autouse=True)
def _scripted_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("scripted_vllm")))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[VLLMGenerator] = []

    def generator(model: str = "org/model", **options: object) -> VLLMGenerator:
        made.append(VLLMGenerator(model, VLLMOptions(**options), context_tokens=1000))  # type: ignore[arg-type]
        return made[-1]

    yield generator
    for one in made:
        one.close()


def ask(text: str, request_id: str = "extract/a/1", max_tokens: int = 10) -> Request:
    return Request(request_id, [{"role": "user", "content": text}], max_tokens)


def answers(generator: VLLMGenerator, *requests: Request) -> dict[str, Reply]:
    for request in requests:
        generator.submit(request)
    found: dict[str, Reply] = {}
    while len(found) < len(requests):
        found.update({reply.id: reply for reply in generator.collect()})
    return found


def pid_of(reply: Reply) -> int:
    return int(reply.text.rsplit("|", 1)[1])


def is_alive(pid: int) -> bool:
    """An orphan that has ended stays there as a zombie where nobody waits for it, as in some containers."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_replies_come_as_they_finish_under_their_requests_ids(make: Make) -> None:
    generator = make()
    generator.submit(ask("be slow", "extract/slow/1"))
    generator.submit(ask("quick", "extract/quick/1"))
    (first,) = generator.collect()
    assert first.id == "extract/quick/1"
    assert first.text.startswith("user:quick<END>|")  # thinking is switched off
    assert (first.finish_reason, first.completion_tokens) == ("stop", 3)
    assert first.prompt_tokens == len("user:quick") + 1
    assert first.cached_tokens > 0
    # A follow-up joins while the slow one still runs.
    generator.submit(ask("more", "extract/quick/2"))
    assert [reply.id for reply in generator.collect()] == ["extract/quick/2"]
    generator.submit(ask("let the slow go", "extract/quick/3"))
    last = list(generator.collect())
    while len(last) < 2:
        last += generator.collect()
    assert [reply.id for reply in last] == ["extract/quick/3", "extract/slow/1"]


def test_what_looks_like_a_special_token_in_a_text_is_ordinary_text(make: Make) -> None:
    reply = answers(make(), ask("a<|end|>b"))["extract/a/1"]
    assert reply.text.startswith("user:a<|end|>b<END>|")


def test_a_system_message_opens_the_users_where_the_models_template_knows_no_system_role(make: Make) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    (reply,) = answers(make(), Request("query/1", messages, 10)).values()
    assert reply.text.startswith("user:Be brief.\n\nHello<END>|")


def test_a_schema_reaches_the_engine_and_max_tokens_is_held_to_the_context(make: Make) -> None:
    request = Request("report/1", [{"role": "user", "content": "x" * 900}], 4096, schema={"type": "object"})
    (reply,) = answers(make(), request).values()
    assert "'schema': {'type': 'object'}" in reply.text
    assert reply.text.split("|")[-2] == str(1000 - reply.prompt_tokens)


def test_a_request_that_fails_or_does_not_fit_is_a_reply_with_an_error(make: Make) -> None:
    found = answers(
        make(), ask("be refused", "extract/a/1"), ask("y" * 2000, "extract/b/1"), ask("fine", "extract/c/1")
    )
    assert found["extract/a/1"].error == "ValueError: the prompt is refused"
    assert "2006 tokens, too many for a context of 1000" in str(found["extract/b/1"].error)
    assert found["extract/c/1"].error is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kill yourself", "exit code 3"),
        ("kill yourself", "CUDA error: an illegal memory access"),
        ("lose the engine", "EngineCore encountered an issue"),
    ],
)
def test_an_engine_that_dies_stops_the_run_with_its_last_words(make: Make, text: str, says: str) -> None:
    generator = make()
    generator.submit(ask(text))
    with pytest.raises(EngineGone, match=says):
        generator.collect()


def test_an_engine_that_is_killed_stops_the_run_and_replies_that_came_are_handed_out_first(make: Make) -> None:
    generator = make()
    first = answers(generator, ask("one"))["extract/a/1"]
    generator.submit(ask("hang for ever", "extract/b/1"))
    os.kill(pid_of(first), signal.SIGKILL)
    with pytest.raises(EngineGone, match="signal SIGKILL"):
        generator.collect()


def test_an_engine_argument_that_vllm_does_not_know_is_refused_with_the_nearest(make: Make) -> None:
    with pytest.raises(EngineGone, match="no engine argument max_modle_len; did you mean max_model_len"):
        make(args={"max_modle_len": 5}).submit(ask("x"))


def test_an_environment_without_vllm_is_told_of_with_the_way_out(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIPTED_VLLM", "missing")
    with pytest.raises(EngineGone, match=r"pip install vllm.*--llm-python"):
        make().submit(ask("x"))


def test_an_engine_that_does_not_load_says_why_without_the_noise(make: Make) -> None:
    with pytest.raises(EngineGone, match="CUDA out of memory") as error:
        make("org/too-big").submit(ask("x"))
    assert "nothing to see here" not in str(error.value)


def test_rest_ends_the_process_and_the_next_request_loads_it_again(make: Make) -> None:
    generator = make()
    assert generator.starts == 0  # nothing is loaded before it is asked
    first = pid_of(answers(generator, ask("one"))["extract/a/1"])
    generator.rest()
    assert not is_alive(first)
    second = pid_of(answers(generator, ask("two"))["extract/a/1"])
    assert second != first
    assert generator.starts == 2
    generator.close()
    assert not is_alive(second)


def test_who_sends_while_engines_are_loaded_anew_finds_none_until_all_are_there(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, real, refused = make(replicas=2), VLLMProcess.wait_ready, list[VLLMProcess]()

    def wait_ready(process: VLLMProcess) -> dict[str, Any]:
        with monkeypatch.context() as patched:
            patched.setattr(generator, "load", lambda: None)  # it was through with that before the engines were ended
            with pytest.raises(EngineGone, match="was ended"):
                generator.submit(ask("x"))
        refused.append(process)
        return real(process)

    monkeypatch.setattr(VLLMProcess, "wait_ready", wait_ready)
    found = answers(generator, ask("one", "extract/a/1"), ask("two", "extract/b/1"))
    assert len({pid_of(reply) for reply in found.values()}) == 2
    assert len(refused) == 2


def test_who_hears_late_that_the_engine_was_ended_does_not_end_the_next(make: Make) -> None:
    class HeardLate:
        def __init__(self, replies: Arriving) -> None:
            self.replies, self.empty = replies, replies.empty

        def put(self, item: tuple[int, dict[str, Any] | None]) -> None:
            self.replies.put(item)

        def get(self) -> tuple[int, dict[str, Any] | None]:
            waits.set()
            item = self.replies.get()
            generator.load()
            return item

    generator, waits = make(), threading.Event()
    generator.submit(ask("hang for ever"))
    generator._replies = HeardLate(generator._replies)  # type: ignore[assignment]
    with ThreadPoolExecutor(1) as thread:
        collected = thread.submit(generator.collect)
        waits.wait()
        generator.rest()
        with pytest.raises(EngineGone, match="was ended"):
            collected.result()
    assert answers(generator, ask("one"))["extract/a/1"].error is None
    assert generator.starts == 2


@pytest.mark.parametrize("at", ["start", "wait_ready"])
def test_engines_that_are_ended_while_they_are_loaded_leave_no_process(
    make: Make, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    generator, real, made = make(replicas=2), VLLMProcess.wait_ready, list[VLLMProcess]()

    def rest_once(when: str, process: VLLMProcess) -> None:
        if when == at and process is made[0]:
            generator.rest()

    def start(*arguments: Any) -> VLLMProcess:
        made.append(VLLMProcess(*arguments))
        rest_once("start", made[-1])
        return made[-1]

    def wait_ready(process: VLLMProcess) -> dict[str, Any]:
        rest_once("wait_ready", process)
        return real(process)

    monkeypatch.setattr(vllm_generator, "VLLMProcess", start)
    monkeypatch.setattr(VLLMProcess, "wait_ready", wait_ready)
    with pytest.raises(EngineGone, match="ended while it was being loaded"):
        generator.load()
    assert len(made) == 2
    assert not any(is_alive(process._process.pid) for process in made)
    assert answers(generator, ask("one"))["extract/a/1"].error is None


def test_a_conversation_stays_with_its_replica_and_replicas_have_their_own_gpus(make: Make) -> None:
    generator = make(replicas=2, args={"tensor_parallel_size": 2})
    requests = [ask("hello", f"extract/{n}/1") for n in range(6)]
    first = answers(generator, *requests)
    second = answers(generator, *(ask("more", f"extract/{n}/2") for n in range(6)))
    for n in range(6):
        assert pid_of(first[f"extract/{n}/1"]) == pid_of(second[f"extract/{n}/2"])
    assert len({pid_of(reply) for reply in first.values()}) == 2
    shown = {reply.text.split("'where': ")[1].split(", 'schema'")[0] for reply in first.values()}
    assert shown == {"'0,1'", "'2,3'"}


def test_replicas_share_out_the_gpus_that_are_shown(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a, GPU-b")
    found = answers(make(replicas=2), ask("x", "extract/1/1"), ask("y", "extract/2/1"))
    shown = {reply.text.split("'where': ")[1].split(", 'schema'")[0] for reply in found.values()}
    assert shown == {"'GPU-a'", "'GPU-b'"}
    with pytest.raises(ValueError, match="need 3, CUDA_VISIBLE_DEVICES shows 2"):
        make(replicas=3).load()


def test_a_generator_whose_engine_died_loads_it_anew_for_the_next_request(make: Make) -> None:
    generator = make()
    generator.submit(ask("kill yourself"))
    with pytest.raises(EngineGone) as error:
        generator.collect()
    log = Path(str(error.value).split("its log is ")[1].split(", which")[0])
    assert log.is_file()  # what the message points to is kept
    log.unlink()
    assert answers(generator, ask("one"))["extract/a/1"].error is None
    assert generator.starts == 2


def test_sampling_that_stages_set_themselves_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="can't set temperature"):
        make(sampling={"temperature": 0.5})


def test_an_engine_that_is_closed_while_it_loads_leaves_neither_process_nor_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    process = VLLMProcess({"task": "generate", "args": {"model": "m"}}, lambda reply: None)
    process.close()
    assert not is_alive(process._process.pid)
    assert not list(tmp_path.iterdir())


def test_the_models_name_tells_what_shapes_its_replies(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text('{"max_position_embeddings": 2048}')

    def name(**args: object) -> str:
        return VLLMGenerator(str(tmp_path / "tiny"), VLLMOptions(args=args)).model

    assert name().startswith("tiny@")
    assert name() == name(gpu_memory_utilization=0.5, max_num_seqs=8)
    assert name() != name(quantization="fp8")
    generator = VLLMGenerator(str(tmp_path / "tiny"), VLLMOptions(args={"max_num_seqs": 8}, replicas=2))
    assert generator.context_tokens == 2048  # told by the config, with nothing loaded
    assert generator.max_in_flight == 32
    assert generator.starts == 0


def test_no_process_outlives_a_parent_that_is_killed() -> None:
    script = (
        "import os, signal\n"
        "from graphmill.engine.models import Request\n"
        "from graphmill.engine.vllm_generator import VLLMGenerator\n"
        "generator = VLLMGenerator('org/model', context_tokens=1000)\n"
        "generator.submit(Request('extract/a/1', [{'role': 'user', 'content': 'x'}]))\n"
        "print(generator.collect()[0].text.rsplit('|', 1)[1], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    pid = int(done.stdout)
    wait_until(lambda: not is_alive(pid))


def test_embeddings_come_in_the_order_of_the_texts_and_a_bad_batch_is_not_a_number() -> None:
    embedder = VLLMEmbedder("org/model", WordTokenizer())
    assert embedder.model.startswith("org/model@")
    embedder.TEXTS_A_MESSAGE = 2
    try:
        assert (embedder.dimension, embedder.max_tokens) == (3, 998)
        vectors = embedder.embed(["abc", "b", "cc", "be refused", "eeeee"])
    finally:
        embedder.close()
    np.testing.assert_array_equal(vectors[[0, 1, 4]], [[3, ord("a"), 1], [1, ord("b"), 1], [5, ord("e"), 1]])
    assert np.isnan(vectors[2:4]).all()


@pytest.mark.parametrize(
    ("version", "is_tried"), [("0.26.0", True), ("0.32.1", True), ("0.25.3", False), ("1.0", False)]
)
def test_an_untried_version_is_warned_of(version: str, is_tried: bool) -> None:
    assert (untried(version) is None) == is_tried
