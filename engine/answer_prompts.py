"""Prompts of the query modes: instructions and knowledge in the system message, then the history, then the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphmill.engine.models import Message
from graphmill.engine.templates import fill, load_templates

KINDS = ("naive", "local", "global_map", "global_reduce", "drift_primer", "drift_map")
MAP_KINDS = frozenset({"global_map", "drift_primer", "drift_map"})
"""Those whose replies are points, in JSON, for a reduce step; they have no form of answer of their own."""

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

DRIFT_SCHEMA: Mapping[str, Any] = {
    **POINTS_SCHEMA,
    "properties": {**POINTS_SCHEMA["properties"], "follow_ups": {"type": "array", "items": {"type": "string"}}},
    "required": ["points", "follow_ups"],
}
"""JSON schema of a drift_primer reply: points, and questions to go on with."""

_KEYS = (
    *((kind, ("grounding", "rules", "context")) for kind in ("naive", "local", "global_reduce")),
    ("global_map", ("context",)),
    ("drift_primer", ("context",)),
    ("drift_map", ("context",)),
    ("follow_up", ("follow_up", "question")),
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
    strict    only the given knowledge; else knowledge from elsewhere is allowed, and marked, except in MAP_KINDS
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
    return [
        {"role": "system", "content": fill(templates[kind], values)},
        *history,
        question_message(language, question, user_prompt, prompts),
    ]


def question_message(language: str, question: str, user_prompt: str = "", prompts: str = "answer") -> Message:
    """The question as the user's message, with wishes for the form of the answer if there are any."""
    template = load_templates(prompts, language, _KEYS)["question_with_wishes" if user_prompt else "question"]
    return {"role": "user", "content": fill(template, {"question": question, "user_prompt": user_prompt})}


def follow_up_question(language: str, follow_up: str, question: str, prompts: str = "answer") -> str:
    """A follow-up question with the question that it serves."""
    template = load_templates(prompts, language, _KEYS)["follow_up"]
    return fill(template, {"follow_up": follow_up, "question": question})


def no_context_answer(language: str, prompts: str = "answer") -> str:
    """What is answered, without a model, where nothing was found; ends in "[no-context]"."""
    return load_templates(prompts, language, _KEYS)["no_context"]
