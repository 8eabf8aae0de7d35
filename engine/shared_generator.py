"""One generator for several callers at a time: questions in threads, or one asked while another is being answered."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence, Set
from weakref import WeakValueDictionary

from graphmill.engine.models import (
    AbortingGenerator,
    Generator,
    Pieces,
    Reply,
    Request,
    StreamingGenerator,
    Tokenizer,
)
from graphmill.engine.run_dialogues import replies_to


class SharedGenerator:
    """Hands out callers, each of which gets the replies to its own requests and no others.

    Whoever waits collects for all, and no more requests are open than the generator takes. What it raises is raised in
    every caller that had requests open. Where the generator can't take back what a caller does that was interrupted,
    the replies are dropped, and so are those to a caller that is gone.
    """

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self._owners: WeakValueDictionary[str, Caller] = WeakValueDictionary()
        self._changed = threading.Condition()
        self._is_collecting = False
        self._open: set[str] = set()
        """Ids of the requests that the generator has."""
        self._backlog: deque[Request] = deque()

    def caller(self) -> Caller:
        """A generator for one question, or for one batch of them."""
        return Caller(self)

    def submit(self, request: Request, owner: Caller) -> None:
        """Passes a request on, or keeps it until there is a place."""
        load = getattr(self.generator, "load", None)
        if load is not None:
            load()  # it may take minutes, in which other callers are to get their replies
        with self._changed:
            if request.id in self._owners:
                raise ValueError(f"a request with the id {request.id!r} is open")
            self._owners[request.id] = owner
            self._backlog.append(request)
            try:
                self._fill()
            except BaseException:
                self._owners.pop(request.id, None)
                raise

    def wait(self, owner: Caller) -> None:
        """Waits until something has come for a caller; collects, for all, where nobody else does."""
        is_mine = False
        replies: Sequence[Reply] = ()
        try:
            with self._changed:
                while not owner.has_news and self._is_collecting:
                    self._changed.wait()
                if owner.has_news:
                    return
                is_mine = self._is_collecting = True
            replies = self.generator.collect()
        except Exception as error:
            with self._changed:
                for one in set(self._owners.values()):
                    one.failure = error
                self._owners.clear()
                self._backlog.clear()
                self._open.clear()
        finally:
            if is_mine:
                with self._changed:
                    self._is_collecting = False
                    for reply in replies:
                        self._open.discard(reply.id)
                        found = self._owners.pop(reply.id, None)
                        if found is not None:
                            found.arrived.append(reply)
                    self._changed.notify_all()  # first: a generator that was closed meanwhile takes no more
                    self._fill()

    def abort(self, request_ids: Set[str], owner: Caller) -> None:
        """Takes back what a caller has open of these."""
        with self._changed:
            mine = {request_id for request_id in request_ids if self._owners.get(request_id) is owner}
            for request_id in mine:
                del self._owners[request_id]
            owner.arrived = [reply for reply in owner.arrived if reply.id not in request_ids]
            gone = mine & self._open
            if not gone or not isinstance(self.generator, AbortingGenerator):
                return
            try:
                self._fill(len(gone))  # first, so that whoever collects for the others has something to wait for
            finally:
                self.generator.abort(gone)
                self._open -= gone

    def _fill(self, num_more: int = 0) -> None:
        while self._backlog and len(self._open) < self.generator.max_in_flight + num_more:
            request = self._backlog.popleft()
            if request.id in self._owners:
                self.generator.submit(request)
                self._open.add(request.id)


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
        self._open: set[str] = set()
        self.arrived: list[Reply] = []
        """Replies that were collected and not handed out yet."""
        self.failure: Exception | None = None
        """What the generator raised while requests of this caller were open."""

    @property
    def has_news(self) -> bool:
        """Whether there is something to be handed out."""
        return bool(self.arrived) or self.failure is not None

    def submit(self, request: Request) -> None:
        """Passes the request on; raises ValueError where another one with its id is open."""
        self._shared.submit(request, self)
        self._open.add(request.id)

    def collect(self) -> Sequence[Reply]:
        """Waits until one of this caller's requests has finished, and returns all that have."""
        if not self._open:
            raise RuntimeError("collect() was called with no request open")
        while not self.has_news:
            self._shared.wait(self)
        if self.arrived:
            found, self.arrived = self.arrived, []
            self._open -= {reply.id for reply in found}
            return found
        failure, self.failure = self.failure, None
        self._open.clear()
        assert failure is not None
        raise failure

    def abort(self, request_ids: Set[str]) -> None:
        """Takes back those of this caller's requests that have these ids."""
        self._shared.abort(request_ids, self)
        self._open -= request_ids

    def stream(self, request: Request) -> Pieces:
        """The reply as it is written; in one piece from a generator that gives it only whole."""
        if isinstance(self._shared.generator, StreamingGenerator):
            return (yield from self._shared.generator.stream(request))
        (reply,) = replies_to([request], self)
        if reply.error is None and reply.text:
            yield reply.text
        return reply

    def close(self) -> None:
        """The generator is another's to close."""
