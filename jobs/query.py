"""``graphmill query``: one question to an index."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphmill.engine.build import open_index
from graphmill.engine.config import ConfigError, load_config
from graphmill.engine.query import Answer
from graphmill.engine.query_param import QueryParam
from graphmill.jobs.progress import PlainProgress


def run(
    index: Path,
    question: str,
    param: Mapping[str, Any],
    config_file: Path | None,
    settings: Mapping[str, Any],
    as_json: bool,
) -> int:
    """Prints the answer: Markdown, rendered on a terminal, or one JSON document."""
    try:
        parameters = QueryParam(**param)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    progress = PlainProgress(quiet=as_json)
    with open_index(index, load_config(config_file, settings), progress=progress) as opened:
        answer = opened.query(question, parameters)
    for warning in answer.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if as_json:
        print(json.dumps(as_document(answer), ensure_ascii=False, indent=2))
    elif parameters.only_need_context:
        print(answer.context or answer.answer)
    elif parameters.only_need_prompt:
        print("\n\n".join(f"[{message['role']}]\n{message['content']}" for message in answer.prompt) or answer.answer)
    else:
        _show(answer.answer)
    return 0


def as_document(answer: Answer) -> dict[str, Any]:
    """The answer as JSON holds it."""
    return dataclasses.asdict(answer)


def _show(markdown: str) -> None:
    if not sys.stdout.isatty():
        print(markdown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(markdown))
