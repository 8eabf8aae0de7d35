"""Chat completions on the wire: a Request as the body that is sent, and what comes back as a Reply."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from graphmill.engine.events import DONE
from graphmill.engine.models import Reply, Request
from graphmill.engine.retry import shorten
from graphmill.engine.server import RequestFailed

Format: TypeAlias = Literal["json_schema", "json_object", "none"]
FORMATS: tuple[Format, ...] = ("json_schema", "json_object", "none")
"""How a server is asked to hold a reply to its schema, the best first; not every one knows the first two."""
_REFUSED = frozenset({400, 404, 422, 500, 501})
"""llama.cpp answered 500 to a format that it did not know."""
_NAMES_FORMAT = re.compile(r"response.?(format|schema)|json.?(object|schema)|structured.?output|guided|grammar", re.I)
"""DeepSeek and LM Studio name response_format, vLLM the schema or xgrammar, TGI json_schema as an unknown variant."""


def completion_body(model: str, request: Request, form: Format = "json_schema") -> dict[str, Any]:
    """The body of a chat completion request; ``form`` says how the reply is held to the request's schema."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [dict(message) for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
    }
    if request.schema is not None and form != "none":
        schema = {"name": "reply", "schema": request.schema}
        body["response_format"] = {"type": form} | ({"json_schema": schema} if form == "json_schema" else {})
    body.update(request.options)
    if "max_completion_tokens" in request.options:
        del body["max_tokens"]
    return {name: value for name, value in body.items() if value is not None}


def refuses_format(failure: RequestFailed) -> bool:
    """Whether a server may have refused a request for its ``response_format``: asking without one tells."""
    return failure.status in _REFUSED and _NAMES_FORMAT.search(failure.body) is not None


def read_completion(request_id: str, answer: Any) -> Reply:
    """A chat completion's body as a Reply; whatever is not one becomes an error that says what it is."""
    if not isinstance(answer, dict):
        return Reply(request_id, error=f"malformed reply: expected an object, got {_show(answer)}")
    reply = _with_usage(Reply(request_id), answer.get("usage"))
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        what = answer.get("error") or answer.get("message")
        if what:
            return replace(reply, error=f"an error in place of a reply: {_show(what)}")
        return replace(reply, error=f"malformed reply: no choices in {_show(answer)}")
    choice = choices[0]
    reason, message = choice.get("finish_reason"), choice.get("message")
    reply = replace(reply, finish_reason=reason if isinstance(reason, str) else None)
    if not isinstance(message, Mapping):
        return replace(reply, error=f"malformed reply: no message in {_show(choice)}")
    content = _content(message)
    if content is not None:
        return replace(reply, text=content)
    return replace(reply, error=_no_content(message, reply.finish_reason))


class StreamedCompletion:
    """Puts the events of a streamed chat completion together."""

    def __init__(self, request_id: str) -> None:
        self._reply = Reply(request_id)
        self._pieces: list[str] = []
        self._unsaid: dict[str, str] = {}
        """Of what is no content, such as thoughts or a refusal, the text by its name."""
        self._is_done = False

    def add(self, event: Any) -> str:
        """Takes the next event, and returns the text that it adds."""
        if event is DONE:
            self._is_done = True
        if not isinstance(event, dict):
            return ""
        if event.get("error"):
            self._reply = replace(self._reply, error=f"an error in place of a reply: {_show(event['error'])}")
        self._reply = _with_usage(self._reply, event.get("usage"))
        choices = event.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return ""
        reason, delta = choices[0].get("finish_reason"), choices[0].get("delta")
        if isinstance(reason, str):
            self._reply = replace(self._reply, finish_reason=reason)
        if not isinstance(delta, Mapping):
            return ""
        for name in ("refusal", "reasoning_content", "reasoning"):
            if isinstance(delta.get(name), str):
                self._unsaid[name] = self._unsaid.get(name, "") + delta[name]
        text = _content(delta) or ""
        self._pieces += [text] if text else []
        return text

    def reply(self) -> Reply:
        """The whole reply, after the last event."""
        if self._reply.error is not None:
            return self._reply
        if not self._is_done and self._reply.finish_reason is None:
            return replace(self._reply, error=f"the reply broke off after {sum(map(len, self._pieces))} characters")
        if self._pieces:
            return replace(self._reply, text="".join(self._pieces))
        return replace(self._reply, error=_no_content(self._unsaid, self._reply.finish_reason))


def _content(message: Mapping[str, Any]) -> str | None:
    """The text of a message or of a piece of one; None where it has none."""
    content = message.get("content")
    if isinstance(content, list):  # a list of parts
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else None


def _with_usage(reply: Reply, usage: Any) -> Reply:
    if not isinstance(usage, dict):
        return reply
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    prompt, completion = (int(n) if isinstance(n, int | float) and n > 0 else 0 for n in counts)
    return replace(reply, prompt_tokens=prompt, completion_tokens=completion)


def _no_content(message: Mapping[str, Any], finish_reason: str | None) -> str:
    if message.get("refusal"):
        return f"the model refused: {_show(message['refusal'])}"
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thoughts, str):
        why = "cut off while thinking" if finish_reason == "length" else "nothing but thinking"
        return f"no content in the reply, {why} ({len(thoughts)} characters): raise max_tokens or switch thinking off"
    return f"no content in the reply: {_show(message)}"


def _show(value: Any) -> str:
    return shorten(value if isinstance(value, str) else repr(value))
