"""What a question may set. Field names follow nano-graphrag and LightRAG, so that users of either find them."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from graphmill.engine.models import Message

KEYWORD_MODES = ("keywords-local", "keywords-global", "hybrid", "mix")
MODES = ("naive", "local", "global", *KEYWORD_MODES, "drift", "bypass")
ROLES = ("system", "user", "assistant")


class _Unfit(Exception):  # noqa: N818  (it says what, not that something went wrong)
    """What is not what a field takes."""


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise _Unfit(value)
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise _Unfit(value)
    return value if isinstance(value, int | float) else value.item()


def _flag(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise _Unfit(value)
    return bool(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Unfit(value)
    return value


def _texts(value: Any) -> tuple[str, ...]:
    texts = _members(value)
    if not all(isinstance(text, str) for text in texts):
        raise _Unfit(value)
    return texts


def _members(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _Unfit(value)
    return tuple(value)


def _message(value: Any) -> Message:
    if not isinstance(value, Mapping) or value.get("role") not in ROLES or not isinstance(value.get("content"), str):
        raise _Unfit(value)
    return {"role": value["role"], "content": value["content"]}


def _options(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise _Unfit(value)
    return dict(value)


_TYPES: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "str": (_text, "a text"),
    "bool": (_flag, "True or False"),
    "bool | None": (lambda value: None if value is None else _flag(value), "True, False or None"),
    "int": (_whole, "a whole number"),
    "int | None": (lambda value: None if value is None else _whole(value), "a whole number or None"),
    "float": (_number, "a number"),
    "Sequence[str]": (_texts, "a list of strings"),
    "Sequence[Message]": (
        lambda value: tuple(map(_message, _members(value))),
        f'a list of messages, each a mapping with a "role" ({", ".join(ROLES)}) and a text as "content"',
    ),
    "Mapping[str, Any]": (_options, "a mapping of names to values"),
}
"""By a field's type: what a value of it is kept as, which raises _Unfit where it is none, and what is allowed."""
_FOR_NONE: Mapping[str, Any] = {
    "hl_keywords": (),
    "ll_keywords": (),
    "conversation_history": (),
    "global_special_community_map_llm_kwargs": {},
    "user_prompt": "",
}
"""What None stands for where users of nano-graphrag and LightRAG pass it; as chunk_top_k it stands for top_k."""


@dataclass(frozen=True)
class QueryParam:
    """Limits named after tokens count those of the answering model's tokenizer, and none is ever exceeded.

    Sequences and mappings are copied, of messages the role and the content; None is taken for an empty one. Raises
    ValueError, which names the field, what it takes and what was given.
    """

    mode: str = "global"
    only_need_context: bool = False
    only_need_prompt: bool = False
    response_type: str = "Multiple Paragraphs"
    stream: bool = False
    """Return as soon as the model is to be asked: iterating over the answer gives its text as it is written."""
    level: int = 2
    """Deepest level of communities whose reports are used; 0 is the coarsest."""
    top_k: int = 20
    """Entities, and relationships, that are looked up."""
    chunk_top_k: int = 20
    """Chunks that are looked up (naive, mix), and most chunks in the context of these and of the keyword modes; None
    stands for top_k."""
    hl_keywords: Sequence[str] = ()
    """High-level keywords, what the question is about, for relationships; where any are given, none are asked for."""
    ll_keywords: Sequence[str] = ()
    """Low-level keywords, the things that the question names, for entities."""
    naive_max_token_for_text_unit: int = 12000
    local_max_token_for_text_unit: int = 4000
    local_max_token_for_local_context: int = 4800
    """Of relationships and claims, in local and drift."""
    local_max_token_for_community_report: int = 3200
    local_community_single_one: bool = False
    global_min_community_rating: float = 0
    global_max_consider_community: int = 512
    global_max_token_for_community_report: int = 16384
    global_special_community_map_llm_kwargs: Mapping[str, Any] = field(
        default_factory=lambda: {"response_format": {"type": "json_object"}}
    )
    max_entity_tokens: int = 6000
    max_relation_tokens: int = 8000
    """Of relationships, in the keyword modes."""
    max_total_tokens: int = 30000
    """Of the whole prompt: instructions, knowledge, history and question."""
    max_token_for_text_unit: int | None = None
    """LightRAG's older name: of chunks, in the keyword modes; None leaves them what is left of the total."""
    max_token_for_local_context: int | None = None
    """LightRAG's older name for max_entity_tokens, in the keyword modes; where it is set, it counts."""
    max_token_for_global_context: int | None = None
    """LightRAG's older name for max_relation_tokens; where it is set, it counts."""
    conversation_history: Sequence[Message] = ()
    history_turns: int = 3
    """Turns, a question and its answer each, of the history that are put into the prompt."""
    user_prompt: str = ""
    """Further instructions about the answer's form, added to the prompt."""
    strict: bool = True
    """Answer from the given knowledge alone; False allows outside knowledge, marked as such."""
    lexical: bool | None = None
    """Fuse BM25 with the vectors; None: where the embedder does not know the question's language."""

    def __post_init__(self) -> None:
        given = vars(self)
        if not isinstance(self.mode, str) or self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {self.mode!r}")
        for name, default, as_kept, allowed, minimum in _CHECKS:
            value = given[name]
            if value is default:  # as most are: a check of each takes ten times as long
                continue
            if value is None:
                value = given["top_k"] if name == "chunk_top_k" else _FOR_NONE.get(name)
            try:
                given[name] = kept = as_kept(value)
            except _Unfit as unfit:
                raise ValueError(f"{name} must be {allowed}, got {reprlib.repr(unfit.args[0])}") from None
            if minimum is not None and kept is not None and not kept >= minimum:
                raise ValueError(f"{name} must be at least {minimum}, got {kept}")

    @property
    def history(self) -> Sequence[Message]:
        """The last turns of the conversation, as many as are wanted.

        What comes before the first question is left out: many chat templates want a conversation to begin with one.
        """
        starts = [place for place, message in enumerate(self.conversation_history) if message["role"] == "user"]
        if not self.history_turns or not starts:
            return ()
        return self.conversation_history[starts[-min(self.history_turns, len(starts))] :]

    @property
    def entity_tokens(self) -> int:
        """Most tokens of entities, in the keyword modes."""
        older = self.max_token_for_local_context
        return self.max_entity_tokens if older is None else older

    @property
    def relation_tokens(self) -> int:
        """Most tokens of relationships, in the keyword modes."""
        older = self.max_token_for_global_context
        return self.max_relation_tokens if older is None else older


_NUMBERS = ("int", "int | None", "float")
_CHECKS = [
    (f.name, f.default, *_TYPES[str(f.type)], (1 if f.name.endswith("top_k") else 0) if f.type in _NUMBERS else None)
    for f in fields(QueryParam)
]
"""Of each field: its name and default, what it is kept as, what is allowed, and the least number."""
