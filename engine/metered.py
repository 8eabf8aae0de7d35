"""A generator that counts what it is asked, by the kind of request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graphmill.engine.models import Generator, Reply, Request, Tokenizer


@dataclass
class Used:
    """What one kind of request took."""

    requests: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass
class MeteredGenerator:
    """Counts requests and tokens by what stands before the first slash of a request's id."""

    generator: Generator
    used: dict[str, Used] = field(default_factory=dict)

    @property
    def model(self) -> str:
        return self.generator.model

    @property
    def context_tokens(self) -> int:
        return self.generator.context_tokens

    @property
    def max_in_flight(self) -> int:
        return self.generator.max_in_flight

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self.generator.tokenizer

    def submit(self, request: Request) -> None:
        """Passes the request on."""
        self.generator.submit(request)

    def collect(self) -> Sequence[Reply]:
        """Counts the replies as they come."""
        replies = self.generator.collect()
        for reply in replies:
            used = self.used.setdefault(reply.id.partition("/")[0], Used())
            used.requests += 1
            used.failed += reply.error is not None
            used.prompt_tokens += reply.prompt_tokens
            used.completion_tokens += reply.completion_tokens
        return replies

    def close(self) -> None:
        """Closes the generator."""
        self.generator.close()
