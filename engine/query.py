"""A question to an answer: retrieval by mode, a context within its budgets, and the model, or passages without one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from graphmill.engine.answer import Answer
from graphmill.engine.answer_cache import AnswerCache
from graphmill.engine.answer_prompts import answer_messages, no_context_answer, question_message
from graphmill.engine.cached_answer import find_kept
from graphmill.engine.cite import cite, numbers_cited, render_references, without_own_references
from graphmill.engine.contexts import UNLIMITED, Context
from graphmill.engine.dialogue import Ask, Dialogue, LookUp
from graphmill.engine.drift import drift_points
from graphmill.engine.global_points import global_points
from graphmill.engine.index import Index
from graphmill.engine.keywords import Keywords, ask_keywords, phrase_keywords
from graphmill.engine.lines import as_json
from graphmill.engine.models import Generator, Message, Reply, Request
from graphmill.engine.modes import MODES, Search
from graphmill.engine.passages import extractive_answer
from graphmill.engine.points import AnswerError, Point, answer_tokens, best_points
from graphmill.engine.prompt_room import MESSAGE_TOKENS, prompt_room
from graphmill.engine.query_param import KEYWORD_MODES, QueryParam
from graphmill.engine.question import Question
from graphmill.engine.reply_key import is_kept
from graphmill.engine.rerank import Reranker
from graphmill.engine.run_dialogues import Running, replies_to
from graphmill.engine.shown_text import ShownText
from graphmill.engine.stream import stream
from graphmill.engine.strip_thoughts import strip_thoughts

__all__ = ["Answer", "AnswerError", "query"]

_ASKED = itertools.count(1)


@contextmanager
def _timed(answer: Answer, step: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    answer.timings[step] = round(answer.timings.get(step, 0.0) + time.perf_counter() - begin, 6)


def query(
    index: Index,
    question: str,
    param: QueryParam,
    generator: Generator | None,
    reranker: Reranker | None = None,
    cache: AnswerCache | None = None,
) -> Answer:
    """Answers a question from an open index, or from answers that are kept. Raises AnswerError when the model fails.

    With ``param.stream`` it returns as soon as the model is to be asked, and the answer's text comes by iteration.
    """
    answer = Answer(question, param.mode)
    running = Running(answering(index, answer, param, generator, reranker, cache), generator)
    asked = running.to_answer()
    if asked is not None and param.stream:
        answer.stream(_pieces(answer, running, asked, generator))
    elif asked is not None:
        running.send(replies_to(asked.requests, generator))
        running.to_answer()
    return answer


def _pieces(answer: Answer, running: Running[Answer], asked: Ask, generator: Generator | None) -> Iterator[str]:
    """The answer's text as it comes, as it will stand in the whole answer, and its references last."""
    is_cited = answer.mode != "bypass"
    shown = ShownText({reference.number for reference in answer.references} if is_cited else None)
    (request,) = asked.requests
    pieces = stream(generator, request)
    try:
        while True:
            try:
                piece = next(pieces)
            except StopIteration as stop:
                running.send([stop.value])
                break
            if text := shown.add(piece):
                yield text
        running.to_answer()
        if text := shown.rest(answer.answer):
            yield text
    finally:
        pieces.close()
        running.close()
        answer.answer = answer.answer or shown.text


def answering(
    index: Index,
    answer: Answer,
    param: QueryParam,
    generator: Generator | None,
    reranker: Reranker | None = None,
    cache: AnswerCache | None = None,
) -> Dialogue[Answer]:
    """All that it takes to answer a question, as a dialogue with the index and the model; fills in the answer."""
    search = Search(index, Question.of(answer.question, param), param, generator, reranker, answer.warnings)
    context, place = Context(), None
    is_asked = generator is not None and not (param.only_need_context or param.only_need_prompt)
    if cache is not None and is_asked and not search.question.is_empty:
        with _timed(answer, "cache"):
            place, kept = yield from find_kept(search, cache)
        if kept is not None:
            answer.take(kept)
            return answer
    if param.mode == "bypass":
        answer.prompt = _bypass_prompt(search)
    else:
        context = yield from _find(search, answer)
        if not answer.context:
            answer.answer = no_context_answer(search.question.language)
            return answer
        answer.prompt = _prompt(_kind(search), search, answer.context)
    answer.references = context.references
    if param.only_need_context or param.only_need_prompt:
        return answer
    if generator is None:
        if param.mode == "bypass":
            answer.warnings.append("bypass puts the question to the model alone, and no model is configured")
            text = no_context_answer(search.question.language)
        else:
            with _timed(answer, "answer"):
                text, answer.references = extractive_answer(context, answer.question)
    else:
        begin, request = time.perf_counter(), _request(answer.prompt, generator)
        (reply,) = yield Ask([request], is_answer=True)
        answer.timings["answer"] = round(time.perf_counter() - begin, 6)
        text = _text_of(reply)
        if param.mode != "bypass":
            text, answer.references = cite(without_own_references(text) or text, context.references)
    answer.answer = text + render_references(answer.references, search.question.language)
    if place is not None and is_kept(reply, request.max_tokens) and not answer.warnings:
        place.keep(answer)
    return answer


def _find(search: Search, answer: Answer) -> Dialogue[Context]:
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
    if param.mode in KEYWORD_MODES:
        with _timed(answer, "keywords"):
            search.keywords = yield from _keywords(search)
    yield LookUp(search)
    points: list[Point] | None = None
    with _timed(answer, "retrieve"):
        if not is_mapped or param.mode == "global":
            MODES[param.mode](search, context)
    if context.is_empty and context.unfit:
        limits = ", ".join(f"{table} {max(limit, 0)}" for table, limit in context.unfit.items())
        search.warnings.append(f"something was found, but none of it fits the tokens there are for it: {limits}")
    if is_mapped and generator is not None:
        begin = time.perf_counter()
        find_points = global_points if param.mode == "global" else drift_points
        found = yield from find_points(search, context, generator)
        budget = min(param.global_max_token_for_community_report, room)
        points = best_points(found, search.index.tokenizer, budget)
        shown = numbers_cited(point["description"] for point in points)
        context.references = [reference for reference in context.references if reference.number in shown]
        answer.timings["map"] = round(time.perf_counter() - begin, 6)
    answer.context = context.render() if points is None else "\n".join(map(as_json, points))
    answer.data, answer.follow_ups = context.tables(), context.follow_ups
    answer.keywords = {level: list(words) for level, words in vars(context.keywords).items()}
    return context


def _keywords(search: Search) -> Dialogue[Keywords]:
    """Those that are given, or else what the question's are found to be."""
    param, question = search.param, search.question
    if param.hl_keywords or param.ll_keywords:
        return Keywords(tuple(param.hl_keywords), tuple(param.ll_keywords))
    if search.generator is None:
        # A model is shown the conversation; the phrase finder reads the last question with this one.
        return phrase_keywords(question.search_text, question.language)
    found, warning = yield from ask_keywords(question.text, question.language, question.history)
    search.warnings += [warning] if warning else []
    return found


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


def _request(prompt: Sequence[Message], generator: Generator) -> Request:
    """The request of an answer, with a number of its own: a reply to a question that was interrupted may still come."""
    return Request(f"query/answer{next(_ASKED)}", prompt, answer_tokens(generator))


def _text_of(reply: Reply) -> str:
    """The model's answer, without what it thought."""
    if reply.error is not None:
        raise AnswerError(f"the model gave no answer: {reply.error}")
    text, is_open = strip_thoughts(reply.text, in_record="\0")
    if not text.strip():
        why = "nothing but thinking, which was cut off" if is_open else "nothing"
        raise AnswerError(f"the model gave no answer: its reply holds {why}")
    return text.strip()
