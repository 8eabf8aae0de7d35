"""Requests that nobody waits for any more are taken back, by those generators that can end work which is under way."""

from __future__ import annotations

from collections.abc import Set
from contextlib import suppress

from graphmill.engine.models import AbortingGenerator, Generator


def abort(generator: Generator | None, request_ids: Set[str]) -> None:
    """Ends the work on open requests; to what a generator can't end, replies may still come.

    Where something is open, something was raised, and that is what is to be told, not what goes wrong here.
    """
    if request_ids and isinstance(generator, AbortingGenerator):
        with suppress(Exception):
            generator.abort(request_ids)
