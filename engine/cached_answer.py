"""Looks for an answer that was given before: to the same question, or to one of which the model says that it serves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from graphmill.engine.answer import Answer
from graphmill.engine.answer_cache import AnswerCache, CacheError, Kept, Vectors
from graphmill.engine.dialogue import Ask, Dialogue, LookUp
from graphmill.engine.look_up import Want
from graphmill.engine.models import Message, Request
from graphmill.engine.prompt_room import MESSAGE_TOKENS
from graphmill.engine.read_object import read_json_object
from graphmill.engine.search import Search
from graphmill.engine.templates import fill, load_templates

MAX_TOKENS = 64
MAX_ASKED = 3
"""Earlier questions that the model is asked about, the nearest ones."""
SCORE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "number"}},
    "required": ["score"],
    "additionalProperties": False,
}
_KEYS = (("system", ()), ("user", ("before", "answer", "question")))
_ASKED = count(1)


class Place(NamedTuple):
    """Where the answer to a question is kept, or is to be."""

    cache: AnswerCache
    frame: str
    vector: Vectors | None
    """Of the question, float32 [d], where near ones are looked for."""

    def keep(self, answer: Answer, warnings: list[str]) -> None:
        """Keeps the answer; a warning says where it can't be kept."""
        try:
            self.cache.put(self.frame, answer, self.vector)
        except CacheError as error:
            warnings.append(f"the answer is not kept: {error}")


def find_kept(search: Search, cache: AnswerCache) -> Dialogue[tuple[Place | None, Answer | None]]:
    """Where the answer to a question is to be kept, and the answer, if there is one that serves.

    Near ones are only looked for where the embedder knows the question's language. What can't be read is warned of.
    """
    assert search.generator is not None
    try:
        frame = cache.frame(search.param, search.generator, search.reranker, search.index.tokenizer)
        place, found = Place(cache, frame, None), cache.get(frame, search.question.text)
        if found is None and cache.config.answers == "semantic":
            place, found = yield from _find_near(search, place)
    except CacheError as error:
        search.warnings.append(f"answers are not kept: {error}")
        return None, None
    return place, found


def _find_near(search: Search, place: Place) -> Dialogue[tuple[Place, Answer | None]]:
    """The answer to another question that the model says serves this one; it is kept as this one's too."""
    question, embedder, cache = search.question, search.index.embedder, place.cache
    if embedder.languages is not None and question.language not in embedder.languages:
        return place, None
    wants = [Want(question.text)]
    yield LookUp(search, wants)
    search.look_up(wants)
    vector = search.found.vectors[question.text][0]
    if not np.isfinite(vector).all():
        return place, None
    place, run = place._replace(vector=vector), next(_ASKED)
    asked = [
        (kept, score_messages(kept, question.text, question.language))
        for kept in cache.near(place.frame, vector, MAX_ASKED)
    ]
    asked = [(kept, messages) for kept, messages in asked if _fits(search, messages)]
    replies = yield Ask(
        [
            Request(f"query/cache{run}-{n}", messages, MAX_TOKENS, schema=SCORE_SCHEMA)
            for n, (_, messages) in enumerate(asked)
        ]
    )
    scores = [0.0 if reply.error is not None else read_score(reply.text) for reply in replies]
    best = max(range(len(scores)), key=scores.__getitem__, default=None)
    if best is None or scores[best] < cache.config.min_score:
        return place, None
    found = cache.take(asked[best][0].key, question.text)
    if found is not None:
        place.keep(found, search.warnings)
    return place, found


def _fits(search: Search, messages: list[Message]) -> bool:
    """Whether the model can be asked about a kept answer, within the limits of a prompt."""
    assert search.generator is not None
    limit = min(search.param.max_total_tokens, search.generator.context_tokens - MAX_TOKENS)
    tokens = search.index.tokenizer.count([message["content"] for message in messages]) + MESSAGE_TOKENS
    return int(tokens.sum()) <= limit


def score_messages(kept: Kept, question: str, language: str) -> list[Message]:
    """What the model is asked of an answer that is kept."""
    templates = load_templates("cache", language, _KEYS)
    values = {"before": kept.question, "answer": kept.text, "question": question}
    return [
        {"role": "system", "content": templates["system"]},
        {"role": "user", "content": fill(templates["user"], values)},
    ]


def read_score(text: str) -> float:
    """The score of a reply, 0 where it holds none from 0 to 1: then the question is answered anew."""
    value = read_json_object(text, wanted=("score",)) or {"score": text}
    try:
        score = float(str(value.get("score")).strip())
    except ValueError:
        return 0.0
    return score if math.isfinite(score) and 0 <= score <= 1 else 0.0
