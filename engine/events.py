"""Server-sent events that carry JSON, as OpenAI-compatible servers send the pieces of a reply."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Any

DONE = object()
"""Comes last from a server that has said all."""


def is_event_stream(headers: Mapping[str, str]) -> bool:
    """Whether an answer is a stream of events; some servers give a whole answer whatever is asked for."""
    return headers.get("content-type", "").startswith("text/event-stream")


async def read_events(data: AsyncIterable[bytes]) -> AsyncIterator[Any]:
    """The JSON of each event, and DONE in the place of the one that says so, which ends them; others are passed over.

    Only line feeds end a line here: JSON's own strings may hold all else that Python takes for the end of one.
    """
    rest = b""
    async for block in data:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            field, _, value = line.strip().partition(b":")
            if field != b"data":
                continue
            if value.strip() == b"[DONE]":
                yield DONE
                return
            try:
                yield json.loads(value)
            except ValueError:
                continue
