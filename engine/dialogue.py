"""A question as a straight-line function: what it wants of the index and of the model, step by step.

A dialogue is a Python generator. It yields a step, is sent what came of it, and returns its result::

    def ask(search):
        yield LookUp(search)  # sent []: what the mode searches for was looked up, or will be when it is asked for
        yield (rank := Rank(reranker, question, texts))  # sent []: rank.scores are there, or rank.error says why not
        (reply,) = yield Ask([Request("a", messages)])  # sent the replies, in the order of the requests
        return reply.text

``run_dialogues.py`` takes one to its end, or many beside each other.
"""

from __future__ import annotations

from collections.abc import Generator as Coroutine
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from graphmill.engine.models import Reply, Request

if TYPE_CHECKING:
    from graphmill.engine.look_up import Want
    from graphmill.engine.rerank import Reranker, Scores
    from graphmill.engine.search import Search

Result = TypeVar("Result")


@dataclass(frozen=True)
class LookUp:
    """Wants something to be looked up, together with what other questions want where many are asked."""

    search: Search
    wants: Sequence[Want] | None = None
    """None: what the mode of the question searches for."""


@dataclass(frozen=True)
class Ask:
    """Wants replies of the model to some requests, which may run beside each other."""

    requests: Sequence[Request]
    is_answer: bool = False
    """Whether the one reply is what a person waits for, and is shown as it comes where that is wanted."""


@dataclass
class Rank:
    """Wants scores of some texts for a question, together with what other questions want; they are left here."""

    reranker: Reranker
    question: str
    texts: Sequence[str]
    scores: Scores | None = None
    """float32 [n], the higher, the better; NaN of a text that has none."""
    error: str = ""
    """Why there are none."""


Step: TypeAlias = LookUp | Ask | Rank
Dialogue: TypeAlias = Coroutine[Step, list[Reply], Result]
