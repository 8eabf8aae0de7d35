"""A pooling model in vLLM's process, spoken to in questions and answers: what embedder and reranker have in common."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from graphmill.engine.model_files import file_prints
from graphmill.engine.vllm_generator import SHAPING
from graphmill.engine.vllm_process import EngineGone, VLLMProcess, untried

MAX_DEATHS = 2
"""Times in a row that an engine may end by itself while it is asked: one that always does costs a load a question."""
_POOLING = ("convert", "pooler_config", "override_pooler_config", "rope_scaling", "rope_theta")
"""Engine arguments that shape what a pooling model gives, beside those that shape any model's."""


class EngineClosed(EngineGone):
    """The engine was closed by another thread, while this one waited for it."""


class PoolingProcess:
    """A model that is loaded when it is first wanted, and loaded again when it is wanted after it was closed.

    Threads may share it: they are served one after the other, and ``close`` ends whatever is under way.

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
        self._turn = threading.RLock()
        """Held while the engine is loaded or asked: there is one queue of replies."""
        self._swapping = threading.Lock()
        """Held while ``_process`` is replaced, which needs no turn: a close waits for nobody."""
        self._num_closed = 0
        self._num_died = 0
        """Times that the engine ended by itself since it last answered."""
        self._died_of = ""

    def facts(self) -> dict[str, Any]:
        """What the process tells of the model, which is loaded for it. Raises EngineGone when it can't be."""
        with self._taking_turn():
            if self._process is None:
                if self._num_died >= MAX_DEATHS:
                    raise EngineGone(
                        f"it died {self._num_died} times in a row and is not loaded again: {self._died_of}"
                    )
                self._start()
            return self._facts

    def ask(self, messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The replies to some messages, in their order. Raises EngineGone when the engine has ended."""
        with self._taking_turn():
            self.facts()
            process = self._process
            if process is None:
                raise EngineClosed("vLLM was closed before it was asked")
            wanted: dict[str, int] = {}
            for place, message in enumerate(messages):
                self._number += 1  # so that a reply to a call that was interrupted is not taken for one to this
                wanted[str(self._number)] = place
                process.send({"id": str(self._number), **message})
            found: dict[int, dict[str, Any]] = {}
            while wanted:
                reply = self._replies.get()
                if reply is None:
                    raise self._gone(process)
                place = wanted.pop(reply["id"], -1)
                if place >= 0:
                    found[place] = reply
            self._num_died = 0
            return [found[place] for place in sorted(found)]

    def close(self) -> None:
        """Ends the engine, which gives its memory back. Whoever waits for it gets an EngineClosed."""
        with self._swapping:
            process, self._process = self._process, None
            self._num_closed += 1
        self._num_died = 0
        if process is not None:
            process.close()

    @contextmanager
    def _taking_turn(self) -> Iterator[None]:
        """Waits until no other thread uses the engine; raises EngineClosed where it was closed meanwhile."""
        before = self._num_closed
        with self._turn:
            if self._num_closed != before:
                raise EngineClosed("vLLM was closed while others used it")
            yield

    def _start(self) -> None:
        self._replies = queue.SimpleQueue()
        process = VLLMProcess(self._setup, self._replies.put, self._python)
        with self._swapping:
            self._process = process
        try:
            self._facts = process.wait_ready()
        except BaseException as error:
            if self._let_go(process) or not isinstance(error, Exception):
                raise
            raise EngineClosed("vLLM was closed while it was being loaded") from None
        if warning := untried(self._facts["version"]):
            self._warn(warning)

    def _gone(self, process: VLLMProcess) -> EngineGone:
        """The error of an engine that ended while it was asked, and whether that was our doing."""
        if self._process is not process:
            return EngineClosed("vLLM was closed while it was asked")
        words = process.last_words()
        self._let_go(process)
        self._num_died += 1
        self._died_of = words
        return EngineGone(words)

    def _let_go(self, process: VLLMProcess) -> bool:
        """Ends a process that is of no use any more; False where it was closed before."""
        with self._swapping:
            is_ours = self._process is process
            if is_ours:
                self._process = None
        if is_ours:
            process.close()
        return is_ours


def identity(model: str, args: Mapping[str, Any], template: str | None = None) -> str:
    """The model's name with a hash of its files and of what shapes what it gives."""
    folder = Path(model)
    files = file_prints(folder) if folder.is_dir() else [model]
    shaping = {name: args[name] for name in (*SHAPING, *_POOLING) if name in args}
    how = [files, shaping] if template is None else [files, shaping, template]
    print_ = blake2b(json.dumps(how, sort_keys=True, default=str).encode(), digest_size=5).hexdigest()
    return f"{folder.resolve().name if folder.is_dir() else model}@{print_}"
