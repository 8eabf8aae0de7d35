"""What an index holds for a question, by its mode: looked up, mapped where the mode does so, written as a context."""

from __future__ import annotations

import time
from dataclasses import replace

from graphmill.engine.answer import Answer
from graphmill.engine.cite import numbers_cited
from graphmill.engine.contexts import UNLIMITED, Context
from graphmill.engine.dialogue import Dialogue, LookUp
from graphmill.engine.drift import drift_points
from graphmill.engine.global_points import global_points
from graphmill.engine.keywords import Keywords, ask_keywords, phrase_keywords
from graphmill.engine.models import Generator
from graphmill.engine.modes import MODES
from graphmill.engine.points import best_points, points_as_lines
from graphmill.engine.prompt_room import last_turns, prompt_room
from graphmill.engine.query_param import KEYWORD_MODES
from graphmill.engine.search import Search
from graphmill.engine.show_passages import show_passages


def find_context(search: Search, answer: Answer) -> Dialogue[Context]:
    """Looks up what the mode wants; ``answer.context`` becomes what the model is to be shown of it."""
    param, generator = search.param, search.generator
    _hold_history(search)
    room = prompt_room(search.index, prompt_kind(search), search.question, param, generator)
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
        with answer.timed("keywords"):
            search.keywords = yield from _keywords(search)
    yield LookUp(search)
    passages = None
    with answer.timed("retrieve"):
        if not is_mapped or param.mode == "global":
            passages = MODES[param.mode](search, context)
    if passages is not None:
        with answer.timed("rerank" if search.reranker is not None else "retrieve"):
            yield from show_passages(search, context, passages)
    if is_mapped and generator is not None:
        answer.context = yield from _points(search, context, generator, answer, room)
    else:
        answer.context = context.render()
    # A table that is not to be shown, with a limit of 0, is missed only where there is nothing else.
    limits = ", ".join(f"{table} {max(n, 0)}" for table, n in context.unfit.items() if n > 0 or context.is_empty)
    if context.is_empty and not search.index.entities.num_rows and param.mode != "naive":
        search.warn_of_limit("the index has no entities, which this mode starts from; mode naive searches its chunks")
    if limits:
        search.warn_of_limit(f"something was found, but none of it fits the tokens there are for it: {limits}")
    answer.data, answer.follow_ups = context.tables, context.follow_ups
    answer.keywords = {level: list(words) for level, words in vars(context.keywords).items()}
    return context


def _points(search: Search, context: Context, generator: Generator, answer: Answer, room: int) -> Dialogue[str]:
    """The best points that the model makes of the context, as lines; what they cite is what the answer can cite."""
    begin, param = time.perf_counter(), search.param
    find_points = global_points if param.mode == "global" else drift_points
    found = yield from find_points(search, context, generator)
    points = best_points(found, search.index.tokenizer, min(param.global_max_token_for_community_report, room))
    context.citable = numbers_cited(point["description"] for point in points)
    answer.timings["map"] = round(time.perf_counter() - begin, 6)
    return points_as_lines(points)


def _keywords(search: Search) -> Dialogue[Keywords]:
    """Those that are given, or else what the question's are found to be."""
    param, question = search.param, search.question
    given = [tuple(word for word in words if word.strip()) for words in (param.hl_keywords, param.ll_keywords)]
    if any(given):
        return Keywords(*given)
    if search.generator is None:
        # A model is shown the conversation; the phrase finder reads the last question with this one.
        return phrase_keywords(question.search_text, question.language)
    found, warning = yield from ask_keywords(question.text, question.language, question.history)
    search.warnings += [warning] if warning else []
    return found


def prompt_kind(search: Search) -> str:
    """Which of the prompts the question is put with at last."""
    mode = search.param.mode
    if mode == "global" or (mode == "drift" and search.generator is not None):
        return "global_reduce"
    return "naive" if mode == "naive" else "local"


def _hold_history(search: Search) -> None:
    """Leaves the oldest turns out where the conversation would take more than half of what the prompt has room for."""
    question = search.question
    if question.history:
        alone = replace(question, history=())
        room = prompt_room(search.index, prompt_kind(search), alone, search.param, search.generator)
        search.question = replace(question, history=last_turns(question.history, search.index, room // 2))
        if len(search.question.history) < len(question.history):
            left_out = len(question.history) - len(search.question.history)
            search.warn_of_limit(f"the oldest {left_out} messages of the conversation have no room in the prompt")
