"""An embedding model behind any OpenAI-compatible server's /v1/embeddings."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmill.engine.models import Tokenizer
from graphmill.engine.served_models import discover
from graphmill.engine.server import RequestFailed, Server, ServerError

Vectors = NDArray[np.float32]
DEFAULT_MAX_TOKENS = 512
"""Where neither the caller nor the server says; what most embedding models of the BERT kind take."""
SPECIAL_TOKENS = 2
BATCHES_PER_ROUND = 256
_ABOUT_TEXTS = frozenset({200, 400, 413, 422, 500})
"""Statuses that a text may be the cause of: 200 that came with no vectors, 500 for a vector that is not finite."""


class OpenAIEmbedder:
    """Vectors from a server. See ``Server`` for url, api_key_env, timeout_s and max_retries.

    model       as the server names it; None takes the one it serves
    tokenizer   counts what a request holds; the model's own, or one that gives no fewer tokens
    max_tokens  of a text; None takes the server's max_model_len, less start and end token
    dimension   None asks for one vector, to see
    A text that the server refuses comes back as a row of NaN. A server that can't be reached, fails on every text, or
    refuses the key, raises ServerError.
    """

    languages: frozenset[str] | None = None

    def __init__(
        self,
        url: str,
        tokenizer: Tokenizer,
        model: str | None = None,
        *,
        api_key_env: str = "GRAPHMILL_API_KEY",
        max_in_flight: int = 16,
        max_batch_texts: int = 64,
        max_batch_tokens: int = 16_384,
        timeout_s: float = 600.0,
        max_retries: int = 5,
        max_tokens: int | None = None,
        dimension: int | None = None,
        first_wait_s: float = 1.0,
    ) -> None:
        self.server = Server(
            url,
            api_key_env=api_key_env,
            max_in_flight=max_in_flight,
            timeout_s=timeout_s,
            max_retries=max_retries,
            first_wait_s=first_wait_s,
        )
        self.tokenizer = tokenizer
        self.max_batch_texts, self.max_batch_tokens = max_batch_texts, max_batch_tokens
        self._encoding_format = "base64"  # a quarter of the bytes; servers that don't know it send lists
        self._last_failure = ""
        try:
            self.model, length = discover(self.server, model)
            self.max_tokens = max_tokens or (length - SPECIAL_TOKENS if length else DEFAULT_MAX_TOKENS - SPECIAL_TOKENS)
            self.dimension = dimension or self._probe()
        except BaseException:
            self.server.close()
            raise

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.server.url!r}, model={self.model!r})"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """float32 [n, dimension], in the order of the texts; several requests are in flight at once."""
        vectors = np.full((len(texts), self.dimension), np.nan, np.float32)
        batches = self._batches(texts)
        for start in range(0, len(batches), BATCHES_PER_ROUND):
            self.server.run(self._embed_all(texts, batches[start : start + BATCHES_PER_ROUND], vectors))
        if len(texts) > 1 and np.isnan(vectors).all():
            raise ServerError(f"{self.server.url} embedded none of {len(texts)} texts; last: {self._last_failure}")
        return vectors

    def close(self) -> None:
        """Ends the connection; the tokenizer stays open."""
        self.server.close()

    def _batches(self, texts: Sequence[str]) -> list[list[int]]:
        batches: list[list[int]] = []
        size = self.max_batch_tokens + 1
        for row, count in enumerate((self.tokenizer.count(texts) + SPECIAL_TOKENS).tolist()):
            if size + count > self.max_batch_tokens or len(batches[-1]) >= self.max_batch_texts:
                batches.append([])
                size = 0
            batches[-1].append(row)
            size += count
        return batches

    async def _embed_all(self, texts: Sequence[str], batches: list[list[int]], vectors: Vectors) -> None:
        tasks = [asyncio.ensure_future(self._fill(texts, rows, vectors)) for rows in batches]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # one that has failed leaves nothing running behind it
                task.cancel()

    async def _fill(
        self, texts: Sequence[str], rows: list[int], vectors: Vectors, max_retries: int | None = None
    ) -> None:
        """Writes the rows of one batch; a batch that fails is sent again text by text, to find out which it is."""
        try:
            vectors[rows] = await self._ask([texts[row] for row in rows], max_retries)
        except RequestFailed as error:
            if error.status not in _ABOUT_TEXTS:
                raise ServerError(f"the embedding server at {self.server.url} fails: {error}") from None
            self._last_failure = str(error)
            if len(rows) > 1:
                for row in rows:
                    await self._fill(texts, [row], vectors, max_retries=0)

    async def _ask(self, texts: list[str], max_retries: int | None) -> Vectors:
        # An empty input is an error to most servers, and a space means as little.
        body = {"model": self.model, "input": [text or " " for text in texts], "encoding_format": self._encoding_format}
        url = f"{self.server.url}/embeddings"
        answer = await self.server.request("POST", url, body, max_retries=max_retries)
        rows = read_embeddings(answer, len(texts))
        if rows.shape[1] != self.dimension:
            raise ServerError(
                f"{self.model} at {self.server.url} gave {rows.shape[1]} dimensions, expected {self.dimension}"
            )
        return rows

    def _probe(self) -> int:
        """The dimension, from one vector; also finds out how vectors are to be asked for."""
        failure: RequestFailed | None = None
        for encoding_format in ("base64", "float"):
            self._encoding_format = encoding_format
            body = {"model": self.model, "input": ["dimension"], "encoding_format": encoding_format}
            try:
                answer = self.server.run(self.server.request("POST", f"{self.server.url}/embeddings", body))
                return int(read_embeddings(answer, 1).shape[1])
            except RequestFailed as error:
                failure = error
                if error.status not in (400, 422):
                    break
        raise ServerError(f"no embeddings from {self.model} at {self.server.url}: {failure}") from None


def read_embeddings(answer: Any, num_texts: int) -> Vectors:
    """float32 [num_texts, d] from an embeddings body, in the order that its indexes give; raises RequestFailed."""
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or len(items) != num_texts:
        found = f"{len(items)} vectors" if isinstance(items, list) else f"no data in {str(answer)[:200]}"
        raise RequestFailed(f"malformed embeddings: expected {num_texts} vectors, got {found}", status=200)
    rows: list[Vectors | None] = [None] * num_texts
    try:
        for position, item in enumerate(items):
            value = item["embedding"]
            rows[item.get("index", position)] = (
                np.frombuffer(base64.b64decode(value), "<f4") if isinstance(value, str) else np.array(value, np.float32)
            )
        vectors = np.stack([row for row in rows if row is not None])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise RequestFailed(f"malformed embeddings: {type(error).__name__}: {error}", status=200) from None
    if vectors.shape[0] != num_texts or vectors.ndim != 2 or not vectors.shape[1]:
        raise RequestFailed(f"malformed embeddings: expected {num_texts} vectors, got {vectors.shape}", status=200)
    return vectors.astype(np.float32)
