"""Engine arguments on the command line: ``--llm-arg KEY=VALUE``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from graphmill.engine.config import ConfigError

_PYTHON_WORDS = {"True": True, "False": False, "None": None}


def llm_args(pairs: Sequence[str] | None) -> dict[str, Any] | None:
    """The arguments by name; a value is JSON (8192, true, {"a": 1}) where it reads as such, else a text."""
    if not pairs:
        return None
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not equals or not name:
            raise ConfigError(f"--llm-arg must be KEY=VALUE, got {pair!r}")
        try:
            arguments[name] = json.loads(value)
        except ValueError:
            arguments[name] = _PYTHON_WORDS.get(value, value)
    return arguments
