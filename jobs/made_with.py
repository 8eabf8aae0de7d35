"""What answers in a file were made with: by this a later run knows whether it may go on with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from graphmill.engine.build import OpenIndex
from graphmill.engine.config import Config


def asked(param: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """What was set for the questions, as JSON reads it back."""
    models = {"llm": config.llm.model, "reranker": config.reranker.model}
    found: dict[str, Any] = json.loads(json.dumps({**param, **models}))
    return found


def made_with(opened: OpenIndex) -> dict[str, Any]:
    """What is only known when the models are there, and the index again: it may have changed until then."""
    return {
        "index": opened.index.folder.state,
        "model": opened.generator.model if opened.generator is not None else "none",
        "reranker": getattr(opened.reranker, "model", "none"),
    }
