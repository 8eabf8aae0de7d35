"""Prompts of the query modes: instructions and knowledge in the system message, then the history, then the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphmill.engine.models import Message
from graphmill.engine.templates import fill, load_templates

KINDS = ("naive", "local", "global_map", "global_reduce")

POINTS_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "points": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"description": {"type": "string"}, "score": {"type": "integer"}},
                "required": ["description", "score"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["points"],
    "additionalProperties": False,
}
"""JSON schema of a global_map reply: points with a score of 0 to 100."""

_KEYS = (
    *((kind, ("grounding", "rules", "context")) for kind in ("naive", "local", "global_reduce")),
    ("global_map", ("context",)),
    ("strict", ()),
    ("permissive", ()),
    ("rules", ("response_type",)),
    ("question", ("question",)),
    ("question_with_wishes", ("question", "user_prompt")),
    ("no_context", ()),
)


def answer_messages(
    kind: str,
    language: str,
    context: str,
    question: str,
    history: Sequence[Message] = (),
    response_type: str = "Multiple Paragraphs",
    user_prompt: str = "",
    strict: bool = True,
    prompts: str = "answer",
) -> list[Message]:
    """Chat messages for a question of one of KINDS.

    language  of the question, which picks the prompts; the answer is asked for in the language of the question
    context   JSON lines; see engine/context_rows.py
    history   earlier turns, oldest first, as messages; cut by the caller to what is wanted
    strict    only the given knowledge; else knowledge from elsewhere is allowed, and marked, except in global_map
    prompts   name of the packaged prompt file, or path of another
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    templates = load_templates(prompts, language, _KEYS)
    values = {
        "grounding": templates["strict" if strict else "permissive"],
        "rules": fill(templates["rules"], {"response_type": response_type}),
        "context": context,
    }
    asked = {"question": question, "user_prompt": user_prompt}
    return [
        {"role": "system", "content": fill(templates[kind], values)},
        *history,
        {"role": "user", "content": fill(templates["question_with_wishes" if user_prompt else "question"], asked)},
    ]


def no_context_answer(language: str, prompts: str = "answer") -> str:
    """What is answered, without a model, where nothing was found; ends in "[no-context]"."""
    return load_templates(prompts, language, _KEYS)["no_context"]
