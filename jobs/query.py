"""``graphmill query``: one question to an index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphmill.engine.build import open_index
from graphmill.engine.config import ConfigError, load_config
from graphmill.engine.query_param import QueryParam
from graphmill.jobs.progress import PlainProgress
from graphmill.jobs.show import show, show_json, show_notes
from graphmill.jobs.sign_of_life import sign_of_life
from graphmill.jobs.write_markdown import write_markdown


def run(
    index: Path,
    question: str,
    param: Mapping[str, Any],
    config_file: Path | None,
    settings: Mapping[str, Any],
    as_json: bool,
) -> int:
    """Prints the answer as it is written: Markdown, rendered on a terminal; or one JSON document, when it is whole."""
    try:
        parameters = QueryParam(**param, stream=not as_json)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    progress = PlainProgress(quiet=as_json)
    with open_index(index, load_config(config_file, settings), progress=progress) as opened:
        with sign_of_life(opened.generator is not None) as until_first:
            answer = opened.query(question, parameters)
            if not (as_json or parameters.only_need_prompt or parameters.only_need_context):
                write_markdown(until_first(answer))
        if as_json:
            show_json(answer.document(), indent=2)
        elif parameters.only_need_prompt:  # which holds the context too
            prompt = "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in answer.prompt)
            show(prompt or answer.answer)
        elif parameters.only_need_context:
            show(answer.context or answer.answer)
    show_notes(answer)
    return 0
