"""An embedding model that vLLM runs with its pooling runner, in a process of its own."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.models import Tokenizer
from graphmill.engine.vllm_pooling import PoolingProcess, identity


class VLLMEmbedder:
    """Vectors from vLLM. The engine batches by tokens itself; texts are handed over some TEXTS_A_MESSAGE at a time.

    An engine that died twice in a row is not loaded again until it is closed. Threads may share it.

    model      a folder with the model's files, or its name on the hub
    args       vLLM's own engine arguments by its own names
    languages  that the model knows, as ISO 639-1 codes; None for any
    """

    TEXTS_A_MESSAGE = 512
    loads_engine = True

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
        args = {"runner": "pooling", **(args or {}), "model": model}
        self.model = identity(model, args)
        self.tokenizer, self.languages = tokenizer, languages
        self._process = PoolingProcess({"task": "embed", "args": args}, python, warn)

    @property
    def dimension(self) -> int:
        """Length of a vector. The engine is loaded when this, or anything else, is first asked."""
        return int(self._process.facts()["dimension"])

    @property
    def max_tokens(self) -> int:
        """Longest text in tokens, less the start and end tokens that the model's own tokenizer adds."""
        return int(self._process.facts()["max_model_len"]) - 2

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, dimension], one row a text. Raises EngineGone when the engine has ended."""
        vectors = np.full((len(texts), self.dimension), np.nan, np.float32)
        starts = range(0, len(texts), self.TEXTS_A_MESSAGE)
        replies = self._process.ask({"texts": list(texts[start : start + self.TEXTS_A_MESSAGE])} for start in starts)
        for start, reply in zip(starts, replies, strict=True):
            if "vectors" in reply:  # rows that failed stay NaN, and the caller tries them one by one
                matrix = np.frombuffer(base64.b64decode(reply["vectors"]), np.float32).reshape(reply["shape"])
                vectors[start : start + len(matrix)] = matrix
        return vectors

    def close(self) -> None:
        """Ends the engine, which gives its memory back; it is loaded anew when it is wanted."""
        self._process.close()
