"""A pooling model in vLLM's process, spoken to in questions and answers: what embedder and reranker have in common."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from graphmill.engine.model_files import file_prints
from graphmill.engine.vllm_process import EngineGone, VLLMProcess, untried

_SHAPING = ("dtype", "quantization", "revision", "tokenizer", "hf_overrides", "pooler_config", "max_model_len", "seed")


class PoolingProcess:
    """A model that is loaded when it is first wanted, and loaded again when it is wanted after it was closed.

    setup   what vllm_worker.py is told, see VLLMProcess
    python  of the environment that vLLM is installed in; None for this one
    """

    def __init__(
        self, setup: Mapping[str, Any], python: str | None, warn: Callable[[str], None] = lambda message: None
    ) -> None:
        self._setup, self._python, self._warn = setup, python, warn
        self._replies: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._process: VLLMProcess | None = None
        self._facts: dict[str, Any] = {}
        self._number = 0

    def facts(self) -> dict[str, Any]:
        """What the process tells of the model, which is loaded for it. Raises EngineGone when it can't be."""
        if self._process is None:
            self._replies = queue.SimpleQueue()
            self._process = VLLMProcess(self._setup, self._replies.put, self._python)
            try:
                self._facts = self._process.wait_ready()
            except BaseException:
                self.close()
                raise
            if warning := untried(self._facts["version"]):
                self._warn(warning)
        return self._facts

    def ask(self, messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The replies to some messages, in their order. Raises EngineGone when the engine has ended."""
        self.facts()
        process = self._process
        assert process is not None
        wanted: dict[str, int] = {}
        for place, message in enumerate(messages):
            self._number += 1  # so that a reply to a call that was interrupted is not taken for one to this
            wanted[str(self._number)] = place
            process.send({"id": str(self._number), **message})
        found: dict[int, dict[str, Any]] = {}
        while wanted:
            reply = self._replies.get()
            if reply is None:
                words = process.last_words()
                self.close()
                raise EngineGone(words)
            place = wanted.pop(reply["id"], -1)
            if place >= 0:
                found[place] = reply
        return [found[place] for place in sorted(found)]

    def close(self) -> None:
        """Ends the engine, which gives its memory back."""
        process, self._process = self._process, None
        if process is not None:
            process.close()


def identity(model: str, args: Mapping[str, Any]) -> str:
    """The model's name with a hash of its files and of what shapes what it gives."""
    folder = Path(model)
    files = file_prints(folder) if folder.is_dir() else [model]
    shaping = {name: args[name] for name in _SHAPING if name in args}
    print_ = blake2b(json.dumps([files, shaping], sort_keys=True, default=str).encode(), digest_size=5).hexdigest()
    return f"{folder.resolve().name if folder.is_dir() else model}@{print_}"
