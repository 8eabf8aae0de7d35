"""A reply as the model writes it, piece by piece, from those generators that can give it so."""

from __future__ import annotations

from graphmill.engine.models import Generator, Pieces, Request, StreamingGenerator
from graphmill.engine.run_dialogues import replies_to


def stream(generator: Generator | None, request: Request) -> Pieces:
    """The reply to one request in pieces; in a single one from a generator that gives it only whole."""
    if isinstance(generator, StreamingGenerator):
        return (yield from generator.stream(request))
    (reply,) = replies_to([request], generator)
    if reply.error is None and reply.text:
        yield reply.text
    return reply
