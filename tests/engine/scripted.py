"""Stand-ins for models in tests: a generator that answers by a function, and a tokenizer of words and characters."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.models import Reply, Request, Tokenizer

_TOKEN = re.compile(r"[A-Za-z0-9]+|\S")


class WordTokenizer:
    """A token is a run of ASCII letters and digits, or any other character that is no space."""

    name = "words"

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return np.array([len(_TOKEN.findall(text)) for text in texts], dtype=np.int64)

    def spans(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [np.array([m.span() for m in _TOKEN.finditer(t)], dtype=np.int64).reshape(-1, 2) for t in texts]


class Scripted:
    """Answers each request with what ``answer`` says: a text, a Reply, or None for an error."""

    model = "scripted"

    def __init__(
        self, answer: Callable[[Request], str | Reply | None], context_tokens: int = 32768, max_in_flight: int = 64
    ) -> None:
        self.answer = answer
        self.context_tokens = context_tokens
        self.max_in_flight = max_in_flight
        self.tokenizer: Tokenizer | None = WordTokenizer()
        self.requests: list[Request] = []
        """All that it was asked, in order."""
        self._open: list[Request] = []

    def submit(self, request: Request) -> None:
        assert len(self._open) < self.max_in_flight
        self.requests.append(request)
        self._open.append(request)

    def collect(self) -> Sequence[Reply]:
        done, self._open = self._open, []
        return [self._reply(request) for request in reversed(done)]

    def close(self) -> None: ...

    def prompts(self) -> list[str]:
        """The text of each request's messages."""
        return ["\n".join(message["content"] for message in request.messages) for request in self.requests]

    def _reply(self, request: Request) -> Reply:
        answer = self.answer(request)
        if answer is None:
            return Reply(request.id, error="timed out")
        return answer if isinstance(answer, Reply) else Reply(request.id, answer, "stop")
