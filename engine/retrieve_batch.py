"""The look-ups of many questions together: one call to the embedder and one pass over each table's vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphmill.engine.dialogue import LookUp
from graphmill.engine.look_up import Lookup, Want, look_up
from graphmill.engine.modes import wanted, wanted_further
from graphmill.engine.search import Search


def look_up_steps(steps: Sequence[LookUp]) -> None:
    """Does the look-ups that dialogues have come to (``run_dialogues.run_each``)."""
    look_up_each([step.search for step in steps if step.wants is None])
    given = [(step.search, step.wants) for step in steps if step.wants is not None]
    if given:
        lookups = [Lookup(list(wants), search.found, search.param.lexical) for search, wants in given]
        look_up(given[0][0].index, lookups)


def look_up_each(searches: Sequence[Search]) -> None:
    """Finds what the modes of questions search for, whatever mode each has, and leaves it with each (``Search.found``).

    A mode that is run then neither embeds nor searches, and gives what it gives by itself. All questions are of one
    index. Drift without a model takes a second round, for the titles of the reports that the first has found; with
    one, its follow-up questions are looked up when they are known.
    """
    for wants_of in (wanted, wanted_further):
        _round(searches, wants_of)


def _round(searches: Sequence[Search], wants_of: Callable[[Search], list[Want]]) -> None:
    lookups = [Lookup(wants_of(search), search.found, search.param.lexical) for search in searches]
    if searches:
        look_up(searches[0].index, lookups)
