"""Global questions: the reports of all communities in groups, and the points that the model makes of each group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphmill.engine.answer_prompts import POINTS_SCHEMA, answer_messages
from graphmill.engine.contexts import Context
from graphmill.engine.dialogue import Dialogue
from graphmill.engine.graph_rows import global_reports
from graphmill.engine.models import Generator
from graphmill.engine.points import Point, ask_for_points, held_to
from graphmill.engine.prompt_room import prompt_room
from graphmill.engine.search import Search
from graphmill.kernels.pack import pack_bins


def global_points(search: Search, context: Context, generator: Generator) -> Dialogue[list[Point]]:
    """The points that the reports give for the question, in groups that fit the budget."""
    index, question, param = search.index, search.question, search.param
    rows = global_reports(index, param)
    room = prompt_room(index, "global_map", replace(question, history=()), param, generator)
    budget = max(min(param.global_max_token_for_community_report, room), 1)
    bins = pack_bins(index.lines.tokens("reports", rows), budget)
    prompts, numbers = [], []
    for number in range(int(bins.max(initial=-1)) + 1):
        group = Context(numbers=context.numbers)
        group.add(index, "reports", rows[bins == number])
        numbers.append(group.shown_numbers())
        prompts.append(answer_messages("global_map", question.language, group.render(), question.text))
    if too_long := int(np.count_nonzero(bins < 0)):
        search.warn_of_limit(f"{too_long} reports are longer than the {budget} tokens of a group, and left out")
    options = param.global_special_community_map_llm_kwargs
    parts = yield from ask_for_points(prompts, generator, POINTS_SCHEMA, options, search.warnings, "groups of reports")
    return [point for part in parts for point in held_to(part.points, numbers[part.number])]
