"""Puts texts in the order in which they answer a question: by a function, or by a cross-encoder, a server's or ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphmill.engine.dialogue import Rank
from graphmill.engine.served_models import discover
from graphmill.engine.server import RequestFailed, Server, ServerError

if TYPE_CHECKING:
    from graphmill.engine.vllm_reranker import VLLMReranker

Scores = NDArray[np.float32]
MIN_CHARS = 256
"""Of a text, of which no less is put to a reranker."""
_VLLM = "vllm:"
PATHS = ("/rerank", "/score")
"""Where servers take questions with texts: Jina's, Cohere's and vLLM's form, and vLLM's older one."""


@runtime_checkable
class Reranker(Protocol):
    """Scores texts for a question.

    One that has a method ``rank_each`` as well, which takes many questions with their texts and gives the scores of
    each, or the exception that says why there are none, is put the questions of a batch together.
    """

    def rank(self, question: str, texts: Sequence[str]) -> Scores:
        """Scores float32 [n], in the order of the texts; the higher, the better. NaN: could not be scored."""


class FunctionReranker:
    """Scores by ``score(question, texts)``, which gives one number a text."""

    def __init__(self, score: Callable[[str, list[str]], ArrayLike], model: str = "function") -> None:
        self.model, self._score = model, score

    def rank(self, question: str, texts: Sequence[str]) -> Scores:
        """Scores float32 [n]; raises ValueError when the function gives another number of them, or fails."""
        try:
            scores = np.asarray(self._score(question, list(texts)), np.float32)
        except Exception as error:  # whatever a caller's function raises, the question is still answered
            raise ValueError(f"reranker {self.model}: {type(error).__name__}: {error}") from error
        if scores.shape != (len(texts),):
            raise ValueError(f"reranker {self.model} must give {len(texts)} scores, got shape {scores.shape}")
        return scores


class ServerReranker:
    """Scores from a server's /rerank, as Jina, Cohere and vLLM have it, or, where it has none, from vLLM's /score.

    url    of a server, or of the path itself; see ``Server`` for the other arguments
    model  as the server names it; None takes the one it serves
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        api_key_env: str = "GRAPHMILL_API_KEY",
        timeout_s: float = 60.0,
        max_retries: int = 3,
        max_batch_texts: int = 64,
        max_in_flight: int = 8,
        first_wait_s: float = 1.0,
    ) -> None:
        root, given = url.rstrip("/"), None
        for path in PATHS:
            if root.endswith(path):
                root, given = root.removesuffix(path), path
        # Few at a time: a request's time runs from its start, and a cross-encoder on a CPU takes a second for each.
        self.server = Server(
            root, api_key_env=api_key_env, max_in_flight=max_in_flight, timeout_s=timeout_s, max_retries=max_retries,
            first_wait_s=first_wait_s,
        )  # fmt: skip
        # An address that names the path is taken at its word; else the paths are looked for beside /v1's others.
        self._base = self.server.root if given and not urlsplit(root).path else self.server.url
        self._path, self.max_batch_texts = given, max_batch_texts
        self._max_chars = 1 << 20
        try:
            self.model = model or discover(self.server, None)[0]
        except BaseException:
            self.server.close()
            raise

    def rank(self, question: str, texts: Sequence[str]) -> Scores:
        """Scores float32 [n]. Raises ServerError when the server gives none."""
        (scores,) = self.rank_each([(question, texts)])
        if isinstance(scores, Exception):
            raise scores
        return scores

    def rank_each(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[Scores | Exception]:
        """Scores of each question's texts, or why there are none; ``max_in_flight`` requests run beside each other."""
        return self.server.run(self._rank_each(asked))

    async def _rank_each(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[Scores | Exception]:
        # The first finds out what the server has.
        first = [await self._rank_one(*one) for one in asked[:1]]
        return first + list(await asyncio.gather(*(self._rank_one(*one) for one in asked[1:])))

    async def _rank_one(self, question: str, texts: Sequence[str]) -> Scores | Exception:
        size = self.max_batch_texts
        batches = [list(texts[start : start + size]) for start in range(0, len(texts), size)]
        try:
            return np.concatenate([*await self._rank_all(question, batches), np.empty(0, np.float32)])
        except RequestFailed as error:
            return ServerError(f"the reranker at {self.server.url} fails: {error}")

    def close(self) -> None:
        """Ends the connection."""
        self.server.close()

    async def _rank_all(self, question: str, batches: list[list[str]]) -> list[Scores]:
        if self._path is None and batches:  # the first batch finds out what the server has
            first = await self._find_path(question, batches[0])
            return [first, *await asyncio.gather(*(self._ask(question, batch) for batch in batches[1:]))]
        return list(await asyncio.gather(*(self._ask(question, batch) for batch in batches)))

    async def _find_path(self, question: str, texts: list[str]) -> Scores:
        for path in PATHS:
            self._path = path
            try:
                return await self._ask(question, texts)
            except RequestFailed as error:
                if error.status not in (404, 405) or path == PATHS[-1]:
                    self._path = None
                    raise
        raise AssertionError("unreachable: the last path returns or raises")

    async def _ask(self, question: str, texts: list[str]) -> Scores:
        """Scores of one batch. A server that refuses texts as too long gets their beginnings, halved until it takes
        them: a cross-encoder reads some 512 tokens, which hold what a passage is about."""
        while True:
            max_chars = self._max_chars
            try:
                return await self._ask_about(question, [text[:max_chars] for text in texts])
            except RequestFailed as error:
                longest = min(max(map(len, texts), default=0), max_chars)
                if error.status != 400 or longest <= MIN_CHARS:
                    raise
                if max_chars == self._max_chars:  # else another question's texts were refused meanwhile
                    self._max_chars = max(longest // 2, MIN_CHARS)

    async def _ask_about(self, question: str, texts: list[str]) -> Scores:
        if self._path == "/score":
            body: dict[str, Any] = {"model": self.model, "text_1": question, "text_2": texts}
        else:
            body = {"model": self.model, "query": question, "documents": texts, "top_n": len(texts)}
        return read_scores(await self.server.request("POST", f"{self._base}{self._path}", body), len(texts))


def read_scores(answer: Any, num_texts: int) -> Scores:
    """float32 [num_texts] from a rerank or a score body, in the order of the texts; raises RequestFailed.

    A text that the server left out is NaN: some give only the best.
    """
    items = answer.get("results", answer.get("data")) if isinstance(answer, dict) else answer
    scores = np.full(num_texts, np.nan, np.float32)
    if not isinstance(items, list):
        raise RequestFailed(f"malformed ranking: no results in {str(answer)[:200]}", status=200)
    try:
        for position, item in enumerate(items):
            row = int(item.get("index", position))
            if not 0 <= row < num_texts:
                raise IndexError(f"index {row} of {num_texts} texts")
            scores[row] = next(float(item[key]) for key in ("relevance_score", "score") if key in item)
    except (StopIteration, IndexError, TypeError, ValueError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}".rstrip(": ")
        raise RequestFailed(f"malformed ranking: {why} in {str(items)[:200]}", status=200) from None
    if num_texts and np.isnan(scores).all():
        raise RequestFailed("malformed ranking: no text has a score", status=200)
    return scores


def rank_steps(steps: Sequence[Rank]) -> None:
    """Does the rankings that dialogues have come to, those of one reranker together where it takes many."""
    by_reranker: dict[int, list[Rank]] = {}
    for step in steps:
        by_reranker.setdefault(id(step.reranker), []).append(step)
    for same in by_reranker.values():
        for step, found in zip(same, _rank_each(same), strict=True):
            try:
                step.scores = _checked(found, len(step.texts))
            except Exception as error:  # whatever a reranker of the caller's gives, the question is still answered
                step.error = str(error) or type(error).__name__


def _rank_each(steps: Sequence[Rank]) -> Sequence[Any]:
    """What the reranker gives for each step, or the exception that says why there is nothing."""
    together = getattr(steps[0].reranker, "rank_each", None)
    if together is not None and len(steps) > 1:
        with suppress(Exception):  # one by one, so that what a single question ends is only that one's ranking
            found = list(together([(step.question, step.texts) for step in steps]))
            if len(found) == len(steps):
                return found
    found = []
    for step in steps:
        try:
            found.append(step.reranker.rank(step.question, step.texts))
        except Exception as error:
            found.append(error)
    return found


def _checked(found: Any, num_texts: int) -> Scores:
    """Scores as they are to be; raises what was found where it is an exception, and ValueError for other shapes."""
    if isinstance(found, Exception):
        raise found
    scores = np.asarray(found, np.float32)
    if scores.shape != (num_texts,):
        raise ValueError(f"a reranker must give {num_texts} scores, got shape {scores.shape}")
    if num_texts and np.isnan(scores).all():
        raise ValueError("the reranker scored none of the texts")
    return scores


def as_reranker(given: Reranker | Callable[[str, list[str]], ArrayLike] | None) -> Reranker | None:
    """A reranker as it is, and a function as one."""
    if given is None or isinstance(given, Reranker):
        return given
    if not callable(given):
        raise TypeError(f"reranker must be a Reranker or a function of a question and texts, got {given!r}")
    return FunctionReranker(given)


def open_reranker(
    spec: str,
    *,
    api_key_env: str = "GRAPHMILL_API_KEY",
    vllm_args: Mapping[str, Any] | None = None,
    vllm_python: str | None = None,
    template: str | None = None,
    warn: Callable[[str], None] = lambda message: None,
) -> ServerReranker | VLLMReranker | None:
    """The reranker of "none", "http://HOST:PORT[/v1][/rerank][#MODEL]" or "vllm:FOLDER_OR_NAME".

    Raises ValueError for anything else. What is named vllm is loaded when it is first asked; template is a file, see
    VLLMReranker.
    """
    spec = spec.strip()
    if spec.lower() in ("", "none"):
        return None
    if spec.lower().startswith(("http://", "https://")):
        url, _, model = spec.partition("#")
        return ServerReranker(url, model or None, api_key_env=api_key_env)
    if spec.lower().startswith(_VLLM) and (model := spec[len(_VLLM) :].strip()):
        from graphmill.engine.vllm_reranker import VLLMReranker

        try:
            read = None if template is None else Path(template).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"can't read its template {template}: {error}") from error
        return VLLMReranker(model, vllm_args, template=read, python=vllm_python, warn=warn)
    hint = f"; did you mean vllm:{spec}?" if Path(spec).is_dir() else ""
    raise ValueError(
        f"can't open the reranker {spec!r}: expected none, the address of a server that scores texts, "
        f"http://HOST:PORT/v1[#MODEL], or vllm:FOLDER_OR_NAME of a cross-encoder{hint}"
    )
