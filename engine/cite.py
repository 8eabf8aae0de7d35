"""References of an answer: those that the context holds, at most five, and the section that lists them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby

from graphmill.engine.contexts import Reference
from graphmill.engine.own_references import split_own_references
from graphmill.engine.read_citations import Citation, citations

MAX_REFERENCES = 5
MAX_LABELS = 3
_NUMBER = re.compile(r"(?<!\d)\d{1,6}(?!\d)")


def without_own_references(text: str) -> str:
    """The answer less a section of references that the model wrote itself, "" where it is nothing but that.

    Where only the section cites anything, its citations are left in a paragraph at the end.
    """
    body, section = split_own_references(text.strip())
    if not (body and section) or numbers_cited([body]):
        return body
    cited = dict.fromkeys(number for one in _all_citations(section) for number in one.numbers)
    return f"{body}\n\n{''.join(f'[{number}]' for number in cited)}".rstrip()


def cite(text: str, references: Sequence[Reference]) -> tuple[str, list[Reference]]:
    """Drops the citations that are not among the references, and all after the first five different ones."""
    cited: dict[int, None] = {}
    text = held_to_numbers(text, {reference.number for reference in references}, MAX_REFERENCES, cited)
    return text, references_of(references, list(cited))


def references_of(references: Sequence[Reference], cited: Sequence[int]) -> list[Reference]:
    """The references of these numbers, in their order."""
    return sorted((r for r in references if r.number in cited), key=lambda r: cited.index(r.number))


def only_citing(text: str, numbers: Collection[int]) -> str:
    """The text without citations of other numbers."""
    return held_to_numbers(text, numbers, len(numbers), {})


def numbers_cited(texts: Iterable[str]) -> set[int]:
    """The numbers that citations in the texts name; of a range those that stand somewhere in the same text."""
    return {number for text in texts for one in _all_citations(text) for number in one.numbers}


def _all_citations(text: str) -> Iterator[Citation]:
    return citations(text, sorted({int(number) for number in _NUMBER.findall(text)}))


def held_to_numbers(text: str, numbers: Collection[int], limit: int, cited: dict[int, None]) -> str:
    """The text with citations of these numbers only, in the form [1][2] whatever form they have.

    cited  the different numbers that were cited before, of which there are to be at most ``limit``; those of the text
           are added, in its order
    """
    parts: list[str] = []
    place, space = 0, ""
    for one in citations(text, sorted(numbers)):
        # Where one goes that another follows right away, that one gets the space before it.
        space = one.space or (space if one.start == place else "")
        parts.append(text[place : one.start])
        kept = []
        for number in one.numbers:
            if number in cited or len(cited) < limit:
                cited[number] = None
                kept.append(f"[{number}]")
        if kept:
            parts += [space, *kept]
            space = ""
        place = one.end
    return "".join([*parts, text[place:]])


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
