"""References of an answer: those that the context holds, at most five, and the section that lists them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import groupby

from graphmill.engine.contexts import Reference

MAX_REFERENCES = 5

_CITATION = re.compile(r"([ \t]*)[\[【［](\d{1,6}(?:\s*[,，、;；\-–—]\s*\d{1,6})*)[\]】］]")
_NUMBERS = re.compile(r"(\d+)(?:\s*[-–—]\s*(\d+))?")
_OWN_REFERENCES = re.compile(
    r"\n[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*)?(?:References|参考资料|参考文献)(?:\*\*)?[ \t]*[:：]?(?:\*\*)?[ \t]*"
    r"(?:\n[ \t]*(?:[-*+•\[［【(\d].*)?)*\Z",
    re.IGNORECASE,
)
"""A section of references that the model wrote all the same, at the end: a heading, then list items only."""


def without_own_references(text: str) -> str:
    """The answer less a section of references that the model wrote itself."""
    return _OWN_REFERENCES.sub("", "\n" + text).strip()


def cite(text: str, references: Sequence[Reference]) -> tuple[str, list[Reference]]:
    """Drops the citations that are not among the references, and all after the first five different ones."""
    known = sorted({reference.number for reference in references})
    cited: list[int] = []

    def keep(match: re.Match[str]) -> str:
        kept = []
        for first, last in _NUMBERS.findall(match[2]):
            for number in known[bisect_left(known, int(first)) : bisect_right(known, int(last or first))]:
                if number in cited or len(cited) < MAX_REFERENCES:
                    if number not in cited:
                        cited.append(number)
                    kept.append(f"[{number}]")
        return match[1] + "".join(kept) if kept else ""

    text = _CITATION.sub(keep, text)
    return text, sorted((r for r in references if r.number in cited), key=lambda r: cited.index(r.number))


def render_references(references: Sequence[Reference], language: str) -> str:
    """The References section: one line a number, "[KG]" for the graph and "[DC]" for a document."""
    lines = []
    for number, group in groupby(references, key=lambda reference: reference.number):
        places = list(group)
        labels = ", ".join(dict.fromkeys(place.label for place in places))
        lines.append(f"- [{number}] {'[DC]' if places[0].kind == 'chunk' else '[KG]'} {labels}")
    heading = "参考资料" if language == "zh" else "References"
    return f"\n\n### {heading}\n\n" + "\n".join(lines) if lines else ""
