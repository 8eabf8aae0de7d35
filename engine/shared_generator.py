"""One generator for several callers at a time: questions in threads, or one asked while another is being answered."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from weakref import WeakValueDictionary

from graphmill.engine.models import Generator, Pieces, Reply, Request, StreamingGenerator, Tokenizer


class SharedGenerator:
    """Hands out callers, each of which gets the replies to its own requests and no others.

    Whoever waits collects for all. Replies to a caller that is gone, such as one that was interrupted, are dropped.
    """

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self._owners: WeakValueDictionary[str, Caller] = WeakValueDictionary()
        self._changed = threading.Condition()
        self._is_collecting = False

    def caller(self) -> Caller:
        """A generator for one question, or for one batch of them."""
        return Caller(self)


class Caller:
    """A Generator of one caller; request ids must be its own among all callers'."""

    def __init__(self, shared: SharedGenerator) -> None:
        self._shared = shared
        generator = shared.generator
        self.model: str = generator.model
        self.context_tokens: int = generator.context_tokens
        self.max_in_flight: int = generator.max_in_flight
        self.tokenizer: Tokenizer | None = generator.tokenizer
        self.enforces_schema: bool = getattr(generator, "enforces_schema", False)
        self._num_open = 0
        self._arrived: list[Reply] = []

    def submit(self, request: Request) -> None:
        """Passes the request on; raises ValueError where another one with its id is open."""
        shared = self._shared
        with shared._changed:
            if request.id in shared._owners:
                raise ValueError(f"a request with the id {request.id!r} is open")
            shared._owners[request.id] = self
            self._num_open += 1
            shared.generator.submit(request)

    def collect(self) -> Sequence[Reply]:
        """Waits until one of this caller's requests has finished, and returns all that have."""
        shared = self._shared
        if not self._num_open:
            raise RuntimeError("collect() was called with no request open")
        while True:
            with shared._changed:
                while not self._arrived and shared._is_collecting:
                    shared._changed.wait()
                if self._arrived:
                    found, self._arrived = self._arrived, []
                    self._num_open -= len(found)
                    return found
                shared._is_collecting = True
            replies: Sequence[Reply] = ()
            try:
                replies = shared.generator.collect()
            finally:
                with shared._changed:
                    shared._is_collecting = False
                    for reply in replies:
                        owner = shared._owners.pop(reply.id, None)
                        if owner is not None:
                            owner._arrived.append(reply)
                    shared._changed.notify_all()

    def stream(self, request: Request) -> Pieces:
        """The reply as it is written; in one piece from a generator that gives it only whole."""
        if isinstance(self._shared.generator, StreamingGenerator):
            return (yield from self._shared.generator.stream(request))
        self.submit(request)
        (reply,) = self.collect()
        if reply.error is None and reply.text:
            yield reply.text
        return reply

    def close(self) -> None:
        """The generator is another's to close."""
