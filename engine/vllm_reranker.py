"""A cross-encoder that vLLM runs with its pooling runner, in a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.vllm_pooling import EngineClosed, PoolingProcess, identity
from graphmill.engine.vllm_process import EngineGone


class VLLMReranker:
    """Scores as vLLM's own score endpoint gives them: question and text are put to the model as a pair.

    A pair that is longer than the model's context loses the end of its text, never any of the question. An engine that
    can't be loaded, or that died twice in a row, is not loaded again until it is closed. Threads may share it.

    model     a folder with the model's files, or its name on the hub: a sequence classifier with one label
    args      vLLM's own engine arguments by its own names. Beside another engine on one GPU, gpu_memory_utilization
              has to leave room for that
    template  a Jinja template of the pair, as a chat of the roles "query" and "document", for a language model that was
              trained to score with one; vLLM's server knows it as --chat-template
    """

    TEXTS_A_MESSAGE = 512

    def __init__(
        self,
        model: str,
        args: Mapping[str, Any] | None = None,
        *,
        template: str | None = None,
        python: str | None = None,
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        args = {"runner": "pooling", **(args or {}), "model": model}
        self.model, self._warn = identity(model, args, template), warn
        self._process = PoolingProcess({"task": "score", "args": args, "template": template}, python, warn)
        self._loading = threading.Lock()
        self._refusal = ""
        self._is_checked = False

    def rank(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Scores float32 [n], in the order of the texts; the higher, the better. NaN: could not be scored.

        Raises EngineGone when the engine can't be loaded or has ended, and ValueError when no text has a score.
        """
        if not texts:
            return np.empty(0, np.float32)
        self._load()
        size = self.TEXTS_A_MESSAGE
        parts = [list(texts[start : start + size]) for start in range(0, len(texts), size)]
        replies = self._process.ask({"question": question, "texts": part} for part in parts)
        found = [reply.get("scores", [None] * len(part)) for part, reply in zip(parts, replies, strict=True)]
        scores = np.array([score for part in found for score in part], np.float32)  # None becomes NaN
        if num_failed := int(np.count_nonzero(np.isnan(scores))):
            why = next((reply["error"] for reply in replies if reply.get("error")), "no reason is known")
            if num_failed == len(scores):
                raise ValueError(f"the reranker {self.model} scores nothing: {why}")
            self._warn(f"the reranker could not score {num_failed} of {len(scores)} texts: {why}")
        return scores

    def _load(self) -> None:
        """Loads the engine, unless it could not be loaded before: that takes its time, and would end the same."""
        with self._loading:
            if self._refusal:
                raise EngineGone(self._refusal)
            try:
                facts = self._process.facts()
            except EngineClosed:
                raise
            except EngineGone as error:
                self._refusal = str(error)
                raise
            if not self._is_checked and (warning := facts.get("warning")):
                self._warn(f"the reranker {self.model}: {warning}")
            self._is_checked = True

    def close(self) -> None:
        """Ends the engine, which gives its memory back; it is loaded anew when it is wanted."""
        self._process.close()
        self._refusal = ""
