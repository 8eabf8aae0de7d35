"""Requests that nobody waits for any more are taken back, by those generators that can end work which is under way."""

from __future__ import annotations

from collections.abc import Set

from graphmill.engine.models import AbortingGenerator, Generator


def abort(generator: Generator | None, request_ids: Set[str]) -> None:
    """Ends the work on open requests; to what a generator can't end, replies may still come."""
    if request_ids and isinstance(generator, AbortingGenerator):
        generator.abort(request_ids)
