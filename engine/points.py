"""The map step: a model gives the points of each part of the knowledge, and the best of all are kept."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphmill.engine.cite import only_citing
from graphmill.engine.dialogue import Ask, Dialogue
from graphmill.engine.models import Generator, Message, Reply, Request, Tokenizer
from graphmill.engine.read_object import find_objects, read_json_object
from graphmill.engine.strip_thoughts import strip_thoughts
from graphmill.kernels.pack import pack

MAX_ANSWER_TOKENS = 2048
_SCORE = re.compile(r"(-?\d{1,9}(?:\.\d{1,9})?)(?:\s*(?:/|out of)\s*(\d{1,9}))?")
_ASKED = itertools.count(1)
Point = dict[str, Any]


class AnswerError(Exception):
    """The model gave no answer; the message says why."""


class Part(NamedTuple):
    """What came of one part: the whole reply as read, its points, or why there are none."""

    number: int
    value: Mapping[str, Any]
    points: list[Point]
    num_malformed: int = 0
    """Points without a text or a score."""
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
    if options.get("response_format") == {"type": "json_object"}:
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
    if malformed := sum(part.num_malformed for part in parts):
        warnings.append(f"{malformed} points of {what} have no text or no score, and are left out")
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
        return Part(number, {}, [], error=reply.error)
    value = read_json_object(reply.text, wanted=("points",)) or {}
    given = value.get("points")
    if given is None:  # not every model puts them into an object
        given = [found.value for found in find_objects(strip_thoughts(reply.text, '"')[0]) if _text(found.value)]
    elif isinstance(given, dict):
        given = [given]
    if not isinstance(given, list) or not (given or "points" in value or reply.text.strip() == "[]"):
        return Part(number, value, [], error=f"the reply holds no list of points but {reply.text[:80]!r}")
    points = _points(given)
    if given and not points:
        return Part(number, value, [], error=f"no point of the reply has a text and a score: {reply.text[:80]!r}")
    return Part(number, value, points, len(given) - len(points))


def _points(given: Sequence[Any]) -> list[Point]:
    """Those that have a text and a score, as an integer from 0 to 100."""
    scored = [
        (text, score) for one in given if (text := _text(one)) and (score := _score(one.get("score"))) is not None
    ]
    scores = [score for _, score in scored]
    # Some models score from 0 to 1 whatever they are told.
    scale = 100 if any(0 < score < 1 for score in scores) and max(scores) <= 1 else 1
    return [{"description": text, "score": round(score * scale)} for text, score in scored]


def _text(point: Any) -> str:
    text = point.get("description") if isinstance(point, dict) else None
    return text if isinstance(text, str) else ""


def _score(value: Any) -> float | None:
    """The number from 0 to 100 in what a model gives for a score: 90, "90%", "~90 points", "9/10"; None without one."""
    if isinstance(value, str) and (found := _SCORE.search(value)):
        score, whole = float(found[1]), float(found[2] or 0)
        value = score / whole * 100 if whole else score
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return None
    return max(0, min(100, value))
