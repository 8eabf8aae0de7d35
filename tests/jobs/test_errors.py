"""Errors that are known are one line and an exit code."""

from __future__ import annotations

from graphmill.engine.config import ConfigError
from graphmill.engine.query import AnswerError
from graphmill.engine.run_folder import IndexFolderError
from graphmill.jobs.errors import explain


def test_known_errors_are_a_line_and_unknown_ones_a_traceback() -> None:
    assert explain(AnswerError("the model gave no answer")) == ("the model gave no answer", 1)
    assert explain(IndexFolderError("no index")) == ("no index", 1)
    assert explain(ConfigError("unknown setting")) == ("unknown setting", 2)
    assert explain(KeyError("bug")) == (None, 1)
