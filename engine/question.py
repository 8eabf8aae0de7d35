"""A question with what it is asked in: its language, and the conversation before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphmill.engine.language import detect_language
from graphmill.engine.models import Message
from graphmill.engine.query_param import QueryParam


@dataclass(frozen=True)
class Question:
    """What is asked, and what is searched for."""

    text: str
    language: str
    history: Sequence[Message] = ()
    """Earlier turns, oldest first, as many as are wanted."""

    @staticmethod
    def of(text: str, param: QueryParam) -> Question:
        return Question(text, detect_language(text), param.history)

    @property
    def is_empty(self) -> bool:
        return not self.text.strip()

    @property
    def search_text(self) -> str:
        """The question, after the one before it: "and when was that?" means nothing by itself."""
        before = [message["content"] for message in self.history if message["role"] == "user"]
        return f"{before[-1]}\n{self.text}" if before else self.text
