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
_MARKS = re.compile(r"[*`]+(?=\S)|(?<=\S)[*`]+")
"""Of emphasis and code, which a quote may hold the one half of."""
_COMMON = frozenset(
    """
    a an the of in on at to for from by with and or not is are was were be been do does did has have had what which who
    whom whose when where why how that this these those it its he she they his her their there as about into than then
    """.split()
)


class Passage(NamedTuple):
    """A quotable stretch of a text: its score, and its span [start, end) in the text."""

    score: float
    start: int
    end: int


def extractive_answer(context: Context, question: str) -> tuple[str, list[Reference]]:
    """Markdown of the best passages, each with its reference number, and the references it cites.

    A passage ranks by the question's terms that it holds, the rarer the heavier, and by its place in the context, which
    retrieval gave it. A chunk's reference is narrowed to the span of the passage that is quoted.
    """
    references: dict[int, list[Reference]] = {}
    for reference in context.references():
        references.setdefault(reference.number, []).append(reference)
    sources, entities = context.lines("chunks"), context.lines("entities")
    weights = term_weights(question, [row["text"] for row in sources] + [row["description"] for row in entities])
    items: list[tuple[float, str, list[Reference]]] = []
    for rank, row in enumerate(sources):
        passage = best_passage(row["text"], weights)
        narrowed = [
            replace(reference, start=reference.start + passage.start, end=reference.start + passage.end)
            for reference in references[row["reference"]]
        ]
        items.append((passage.score * _prior(rank), f"> {_quoted(row['text'], passage)}", narrowed))
    for rank, row in enumerate(entities):
        passage = best_passage(row["description"], weights)
        text = f"**{row['entity']}** ({row['type'].lower()}): {_quoted(row['description'], passage)}"
        items.append((_score(text, weights) * _prior(rank), text, references[row["reference"]]))
    if not items:
        for rank, row in enumerate(context.lines("reports")):
            items.append((1 / (1 + rank), _opening(row["report"]), references[row["reference"]]))
    if not items:
        for rank, row in enumerate(context.lines("relationships")):
            text = f"**{row['source']} – {row['target']}** {row['description']}".strip()
            items.append((1 / (1 + rank), text, references[row["reference"]]))
    items.sort(key=lambda item: (-item[0], item[2][0].number))
    best = items[0][0] if items else 0.0
    kept = [item for item in items[:MAX_PASSAGES] if item[0] >= best * MIN_SHARE]
    answer = "\n\n".join(f"{text} [{cited[0].number}]" for _, text, cited in kept)
    return answer, [reference for _, _, cited in kept for reference in cited]


def _prior(rank: int) -> float:
    return 1 + 1 / (1 + rank)


def _quoted(text: str, passage: Passage) -> str:
    return " ".join(_MARKS.sub("", text[passage.start : passage.end]).split())


def term_weights(question: str, texts: Sequence[str]) -> dict[str, float]:
    """Weight of each term of the question: the rarer among the texts, the heavier."""
    terms = _terms(question)
    found = Counter(term for text in texts for term in terms & _terms(text))
    return {term: math.log(1 + (len(texts) + 1) / (found[term] + 0.5)) for term in terms}


def best_passage(text: str, weights: dict[str, float]) -> Passage:
    """The run of whole sentences, at most MAX_PASSAGE_CHARS long, that holds the most of the question's terms.

    It begins with a sentence that holds one, and goes on to the end of its paragraph where there is room.
    """
    sentences = [
        (m.start(), m.end()) for m in _SENTENCE.finditer(text) if m.group().strip() and not _is_heading(m.group())
    ]
    if not sentences:
        return Passage(0.0, 0, min(len(text), MAX_PASSAGE_CHARS))
    held = [_terms(text[start:end]) & weights.keys() for start, end in sentences]
    best = Passage(-1.0, 0, 0)
    for first, (start, _) in enumerate(sentences):
        terms: set[str] = set()
        end = start
        for last in range(first, len(sentences)):
            new_end = sentences[last][1]
            if last > first and (new_end - start > MAX_PASSAGE_CHARS or "\n\n" in text[end:new_end].rstrip()):
                break
            terms |= held[last]
            end = new_end
        score = sum(weights[term] for term in terms) + 0.5 * sum(weights[term] for term in held[first])
        if score > best.score:
            best = Passage(score, start, min(end, start + MAX_PASSAGE_CHARS))
    return best


def _is_heading(sentence: str) -> bool:
    return sentence.lstrip().startswith(("#", "=", "---"))


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
