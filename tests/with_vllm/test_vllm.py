"""The engine path against a real vLLM with a real, if tiny, model."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from smollm2_args import ARGS

import graphmill
from graphmill.engine.config import Config
from graphmill.engine.extract import ExtractConfig, extract
from graphmill.engine.function_models import HashingEmbedder
from graphmill.engine.models import Pieces, Reply, Request
from graphmill.engine.openai_generator import OpenAIGenerator
from graphmill.engine.profiles import load_profile, messages
from graphmill.engine.progress import Silent
from graphmill.engine.read_reply import read_reply
from graphmill.engine.run_folder import RunFolder
from graphmill.engine.summary import latest_readings
from graphmill.engine.vllm_generator import VLLMGenerator, VLLMOptions
from graphmill.engine.vllm_process import EngineGone

pytestmark = pytest.mark.vllm

TINY = str(Path(__file__).with_name("tiny.toml"))
TEXT = "Oona Tarrant directs the Kvarra Marine Institute in Port Merrow, and Bridget Aluko chairs the Harbour Trust."
STRING = {"type": "string", "maxLength": 24}
SHORT = {
    "type": "object",
    "properties": {
        "entities": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {"name": STRING, "type": STRING, "description": STRING},
                "required": ["name", "type", "description"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["entities"],
    "additionalProperties": False,
}
"""The json profile's form, with bounds that even a model of this size keeps within."""


@pytest.fixture(scope="module")
def generator(smollm2: str, vllm_python: str) -> Iterator[VLLMGenerator]:
    made = VLLMGenerator(smollm2, VLLMOptions(args=ARGS, python=vllm_python))
    yield made
    made.close()


def answers(generator: Any, requests: Sequence[Request]) -> dict[str, Reply]:
    for request in requests:
        generator.submit(request)
    found: dict[str, Reply] = {}
    while len(found) < len(requests):
        found.update({reply.id: reply for reply in generator.collect()})
    return found


def documents(num: int) -> list[tuple[str, str]]:
    return [(f"{n:03d}.txt", f"Note {n}. {TEXT}") for n in range(num)]


def test_replies_held_to_a_schema_satisfy_it_and_are_read_as_records(generator: VLLMGenerator) -> None:
    profile = load_profile("json", "en")
    requests = [Request(f"extract/{name}/1", messages(profile, text), 200, schema=SHORT) for name, text in documents(6)]
    for reply in answers(generator, requests).values():
        assert (reply.error, reply.finish_reason) == (None, "stop")
        document = json.loads(reply.text)
        assert set(document) == {"entities"}
        assert all(set(entity) == {"name", "type", "description"} for entity in document["entities"])
        reading = read_reply(reply.text, profile.layout, reply.finish_reason)
        assert reading.complete
        assert len(reading.records) + reading.rejected == len(document["entities"])


def test_a_gleaning_round_takes_its_prefix_from_the_cache(generator: VLLMGenerator) -> None:
    seen: dict[str, Reply] = {}

    class Watched(VLLMGenerator):
        def __init__(self) -> None: ...

        def collect(self) -> Sequence[Reply]:
            replies = generator.collect()
            seen.update({reply.id: reply for reply in replies})
            return replies

        submit = generator.submit  # type: ignore[assignment]
        max_in_flight, model = 8, "watched"

    texts = [(f"text{n}", text, "en") for n, (_, text) in enumerate(documents(2))]
    profiles = {"en": load_profile("graphrag", "en")}
    list(extract(texts, Watched(), profiles, ExtractConfig(max_gleanings=1, max_tokens=40, stop_after=0)))
    rounds = {request_id.rsplit("/", 1)[1] for request_id in seen}
    assert len(rounds) > 1
    for request_id, reply in seen.items():
        if not request_id.endswith("/1"):
            # All of the round before but its last block of 128 tokens or fewer, as vLLM itself counts them.
            assert reply.cached_tokens > 0.8 * seen[f"{request_id.rsplit('/', 1)[0]}/1"].prompt_tokens


def taken(pieces: Pieces) -> tuple[list[str], Reply]:
    found: list[str] = []
    while True:
        try:
            found.append(next(pieces))
        except StopIteration as stop:
            return found, stop.value


def test_a_streamed_reply_is_the_whole_one_in_pieces_and_one_that_is_left_ends_in_the_engine(
    generator: VLLMGenerator,
) -> None:
    request = Request("query/answer1", [{"role": "user", "content": TEXT}], 24)
    (whole,) = answers(generator, [request]).values()
    pieces, reply = taken(generator.stream(request))
    assert len(pieces) > 5
    assert "".join(pieces) == reply.text == whole.text
    assert (reply.completion_tokens, reply.finish_reason) == (whole.completion_tokens, whole.finish_reason)
    long = generator.stream(Request("query/answer2", [{"role": "user", "content": TEXT}], 4096))
    next(long)
    long.close()
    (after,) = answers(generator, [request]).values()
    assert after.text == whole.text
    assert not generator._open


class _Extracted(Exception):  # noqa: N818  (no error: the rest of the run is not wanted)
    pass


class _UntilExtracted(Silent):
    """Stops the run after the extraction stage; ``kill`` ends the engine as soon as the first shard is on disk."""

    def __init__(self, kill: VLLMGenerator | None = None) -> None:
        super().__init__()
        self.kill, self.stage = kill, ""

    def start(self, stage: str, total: int | None, unit: str, done: int = 0) -> None:
        self.stage = stage

    def advance(self, num_units: int = 1, note: str = "") -> None:
        if self.stage == "extractions" and self.kill is not None and self.kill._processes:
            os.killpg(self.kill._processes[0]._process.pid, signal.SIGKILL)

    def finish(self, note: str = "") -> None:
        if self.stage == "extractions":
            raise _Extracted


def _extract(path: Path, generator: VLLMGenerator, kill: bool = False) -> None:
    settings = ExtractConfig(profile=TINY, max_gleanings=0, max_tokens=48, stop_after=0, shard_texts=3)
    progress = _UntilExtracted(generator if kill else None)
    with contextlib.suppress(_Extracted):
        graphmill.index(documents(12), path, generator, HashingEmbedder(16), None, Config(extract=settings), progress)


def _tables(path: Path) -> dict[str, Any]:
    """What was read, each text's last reading."""
    folder = RunFolder.open(path)
    by = [("text_id", "ascending"), ("record", "ascending")]
    return {
        "extractions": folder.read("extractions").sort_by(by).to_pylist(),
        "readings": latest_readings(folder).sort_by("text_id").to_pylist(),
    }


def test_a_model_process_that_is_killed_mid_run_is_told_of_and_the_next_run_ends_with_the_same_tables(
    generator: VLLMGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _extract(tmp_path / "whole", generator)
    starts = generator.starts
    monkeypatch.setattr(generator, "max_in_flight", 3)
    with pytest.raises(EngineGone, match="SIGKILL"):
        _extract(tmp_path / "killed", generator, kill=True)
    assert 3 <= RunFolder.open(tmp_path / "killed").read("readings").num_rows < 12
    generator.rest()
    _extract(tmp_path / "killed", generator)
    assert generator.starts == starts + 1
    killed, whole = _tables(tmp_path / "killed"), _tables(tmp_path / "whole")
    assert len(whole["readings"]) == 12
    assert len(whole["extractions"]) > 0
    assert killed == whole


def test_a_real_server_of_the_same_model_gives_the_same_replies(
    generator: VLLMGenerator, smollm2: str, vllm_python: str, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in ARGS.items() if name != "enforce_eager"]
    command = [
        vllm_python, "-m", "vllm.entrypoints.openai.api_server", "--model", smollm2, "--served-model-name", "tiny",
        "--host", "127.0.0.1", "--port", str(port), "--enforce-eager", *arguments,
    ]  # fmt: skip
    log = (tmp_path / "server.log").open("w")
    requests = [Request(f"extract/{name}/1", [{"role": "user", "content": text}], 16) for name, text in documents(4)]
    requests.append(Request("json", [{"role": "user", "content": TEXT}], 200, schema=SHORT))
    server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        ours = answers(generator, requests)  # while the server loads
        _wait_for(server, port, tmp_path / "server.log")
        with OpenAIGenerator(f"http://127.0.0.1:{port}/v1") as served:
            assert (served.model, served.context_tokens) == ("tiny", ARGS["max_model_len"])
            theirs = answers(served, requests)
            pieces, streamed = taken(served.stream(requests[0]))
            assert len(pieces) > 5
            assert streamed == theirs[requests[0].id]
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    for request_id, reply in theirs.items():
        assert reply.error is None
        assert (reply.text, reply.finish_reason) == (ours[request_id].text, ours[request_id].finish_reason)
        assert reply.prompt_tokens == ours[request_id].prompt_tokens


def _wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise AssertionError(f"vllm serve ended:\n{log.read_text()[-3000:]}")
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise AssertionError("vllm serve did not come up")
