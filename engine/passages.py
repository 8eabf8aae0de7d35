"""Answers without a model: the passages of the context that bear most on the question, quoted and cited."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from graphmill.engine.contexts import Context, Reference
from graphmill.engine.lexical import CJK_RUN, bigrams

MAX_PASSAGES = 5
MAX_PASSAGE_CHARS = 420
MIN_SHARE = 0.25
"""A passage with less than this share of the best one's score is noise beside it, and left out."""

_SENTENCE = re.compile(r"[^。！？!?\n]+?(?:[.。！？!?]+[\"'”’)）」]*(?=\s|$)|[。！？!?]+[”’）」]*|\n|$)", re.S)
_WORD = re.compile(r"[^\W_]+")
_COMMON = frozenset(
    ["a", "an", "the", "of", "in", "on", "at", "to", "for", "from", "by", "with", "and", "or", "not", "is", "are", "was", "were", "be", "been", "do", "does", "did", "has", "have", "had", "what", "which", "who", "whom", "whose", "when", "where", "why", "how", "that", "this", "these", "those", "it", "its", "he", "she", "they", "his", "her", "their", "there", "as", "about", "into", "than", "then"]
)


class Passage(NamedTuple):
    """A quotable stretch of a text: its score, and its span [start, end) in the text."""

    score: float
    start: int
    end: int


def extractive_answer(context: Context, question: str) -> tuple[str, list[Reference]]:
    """Markdown of the best passages, each with its reference number, and the references it cites.

    A chunk's reference is narrowed to the span of the passage that is quoted.
    """
    items: list[tuple[float, str, list[Reference]]] = []
    by_number: dict[int, list[Reference]] = {}
    for reference in context.references:
        by_number.setdefault(reference.number, []).append(reference)
    sources = context.sections.get("Sources", [])
    weights = term_weights(question, [row["text"] for row in sources])
    for row in sources:
        passage = best_passage(row["text"], weights)
        quote = " ".join(row["text"][passage.start : passage.end].split())
        narrowed = [
            replace(reference, start=reference.start + passage.start, end=reference.start + passage.end)
            for reference in by_number[row["reference"]]
        ]
        items.append((passage.score, f"> {quote}", narrowed))
    for row in context.sections.get("Entities", []):
        text = f"**{row['entity']}** ({row['type'].lower()}): {row['description']}"
        items.append((_score(text, weights), text, by_number[row["reference"]]))
    if not items:
        for rank, row in enumerate(context.sections.get("Reports", [])):
            items.append((1 / (1 + rank), _opening(row["report"]), by_number[row["reference"]]))
    items.sort(key=lambda item: (-item[0], item[2][0].number))
    best = items[0][0] if items else 0.0
    kept = [item for item in items[:MAX_PASSAGES] if item[0] >= best * MIN_SHARE]
    answer = "\n\n".join(f"{text} [{references[0].number}]" for _, text, references in kept)
    return answer, [reference for _, _, references in kept for reference in references]


def term_weights(question: str, texts: Sequence[str]) -> dict[str, float]:
    """Weight of each term of the question: the rarer among the texts, the heavier."""
    terms = _terms(question)
    found = Counter(term for text in texts for term in terms & _terms(text))
    return {term: math.log(1 + (len(texts) + 1) / (found[term] + 0.5)) for term in terms}


def best_passage(text: str, weights: dict[str, float]) -> Passage:
    """The run of whole sentences, at most MAX_PASSAGE_CHARS long, that holds the most of the question's terms."""
    sentences = [(m.start(), m.end()) for m in _SENTENCE.finditer(text) if m.group().strip()]
    if not sentences:
        return Passage(0.0, 0, min(len(text), MAX_PASSAGE_CHARS))
    held = [_terms(text[start:end]) & weights.keys() for start, end in sentences]
    best = Passage(-1.0, 0, 0)
    for first, (start, end) in enumerate(sentences):
        terms: set[str] = set()
        for last in range(first, len(sentences)):
            end = sentences[last][1]
            if last > first and end - start > MAX_PASSAGE_CHARS:
                break
            terms |= held[last]
            # A little less for every further sentence, so that the run ends where it stops adding terms.
            score = sum(weights[term] for term in terms) * (1 - 0.02 * (last - first))
            if score > best.score:
                best = Passage(score, start, min(end, start + MAX_PASSAGE_CHARS))
    return best


def _terms(text: str) -> set[str]:
    folded = text.casefold()
    words = {_stem(word) for word in _WORD.findall(CJK_RUN.sub(" ", folded)) if word not in _COMMON and len(word) > 1}
    return words | set(bigrams(folded).split())


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def _score(text: str, weights: dict[str, float]) -> float:
    return sum(weights[term] for term in _terms(text) & weights.keys())


def _opening(report: str) -> str:
    """Title and summary of a report in Markdown."""
    title, _, rest = report.partition("\n")
    summary = rest.strip().partition("\n\n")[0].strip()
    return f"**{title.lstrip('# ').strip()}** {summary}"
