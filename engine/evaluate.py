"""What questions with known answers say of the query modes: recall, precision of references, tokens and time.

How a fact is found in a text is said in ``find_facts``. Of each mode:

context recall       the facts found in the context, of all facts of all questions: in the names, texts, descriptions,
                     reports and claims of its rows, or in its points where a model made them; not in what the JSON adds
                     to them. In bypass, which has no context, null
complete             the questions whose context holds all their facts, of those that have any
answer recall        the same as context recall, of answers without their citations and their list of references;
                     without a model an answer is the passages that it quotes
reference precision  the references that bear on their question, of all references of all answers. A reference is a
                     number that the answer cites. It bears on the question if the row that was shown under this number
                     holds one of the facts, or the text of a chunk that it stands for does, or if it stands for a place
                     in one of the documents that the file names. A question with neither documents nor facts is not
                     judged, and counted as such
tokens               means: of the context and of the prompt of the answer, by the index's tokenizer, and of all that
                     the model read and wrote for a question, keywords and map steps included, by its own count
seconds              the median of a question

A question that failed counts as failed and in nothing else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean, median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from graphmill.engine.build import OpenIndex
from graphmill.engine.cite import only_citing, render_references
from graphmill.engine.config import ConfigError
from graphmill.engine.find_facts import folded, folded_points, folded_rows, holds
from graphmill.engine.index import Index
from graphmill.engine.language import detect_language
from graphmill.engine.metered import MeteredGenerator
from graphmill.engine.openai_generator import GeneratorGone
from graphmill.engine.prompt_room import MESSAGE_TOKENS
from graphmill.engine.query import Answer, AnswerError, query
from graphmill.engine.query_param import MODES, QueryParam
from graphmill.engine.question_file import QuestionRow
from graphmill.engine.run_folder import IndexFolderError
from graphmill.engine.server import ServerError
from graphmill.engine.vllm_process import EngineGone

Result = dict[str, Any]

DEFAULT_MODES = tuple(mode for mode in MODES if mode != "bypass")

_REFERENCE = pa.struct([
    ("number", pa.int32()), ("kind", pa.string()), ("label", pa.string()), ("document", pa.string()),
    ("chunk_id", pa.string()), ("start", pa.int64()), ("end", pa.int64()),
])  # fmt: skip
EVALUATION = pa.schema([
    ("id", pa.string()), ("mode", pa.string()), ("question", pa.string()), ("num_facts", pa.int32()),
    ("context_facts", pa.int32()), ("missing_facts", pa.list_(pa.string())), ("answer_facts", pa.int32()),
    ("num_references", pa.int32()), ("right_references", pa.int32()), ("context_tokens", pa.int64()),
    ("prompt_tokens", pa.int64()), ("model_tokens", pa.int64()), ("seconds", pa.float64()), ("answer", pa.string()),
    ("references", pa.list_(_REFERENCE)), ("warnings", pa.list_(pa.string())), ("error", pa.string()),
])  # fmt: skip
"""A row a question and mode. context_facts is null in bypass, right_references where a question is not judged,
model_tokens without a model, and all that was not come to where there is an error. missing_facts: from the context."""


def evaluate(
    opened: OpenIndex,
    questions: Iterable[QuestionRow],
    modes: Sequence[str],
    param: QueryParam | None = None,
    done: Collection[tuple[str, str]] = (),
) -> Iterator[Result]:
    """Asks every question in every mode, mode by mode, and yields a row of EVALUATION for each as it is answered.

    The mode of ``param`` and those of the questions don't count. An engine that is gone ends it.

    done  ids of questions with modes in which they are not asked
    """
    questions = list(questions)
    param = replace(param or QueryParam(), only_need_context=False, only_need_prompt=False, stream=False)
    find_texts = _chunk_texts(opened.index)
    for mode in modes:
        for row in (row for row in questions if (row.id, mode) not in done):
            yield _ask(opened, row, replace(param, mode=mode), find_texts)


def summarise(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The measures of each mode, in the order in which the modes come; null where there is nothing to measure."""
    modes: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        modes.setdefault(result["mode"], []).append(result)
    return [{"mode": mode} | _measures(rows) for mode, rows in modes.items()]


def unknown_documents(index: Index, questions: Iterable[QuestionRow]) -> list[str]:
    """Documents that questions name and the index doesn't have."""
    documents = index.folder.read("documents", ["path"])["path"].to_pylist()
    # A record's path is its file's with its id after it.
    known = {*documents, *(path[: match.start()] for path in documents for match in re.finditer("#", path))}
    return sorted({path for row in questions for path in row.documents} - known)


def _ask(
    opened: OpenIndex, row: QuestionRow, param: QueryParam, find_texts: Callable[[list[str]], list[str]]
) -> Result:
    result: Result = dict.fromkeys(EVALUATION.names)
    result |= {"id": row.id, "mode": param.mode, "question": row.question, "num_facts": len(row.facts)}
    caller = opened.caller()
    meter = None if caller is None else MeteredGenerator(caller)
    begin = time.perf_counter()
    try:
        # Past whatever the open index keeps of answers: what is measured is the work.
        answer = query(opened.index, row.question, param, meter, opened.reranker)
    except (AnswerError, ServerError, IndexFolderError, ValueError) as error:
        if isinstance(error, EngineGone | GeneratorGone | ConfigError):
            raise
        return result | {"error": str(error), "seconds": time.perf_counter() - begin}
    result |= {"seconds": time.perf_counter() - begin, "warnings": answer.warnings}
    shown = folded_rows(answer.data)
    is_points = meter is not None and param.mode in ("global", "drift")
    context = folded_points(answer.context) if is_points else "\n".join(shown.values())
    missing = [fact for fact in row.facts if not holds(context, fact)]
    if param.mode != "bypass":
        result |= {"context_facts": len(row.facts) - len(missing), "missing_facts": [fact[0] for fact in missing]}
    text = _without_references(answer)
    said = folded(text if param.mode == "bypass" else only_citing(text, ()))
    result["answer_facts"] = sum(holds(said, fact) for fact in row.facts)
    counts = opened.index.tokenizer.count([answer.context, *(message["content"] for message in answer.prompt)])
    result["context_tokens"] = int(counts[0])
    result["prompt_tokens"] = int(counts[1:].sum()) + MESSAGE_TOKENS * len(answer.prompt)
    if meter is not None:
        result["model_tokens"] = sum(used.prompt_tokens + used.completion_tokens for used in meter.used.values())
    numbers = {reference.number for reference in answer.references}
    result |= {"answer": text, "references": list(map(asdict, answer.references)), "num_references": len(numbers)}
    if row.documents or row.facts:
        result["right_references"] = len(_bearing(row, answer, shown, find_texts))
    return result


def _bearing(
    row: QuestionRow, answer: Answer, shown: Mapping[int, str], find_texts: Callable[[list[str]], list[str]]
) -> set[int]:
    """Numbers of the references that bear on the question. shown: of each number the row's text, folded."""
    starts = tuple(f"{path}#" for path in row.documents)
    right = {r.number for r in answer.references if r.document in row.documents or r.document.startswith(starts)}
    others = [r for r in answer.references if r.number not in right] if row.facts else []
    for reference, text in zip(others, find_texts([r.chunk_id for r in others]), strict=True):
        told = "\n".join((folded(text), shown.get(reference.number, "")))
        if any(holds(told, fact) for fact in row.facts):
            right.add(reference.number)
    return right


def _measures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    answered = [row for row in rows if row["error"] is None]
    with_facts = [row for row in answered if row["num_facts"]]
    searched = [row for row in with_facts if row["context_facts"] is not None]
    judged = [row for row in answered if row["right_references"] is not None]
    return {
        "num_questions": len(rows),
        "num_failed": len(rows) - len(answered),
        "num_with_facts": len(with_facts),
        "context_recall": _ratio(searched, "context_facts", "num_facts"),
        "complete": _mean([row["context_facts"] == row["num_facts"] for row in searched]),
        "answer_recall": _ratio(with_facts, "answer_facts", "num_facts"),
        "num_judged": len(judged),
        "num_references": sum(row["num_references"] for row in judged),
        "reference_precision": _ratio(judged, "right_references", "num_references"),
        "context_tokens": _mean([row["context_tokens"] for row in answered]),
        "prompt_tokens": _mean([row["prompt_tokens"] for row in answered]),
        "model_tokens": _mean([row["model_tokens"] for row in answered if row["model_tokens"] is not None]),
        "seconds": median([row["seconds"] for row in answered]) if answered else None,
        "num_warned": sum(bool(row["warnings"]) for row in answered),
    }


def _ratio(rows: Sequence[Mapping[str, Any]], part: str, whole: str) -> float | None:
    total = sum(row[whole] for row in rows)
    return sum(row[part] for row in rows) / total if total else None


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _without_references(answer: Answer) -> str:
    """The answer less the list of references, whose labels would count for facts."""
    return answer.answer.removesuffix(render_references(answer.references, detect_language(answer.question)))


def _chunk_texts(index: Index) -> Callable[[list[str]], list[str]]:
    """Looks up the texts of chunks by id; the ids are put in order once, where any are asked for."""
    row_of: dict[str, int] = {}

    def find(ids: list[str]) -> list[str]:
        if not row_of:
            row_of.update(zip(index.chunks["chunk_id"].to_pylist(), range(index.chunks.num_rows), strict=True))
        texts: list[str] = pc.take(index.chunks["text"], pa.array([row_of[i] for i in ids], pa.int64())).to_pylist()
        return texts

    return find
