"""References of an answer: those that the context holds, at most five, and the section that lists them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from graphmill.engine.contexts import Reference

MAX_REFERENCES = 5
MAX_LABELS = 3

_CITATION = re.compile(r"([ \t]*)[\[【［](\d{1,6}(?:\s*[,，、;；\-–—]\s*\d{1,6})*)[\]】］]")
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.S)
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
    text, cited = _kept(text, {reference.number for reference in references}, MAX_REFERENCES)
    return text, sorted((r for r in references if r.number in cited), key=lambda r: cited.index(r.number))


def only_citing(text: str, numbers: Collection[int]) -> str:
    """The text without citations of other numbers."""
    return held_to_numbers(text, numbers, len(numbers))


def held_to_numbers(text: str, numbers: Collection[int], limit: int) -> str:
    """The text with citations of these numbers only, and of at most ``limit`` different ones."""
    return _kept(text, numbers, limit)[0]


def numbers_cited(texts: Iterable[str]) -> set[int]:
    """The numbers that citations in the texts name one by one; a range stands for its two ends."""
    citations = (match[2] for text in texts for match in _CITATION.finditer(text))
    return {int(number) for citation in citations for pair in _NUMBERS.findall(citation) for number in pair if number}


def _kept(text: str, numbers: Collection[int], limit: int) -> tuple[str, list[int]]:
    """The text with its citations of these numbers, at most ``limit`` different ones, and those that are left.

    Brackets in code are no citations.
    """
    known = sorted(numbers)
    cited: list[int] = []

    def keep(match: re.Match[str]) -> str:
        kept = []
        for first, last in _NUMBERS.findall(match[2]):
            for number in known[bisect_left(known, int(first)) : bisect_right(known, int(last or first))]:
                if number in cited or len(cited) < limit:
                    if number not in cited:
                        cited.append(number)
                    kept.append(f"[{number}]")
        return match[1] + "".join(kept) if kept else ""

    parts = _CODE.split(text)  # every second one is code
    return "".join(part if place % 2 else _CITATION.sub(keep, part) for place, part in enumerate(parts)), cited


def render_references(references: Sequence[Reference], language: str) -> str:
    """The References section: one line a number, "[KG]" for the graph and "[DC]" for a document.

    A text that stands in many places has the first MAX_LABELS of them named, and the others counted.
    """
    lines = []
    for number, group in groupby(references, key=lambda reference: reference.number):
        places = list(group)
        labels = list(dict.fromkeys(place.label for place in places))
        named, num_others = ", ".join(labels[:MAX_LABELS]), len(labels) - MAX_LABELS
        if num_others > 0:
            named += f" 和另外 {num_others} 处" if language == "zh" else f" and {num_others} more"
        lines.append(f"- [{number}] {'[DC]' if places[0].kind == 'chunk' else '[KG]'} {named}")
    heading = "参考资料" if language == "zh" else "References"
    return f"\n\n### {heading}\n\n" + "\n".join(lines) if lines else ""
