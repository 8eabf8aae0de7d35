"""A cross-encoder that vLLM runs with its pooling runner, in a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
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
        (scores,) = self.rank_each([(question, texts)])
        if isinstance(scores, Exception):
            raise scores
        return scores

    def rank_each(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[NDArray[np.float32] | Exception]:
        """What ``rank`` gives for each question's texts, or the ValueError that it raises; all run beside each other.

        Raises EngineGone when the engine can't be loaded or has ended.
        """
        if not any(texts for _, texts in asked):
            return [np.empty(0, np.float32) for _ in asked]
        self._load()
        size = self.TEXTS_A_MESSAGE
        messages = [
            {"question": question, "texts": list(texts[start : start + size])}
            for question, texts in asked
            for start in range(0, len(texts), size)
        ]
        replies = iter(zip(messages, self._process.ask(messages), strict=True))
        return [self._scores(list(islice(replies, -(-len(texts) // size)))) for _, texts in asked]

    def _scores(self, parts: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> NDArray[np.float32] | Exception:
        """The scores of one question's texts, from the messages that put them and the replies to these."""
        found = [reply.get("scores", [None] * len(message["texts"])) for message, reply in parts]
        scores = np.array([score for part in found for score in part], np.float32)  # None becomes NaN
        if num_failed := int(np.count_nonzero(np.isnan(scores))):
            why = next((reply["error"] for _, reply in parts if reply.get("error")), "no reason is known")
            if num_failed == len(scores):
                return ValueError(f"the reranker {self.model} scores nothing: {why}")
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
