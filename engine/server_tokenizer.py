"""The tokenizer of the model that a server runs, through vLLM's /tokenize."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.server import RequestFailed, Server, ServerError
from graphmill.engine.token_strings import spans_from_strings, spread
from graphmill.engine.tokenizers import slices

Ints = NDArray[np.int64]
SLICE_CHARS = 20_000
"""Longest text in one request."""
MAX_CACHED = 1_000_000
TASKS_AT_ONCE = 1024


class ServerTokenizer:
    """Counts and places tokens by asking the server, many texts at a time; counts are remembered.

    Special-token text in a document is one token here, as it is to the server.

    server  a URL, or the Server of the model; its connection is not shared, so that no text waits for a completion
    model   None leaves it to the server, which fits where it serves one
    """

    def __init__(self, server: Server | str, model: str | None = None) -> None:
        asked = server if isinstance(server, Server) else Server(server)
        self._server = asked.connect_again(max_in_flight=32, timeout_s=120.0)
        self._model = model
        self._counts: dict[bytes, int] = {}
        self.name = f"server:{model or self._server.url}"

    def is_there(self) -> bool:
        """Whether the server tokenizes; raises ServerError when it can't be reached or is in trouble."""
        try:
            return _count(self._server.run(self._send(".", strings=False, max_retries=1))) is not None
        except RequestFailed as error:
            if error.status is not None and error.status not in (401, 403, 429) and error.status < 500:
                return False
            raise ServerError(f"no tokenizer at {self._server.url}: {error}") from None

    def count(self, texts: Sequence[str]) -> Ints:
        """Number of tokens of each text, int64 [n]."""
        pieces = [(row, piece, _key(piece)) for row, text in enumerate(texts) for _, piece in slices(text, SLICE_CHARS)]
        known = {key: self._counts[key] for _, _, key in pieces if key in self._counts}
        unknown = {key: piece for _, piece, key in pieces if key not in known}
        answers = self._ask(list(unknown.values()), strings=False)
        for key, answer in zip(unknown, answers, strict=True):
            known[key] = self._remember(key, answer)
        counts = np.zeros(len(texts), np.int64)
        for row, _, key in pieces:
            counts[row] += known[key]
        return counts

    def spans(self, texts: Sequence[str]) -> list[Ints]:
        """Character spans [start, end) of each text's tokens, int64 [num_tokens, 2].

        A server that tells counts only has the tokens of each slice spread evenly over it.
        """
        found: list[list[Ints]] = [[np.empty((0, 2), np.int64)] for _ in texts]
        pieces = [(row, *piece) for row, text in enumerate(texts) for piece in slices(text, SLICE_CHARS)]
        for (row, start, piece), answer in zip(
            pieces, self._ask([piece for _, _, piece in pieces], strings=True), strict=True
        ):
            num_tokens = self._remember(_key(piece), answer)
            strings = answer.get("token_strs")
            if isinstance(strings, list) and len(strings) == num_tokens:
                spans = spans_from_strings(piece, [str(string) for string in strings])
            else:
                spans = spread(0, len(piece), num_tokens)
            found[row].append(spans + start)
        return [np.concatenate(parts) for parts in found]

    def close(self) -> None:
        """Ends its connection."""
        self._server.close()

    def _remember(self, key: bytes, answer: dict[str, Any]) -> int:
        if len(self._counts) >= MAX_CACHED:
            self._counts.clear()
        self._counts[key] = answer["count"]
        return self._counts[key]

    def _ask(self, texts: Sequence[str], strings: bool) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []
        for start in range(0, len(texts), TASKS_AT_ONCE):
            batch = texts[start : start + TASKS_AT_ONCE]
            answers += self._server.run(self._ask_all(batch, strings))
        return answers

    async def _ask_all(self, texts: Sequence[str], strings: bool) -> list[dict[str, Any]]:
        return await asyncio.gather(*(self._ask_one(text, strings) for text in texts))

    async def _ask_one(self, text: str, strings: bool) -> dict[str, Any]:
        try:
            answer = await self._send(text, strings)
        except RequestFailed as error:
            raise ServerError(f"the server at {self._server.url} does not tokenize: {error}") from None
        count = _count(answer)
        if count is None:
            raise ServerError(f"{self._server.root}/tokenize answered with no count of tokens: {str(answer)[:200]}")
        return {"count": count, "token_strs": answer.get("token_strs")}

    async def _send(self, text: str, strings: bool, max_retries: int | None = None) -> Any:
        body: dict[str, Any] = {"prompt": text, "add_special_tokens": False, "return_token_strs": strings}
        if self._model is not None:
            body["model"] = self._model
        return await self._server.request("POST", f"{self._server.root}/tokenize", body, max_retries=max_retries)


def _count(answer: Any) -> int | None:
    """Number of tokens in an answer, from its count or else its tokens."""
    if not isinstance(answer, dict):
        return None
    count, tokens = answer.get("count"), answer.get("tokens")
    if isinstance(count, int):
        return count
    return len(tokens) if isinstance(tokens, list) else None


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
