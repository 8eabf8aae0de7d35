"""An embedding model that vLLM runs with its pooling runner, in a process of its own."""

from __future__ import annotations

import base64
import json
import queue
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.model_files import file_prints
from graphmill.engine.models import Tokenizer
from graphmill.engine.vllm_process import EngineGone, VLLMProcess, untried

_SHAPING = ("dtype", "quantization", "revision", "tokenizer", "hf_overrides", "pooler_config", "max_model_len", "seed")


class VLLMEmbedder:
    """Vectors from vLLM. The engine batches by tokens itself; texts are handed over some TEXTS_A_MESSAGE at a time.

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
        self._args = {"runner": "pooling", **(args or {}), "model": model}
        self.model = _identity(model, self._args)
        self.tokenizer, self.languages = tokenizer, languages
        self._python, self._warn = python, warn
        self._replies: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._process: VLLMProcess | None = None
        self._facts: dict[str, Any] = {}
        self._number = 0

    @property
    def dimension(self) -> int:
        """Length of a vector. The engine is loaded when this, or anything else, is first asked."""
        return int(self._loaded()["dimension"])

    @property
    def max_tokens(self) -> int:
        """Longest text in tokens, less the start and end tokens that the model's own tokenizer adds."""
        return int(self._loaded()["max_model_len"]) - 2

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, dimension], one row a text. Raises EngineGone when the engine has ended."""
        vectors = np.full((len(texts), self.dimension), np.nan, np.float32)
        process = self._process
        assert process is not None
        wanted: dict[str, int] = {}
        for start in range(0, len(texts), self.TEXTS_A_MESSAGE):
            self._number += 1  # so that a reply to a call that was interrupted is not taken for one to this
            wanted[str(self._number)] = start
            process.send({"id": str(self._number), "texts": list(texts[start : start + self.TEXTS_A_MESSAGE])})
        while wanted:
            reply = self._replies.get()
            if reply is None:
                words = process.last_words()
                self.close()
                raise EngineGone(words)
            start = wanted.pop(reply["id"], -1)
            if start >= 0 and "vectors" in reply:  # rows that failed stay NaN, and the caller tries them one by one
                matrix = np.frombuffer(base64.b64decode(reply["vectors"]), np.float32).reshape(reply["shape"])
                vectors[start : start + len(matrix)] = matrix
        return vectors

    def _loaded(self) -> dict[str, Any]:
        if self._process is None:
            self._replies = queue.SimpleQueue()
            self._process = VLLMProcess({"task": "embed", "args": self._args}, self._replies.put, self._python)
            try:
                self._facts = self._process.wait_ready()
            except BaseException:
                self.close()
                raise
            if warning := untried(self._facts["version"]):
                self._warn(warning)
        return self._facts

    def close(self) -> None:
        """Ends the engine, which gives its memory back; it is loaded anew when it is wanted."""
        process, self._process = self._process, None
        if process is not None:
            process.close()


def _identity(model: str, args: Mapping[str, Any]) -> str:
    """The model's name with a hash of its files and of what shapes its vectors."""
    folder = Path(model)
    files = file_prints(folder) if folder.is_dir() else [model]
    shaping = {name: args[name] for name in _SHAPING if name in args}
    print_ = blake2b(json.dumps([files, shaping], sort_keys=True, default=str).encode(), digest_size=5).hexdigest()
    return f"{folder.resolve().name if folder.is_dir() else model}@{print_}"
