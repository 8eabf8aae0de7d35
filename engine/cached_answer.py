"""Looks for an answer that was given before: to the same question, or to one of which the model says that it serves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count
from typing import Any, NamedTuple

from graphmill.engine.answer import Answer
from graphmill.engine.answer_cache import AnswerCache, Kept, Vectors
from graphmill.engine.dialogue import Ask, Dialogue
from graphmill.engine.models import Message, Request
from graphmill.engine.modes import Search
from graphmill.engine.read_object import read_json_object
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

    def keep(self, answer: Answer) -> None:
        """Keeps the answer."""
        self.cache.put(self.frame, answer, self.vector)


def find_kept(search: Search, cache: AnswerCache) -> Dialogue[tuple[Place, Answer | None]]:
    """Where the answer to a question is to be kept, and the answer, if there is one that serves.

    Near questions are only looked for where the embedder knows the question's language.
    """
    assert search.generator is not None
    question, embedder = search.question, search.index.embedder
    place = Place(cache, cache.frame(search.param, search.generator, search.reranker), None)
    found = cache.get(place.frame, question.text)
    knows = embedder.languages is None or question.language in embedder.languages
    if found is not None or cache.config.answers != "semantic" or not knows or question.is_empty:
        return place, found
    vector = search.index.embed_question(question.text)[0]
    place = place._replace(vector=vector)
    near = cache.near(place.frame, vector, MAX_ASKED)
    run = next(_ASKED)
    replies = yield Ask(
        [
            Request(f"query/cache{run}-{n}", score_messages(kept, question.text, question.language), MAX_TOKENS,
                    schema=SCORE_SCHEMA)
            for n, kept in enumerate(near)
        ]
    )  # fmt: skip
    scores = [0.0 if reply.error is not None else read_score(reply.text) for reply in replies]
    best = max(range(len(scores)), key=scores.__getitem__, default=None)
    if best is None or scores[best] < cache.config.min_score:
        return place, None
    return place, cache.take(near[best].key, question.text)


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
