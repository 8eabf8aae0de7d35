"""``graphmill bench extract``: the extraction stage beside plain vLLM, over the same prompts on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphmill.engine.build import index
from graphmill.engine.chunk import ChunkConfig
from graphmill.engine.config import Config, ConfigError
from graphmill.engine.extract import ExtractConfig
from graphmill.engine.function_models import HashingEmbedder
from graphmill.engine.profiles import load_profile, messages
from graphmill.engine.progress import Silent
from graphmill.engine.vllm_generator import DEFAULTS, VLLMGenerator, VLLMOptions
from graphmill.jobs.show import show_result

WORDS = (
    "harbour engine council river method border theory copper vessel railway senate garden climate orbit budget "
    "library surgeon tunnel compass grain timber canyon festival protein lantern warehouse journal reactor museum "
    "tariff census glacier quarry orchard steady northern ancient public modern narrow remote early coastal dense "
    "quiet annual during across within beyond reaches holds improves measures records builds reviews crosses funds "
    "repairs teaches studies controls connects"
).split()
PLAIN = Path(__file__).parent.parent / "engine" / "vllm_plain.py"


@dataclass(frozen=True)
class Workload:
    """So many prompts of a profile's instructions and ``prompt_tokens`` of text; replies of just ``output_tokens``."""

    num_prompts: int
    prompt_tokens: int
    output_tokens: int
    profile: str
    repeats: int
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_prompts", "prompt_tokens", "output_tokens", "repeats"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")
        try:
            schema = load_profile(self.profile, "en").schema
        except ValueError as error:
            raise ConfigError(f"--profile: {error}") from error
        if schema is not None:
            raise ConfigError(f"--profile {self.profile} can't be compared: plain vLLM would not be held to its schema")


def run(model: str, args: Mapping[str, Any], python: str | None, workload: Workload, as_json: bool) -> int:
    """Measures one side, then the other, over the same rounds of prompts, and prints them side by side."""
    sampling: dict[str, Any] = {"ignore_eos": True, "temperature": 0.0}
    options = VLLMOptions(args, python=python, sampling={"ignore_eos": True})
    generator = VLLMGenerator(model, options)
    if generator.tokenizer is None:
        raise ConfigError(f"the benchmark needs the model's tokenizer.json, and there is none in {model}")
    rounds = [texts_of_round(workload, generator.tokenizer, number) for number in range(workload.repeats + 1)]
    profile = load_profile(workload.profile, "en")
    plain_args = {**DEFAULTS, **args, "model": model}
    setup = {"args": plain_args, "chat_template_kwargs": dict(options.chat_template_kwargs)}
    prompts = [[[dict(message) for message in messages(profile, text)] for text in texts] for texts in rounds]
    asked: list[dict[str, Any]] = [
        {"prompts": one, "sampling": {**sampling, "max_tokens": workload.output_tokens}} for one in prompts
    ]
    try:
        # One side after the other: two engines don't fit on one GPU, and on a CPU an idle one's threads spin.
        with _plain_vllm(setup, python) as put:
            plain = [put(message) for message in asked]
        generator.load()
        ours = [_stage(texts, generator, workload) for texts in rounds]
    finally:
        generator.close()
    # The first round warms both sides up.
    measured = [{"plain": one, "graphmill": other} for one, other in zip(plain[1:], ours[1:], strict=True)]
    result = _result(measured, model, plain_args, workload)
    show_result(result, _render, as_json)
    return 0


def texts_of_round(workload: Workload, tokenizer: Any, number: int) -> list[str]:
    """Seeded texts of about ``prompt_tokens`` tokens, none like those of another round."""
    random = np.random.default_rng([workload.seed, number])
    texts = []
    for row in range(workload.num_prompts):
        words = random.choice(WORDS, workload.prompt_tokens)
        texts.append(f"Entry {number}-{row}. " + " ".join(words))
    spans = tokenizer.spans(texts)
    return [t[: s[min(workload.prompt_tokens, len(s)) - 1, 1]] for t, s in zip(texts, spans, strict=True)]


def _stage(texts: Sequence[str], generator: VLLMGenerator, workload: Workload) -> dict[str, Any]:
    """The extraction stage of a run over these texts, with its tables written to disk."""
    config = Config(
        chunk=ChunkConfig(tokens=2 * workload.prompt_tokens + 64, overlap=0),  # a text is a chunk
        extract=ExtractConfig(
            profile=workload.profile, max_gleanings=0, max_tokens=workload.output_tokens, retries=0, stop_after=0
        ),
    )
    progress = _UntilExtracted()
    documents = [(f"{row:06d}.txt", text) for row, text in enumerate(texts)]
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(_Extracted):
        index(documents, Path(folder) / "index", generator, HashingEmbedder(8), None, config, progress)
    return {"seconds": progress.seconds}


class _Extracted(Exception):  # noqa: N818  (no error: the rest of the run is not wanted)
    pass


class _UntilExtracted(Silent):
    """Times the extraction stage, and stops the run after it."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self._begin: float | None = None

    def start(self, stage: str, total: int | None, unit: str, done: int = 0) -> None:
        self._begin = time.perf_counter() if stage == "extractions" else None

    def finish(self, note: str = "") -> None:
        if self._begin is not None:
            self.seconds = time.perf_counter() - self._begin
            raise _Extracted


@contextlib.contextmanager
def _plain_vllm(setup: Mapping[str, Any], python: str | None) -> Iterator[Any]:
    """A function that gives one round of prompts to plain vLLM and returns what it took."""
    reading, writing = os.pipe()
    with tempfile.NamedTemporaryFile("w+", suffix=".log") as log:
        process = subprocess.Popen(
            [python or sys.executable, "-P", str(PLAIN), str(writing)],
            stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[writing], text=True,
            start_new_session=True,
        )  # fmt: skip
        os.close(writing)
        with os.fdopen(reading) as answers:

            def ask(message: Mapping[str, Any]) -> dict[str, Any]:
                assert process.stdin is not None
                print(json.dumps(message), file=process.stdin, flush=True)
                line = answers.readline()
                if not line:
                    log.seek(0)
                    raise ConfigError(f"plain vLLM ended:\n{log.read()[-2000:]}")
                answer: dict[str, Any] = json.loads(line)
                return answer

            try:
                ask(setup)
                yield ask
            finally:
                assert process.stdin is not None
                process.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(60)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _result(
    measured: Sequence[Mapping[str, Any]], model: str, args: Mapping[str, Any], work: Workload
) -> dict[str, Any]:
    ratios = [one["plain"]["seconds"] / one["graphmill"]["seconds"] for one in measured]
    seconds = {side: statistics.median(one[side]["seconds"] for one in measured) for side in ("plain", "graphmill")}
    plain = measured[0]["plain"]
    return {
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "model": Path(model).name,
        "args": {name: value for name, value in args.items() if name != "model"},
        "workload": {name: getattr(work, name) for name in work.__dataclass_fields__},
        "seconds": {side: round(taken, 3) for side, taken in seconds.items()},
        "prompts_per_s": {side: round(work.num_prompts / taken, 3) for side, taken in seconds.items()},
        "prompt_tokens_per_s": {side: round(plain["prompt_tokens"] / taken, 1) for side, taken in seconds.items()},
        "output_tokens_per_s": {side: round(plain["completion_tokens"] / taken, 1) for side, taken in seconds.items()},
        "ratios": [round(ratio, 4) for ratio in ratios],
        "ratio": round(statistics.median(ratios), 4),
    }


def _render(result: Mapping[str, Any]) -> str:
    lines = [f"{'':<22}{'plain vLLM':>14}{'graphmill':>14}"]
    for label, key in (
        ("prompts/s", "prompts_per_s"),
        ("prompt tokens/s", "prompt_tokens_per_s"),
        ("output tokens/s", "output_tokens_per_s"),
    ):
        lines.append(f"{label:<22}{result[key]['plain']:>14,}{result[key]['graphmill']:>14,}")
    lines.append(f"graphmill's extraction stage runs at {result['ratio']:.3f} of plain vLLM (median over rounds)")
    return "\n".join(lines)
