"""The map step: a model gives the points of each part of the knowledge, and the best of all are kept."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphmill.engine.cite import only_citing
from graphmill.engine.dialogue import Ask, Dialogue
from graphmill.engine.models import Generator, Message, Reply, Request, Tokenizer
from graphmill.engine.read_object import read_json_object
from graphmill.kernels.pack import pack

MAX_ANSWER_TOKENS = 2048
_ASKED = itertools.count(1)
Point = dict[str, Any]


class AnswerError(Exception):
    """The model gave no answer; the message says why."""


class Part(NamedTuple):
    """What came of one part: the whole reply as read, its points, or why there are none."""

    number: int
    value: Mapping[str, Any]
    points: list[Point]
    error: str = ""


def ask_for_points(
    prompts: Sequence[Sequence[Message]],
    generator: Generator,
    schema: Mapping[str, Any],
    options: Mapping[str, Any],
    warnings: list[str],
    what: str,
) -> Dialogue[list[Part]]:
    """Puts all prompts to the model, side by side, and reads the points of each reply, in the order of the prompts.

    what  names the parts in warnings. Raises AnswerError when no part can be read.
    """
    run = next(_ASKED)
    if dict(options.get("response_format") or {}) == {"type": "json_object"}:
        # What nano-graphrag's users pass: the schema asks for more, and not every model takes it by this name.
        options = {name: value for name, value in options.items() if name != "response_format"}
    max_tokens = answer_tokens(generator)
    requests = [
        # A conversation each, so that they are spread over all replicas.
        Request(f"query/map{run}-{n}", prompt, max_tokens, schema=schema, options=dict(options))
        for n, prompt in enumerate(prompts)
    ]
    replies = yield Ask(requests)
    parts = [_part(number, reply) for number, reply in enumerate(replies)]
    errors = [part.error for part in parts if part.error]
    if errors and len(errors) == len(parts):
        raise AnswerError(f"the model answered none of the {len(parts)} {what}: {errors[0]}")
    if cut_off := sum(reply.finish_reason == "length" for reply in replies):
        warnings.append(f"the replies to {cut_off} of {len(parts)} {what} were cut off at {max_tokens} tokens")
    if errors:
        warnings.append(f"{len(errors)} of {len(parts)} {what} gave no points: {errors[0]}")
    return parts


def answer_tokens(generator: Generator) -> int:
    """Most tokens of a reply: of a small context a quarter."""
    return min(MAX_ANSWER_TOKENS, generator.context_tokens // 4)


def best_points(points: Sequence[Point], tokenizer: Tokenizer, budget: int) -> list[Point]:
    """The points that score above 0, the best first, as many as fit the budget as JSON lines."""
    ranked = sorted((point for point in points if point["score"] > 0), key=lambda point: -point["score"])
    if not ranked:
        return []
    counts = tokenizer.count(list(map(_line, ranked))) + 1
    kept = pack(np.zeros(len(ranked), np.int64), counts, budget)
    return [point for point, keep in zip(ranked, kept, strict=True) if keep]


def points_as_lines(points: Sequence[Point]) -> str:
    """The points as a prompt shows them, a JSON object a line."""
    return "\n".join(map(_line, points))


def _line(point: Point) -> str:
    # Not by orjson, as an index's rows: what a model wrote may hold half of a surrogate pair, which that refuses.
    return json.dumps(point, ensure_ascii=False)


def held_to(points: Sequence[Point], numbers: Collection[int]) -> list[Point]:
    """Points that cite only what they were made from: citations of other numbers are dropped."""
    return [{**point, "description": only_citing(point["description"], numbers)} for point in points]


def _part(number: int, reply: Reply) -> Part:
    """The points of one part's reply; one that can't be read is an error."""
    if reply.error is not None:
        return Part(number, {}, [], reply.error)
    value = read_json_object(reply.text, wanted=("points",)) or {}
    points = value.get("points")
    if not isinstance(points, list):
        return Part(number, value, [], f"the reply holds no list of points but {reply.text[:80]!r}")
    return Part(number, value, [point for point in map(_point, points) if point is not None])


def _point(value: Any) -> Point | None:
    """A point with an integer score from 0 to 100, or None where it is none."""
    if not isinstance(value, dict) or not isinstance(value.get("description"), str):
        return None
    try:
        score = int(float(str(value.get("score", 0)).split("/")[0]))
    except (ValueError, OverflowError):
        score = 0
    return {"description": value["description"], "score": max(0, min(100, score))}
