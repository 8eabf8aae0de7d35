"""An embedding model that vLLM runs with its pooling runner, in a process of its own."""

from __future__ import annotations

import base64
import queue
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.models import Tokenizer
from graphmill.engine.vllm_process import EngineGone, VLLMProcess, untried


class VLLMEmbedder:
    """Vectors from vLLM. The engine batches by tokens itself; texts are handed over some TEXTS_A_MESSAGE at a time.

    model      a folder with the model's files, or its name on the hub
    args       vLLM's own engine arguments by its own names
    languages  that the model knows, as ISO 639-1 codes; None for any
    """

    TEXTS_A_MESSAGE = 512

    def __init__(
        self,
        model: str,
        tokenizer: Tokenizer,
        args: Mapping[str, Any] | None = None,
        *,
        python: str | None = None,
        languages: frozenset[str] | None = None,
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.model = Path(model).resolve().name if Path(model).is_dir() else model
        self.tokenizer, self.languages = tokenizer, languages
        self._replies: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        setup = {"task": "embed", "args": {"runner": "pooling", **(args or {}), "model": model}}
        self._process = VLLMProcess(setup, self._replies.put, python)
        try:
            facts = self._process.wait_ready()
        except BaseException:
            self._process.close()
            raise
        if warning := untried(facts["version"]):
            warn(warning)
        self.dimension: int = facts["dimension"]
        # Room for the start and end tokens, which the model's own tokenizer adds.
        self.max_tokens: int = facts["max_model_len"] - 2

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, dimension], one row a text. Raises EngineGone when the engine has ended."""
        starts = range(0, len(texts), self.TEXTS_A_MESSAGE)
        for start in starts:
            self._process.send({"id": start, "texts": list(texts[start : start + self.TEXTS_A_MESSAGE])})
        vectors = np.full((len(texts), self.dimension), np.nan, np.float32)
        for _ in starts:
            reply = self._replies.get()
            if reply is None:
                raise EngineGone(self._process.last_words())
            if "vectors" in reply:  # rows that failed stay NaN, and are tried again one by one by the caller
                matrix = np.frombuffer(base64.b64decode(reply["vectors"]), np.float32).reshape(reply["shape"])
                vectors[reply["id"] : reply["id"] + len(matrix)] = matrix
        return vectors

    def close(self) -> None:
        """Ends the engine, which gives its memory back."""
        self._process.close()
