"""The parts of a report, how they are read from a model's reply, and how they are rendered as one text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphmill.engine.names import without_invisible
from graphmill.engine.read_object import read_json_object

MAX_FINDINGS = 10

_STRING = {"type": "string"}
REPORT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "title": _STRING,
        "summary": _STRING,
        "rating": {"type": "number"},
        "rating_explanation": _STRING,
        "findings": {
            "type": "array",
            "maxItems": MAX_FINDINGS,
            "items": {
                "type": "object",
                "properties": {"summary": _STRING, "explanation": _STRING},
                "required": ["summary", "explanation"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["title", "summary", "rating", "rating_explanation", "findings"],
    "additionalProperties": False,
}
"""JSON schema of a report. Bounds that not every server can enforce (of numbers) are left to the reading."""

_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)?")
_OUT_OF = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)")


class Finding(NamedTuple):
    summary: str
    explanation: str


@dataclass
class ReportText:
    """What a report says."""

    title: str
    summary: str
    rating: float
    """0 to 10."""
    rating_explanation: str
    findings: list[Finding]
    is_repaired: bool = False
    """Read from a reply that was not quite what was asked for."""

    def render(self) -> str:
        """The report as Markdown: the same form whatever made it."""
        parts = [f"# {self.title}", self.summary]
        for finding in self.findings:
            parts += [f"## {finding.summary}", finding.explanation]
        return "\n\n".join(part for part in parts if part.strip())


def read_report(reply: str) -> ReportText | None:
    """The report in a model's reply, or None where there is none: no object, or one without title and summary.

    Ratings such as "8.5/10" are read as numbers and held within 0 to 10, and findings given as plain text are taken
    as their summaries.
    """
    values = read_json_object(reply, ("title", "summary", "findings"))
    if values is None:
        return None
    title, summary = _text(values.get("title")), _text(values.get("summary"))
    if not title and not summary:
        return None
    listed = values.get("findings", [])
    findings = [_finding(value) for value in (listed if isinstance(listed, list) else [listed])]
    return ReportText(
        title=" ".join((title or summary[:80]).split()),
        summary=summary,
        rating=_rating(values.get("rating")),
        rating_explanation=_text(values.get("rating_explanation")),
        findings=[f for f in findings if f.summary or f.explanation][:MAX_FINDINGS],
        is_repaired=not _is_as_asked(reply),
    )


def _finding(value: Any) -> Finding:
    if not isinstance(value, dict):
        return Finding(_line(value), "")
    summary, explanation = _line(value.get("summary")), _text(value.get("explanation"))
    if not summary and explanation:
        # Headings are rendered from summaries, so a finding without one would run into the one before.
        summary, _, explanation = explanation.partition("\n")
    return Finding(summary.strip(), explanation.strip())


def _rating(value: Any) -> float:
    text = _text(value)
    out_of = _OUT_OF.search(text)
    if out_of and float(out_of[2]) > 0:
        number = 10 * float(out_of[1]) / float(out_of[2])
    else:
        found = _NUMBER.search(text)
        number = float(found[0].replace(",", ".")) if found else 0.0
    return min(10.0, max(0.0, number))


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return without_invisible(text).strip()


def _line(value: Any) -> str:
    return " ".join(_text(value).split())


def _is_as_asked(reply: str) -> bool:
    """Whether the reply is the JSON that was asked for, word for word."""
    try:
        values = json.loads(reply)
    except ValueError:
        return False
    return (
        isinstance(values, dict)
        and all(isinstance(values.get(key), str) for key in ("title", "summary", "rating_explanation"))
        and isinstance(values.get("rating"), int | float)
        and isinstance(values.get("findings"), list)
        and all(isinstance(f, dict) and {"summary", "explanation"} <= f.keys() for f in values["findings"])
    )
