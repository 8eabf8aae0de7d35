"""A generator that counts what it is asked, by the kind of request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphmill.engine.models import AbortingGenerator, Generator, Reply, Request, Tokenizer


@dataclass
class Used:
    """What one kind of request took."""

    requests: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


def rest(generator: Generator) -> None:
    """Gives back what a generator that can be loaded again holds between two stages."""
    give_back = getattr(generator, "rest", None)
    if give_back is not None:
        give_back()


class MeteredGenerator:
    """Counts requests and tokens by what stands before the first slash of a request's id."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.model: str = generator.model
        self.context_tokens: int = generator.context_tokens
        self.max_in_flight: int = generator.max_in_flight
        self.tokenizer: Tokenizer | None = generator.tokenizer
        self.enforces_schema: bool = getattr(generator, "enforces_schema", False)
        self.used: dict[str, Used] = {}
        if isinstance(generator, AbortingGenerator):  # else this one can't take anything back either
            self.abort = generator.abort

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
            used.cached_tokens += reply.cached_tokens
        return replies

    def rest(self) -> None:
        """Has the generator give its memory back, if it can."""
        rest(self.generator)

    def close(self) -> None:
        """Closes the generator."""
        self.generator.close()
