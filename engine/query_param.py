"""What a question may set. Field names follow nano-graphrag and LightRAG, so that users of either find them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from graphmill.engine.models import Message

MODES = ("naive", "local", "global")


@dataclass(frozen=True)
class QueryParam:
    """Limits named after tokens count those of the index's tokenizer."""

    mode: str = "global"
    only_need_context: bool = False
    only_need_prompt: bool = False
    response_type: str = "Multiple Paragraphs"
    level: int = 2
    """Deepest level of communities whose reports are used; 0 is the coarsest."""
    top_k: int = 20
    """Entities (local) that are looked up."""
    chunk_top_k: int = 20
    """Chunks (naive) that are looked up."""
    naive_max_token_for_text_unit: int = 12000
    local_max_token_for_text_unit: int = 4000
    local_max_token_for_local_context: int = 4800
    local_max_token_for_community_report: int = 3200
    local_community_single_one: bool = False
    global_min_community_rating: float = 0
    global_max_consider_community: int = 512
    global_max_token_for_community_report: int = 16384
    global_special_community_map_llm_kwargs: Mapping[str, Any] = field(
        default_factory=lambda: {"response_format": {"type": "json_object"}}
    )
    max_entity_tokens: int = 6000
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
