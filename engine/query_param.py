"""What a question may set. Field names follow nano-graphrag and LightRAG, so that users of either find them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from graphmill.engine.models import Message

KEYWORD_MODES = ("keywords-local", "keywords-global", "hybrid", "mix")
MODES = ("naive", "local", "global", *KEYWORD_MODES, "drift", "bypass")


@dataclass(frozen=True)
class QueryParam:
    """Limits named after tokens count those of the answering model's tokenizer, and none is ever exceeded."""

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
    """Chunks that are looked up (naive, mix), and most chunks in the context of these and of the keyword modes."""
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
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {self.mode!r}")
        for f in fields(self):
            value, minimum = getattr(self, f.name), 1 if f.name.endswith("top_k") else 0
            if isinstance(value, int | float) and not isinstance(value, bool) and value < minimum:
                raise ValueError(f"{f.name} must be at least {minimum}, got {value}")
        for name in ("hl_keywords", "ll_keywords"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(word, str) for word in value):
                raise ValueError(f"{name} must be a list of strings, got {value!r}")

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
