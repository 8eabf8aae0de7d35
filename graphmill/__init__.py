"""graphmill: corpora into knowledge graphs that answer questions, on your own hardware.

import graphmill

graphmill.index("docs/", "kb")
with graphmill.open("kb") as kb:
    print(kb.query("Who founded the observatory?", graphmill.QueryParam(mode="local")))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphmill.engine.answer import Answer
    from graphmill.engine.build import OpenIndex, index
    from graphmill.engine.build import open_index as open  # noqa: A004
    from graphmill.engine.config import Config, load_config
    from graphmill.engine.query_param import QueryParam

__version__ = "0.1.0"
__all__ = ["Answer", "Config", "OpenIndex", "QueryParam", "__version__", "index", "load_config", "open"]

_HOMES = {
    "index": ("build", "index"),
    "open": ("build", "open_index"),
    "OpenIndex": ("build", "OpenIndex"),
    "Config": ("config", "Config"),
    "load_config": ("config", "load_config"),
    "Answer": ("answer", "Answer"),
    "QueryParam": ("query_param", "QueryParam"),
}


def __getattr__(name: str) -> Any:
    # Loaded when first asked for, so that importing the package takes no time.
    if name not in _HOMES:
        raise AttributeError(f"module 'graphmill' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    from graphmill.engine.interrupts import interrupts_wait

    with interrupts_wait():
        value = getattr(import_module(f"graphmill.engine.{module}"), attribute)
    globals()[name] = value
    return value
