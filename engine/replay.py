"""A generator that answers from a recording, with no model.

A recording is a JSONL file of one object a line:

    text               what the model said
    key                request_key of the request, as ``export_replies`` writes it; or
    messages           [{"role", "content"}, …]: answers any request with these messages, whatever its sampling
    model              the model that said it; optional, needed for keys to be found again
    finish_reason, prompt_tokens, completion_tokens, error
                       as in a Reply; optional
    enforces_schema    true where the model held its replies to a schema; the profile "auto" is then json, as it was

or the folder of a ReplyStore. A last line that was cut off is left out. Prompts depend on how texts were cut into
chunks, so a run that is replayed needs the settings, and the tokenizer, of the one that was recorded.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphmill.engine.models import Message, Reply, Request, Tokenizer
from graphmill.engine.replies import ReplyStore
from graphmill.engine.reply_key import request_key

DEFAULT_CONTEXT_TOKENS = 32_768
NOT_RECORDED = "not in the recording"


class ReplayGenerator:
    """Answers from a recording; a request that is not in it comes back with an error.

    ``model`` is the recorded one, where there is just one, so that keys are the same as when it was recorded.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        context_tokens: int | None = None,
        tokenizer: Tokenizer | None = None,
        max_in_flight: int = 256,
    ) -> None:
        self.path = Path(path)
        self.context_tokens = context_tokens or DEFAULT_CONTEXT_TOKENS
        self.tokenizer, self.max_in_flight = tokenizer, max_in_flight
        self.enforces_schema = False
        self._store: ReplyStore | None = None
        self._by_key: dict[str, dict[str, Any]] = {}
        self._by_messages: dict[str, dict[str, Any]] = {}
        if self.path.is_dir():
            if not (self.path / "replies.sqlite").is_file():
                raise ValueError(f"no recorded replies in the folder {self.path}")
            self._store = ReplyStore(self.path)
            self.enforces_schema = self._store.enforces_schema
            models = self._store.models()
        else:
            models = self._read()
        self._models = sorted(models) or ["replay"]
        self.model = self._models[0] if len(self._models) == 1 else "replay"
        self._open: deque[Request] = deque()

    def submit(self, request: Request) -> None:
        """Takes the request in."""
        self._open.append(request)

    def collect(self) -> Sequence[Reply]:
        """Replies to the oldest ``max_in_flight`` open requests."""
        if not self._open:
            raise RuntimeError("collect() was called with no request open")
        return [self._reply(self._open.popleft()) for _ in range(min(len(self._open), self.max_in_flight))]

    def close(self) -> None:
        """Drops what is open."""
        self._open.clear()
        if self._store is not None:
            self._store.close()

    def _reply(self, request: Request) -> Reply:
        keys = [request_key(model, request) for model in self._models]
        if self._store is not None:
            stored = next(filter(None, map(self._store.get, keys)), None)
            return stored.reply(request.id) if stored else Reply(request.id, error=f"{NOT_RECORDED} {self.path}")
        row = next(filter(None, map(self._by_key.get, keys)), None) or self._by_messages.get(
            _messages(request.messages)
        )
        if row is None:
            return Reply(request.id, error=f"{NOT_RECORDED} {self.path}")
        counts = (int(row.get("prompt_tokens", 0)), int(row.get("completion_tokens", 0)))
        return Reply(request.id, row.get("text", ""), row.get("finish_reason"), *counts, row.get("error"))

    def _read(self) -> set[str]:
        """Reads the file; returns the models that it names."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except OSError as error:
            raise ValueError(f"can't read the recording {self.path}: {error.strerror}") from error
        models: set[str] = set()
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                keyed = isinstance(row.get("key"), str)
                if not (keyed or isinstance(row.get("messages"), list)) or not isinstance(row.get("text", ""), str):
                    raise ValueError("expected an object with a text, and a key or messages")
                if keyed:
                    self._by_key.setdefault(row["key"], row)
                if row.get("messages"):
                    self._by_messages.setdefault(_messages(row["messages"]), row)
            except (ValueError, AttributeError, TypeError) as error:
                if number == len(lines):  # no line end: whoever wrote it was stopped
                    break
                raise ValueError(f"{self.path}, line {number}: {error}") from None
            self.enforces_schema |= row.get("enforces_schema") is True
            if isinstance(row.get("model"), str):
                models.add(row["model"])
        return models


def _messages(messages: Sequence[Message]) -> str:
    return json.dumps([[message.get("role"), message.get("content")] for message in messages])
