"""How many tokens of knowledge a prompt has room for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphmill.engine.answer_prompts import answer_messages
from graphmill.engine.index import Index
from graphmill.engine.models import Generator, Message
from graphmill.engine.points import answer_tokens
from graphmill.engine.query_param import QueryParam
from graphmill.engine.question import Question

SHORT_BYTES = 256
MESSAGE_TOKENS = 8
"""What a chat template puts round a message."""


def prompt_limit(param: QueryParam, generator: Generator | None) -> int:
    """Most tokens of a whole prompt: ``max_total_tokens``, or what the model's context has beside the answer."""
    if generator is None:
        return param.max_total_tokens
    return min(param.max_total_tokens, generator.context_tokens - answer_tokens(generator))


def last_turns(history: Sequence[Message], index: Index, budget: int) -> list[Message]:
    """The last turns of a conversation, each a question and what follows it, as many as fit the budget of tokens."""
    starts = [place for place, message in enumerate(history) if message["role"] == "user"]
    if not starts:
        return []
    tokens = index.tokenizer.count([message["content"] for message in history]) + MESSAGE_TOKENS
    after = np.cumsum(tokens[::-1])[::-1]
    return list(history[next((start for start in starts if after[start] <= budget), len(history)) :])


def prompt_room(index: Index, kind: str, question: Question, param: QueryParam, generator: Generator | None) -> int:
    """Tokens left for the knowledge in a prompt, within ``max_total_tokens`` and the model's context; below 0 where
    the instructions, the history and the question alone are too long."""
    limit = prompt_limit(param, generator)
    system, *others = answer_messages(
        kind,
        question.language,
        "",
        question.text,
        question.history,
        param.response_type,
        param.user_prompt,
        param.strict,
    )
    used = index.lines.count_fixed(system["content"]) + MESSAGE_TOKENS
    return limit - used - _at_most([message["content"] for message in others], index) - MESSAGE_TOKENS * len(others)


def _at_most(texts: list[str], index: Index) -> int:
    """Tokens of the texts, or, where these are short, their bytes, which are no fewer and take no time to count."""
    num_bytes = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return num_bytes if num_bytes <= SHORT_BYTES else int(index.tokenizer.count(texts).sum())
