"""A language model behind any OpenAI-compatible server, such as ``vllm serve``, with many requests in flight."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from graphmill.engine.models import Reply, Request, Tokenizer
from graphmill.engine.retry import shorten
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
    A request's schema goes out as ``response_format``; an option of that name takes its place, and an option that is
    None takes a field out (``{"temperature": None}`` for a model that allows none).
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
        self._replies: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        self._num_open = 0
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
        """Raises ServerError unless the server answers and has the model, waiting up to ``wait_s`` for it to come up."""
        discover(self.server, self.model, wait_s)

    def submit(self, request: Request) -> None:
        """Sends the request in the background, as soon as fewer than ``max_in_flight`` are out."""
        if self._gone is not None:
            raise GeneratorGone(self._gone)
        self.server.start(self._answer(request))
        self._num_open += 1

    def collect(self) -> Sequence[Reply]:
        """Replies that have come in, after waiting for the first; raises GeneratorGone when the server is gone."""
        if self._gone is not None and self._replies.empty():
            raise GeneratorGone(self._gone)
        if not self._num_open:
            raise RuntimeError("collect() was called with no request open")
        replies: list[Reply] = []
        while not replies or not self._replies.empty():
            reply = self._replies.get()
            if reply is None:  # woken by close(), or by the server's end
                if replies:
                    self._replies.put(None)
                    break
                if self._gone is not None:
                    raise GeneratorGone(self._gone)
                raise RuntimeError(f"the client of {self.server.url} was closed while requests were open")
            replies.append(reply)
        self._num_open -= len(replies)
        return replies

    def close(self) -> None:
        """Cancels what is in flight, promptly, and wakes a ``collect`` that waits."""
        if not self._is_closed:
            self._is_closed = True
            self.server.close()
            self._replies.put(None)

    def __enter__(self) -> OpenAIGenerator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def _answer(self, request: Request) -> None:
        """Puts one reply in the queue, whatever happens."""
        try:
            body = completion_body(self.model, request)
            answer = await self.server.request("POST", f"{self.server.url}/chat/completions", body)
            reply = read_completion(request.id, answer)
            self._num_unreachable = 0
        except RequestFailed as error:
            reply = Reply(request.id, error=str(error))
            self._num_unreachable = self._num_unreachable + 1 if error.unreachable else 0
        except asyncio.CancelledError:
            raise
        except Exception as error:
            reply = Reply(request.id, error=shorten(f"{type(error).__name__}: {error}"))
        self._replies.put(reply)
        if self._num_unreachable >= MAX_UNREACHABLE and self._gone is None:
            self._gone = (
                f"the model server at {self.server.url} is gone: the last {self._num_unreachable} requests, each tried "
                f"{self.server.max_retries + 1} times, found nothing to connect to; last: {reply.error}"
            )
            self._replies.put(None)


def completion_body(model: str, request: Request) -> dict[str, Any]:
    """The body of a chat completion request."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [dict(message) for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
    }
    if request.schema is not None:
        schema = {"name": "reply", "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    body.update(request.options)
    if "max_completion_tokens" in request.options:
        del body["max_tokens"]
    return {name: value for name, value in body.items() if value is not None}


def read_completion(request_id: str, answer: Any) -> Reply:
    """A chat completion's body as a Reply; whatever is not one becomes an error that says what it is."""
    if not isinstance(answer, dict):
        return Reply(request_id, error=f"malformed reply: expected an object, got {_show(answer)}")
    usage = answer.get("usage")
    tokens = [_count(usage.get(key) if isinstance(usage, dict) else 0) for key in ("prompt_tokens", "completion_tokens")]
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        what = answer.get("error") or answer.get("message")
        said = f"error in place of a reply: {_show(what)}" if what else f"malformed reply: no choices in {_show(answer)}"
        return Reply(request_id, "", None, *tokens, error=said)
    choice = choices[0]
    reason = choice.get("finish_reason")
    finish_reason = reason if isinstance(reason, str) else None
    message = choice.get("message")
    if not isinstance(message, Mapping):
        return Reply(request_id, "", finish_reason, *tokens, error=f"malformed reply: no message in {_show(choice)}")
    content = message.get("content")
    if isinstance(content, list):  # a list of parts
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if isinstance(content, str):
        return Reply(request_id, content, finish_reason, *tokens)
    return Reply(request_id, "", finish_reason, *tokens, error=_no_content(message, finish_reason))


def discover(server: Server, model: str | None, wait_s: float = 0.0) -> tuple[str, int | None]:
    """The model to use (the given one, else the only one served) and its context length where the server tells.

    Raises ServerError when nothing answers within ``wait_s``, the key is refused, or it is not clear which model is meant.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            answer = server.run(server.request("GET", f"{server.url}/models", max_retries=0))
            break
        except RequestFailed as error:
            if time.monotonic() < deadline and (error.unreachable or error.status in (None, 429, 502, 503)):
                time.sleep(1.0)
                continue
            if error.status in (404, 405, 501) and model is not None:  # no list of models is kept here
                return model, None
            raise ServerError(_no_server(server, error)) from None
    listed = answer.get("data") if isinstance(answer, dict) else answer
    cards = [card for card in listed if isinstance(card, dict) and card.get("id")] if isinstance(listed, list) else []
    if model is None:
        own = [card for card in cards if not card.get("parent")] or cards  # vLLM lists adapters with their parent
        if len(own) != 1:
            names = ", ".join(str(card["id"]) for card in own[:10]) + (", …" if len(own) > 10 else "")
            what = f"it serves {len(own)}: {names}" if own else "it lists none"
            raise ServerError(f"name the model to use at {server.url}, as URL#MODEL: {what}")
        model = str(own[0]["id"])
    for card in cards:
        if card["id"] == model:
            return model, _count(card.get("max_model_len")) or None
    return model, None


def _no_server(server: Server, error: RequestFailed) -> str:
    if error.status in (401, 403):
        return f"the model server at {server.url} refused the key in {server.api_key_env}: {error}"
    hint = "; is it running? `vllm serve MODEL` starts one" if error.status is None else ""
    return f"no model server at {server.url}: {error}{hint}"


def _no_content(message: Mapping[str, Any], finish_reason: str | None) -> str:
    if message.get("refusal"):
        return f"the model refused: {_show(message['refusal'])}"
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thoughts, str):
        why = "cut off while thinking" if finish_reason == "length" else "nothing but thinking"
        return f"no content in the reply, {why} ({len(thoughts)} characters): raise max_tokens or switch thinking off"
    return f"no content in the reply: {_show(message)}"


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def _show(value: Any) -> str:
    return shorten(value if isinstance(value, str) else repr(value))
