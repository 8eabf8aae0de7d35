"""Under what a model's reply is kept, and whether it is worth keeping.

A reply's key is the hash of all that shapes it: model, messages, temperature, schema and options. max_tokens is not
part of it: only whole replies are kept, and a whole one serves any request that allows as many tokens as it has.
"""

from __future__ import annotations

import json
from hashlib import blake2b

from graphmill.engine.models import Reply, Request

WHOLE = (None, "stop")
"""Finish reasons of a reply that ended by itself, or is not known to have been cut off."""


def request_key(model: str, request: Request) -> str:
    """128-bit hash of what shapes the reply, as 32 hex digits; the request's id and max_tokens are no part of it."""
    digest = blake2b(digest_size=16)
    rest = {"temperature": float(request.temperature), "schema": request.schema, "options": dict(request.options)}
    text = json.dumps([model, rest], sort_keys=True, separators=(",", ":"), default=repr)
    # Messages are hashed as they are: a prompt is long, and its shape is known.
    for part in (text, *(word for message in request.messages for pair in sorted(message.items()) for word in pair)):
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded))
        digest.update(encoded)
    return digest.hexdigest()


def is_kept(reply: Reply, max_tokens: int) -> bool:
    """Whether a reply is whole: it did not fail, ended by itself, and says something."""
    cut_off = reply.finish_reason is None and 0 < max_tokens <= reply.completion_tokens
    return reply.error is None and reply.finish_reason in WHOLE and not cut_off and bool(reply.text.strip())
