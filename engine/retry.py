"""When a failed HTTP request is tried again, how long to wait before, and what its error body says."""

from __future__ import annotations

import email.utils
import json
import re
from datetime import UTC, datetime
from typing import Any

MAX_BACK_OFF_S = 60.0
MAX_SHOWN_CHARS = 300
_RETRIED_CLIENT_ERRORS = frozenset({408, 409, 425, 429})


def is_retried(status: int) -> bool:
    """Whether an answer with this status may be followed by a better one."""
    return status in _RETRIED_CLIENT_ERRORS or status >= 500


def back_off_s(attempt: int, draw: float, first_s: float = 1.0) -> float:
    """Seconds before the next try after failed try number ``attempt`` (from 0); ``draw`` is uniform in [0, 1).

    At most first_s, doubled with each try. Half of it is random: the many requests that a busy server turned away
    together don't come back together.
    """
    return min(MAX_BACK_OFF_S, first_s * float(1 << min(attempt, 16))) * (0.5 + draw / 2)


def retry_after_s(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks for, given as a number or as an HTTP date; None when it says nothing."""
    if value is None:
        return None
    if re.fullmatch(r"\s*\d+(\.\d*)?\s*", value):
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def error_text(body: str) -> str:
    """The message in an error body: JSON as model servers and gateways write it, a web page, or plain text."""
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    found = _message(value)
    if found is None:
        found = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", body, flags=re.DOTALL | re.IGNORECASE)
    return shorten(found)


def shorten(text: str) -> str:
    """On one line, of at most MAX_SHOWN_CHARS characters."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 1] + "…"


def _message(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:  # FastAPI lists what is wrong with each field
        return "; ".join(filter(None, map(_message, value))) or None
    if isinstance(value, dict):
        for key in ("error", "message", "detail", "msg"):
            found = _message(value.get(key))
            if found:
                return found
    return None
