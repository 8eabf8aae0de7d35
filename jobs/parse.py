"""``graphmill parse``: reads one extraction reply and shows what came of it."""

from __future__ import annotations

import sys
from typing import Any

from graphmill.engine.read_reply import LAYOUTS, read_reply
from graphmill.jobs.show import show_result


def run(profile: str, finish_reason: str | None, as_json: bool) -> int:
    """Reads the reply from standard input and prints what the engine makes of it."""
    result = parse(sys.stdin.buffer.read().decode("utf-8", "replace"), profile, finish_reason)
    show_result(result, render, as_json)
    return 0


def render(result: dict[str, Any]) -> str:
    """The reading as lines of text."""
    lines = [f"{name} ({kind}): {description}" for name, kind, description in result["entities"]]
    lines += [
        f"{source} - {target} [{weight:g}]: {description}"
        for source, target, description, weight in result["relationships"]
    ]
    if result["keywords"]:
        lines.append("keywords: " + ", ".join(result["keywords"]))
    reasons = ", ".join(f"{count} {reason}" for reason, count in result["reasons"].items())
    lines.append(
        f"entities: {len(result['entities'])}, relationships: {len(result['relationships'])}, "
        f"rejected: {result['rejected']}{f' ({reasons})' if reasons else ''}, "
        f"{'complete' if result['complete'] else 'not complete'}"
    )
    return "\n".join(lines)


def parse(text: str, profile: str, finish_reason: str | None = None) -> dict[str, Any]:
    """The reply's reading as plain lists, ready for JSON.

    entities           [name, type, description] each
    relationships      [source, target, description, weight] each
    keywords           distinct keywords of the whole chunk, in order
    """
    if profile not in LAYOUTS:
        raise ValueError(f"profile must be one of {', '.join(LAYOUTS)}, got {profile!r}")
    if finish_reason not in (None, "stop", "length"):
        raise ValueError(f"finish_reason must be stop or length, got {finish_reason!r}")
    reading = read_reply(text, LAYOUTS[profile], finish_reason)
    keywords = [keyword for record in reading.records if record.kind == "keywords" for keyword in record.keywords]
    return {
        "entities": [[r.name, r.type, r.description] for r in reading.records if r.kind == "entity"],
        "relationships": [
            [r.name, r.target, r.description, r.strength] for r in reading.records if r.kind == "relationship"
        ],
        "keywords": list(dict.fromkeys(keywords)),
        "complete": reading.complete,
        "rejected": reading.rejected,
        "reasons": dict(sorted(reading.reasons.items())),
    }
