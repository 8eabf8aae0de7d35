"""A question to an answer: retrieval by mode, a context within its budgets, and the model, or passages without one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from functools import partial

from graphmill.engine.answer import Answer
from graphmill.engine.answer_cache import AnswerCache
from graphmill.engine.answer_prompts import answer_messages, no_context_answer, question_message
from graphmill.engine.cached_answer import find_kept
from graphmill.engine.cite import cite, references_of, render_references, without_own_references
from graphmill.engine.config import ConfigError
from graphmill.engine.contexts import Context
from graphmill.engine.decode_text import clean
from graphmill.engine.dialogue import Ask, Dialogue
from graphmill.engine.find_context import find_context, prompt_kind
from graphmill.engine.index import Index
from graphmill.engine.models import Generator, Message, Reply, Request
from graphmill.engine.passages import extractive_answer
from graphmill.engine.points import AnswerError, answer_tokens
from graphmill.engine.prompt_room import MESSAGE_TOKENS, last_turns, prompt_limit
from graphmill.engine.query_param import QueryParam
from graphmill.engine.question import Question
from graphmill.engine.reply_key import is_kept
from graphmill.engine.rerank import Reranker
from graphmill.engine.run_dialogues import Running, replies_to
from graphmill.engine.search import Search
from graphmill.engine.shown_text import ShownText
from graphmill.engine.stream import stream
from graphmill.engine.strip_thoughts import strip_thoughts

__all__ = ["Answer", "AnswerError", "query"]

_ASKED = itertools.count(1)


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
    citable = answer.references
    shown = ShownText({reference.number for reference in citable} if answer.mode != "bypass" else None)
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
        if not answer.answer:  # it was broken off
            answer.answer, answer.references = shown.text, references_of(citable, shown.cited)


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
    context, place, only_found = Context(), None, param.only_need_context or param.only_need_prompt
    if param.mode == "bypass" and generator is None and not only_found:
        raise ConfigError(
            "mode bypass puts the question to the model alone, and no model is configured (--llm, llm.model)"
        )
    if cache is not None and generator is not None and not only_found and not search.question.is_empty:
        with answer.timed("cache"):
            place, kept = yield from find_kept(search, cache)
        if kept is not None:
            answer.take(kept)
            return answer
    if param.mode == "bypass" and not search.question.is_empty:
        answer.prompt = _bypass_prompt(search)
    else:
        context = yield from find_context(search, answer)
        if not answer.context:
            answer.answer = no_context_answer(search.question.language)
            return answer
        answer.prompt = partial(_prompt, prompt_kind(search), search, answer.context)
    answer.references = context.references
    if only_found:
        return answer
    is_whole = False
    if generator is None:
        text = _quoted(answer, context)
    else:
        text, is_whole = yield from _written(answer, context, generator)
    answer.answer = text + render_references(answer.references, search.question.language)
    if place is not None and is_whole and len(answer.warnings) == search.num_limits:
        place.keep(answer, answer.warnings)
    return answer


def _quoted(answer: Answer, context: Context) -> str:
    """The text without a model, which quotes the context; sets the answer's references."""
    with answer.timed("answer"):
        text, answer.references = extractive_answer(context, answer.question)
    return text


def _written(answer: Answer, context: Context, generator: Generator) -> Dialogue[tuple[str, bool]]:
    """The model's text, and whether it came whole; sets the answer's references."""
    begin, request = time.perf_counter(), _request(answer.prompt, generator)
    (reply,) = yield Ask([request], is_answer=True)
    answer.timings["answer"] = round(time.perf_counter() - begin, 6)
    text = _text_of(reply)
    if reply.finish_reason == "length":
        answer.warnings.append(f"the answer was cut off at {request.max_tokens} tokens")
    if answer.mode != "bypass":
        text, answer.references = cite(without_own_references(text) or text, context.references())
    return text, is_kept(reply, request.max_tokens)


def _prompt(kind: str, search: Search, context: str) -> list[Message]:
    question, param = search.question, search.param
    return answer_messages(
        kind, question.language, context, question.text, question.history, param.response_type, param.user_prompt,
        param.strict,
    )  # fmt: skip


def _bypass_prompt(search: Search) -> list[Message]:
    """The last turns of the conversation, as many as fit, and the question, and nothing else."""
    question, param = search.question, search.param
    asked = question_message(question.language, question.text, param.user_prompt)
    limit = prompt_limit(param, search.generator)
    tokens = int(search.index.tokenizer.count([asked["content"]])[0]) + MESSAGE_TOKENS
    if tokens > limit:
        raise AnswerError(
            f"the question has {tokens} tokens, more than the {limit} that max_total_tokens = {param.max_total_tokens} "
            "and the model's context allow"
        )
    return [*last_turns(question.history, search.index, limit - tokens), asked]


def _request(prompt: Sequence[Message], generator: Generator) -> Request:
    """The request of an answer, with a number of its own: a reply to a question that was interrupted may still come."""
    return Request(f"query/answer{next(_ASKED)}", prompt, answer_tokens(generator))


def _text_of(reply: Reply) -> str:
    """The model's answer, without what it thought."""
    if reply.error is not None:
        raise AnswerError(f"the model gave no answer: {reply.error}")
    text, is_open = strip_thoughts(clean(reply.text), in_record="\0")
    if not text.strip():
        why = "nothing but thinking, which was cut off" if is_open else "nothing"
        raise AnswerError(f"the model gave no answer: its reply holds {why}")
    return text.strip()
