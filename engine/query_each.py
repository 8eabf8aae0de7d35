"""Many questions at once: their look-ups in batches, their requests one stream that keeps the model full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def query_each(
    index: Index,
    questions: Iterable[tuple[str, QueryParam]],
    generator: Generator | None,
    reranker: Reranker | None = None,
    cache: AnswerCache | None = None,
) -> Iterator[tuple[int, Answer]]:
    """The number of each question, from 0, and its answer, as they come; ``error`` says why one has none.

    Raises what ends all of them, such as a model server that is gone.
    """

    def one(number: int, answer: Answer, param: QueryParam) -> Dialogue[tuple[int, Answer]]:
        try:
            yield from answering(index, answer, param, generator, reranker, cache)
        except (AnswerError, IndexFolderError, ValueError) as error:
            answer.error = str(error)
        return number, answer

    dialogues = (one(n, Answer(question, param.mode), param) for n, (question, param) in enumerate(questions))
    return run_each(dialogues, generator, look_up_steps)
