"""A question to an answer: retrieval by mode, a context within its budgets, and the model, or passages without one."""

from __future__ import annotations

import itertools
import json
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Generator as Coroutine
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from graphmill.engine.answer_prompts import POINTS_SCHEMA, answer_messages, no_context_answer
from graphmill.engine.contexts import (
    Context,
    Reference,
    global_reports,
    local_context,
    naive_context,
    reports_context,
    without_relatives,
)
from graphmill.engine.converse import converse
from graphmill.engine.index import Index
from graphmill.engine.language import detect_language
from graphmill.engine.models import Generator, Message, Reply, Request
from graphmill.engine.passages import extractive_answer
from graphmill.engine.query_param import QueryParam
from graphmill.engine.read_object import read_json_object
from graphmill.engine.strip_thoughts import strip_thoughts
from graphmill.kernels.pack import pack, pack_bins

MAX_REFERENCES = 5
MAX_ANSWER_TOKENS = 2048
UNLIMITED = 2**62
_ASKED = itertools.count(1)

_CITATION = re.compile(r"([ \t]*)[\[【［](\d{1,6}(?:\s*[,，、;；\-–—]\s*\d{1,6})*)[\]】］]")
_NUMBERS = re.compile(r"(\d+)(?:\s*[-–—]\s*(\d+))?")
_OWN_REFERENCES = re.compile(
    r"\n[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*)?(?:References|参考资料|参考文献)(?:\*\*)?[ \t]*[:：]?(?:\*\*)?[ \t]*"
    r"(?:\n[ \t]*(?:[-*+•\[［【(\d].*)?)*\Z",
    re.IGNORECASE,
)
"""A section of references that the model wrote all the same, at the end: a heading, then list items only."""


class AnswerError(Exception):
    """The model gave no answer; the message says why."""


@dataclass
class Answer:
    """What came of a question. ``str(answer)`` is its text."""

    question: str
    mode: str
    answer: str = ""
    references: list[Reference] = field(default_factory=list)
    """What the answer cites, at most five."""
    context: str = ""
    prompt: list[Message] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by step."""
    warnings: list[str] = field(default_factory=list)
    """What went wrong on the way and left the answer with less to go by."""

    def __str__(self) -> str:
        return self.answer


@contextmanager
def _timed(answer: Answer, step: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    answer.timings[step] = round(time.perf_counter() - begin, 6)


def query(index: Index, question: str, param: QueryParam, generator: Generator | None) -> Answer:
    """Answers a question from an open index. Raises AnswerError when the model fails."""
    answer = Answer(question, param.mode)
    with _timed(answer, "retrieve"):
        context = _retrieve(index, question, param, generator)
    language = detect_language(question)
    points: str | None = None
    if param.mode == "global" and generator is not None and not context.is_empty:
        with _timed(answer, "map"):
            points = _map_reports(index, context, question, language, param, generator, answer.warnings)
    answer.context = context.render() if points is None else points
    if not answer.context:
        answer.answer = no_context_answer(language)
        return answer
    kind = "global_reduce" if param.mode == "global" else param.mode
    answer.prompt = answer_messages(
        kind,
        language,
        answer.context,
        question,
        param.conversation_history[-2 * param.history_turns :] if param.history_turns else (),
        param.response_type,
        param.user_prompt,
        param.strict,
    )
    if param.only_need_context or param.only_need_prompt:
        answer.references = context.references
        return answer
    with _timed(answer, "answer"):
        if generator is None:
            text, references = extractive_answer(context, question)
        else:
            text, references = _ask(answer.prompt, context, generator)
    answer.references = references
    answer.answer = text + render_references(references, language)
    return answer


def render_references(references: Sequence[Reference], language: str) -> str:
    """The References section: one line a number, "[KG]" for the graph and "[DC]" for a document."""
    lines = []
    for number, group in groupby(references, key=lambda reference: reference.number):
        places = list(group)
        labels = ", ".join(dict.fromkeys(place.label for place in places))
        lines.append(f"- [{number}] {'[DC]' if places[0].kind == 'chunk' else '[KG]'} {labels}")
    heading = "参考资料" if language == "zh" else "References"
    return f"\n\n### {heading}\n\n" + "\n".join(lines) if lines else ""


def _retrieve(index: Index, question: str, param: QueryParam, generator: Generator | None) -> Context:
    if not question.strip():
        return Context()
    if param.mode == "global" and generator is not None:
        return reports_context(index, global_reports(index, param), UNLIMITED)
    vector = index.embed_question(question)
    if param.mode == "naive":
        texts, _ = index.search(index.search_texts, question, vector, param.chunk_top_k, param.lexical)
        return naive_context(index, texts, param)
    if param.mode == "local":
        entities, _ = index.search(index.search_entities, question, vector, param.top_k, param.lexical)
        return local_context(index, entities, param)
    # Without a model nothing scores the reports for the question, so their vectors do.
    allowed = global_reports(index, param)
    reports, _ = index.search(index.search_reports, question, vector, max(len(allowed), 1), param.lexical)
    reports = without_relatives(index, reports[np.isin(reports, allowed)])
    return reports_context(index, reports, param.global_max_token_for_community_report)


def _map_reports(
    index: Index,
    context: Context,
    question: str,
    language: str,
    param: QueryParam,
    generator: Generator,
    warnings: list[str],
) -> str:
    """The best points that the reports, in groups that fit the budget, give for the question, as JSON lines."""
    rows = context.sections["Reports"]
    tokens = index.tokenizer.count([json.dumps(row, ensure_ascii=False) for row in rows])
    tokens = np.minimum(tokens, param.global_max_token_for_community_report)
    bins = pack_bins(tokens, param.global_max_token_for_community_report)
    conversations = []
    run = next(_ASKED)
    for number in range(int(bins.max()) + 1):
        group = Context({"Reports": [row for row, b in zip(rows, bins, strict=True) if b == number]})
        prompt = answer_messages("global_map", language, group.render(), question, strict=param.strict)
        conversations.append(_points(run, number, prompt, param))
    found = list(converse(conversations, generator))
    points = [point for _, group in sorted(found, key=lambda item: item[0]) for point in group]
    errors = [point["error"] for point in points if "error" in point]
    if errors and len(errors) == len(found):
        raise AnswerError(f"the model answered none of the {len(found)} groups of reports: {errors[0]}")
    if errors:
        warnings.append(f"{len(errors)} of {len(found)} groups of reports gave no points: {errors[0]}")
    points = sorted((p for p in points if p.get("score", 0) > 0), key=lambda p: -p["score"])
    lines = [json.dumps(point, ensure_ascii=False) for point in points]
    if not lines:
        return ""
    counts = index.tokenizer.count(lines) + 1
    kept = pack(np.zeros(len(lines), np.int64), counts, param.global_max_token_for_community_report)
    return "\n".join(line for line, keep in zip(lines, kept, strict=True) if keep)


def _points(
    run: int, number: int, prompt: list[Message], param: QueryParam
) -> Coroutine[Request, Reply, tuple[int, list[dict[str, Any]]]]:
    """Asks one group of reports for its points; a reply that can't be read is an error."""
    options = dict(param.global_special_community_map_llm_kwargs)
    reply = yield Request(f"query/map{run}/{number}", prompt, MAX_ANSWER_TOKENS, schema=POINTS_SCHEMA, options=options)
    if reply.error is not None:
        return number, [{"error": reply.error}]
    points = (read_json_object(reply.text) or {}).get("points")
    if not isinstance(points, list):
        return number, [{"error": f"the reply holds no list of points but {reply.text[:80]!r}"}]
    return number, [p for p in map(_point, points) if p is not None]


def _point(value: Any) -> dict[str, Any] | None:
    """A point with an integer score from 0 to 100, or None where it is none."""
    if not isinstance(value, dict) or not isinstance(value.get("description"), str):
        return None
    try:
        score = int(float(str(value.get("score", 0)).split("/")[0]))
    except (ValueError, OverflowError):
        score = 0
    return {"description": value["description"], "score": max(0, min(100, score))}


def _ask(prompt: list[Message], context: Context, generator: Generator) -> tuple[str, list[Reference]]:
    """The model's answer with only those citations that the context holds, and what they refer to."""
    # A number of its own: a reply to a question that was interrupted may still come.
    request_id = f"query/answer/{next(_ASKED)}"
    generator.submit(Request(request_id, prompt, MAX_ANSWER_TOKENS))
    reply = next(r for replies in iter(generator.collect, None) for r in replies if r.id == request_id)
    if reply.error is not None:
        raise AnswerError(f"the model gave no answer: {reply.error}")
    text, is_open = strip_thoughts(reply.text)
    if not text.strip():
        why = "nothing but thinking, which was cut off" if is_open else "nothing"
        raise AnswerError(f"the model gave no answer: its reply holds {why}")
    return cite(_OWN_REFERENCES.sub("", "\n" + text).strip(), context.references)


def cite(text: str, references: Sequence[Reference]) -> tuple[str, list[Reference]]:
    """Drops the citations that are not among the references, and all after the first five different ones."""
    known = sorted({reference.number for reference in references})
    cited: list[int] = []

    def keep(match: re.Match[str]) -> str:
        kept = []
        for first, last in _NUMBERS.findall(match[2]):
            for number in known[bisect_left(known, int(first)) : bisect_right(known, int(last or first))]:
                if number in cited or len(cited) < MAX_REFERENCES:
                    if number not in cited:
                        cited.append(number)
                    kept.append(f"[{number}]")
        return match[1] + "".join(kept) if kept else ""

    text = _CITATION.sub(keep, text)
    return text, sorted((r for r in references if r.number in cited), key=lambda r: cited.index(r.number))
