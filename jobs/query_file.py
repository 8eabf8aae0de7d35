"""``graphmill query --questions``: a file of questions, answered as fast as the model can."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from graphmill.engine.answer import Answer
from graphmill.engine.answer_file import AnswerFile
from graphmill.engine.build import OpenIndex, open_index
from graphmill.engine.config import ConfigError, load_config
from graphmill.engine.progress import Progress
from graphmill.engine.query_param import QueryParam
from graphmill.engine.question_file import QuestionRow, read_questions
from graphmill.engine.question_param import unused_fields, with_own_param
from graphmill.engine.run_folder import RunFolder
from graphmill.jobs.made_with import asked, made_with
from graphmill.jobs.progress import make_progress
from graphmill.jobs.result_file import check
from graphmill.jobs.show import show, show_json

SHOWN = ("answer", "references", "keywords", "follow_ups", "timings", "warnings", "cached", "error")
"""What a line holds of an answer; the context and its rows, or the prompt, only where these were asked for."""

Questions = Sequence[tuple[QuestionRow, QueryParam]]


def run(
    index: Path,
    file: Path,
    out: Path | None,
    param: Mapping[str, Any],
    config_file: Path | None,
    settings: Mapping[str, Any],
    as_json: bool,
) -> int:
    """Writes a JSON line an answer to ``out``, or to standard output; exit code 3 when some questions failed."""
    questions = _read(file, param)
    if out is not None:
        check(out, file)
    config = load_config(config_file, settings)
    how_asked = asked(param, config)
    # The index's folder is opened before ``out`` is looked at, and its models only where something is left to ask.
    state = RunFolder.open(index).state
    num_failed = 0
    with ExitStack() as stack:
        answers = None
        if out is not None:
            how = {"index": state, "asked": how_asked}
            answers = stack.enter_context(AnswerFile(out, [row for row, _ in questions], how))
        todo = [(row, p) for row, p in questions if answers is None or (row.id, row.mode) not in answers.done]
        if todo:
            progress = make_progress(quiet=as_json)
            stack.enter_context(progress)
            opened = stack.enter_context(open_index(index, config, progress=progress))
            progress.start("questions", len(questions), "questions", len(questions) - len(todo))
            num_failed = _ask(opened, todo, how_asked, answers, progress)
    if out is not None:
        summary = {"questions": len(questions), "asked": len(todo), "failed": num_failed, "out": str(out)}
        told = f"{len(todo):,} of {len(questions):,} questions asked, {num_failed:,} failed; the answers are in {out}"
        if as_json:
            show_json(summary)
        else:
            show(told)
    if num_failed:
        show(f"{num_failed} of {len(todo)} questions failed; each one's line says why in `error`", file=sys.stderr)
    return 3 if num_failed else 0


def _read(file: Path, param: Mapping[str, Any]) -> Questions:
    """The questions, each with what it is to be asked with; tells which fields of the file nothing reads."""
    try:
        QueryParam(**param)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    rows = read_questions(file)
    questions = with_own_param(file, rows, param)
    if unused := unused_fields(rows):
        show(f"{file} has fields that are not used: {unused}", file=sys.stderr)
    return questions


def _ask(
    opened: OpenIndex, todo: Questions, how_asked: Mapping[str, Any], answers: AnswerFile | None, progress: Progress
) -> int:
    """Writes a line for each question as its answer comes; returns how many failed."""
    how = made_with(opened)
    if answers is not None:
        answers.begin(how)
    num_failed = 0
    for number, answer in opened.query_each([(row.question, p) for row, p in todo]):
        row, parameters = todo[number]
        line = {"id": row.id, "question": row.question, "mode": row.mode}
        line |= ({"param": row.param} if row.param else {}) | how | {"asked": how_asked}
        line |= _shown(answer, parameters)
        num_failed += bool(answer.error)
        if answers is not None:
            answers.write(line)
        else:
            show_json(line)
        progress.advance(note=f"{num_failed} failed" if num_failed else "")
    progress.finish(f"{num_failed} failed" if num_failed else "")
    return num_failed


def _shown(answer: Answer, param: QueryParam) -> dict[str, Any]:
    names = [*SHOWN, *(["context", "data"] if param.only_need_context else [])]
    return answer.document([*names, *(["prompt"] if param.only_need_prompt else [])])
