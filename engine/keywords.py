"""Keywords of a question: what it is about (high-level), and the things that it names (low-level)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from graphmill.engine.dialogue import Ask, Dialogue
from graphmill.engine.models import Message, Request
from graphmill.engine.phrases import CONCEPT, name_phrases
from graphmill.engine.read_object import read_json_object
from graphmill.engine.templates import fill, load_templates

MAX_TOKENS = 512
MAX_KEYWORDS = 24
"""Of a level; a model that gives more is rambling."""
KEYWORDS_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "high_level_keywords": {"type": "array", "items": {"type": "string"}},
        "low_level_keywords": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["high_level_keywords", "low_level_keywords"],
    "additionalProperties": False,
}
_KEYS = (("system", ()), ("user", ("question", "history")), ("history", ("turns",)), ("asked", ()), ("answered", ()))
_ASKED = count(1)


@dataclass(frozen=True)
class Keywords:
    """The keywords of both levels, in order; both are empty for a question that names nothing."""

    high_level: tuple[str, ...] = ()
    low_level: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.high_level or self.low_level)


def ask_keywords(question: str, language: str, history: Sequence[Message]) -> Dialogue[tuple[Keywords, str]]:
    """Asks a model for the keywords of a question; a warning where it gave none that can be read, "" else.

    An empty question has none, and asks nothing. Where the model fails, the phrase finder gives them.
    """
    if not question.strip():
        return Keywords(), ""
    # A number of its own: a reply to a question that was interrupted may still come.
    request_id = f"query/keywords{next(_ASKED)}"
    messages = keyword_messages(question, language, history)
    (reply,) = yield Ask([Request(request_id, messages, MAX_TOKENS, schema=KEYWORDS_SCHEMA)])
    found = None if reply.error is not None else read_keywords(reply.text)
    if found is not None:
        return found, ""
    why = reply.error or f"its reply holds no lists of keywords but {reply.text[:80]!r}"
    return phrase_keywords(question, language), f"the model gave no keywords, so the phrase finder did: {why}"


def keyword_messages(question: str, language: str, history: Sequence[Message] = ()) -> list[Message]:
    """Instructions, then the conversation so far and the question."""
    templates = load_templates("keywords", language, _KEYS)
    turns = [
        f"{templates['asked' if message['role'] == 'user' else 'answered']}{' '.join(message['content'].split())}"
        for message in history
    ]
    told = fill(templates["history"], {"turns": "\n".join(turns)}) + "\n\n" if turns else ""
    return [
        {"role": "system", "content": templates["system"]},
        {"role": "user", "content": fill(templates["user"], {"question": question, "history": told})},
    ]


def read_keywords(text: str) -> Keywords | None:
    """The keywords of a model's reply, None where it holds none of the lists."""
    names = tuple(KEYWORDS_SCHEMA["required"])
    value = read_json_object(text, wanted=names)
    if value is None or not any(name in value for name in names):
        return None
    return Keywords(*(_words(value.get(name)) for name in names))


def phrase_keywords(text: str, language: str) -> Keywords:
    """Without a model: the names in a text are low-level, its concepts high-level."""
    named = name_phrases(text, language)
    return Keywords(
        tuple(name for name, type_ in named if type_ == CONCEPT)[:MAX_KEYWORDS],
        tuple(name for name, type_ in named if type_ != CONCEPT)[:MAX_KEYWORDS],
    )


def _words(value: Any) -> tuple[str, ...]:
    """A list of keywords, or what a model writes for one: one text with commas."""
    if isinstance(value, str):
        value = value.replace("，", ",").replace("、", ",").split(",")
    if not isinstance(value, list):
        return ()
    words = (" ".join(word.split()) for word in value if isinstance(word, str))
    return tuple(dict.fromkeys(word for word in words if word))[:MAX_KEYWORDS]
