"""Models made from plain functions: for tests, for benchmarks, and for whatever is called from Python."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphmill.engine.models import Reply, Request, Tokenizer
from graphmill.engine.tokenizers import WordTokenizer

Vectors = NDArray[np.float32]
_FEATURE = re.compile(r"[a-z0-9]+|[^\x00-\x7f]", re.IGNORECASE)


class FunctionGenerator:
    """Answers each request with ``answer(request)``: a text, which is whole, or a Reply.

    The function is called when replies are collected, for the oldest ``max_in_flight`` of the open requests. What it
    raises is the reply's error.
    """

    def __init__(
        self,
        answer: Callable[[Request], str | Reply],
        *,
        model: str = "function",
        context_tokens: int = 32_768,
        tokenizer: Tokenizer | None = None,
        max_in_flight: int = 256,
    ) -> None:
        self.model, self.context_tokens, self.max_in_flight = model, context_tokens, max_in_flight
        self.tokenizer = tokenizer
        self._answer = answer
        self._open: deque[Request] = deque()

    def submit(self, request: Request) -> None:
        """Takes the request in; nothing is called yet."""
        self._open.append(request)

    def collect(self) -> Sequence[Reply]:
        """Replies to the oldest ``max_in_flight`` open requests."""
        if not self._open:
            raise RuntimeError("collect() was called with no request open")
        replies: list[Reply] = []
        with suppress(IndexError):  # all others were taken back meanwhile
            while len(replies) < self.max_in_flight:
                replies.append(self._reply(self._open.popleft()))
        return replies

    def abort(self, request_ids: Set[str]) -> None:
        """Drops those of the open requests that have these ids."""
        for request in [request for request in list(self._open) if request.id in request_ids]:
            with suppress(ValueError, IndexError):  # another thread collects, and has begun with it
                self._open.remove(request)

    def close(self) -> None:
        """Drops what is open."""
        self._open.clear()

    def _reply(self, request: Request) -> Reply:
        try:
            answer = self._answer(request)
        except Exception as error:
            return Reply(request.id, error=f"{type(error).__name__}: {error}")
        if isinstance(answer, Reply):
            return replace(answer, id=request.id)
        if not isinstance(answer, str):
            return Reply(request.id, error=f"expected a text or a Reply, got {type(answer).__name__}")
        return Reply(request.id, answer, "stop")


class FunctionEmbedder:
    """Vectors by ``embed(texts)``, which gives one row of ``dimension`` numbers a text."""

    def __init__(
        self,
        embed: Callable[[list[str]], ArrayLike],
        dimension: int,
        *,
        model: str = "function",
        max_tokens: int = 8192,
        tokenizer: Tokenizer | None = None,
        languages: frozenset[str] | None = None,
    ) -> None:
        self.model, self.dimension, self.max_tokens, self.languages = model, dimension, max_tokens, languages
        self.tokenizer: Tokenizer = WordTokenizer() if tokenizer is None else tokenizer
        self._embed = embed

    def embed(self, texts: Sequence[str]) -> Vectors:
        """float32 [n, dimension]; raises ValueError when the function gives another shape."""
        vectors = (
            np.asarray(self._embed(list(texts)), np.float32) if texts else np.empty((0, self.dimension), np.float32)
        )
        if vectors.shape != (len(texts), self.dimension):
            raise ValueError(
                f"embedder {self.model} must give shape ({len(texts)}, {self.dimension}), got {vectors.shape}"
            )
        return vectors

    def close(self) -> None:
        """Holds nothing."""


class HashingEmbedder(FunctionEmbedder):
    """Texts that share words are near: each word adds its own fixed random direction. Knows no meaning; for tests."""

    def __init__(self, dimension: int = 64) -> None:
        if dimension < 1:
            raise ValueError(f"dimension must be at least 1, got {dimension}")
        self._directions: dict[str, Vectors] = {}
        super().__init__(self._sums, dimension, model=f"hashing-{dimension}")

    def _sums(self, texts: list[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            for word in _FEATURE.findall(text.casefold()):
                vectors[row] += self._direction(word)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, norms, out=vectors, where=norms > 0)
        return vectors

    def _direction(self, word: str) -> Vectors:
        if word not in self._directions:
            seed = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
            self._directions[word] = np.random.default_rng(seed).standard_normal(self.dimension, np.float32)
        return self._directions[word]
