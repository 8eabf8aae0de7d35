"""Many questions at once: their look-ups in batches, their requests one stream that keeps the model full."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from graphmill.engine.answer import Answer
from graphmill.engine.answer_cache import AnswerCache
from graphmill.engine.dialogue import Dialogue
from graphmill.engine.index import Index
from graphmill.engine.models import Generator
from graphmill.engine.points import AnswerError
from graphmill.engine.query import answering
from graphmill.engine.query_param import QueryParam
from graphmill.engine.rerank import Reranker
from graphmill.engine.retrieve_batch import look_up_steps
from graphmill.engine.run_dialogues import run_each
from graphmill.engine.run_folder import IndexFolderError
from graphmill.engine.server import ServerError

Asked: TypeAlias = str | tuple[str, QueryParam | None]
"""A question, alone or with how it is asked; None is as QueryParam has it."""


def query_each(
    index: Index,
    questions: Iterable[Asked],
    generator: Generator | None,
    reranker: Reranker | None = None,
    cache: AnswerCache | None = None,
) -> Iterator[tuple[int, Answer]]:
    """The number of each question, from 0, and its answer, as they come; ``error`` says why one has none.

    Raises what ends all of them, such as a model server that is gone, and TypeError for what is no question: of a
    sequence at once, before any is asked, and else when it is met.
    """
    if isinstance(questions, str | bytes | Mapping) or not isinstance(questions, Iterable):
        raise TypeError(f"query_each() takes a list of questions, got {reprlib.repr(questions)}")
    pairs: Iterable[tuple[str, QueryParam]] = (_pair(n, asked) for n, asked in enumerate(questions))
    if isinstance(questions, Sequence):
        pairs = list(pairs)

    def one(number: int, answer: Answer, param: QueryParam) -> Dialogue[tuple[int, Answer]]:
        try:
            yield from answering(index, answer, param, generator, reranker, cache)
        except ServerError:
            raise
        except (AnswerError, IndexFolderError, ValueError) as error:
            answer.error = str(error)
        except Exception as error:  # whatever it is: the others go on
            answer.error = f"{type(error).__name__}: {error}"
        return number, answer

    dialogues = (one(n, Answer(question, param.mode), param) for n, (question, param) in enumerate(pairs))
    return run_each(dialogues, generator, look_up_steps)


def _pair(number: int, asked: Any) -> tuple[str, QueryParam]:
    match (asked, None) if isinstance(asked, str) else asked:
        case (str(question), QueryParam() | None as param):
            return question, param or QueryParam()
    raise TypeError(
        f"query_each() takes texts, and pairs of a text and a QueryParam; question {number} is {reprlib.repr(asked)}"
    )
