"""``graphmill query --questions``: a file of questions, answered as fast as the model can."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from graphmill.engine.answer import Answer
from graphmill.engine.answer_file import AnswerFile
from graphmill.engine.build import open_index
from graphmill.engine.config import ConfigError, load_config
from graphmill.engine.query_param import QueryParam
from graphmill.engine.question_file import read_questions
from graphmill.jobs.progress import make_progress

SHOWN = ("answer", "references", "keywords", "follow_ups", "timings", "warnings", "error")
"""What a line holds of an answer; the context and its rows, or the prompt, only where these were asked for."""


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
    rows = read_questions(file)
    try:
        params = [QueryParam(**{**param, **({"mode": row.mode} if row.mode else {})}) for row in rows]
    except ValueError as error:
        raise ConfigError(str(error)) from error
    config = load_config(config_file, settings)
    with ExitStack() as stack:
        answers = None
        if out is not None:
            answers = stack.enter_context(AnswerFile(out, rows, {"model": config.llm.model, "asked": _asked(param)}))
        todo = [(row, p) for row, p in zip(rows, params, strict=True) if answers is None or row.id not in answers.done]
        num_failed = 0
        if todo:
            progress = make_progress(quiet=as_json)
            stack.enter_context(progress)
            opened = stack.enter_context(open_index(index, config, progress=progress))
            progress.start("questions", len(rows), "questions", len(rows) - len(todo))
            for number, answer in opened.query_each([(row.question, p) for row, p in todo]):
                row, parameters = todo[number]
                line: dict[str, Any] = {
                    "id": row.id,
                    "question": row.question,
                    "mode": answer.mode,
                    "model": config.llm.model,
                }
                line["asked"] = _asked(param)
                line |= _shown(answer, parameters)
                num_failed += bool(answer.error)
                if answers is not None:
                    answers.write(line)
                else:
                    print(json.dumps(line, ensure_ascii=False), flush=True)
                progress.advance(note=f"{num_failed} failed" if num_failed else "")
            progress.finish(f"{num_failed} failed" if num_failed else "")
    if out is not None:
        summary = {"questions": len(rows), "asked": len(todo), "failed": num_failed, "out": str(out)}
        told = f"{len(todo):,} of {len(rows):,} questions asked, {num_failed:,} failed; the answers are in {out}"
        print(json.dumps(summary, ensure_ascii=False) if as_json else told)
    if num_failed:
        print(f"{num_failed} of {len(todo)} questions failed; each one's line says why in `error`", file=sys.stderr)
    return 3 if num_failed else 0


def _asked(param: Mapping[str, Any]) -> dict[str, Any]:
    """What was set for the questions, as JSON reads it back."""
    asked: dict[str, Any] = json.loads(json.dumps(dict(param)))
    return asked


def _shown(answer: Answer, param: QueryParam) -> dict[str, Any]:
    document = answer.document()
    names = [*SHOWN, *(["context", "data"] if param.only_need_context else [])]
    return {name: document[name] for name in [*names, *(["prompt"] if param.only_need_prompt else [])]}
