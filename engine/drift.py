"""Drift: points from the reports nearest to a question, follow-up questions, and the points of each one's answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphmill.engine.answer_prompts import DRIFT_SCHEMA, POINTS_SCHEMA, answer_messages, follow_up_question
from graphmill.engine.contexts import Context
from graphmill.engine.dialogue import Dialogue, LookUp
from graphmill.engine.look_up import Want
from graphmill.engine.models import Generator
from graphmill.engine.modes import DRIFT_REPORTS, add_local, nearest_reports
from graphmill.engine.points import AnswerError, Part, Point, ask_for_points, held_to
from graphmill.engine.prompt_room import prompt_room
from graphmill.engine.search import Search


def drift_points(search: Search, context: Context, generator: Generator) -> Dialogue[list[Point]]:
    """Fills the context with all that is looked at, and returns the points that it gives.

    Where the model gives no follow-up questions, the titles of the reports are used.
    """
    index, param, question = search.index, search.param, search.question
    reports = nearest_reports(search)
    if not len(reports):
        return []
    first = _shared(search, context, "drift_primer")
    first.add(index, "reports", reports, param.local_max_token_for_community_report)
    context.include(first)
    points, follow_ups = yield from _prime(search, first, generator)
    titles = index.lines.strings("reports", ("title",), reports)[0]
    wants = [Want(text, "entities", param.top_k) for text in follow_ups or dict.fromkeys(titles)]
    yield LookUp(search, wants)
    search.look_up(wants)
    wants = [want for want in wants if want in search.found.rows]  # those that can be embedded
    context.follow_ups = [want.text for want in wants]
    prompts, numbers = [], []
    for want in wants:
        asked = follow_up_question(question.language, want.text, question.text)
        found = _shared(search, context, "drift_map", asked)
        add_local(index, param, search.nearest(want)[0], found)
        if not found.is_empty:
            prompts.append(answer_messages("drift_map", question.language, found.render(), asked))
            numbers.append(found.shown_numbers())
        context.include(found)
    points, parts = held_to(points, first.shown_numbers()), list[Part]()
    options, what = param.global_special_community_map_llm_kwargs, "follow-up questions"
    try:
        parts = yield from ask_for_points(prompts, generator, POINTS_SCHEMA, options, search.warnings, what)
    except AnswerError as error:
        if not points:
            raise
        search.warnings.append(str(error))
    return [*points, *(point for part in parts for point in held_to(part.points, numbers[part.number]))]


def _shared(search: Search, context: Context, kind: str, asked: str | None = None) -> Context:
    """A context of one prompt, whose rows have the numbers that they have in the others."""
    question = search.question if asked is None else replace(search.question, text=asked)
    question = replace(question, history=())
    room = prompt_room(search.index, kind, question, search.param, search.generator)
    return Context(max(room, 0), numbers=context.numbers)


def _prime(search: Search, reports: Context, generator: Generator) -> Dialogue[tuple[list[Point], list[str]]]:
    """The points of the reports and the questions to go on with; where the reply can't be read, there are none."""
    question, param = search.question, search.param
    prompt = answer_messages("drift_primer", question.language, reports.render(), question.text)
    options = param.global_special_community_map_llm_kwargs
    try:
        (part,) = yield from ask_for_points(
            [prompt], generator, DRIFT_SCHEMA, options, search.warnings, "groups of reports"
        )
    except AnswerError as error:
        search.warnings.append(f"the model drew no follow-up questions from the reports: {error}")
        return [], []
    return part.points, _questions(part.value.get("follow_ups"))


def _questions(value: Any) -> list[str]:
    """The distinct questions of a reply, at most DRIFT_REPORTS."""
    if not isinstance(value, list):
        return []
    texts = (" ".join(text.split()) for text in value if isinstance(text, str))
    return list(dict.fromkeys(text for text in texts if text))[:DRIFT_REPORTS]
