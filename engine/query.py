"""A question to an answer: retrieval by mode, a context within its budgets, and the model, or passages without one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from graphmill.engine.answer_prompts import POINTS_SCHEMA, answer_messages, no_context_answer, question_message
from graphmill.engine.cite import cite, numbers_cited, render_references, without_own_references
from graphmill.engine.contexts import UNLIMITED, Context, Reference
from graphmill.engine.drift import drift_points
from graphmill.engine.index import Index
from graphmill.engine.lines import as_json
from graphmill.engine.models import Generator, Message, Request
from graphmill.engine.modes import MODES, Search
from graphmill.engine.passages import extractive_answer
from graphmill.engine.points import AnswerError, Point, answer_tokens, ask_for_points, best_points, held_to
from graphmill.engine.prompt_room import MESSAGE_TOKENS, prompt_room
from graphmill.engine.query_param import QueryParam
from graphmill.engine.question import Question
from graphmill.engine.rerank import Reranker
from graphmill.engine.strip_thoughts import strip_thoughts
from graphmill.kernels.pack import pack_bins

__all__ = ["Answer", "AnswerError", "query"]

_ASKED = itertools.count(1)


@dataclass
class Answer:
    """What came of a question. ``str(answer)`` is its text."""

    question: str
    mode: str
    answer: str = ""
    references: list[Reference] = field(default_factory=list)
    """What the answer cites, at most five; all of the context's, where only that was asked for."""
    context: str = ""
    prompt: list[Message] = field(default_factory=list)
    data: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The context's rows with their ids and reference numbers: reports, entities, relationships, claims, chunks."""
    keywords: dict[str, list[str]] = field(default_factory=dict)
    """"high_level" and "low_level", in the keyword modes."""
    follow_ups: list[str] = field(default_factory=list)
    """Questions that were drawn from the reports, in drift."""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by step."""
    warnings: list[str] = field(default_factory=list)
    """What went wrong on the way and left the answer with less to go by."""

    def __str__(self) -> str:
        return self.answer

    def tables(self) -> dict[str, pa.Table]:
        """``data`` as Arrow tables."""
        return {name: pa.Table.from_pylist(rows) for name, rows in self.data.items()}


@contextmanager
def _timed(answer: Answer, step: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    answer.timings[step] = round(time.perf_counter() - begin, 6)


def query(
    index: Index, question: str, param: QueryParam, generator: Generator | None, reranker: Reranker | None = None
) -> Answer:
    """Answers a question from an open index. Raises AnswerError when the model fails."""
    answer = Answer(question, param.mode)
    search = Search(index, Question.of(question, param), param, generator, reranker, answer.warnings)
    context = Context()
    if param.mode == "bypass":
        answer.prompt = _bypass_prompt(search)
    else:
        context = _find(search, answer)
        if not answer.context:
            answer.answer = no_context_answer(search.question.language)
            return answer
        answer.prompt = _prompt(_kind(search), search, answer.context)
    if param.only_need_context or param.only_need_prompt:
        answer.references = context.references
        return answer
    with _timed(answer, "answer"):
        if generator is not None:
            text = _ask(answer.prompt, generator)
            if param.mode != "bypass":
                text, answer.references = cite(without_own_references(text) or text, context.references)
        elif param.mode == "bypass":
            answer.warnings.append("bypass puts the question to the model alone, and no model is configured")
            text = no_context_answer(search.question.language)
        else:
            text, answer.references = extractive_answer(context, question)
    answer.answer = text + render_references(answer.references, search.question.language)
    return answer


def _find(search: Search, answer: Answer) -> Context:
    """Looks up what the mode wants; ``answer.context`` becomes what the model is to be shown of it."""
    param, generator = search.param, search.generator
    room = prompt_room(search.index, _kind(search), search.question, param, generator)
    is_mapped = generator is not None and param.mode in ("global", "drift")
    # What is mapped first is shown in groups that have a room each; of it only the points are in the last prompt.
    context = Context(UNLIMITED if is_mapped else max(room, 0))
    if search.question.is_empty:
        return context
    if room <= 0:
        search.warnings.append(
            f"no knowledge fits: without any, the prompt is {-room} tokens over what max_total_tokens = "
            f"{param.max_total_tokens} and the model's context allow"
        )
        return context
    points: list[Point] | None = None
    with _timed(answer, "retrieve"):
        if not is_mapped or param.mode == "global":
            MODES[param.mode](search, context)
    if is_mapped and generator is not None:
        with _timed(answer, "map"):
            found = _map_reports(search, context, generator) if param.mode == "global" else None
            points = drift_points(search, context, generator) if found is None else found
            budget = min(param.global_max_token_for_community_report, room)
            points = best_points(points, search.index.tokenizer, budget)
            shown = numbers_cited(point["description"] for point in points)
            context.references = [reference for reference in context.references if reference.number in shown]
    answer.context = context.render() if points is None else "\n".join(map(as_json, points))
    answer.data, answer.follow_ups = context.tables(), context.follow_ups
    answer.keywords = {level: list(words) for level, words in vars(context.keywords).items()}
    return context


def _kind(search: Search) -> str:
    """Which of the prompts the question is put with at last."""
    mode = search.param.mode
    if mode == "global" or (mode == "drift" and search.generator is not None):
        return "global_reduce"
    return "naive" if mode == "naive" else "local"


def _prompt(kind: str, search: Search, context: str) -> list[Message]:
    question, param = search.question, search.param
    return answer_messages(
        kind, question.language, context, question.text, question.history, param.response_type, param.user_prompt,
        param.strict,
    )  # fmt: skip


def _bypass_prompt(search: Search) -> list[Message]:
    """The conversation, less its oldest turns where it is too long, and the question, and nothing else."""
    question, param, generator = search.question, search.param, search.generator
    asked = question_message(question.language, question.text, param.user_prompt)
    limit = param.max_total_tokens
    if generator is not None:
        limit = min(limit, generator.context_tokens - answer_tokens(generator))
    prompt = [*question.history, asked]
    tokens = search.index.tokenizer.count([message["content"] for message in prompt]) + MESSAGE_TOKENS
    first = int(np.searchsorted(-np.cumsum(tokens[::-1])[::-1], -limit))
    if first >= len(prompt):
        search.warnings.append(f"the question alone has {tokens[-1]} tokens, more than the {limit} there is room for")
        first = len(prompt) - 1
    return prompt[first:]


def _map_reports(search: Search, context: Context, generator: Generator) -> list[Point]:
    """The points that the reports give for the question, in groups that fit the budget."""
    index, question, param = search.index, search.question, search.param
    rows = context.sections.get("Reports", [])
    room = prompt_room(index, "global_map", replace(question, history=()), param, generator)
    budget = max(min(param.global_max_token_for_community_report, room), 1)
    tokens = index.tokenizer.count([as_json(row) for row in rows]) + 1
    bins = pack_bins(tokens, budget)
    prompts, numbers = [], []
    for number in range(int(bins.max(initial=-1)) + 1):
        group = Context(sections={"Reports": [row for row, b in zip(rows, bins, strict=True) if b == number]})
        numbers.append({row["reference"] for row in group.sections["Reports"]})
        prompts.append(answer_messages("global_map", question.language, group.render(), question.text))
    if too_long := int(np.count_nonzero(bins < 0)):
        search.warnings.append(f"{too_long} reports are longer than the {budget} tokens of a group, and left out")
    options = param.global_special_community_map_llm_kwargs
    parts = ask_for_points(prompts, generator, POINTS_SCHEMA, options, search.warnings, "groups of reports")
    return [point for part in parts for point in held_to(part.points, numbers[part.number])]


def _ask(prompt: Sequence[Message], generator: Generator) -> str:
    """The model's answer, without what it thought."""
    # A number of its own: a reply to a question that was interrupted may still come.
    request_id = f"query/answer/{next(_ASKED)}"
    generator.submit(Request(request_id, prompt, answer_tokens(generator)))
    reply = next(r for replies in iter(generator.collect, None) for r in replies if r.id == request_id)
    if reply.error is not None:
        raise AnswerError(f"the model gave no answer: {reply.error}")
    text, is_open = strip_thoughts(reply.text)
    if not text.strip():
        why = "nothing but thinking, which was cut off" if is_open else "nothing"
        raise AnswerError(f"the model gave no answer: its reply holds {why}")
    return text.strip()
