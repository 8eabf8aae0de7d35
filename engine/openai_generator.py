"""A language model behind any OpenAI-compatible server, such as ``vllm serve``, with many requests in flight."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from types import TracebackType
from typing import Any

from graphmill.engine.completions import (
    FORMATS,
    StreamedCompletion,
    completion_body,
    read_completion,
    refuses_format,
)
from graphmill.engine.models import Pieces, Reply, Request, Tokenizer
from graphmill.engine.retry import shorten
from graphmill.engine.served_models import discover
from graphmill.engine.server import RequestFailed, Server, ServerError

DEFAULT_CONTEXT_TOKENS = 32_768
"""Where neither the caller nor the server says."""
MAX_UNREACHABLE = 8
"""Requests in a row, each with its retries, that find nothing to connect to: then the server is gone."""


class GeneratorGone(ServerError):  # noqa: N818  (named for what has happened to the engine)
    """The model server went away during the run; what was done is kept, and the same command goes on from there."""


class OpenAIGenerator:
    """Chat completions from a server. See ``Server`` for url, api_key_env, timeout_s and max_retries.

    model           as the server names it; None takes the one it serves
    context_tokens  None takes the server's max_model_len, which vLLM tells
    The server is asked when either is None: then one that does not answer raises ServerError here, before any work.
    warn            is told, once, that the server can't hold replies to a schema
    A request's schema goes out as ``response_format``; an option of that name takes its place, and an option that is
    None takes a field out (``{"temperature": None}`` for a model that allows none). A server that refuses a schema is
    asked for a JSON object in its place, or else for a reply in any form, and from then on at once. That it takes a
    schema doesn't mean that it holds replies to it, so that ``enforces_schema`` is not claimed.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        api_key_env: str = "GRAPHMILL_API_KEY",
        max_in_flight: int = 256,
        timeout_s: float = 600.0,
        max_retries: int = 5,
        context_tokens: int | None = None,
        tokenizer: Tokenizer | None = None,
        first_wait_s: float = 1.0,
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, got {max_in_flight}")
        self.server = Server(
            url,
            api_key_env=api_key_env,
            max_in_flight=max_in_flight,
            timeout_s=timeout_s,
            max_retries=max_retries,
            first_wait_s=first_wait_s,
        )
        self.max_in_flight = max_in_flight
        self.tokenizer = tokenizer
        self._warn = warn
        self._forms: dict[str, int] = {}
        """Of each schema that was refused, as JSON, the place in FORMATS of what is asked for in its place."""
        self._replies: queue.SimpleQueue[tuple[int, Reply] | None] = queue.SimpleQueue()
        self._numbers = count(1)
        self._open: dict[int, str] = {}
        """Of each open request by a number of its own: the caller's id."""
        self._futures: dict[int, Future[None]] = {}
        self._unsettled: set[int] = set()
        self._held: list[tuple[int, Reply]] = []
        self._settling = threading.RLock()  # a collection of garbage may close a reader, and abort, at any place
        self._num_unreachable = 0
        self._gone: str | None = None
        self._is_closed = False
        try:
            self.model, self.context_tokens = model or "", context_tokens or 0
            if model is None or context_tokens is None:
                found = discover(self.server, model)
                self.model = model or found[0]
                self.context_tokens = context_tokens or found[1] or DEFAULT_CONTEXT_TOKENS
        except BaseException:
            self.server.close()
            raise

    def __repr__(self) -> str:
        return f"OpenAIGenerator({self.server.url!r}, model={self.model!r})"

    def check(self, wait_s: float = 0.0) -> None:
        """Raises ServerError unless the server answers, waiting up to ``wait_s`` for it to come up."""
        discover(self.server, self.model, wait_s)

    def submit(self, request: Request) -> None:
        """Sends the request in the background, as soon as fewer than ``max_in_flight`` are out."""
        number = next(self._numbers)
        with self._settling:
            self._open[number] = request.id
            self._unsettled.add(number)
        if self._gone is None:  # else the next collect() tells, after the replies that did come
            self._futures[number] = future = self.server.start(self._answer(number, request))
            future.add_done_callback(lambda _: self._futures.pop(number, None))

    def collect(self) -> Sequence[Reply]:
        """Replies that have come in, after waiting for the first; raises GeneratorGone when the server is gone."""
        if self._gone is not None and self._replies.empty():
            raise GeneratorGone(self._gone)
        if not self._open:
            raise RuntimeError("collect() was called with no request open")
        if self._is_closed and self._replies.empty():
            raise RuntimeError(self._was_closed())
        replies: list[Reply] = []
        while not replies or not self._replies.empty():
            found = self._replies.get()
            if found is None:  # woken by close(), or by the server's end
                if replies:
                    self._replies.put(None)
                    break
                if self._gone is not None:
                    raise GeneratorGone(self._gone)
                raise RuntimeError(self._was_closed())
            number, reply = found
            if self._open.pop(number, None) is not None:  # else it was taken back
                replies.append(reply)
        return replies

    def _was_closed(self) -> str:
        return f"the client of {self.server.url} was closed while requests were open"

    def abort(self, request_ids: Set[str]) -> None:
        """Hangs up on requests, which ends the work on them, and forgets replies to them that have come."""
        with self._settling:
            numbers = {number for number, request_id in list(self._open.items()) if request_id in request_ids}
            for number in numbers:
                self._open.pop(number, None)
            self._unsettled -= numbers
            self._held = [(number, reply) for number, reply in self._held if number not in numbers]
            if not self._unsettled:
                self._hand_out()
        for number in numbers:
            if (future := self._futures.get(number)) is not None:
                future.cancel()

    def stream(self, request: Request) -> Pieces:
        """The reply as it is written; closing it hangs up, which ends the work on it."""
        written: queue.SimpleQueue[str | Reply] = queue.SimpleQueue()
        future = self.server.start(self._write(request, written))
        try:
            while isinstance(item := written.get(), str):
                yield item
            return item
        finally:
            future.cancel()

    async def _write(self, request: Request, written: queue.SimpleQueue[str | Reply]) -> None:
        """Puts the pieces of a reply into a queue, and at last the Reply, whatever happens."""
        completion, reply = StreamedCompletion(request.id), Reply(request.id, error="the request was taken back")

        def deliver(event: Any) -> None:
            if text := completion.add(event):
                written.put(text)

        try:
            whole = await self._ask(request, deliver)
            reply = completion.reply() if whole is None else read_completion(request.id, whole)
            if whole is not None and reply.error is None:  # from a server that knows no streams
                written.put(reply.text)
        except Exception as error:
            said = f"{error}" if isinstance(error, RequestFailed) else shorten(f"{type(error).__name__}: {error}")
            reply = Reply(request.id, error=said)
        finally:
            written.put(reply if reply.error is None else replace(reply, error=self.server.redact(reply.error)))

    def close(self) -> None:
        """Cancels what is in flight, promptly, and wakes a ``collect`` that waits."""
        if not self._is_closed:
            self._is_closed = True
            self.server.close()
            self._replies.put(None)

    def __enter__(self) -> OpenAIGenerator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _answer(self, number: int, request: Request) -> None:
        """Settles one request, whatever happens, unless it is cancelled."""
        unreachable = False
        try:
            reply = read_completion(request.id, await self._ask(request))
        except RequestFailed as error:
            reply, unreachable = Reply(request.id, error=str(error)), error.unreachable
        except Exception as error:
            reply = Reply(request.id, error=shorten(f"{type(error).__name__}: {error}"))
        if reply.error is not None:
            reply = replace(reply, error=self.server.redact(reply.error))
        with self._settling:
            self._settle(number, reply, unreachable)

    async def _ask(self, request: Request, deliver: Callable[[Any], None] | None = None) -> Any:
        """The server's answer to a request, with the next of FORMATS where it refuses one; ``deliver`` has it streamed.

        A format that may have been refused is not tried again: the next one tells. What is refused without a format too
        was not refused for it: nothing is learnt of that.
        """
        is_free = request.schema is None or "response_format" in request.options
        schema = "" if is_free else json.dumps(request.schema, sort_keys=True)
        url, last = f"{self.server.url}/chat/completions", len(FORMATS) - 1
        refusal: RequestFailed | None = None
        # The slot is kept for all formats, so that those that wait for one come to know what was refused before them.
        async with self.server.slots:
            place = last if is_free else self._forms.get(schema, 0)
            while True:
                body = completion_body(self.model, request, FORMATS[place])
                if deliver is not None:
                    body |= {"stream": True, "stream_options": {"include_usage": True}}
                refuses = refuses_format if place < last else _never
                try:
                    answer = await self.server.request(
                        "POST", url, body, deliver=deliver, is_final=refuses, has_slot=True
                    )
                except RequestFailed as error:
                    if not refuses(error):
                        raise
                    refusal = refusal or error
                    place = max(place + 1, self._forms.get(schema, 0))
                else:
                    if refusal is not None:
                        self._learn(schema, place, refusal)
                    return answer

    def _learn(self, schema: str, place: int, refusal: RequestFailed) -> None:
        """Keeps what a schema's requests are to ask for from now on, and tells, the first time that one is refused."""
        is_first = not self._forms
        self._forms[schema] = max(place, self._forms.get(schema, 0))
        if is_first:
            instead = "a JSON object" if FORMATS[place] == "json_object" else "a reply in any form"
            self._warn(
                f"{self.server.url} can't hold the replies of {self.model} to a schema ({refusal}); it is asked for "
                f"{instead} in its place, so that more of them may be unreadable"
            )

    def _settle(self, number: int, reply: Reply, unreachable: bool) -> None:
        """Hands a reply out, or holds it back while it may mean that the server is gone: no fault of the request's."""
        if number not in self._unsettled:  # it was taken back
            return
        self._unsettled.remove(number)
        self._held.append((number, reply))
        self._num_unreachable = self._num_unreachable + 1 if unreachable else 0
        if self._num_unreachable >= MAX_UNREACHABLE:
            self._gone = self._gone or (
                f"the model server at {self.server.url} is gone: the last {self._num_unreachable} requests, with "
                f"{self.server.max_retries} retries each, found nothing to connect to; last: {reply.error}"
            )
            self._replies.put(None)
        elif not unreachable or not self._unsettled:
            self._hand_out()

    def _hand_out(self) -> None:
        for held in self._held:
            self._replies.put(held)
        self._held.clear()


def _never(failure: RequestFailed) -> bool:
    return False
