"""Extraction without a model: names and noun phrases of a text, and which of them stand near each other.

Works on one text by itself. What only a corpus can tell (variants across documents, junk, which neighbours mean
something) is settled afterwards by phrases_corpus.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from graphmill.engine.phrases_en import read_english
from graphmill.engine.phrases_fold import fold_names
from graphmill.engine.phrases_found import Found, Reading, Setting
from graphmill.engine.phrases_lexicon import english, singulars
from graphmill.engine.phrases_text import FILL, Span, blank, sentences
from graphmill.engine.phrases_tokens import marked_titles
from graphmill.engine.phrases_zh import read_chinese

CONCEPT = "CONCEPT"
UNCERTAIN = ""
MAX_MENTIONS = 100
MAX_UNCERTAIN = 24
MAX_CONCEPTS = 18
MAX_PAIRS = 400
MAX_NAMES_PER_SENTENCE = 12
MAX_PROSE_FILL = 0.02
MIN_TECHNICAL_WORDS = 5
MAX_DESCRIPTION_CHARS = 200
SAME_SENTENCE, NEXT_SENTENCE = 2, 1

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_LOWER = re.compile(r"\b[a-z]{3,40}\b")


class Mention(NamedTuple):
    """A thing that a text names. The type is "" where nothing in this text settles that it is a name: such a row counts
    only where the rest of the corpus confirms it (phrases_corpus.rank_phrases)."""

    name: str
    type: str
    description: str
    count: int  # type: ignore[assignment]  # the tuple method of that name is of no use here


class CoOccurrence(NamedTuple):
    """Two mentions near each other, source before target in sort order; the count is 2 for each sentence they share and
    1 for each pair of neighbouring ones."""

    source: str
    target: str
    count: int  # type: ignore[assignment]


@dataclass(slots=True)
class _Tally:
    """What the text says of one key."""

    spellings: Counter[str] = field(default_factory=Counter)
    votes: dict[str, float] = field(default_factory=dict)
    places: list[int] = field(default_factory=list)
    strong: int = 0
    defined_at: int = -1

    def add(self, found: Found, place: int) -> None:
        self.spellings[found.name] += 2 if found.strong else 1
        self.votes[found.type] = self.votes.get(found.type, 0.0) + found.weight
        self.places.append(place)
        self.strong += found.strong
        if found.defines and self.defined_at < 0:
            self.defined_at = place

    def merge(self, other: _Tally) -> None:
        for kind, weight in other.votes.items():
            self.votes[kind] = self.votes.get(kind, 0.0) + weight
        self.places.extend(other.places)
        self.strong += other.strong
        if self.defined_at < 0:
            self.defined_at = other.defined_at

    @property
    def name(self) -> str:
        return min(self.spellings, key=lambda spelling: (-self.spellings[spelling], spelling.isupper(), spelling))

    @property
    def type(self) -> str:
        return max(sorted(self.votes), key=self.votes.__getitem__)

    @property
    def kept_type(self) -> str:
        """The type, where something speaks for it."""
        return self.type if self.strong else UNCERTAIN


def find_phrases(text: str, language: str) -> tuple[list[Mention], list[CoOccurrence]]:
    """Mentions and co-occurrences of one text, the most frequent first, at most MAX_MENTIONS and MAX_PAIRS.

    ``language`` is an ISO 639-1 code. Sentences that are mostly Han characters are read as Chinese unless it is "ja",
    all others by the rules for English. Time is linear in the text's length, whatever the text.
    """
    kept, spans = _find(text, language)
    names = {key: tally.name for key, tally in kept.items()}
    mentions = [
        Mention(names[key], tally.kept_type, _describe(text, spans, tally, names[key]), len(tally.places))
        for key, tally in kept.items()
    ]
    return mentions, _pairs(kept, names)


def name_phrases(text: str, language: str) -> list[tuple[str, str]]:
    """Name and type of each mention that ``find_phrases`` gives, and nothing else."""
    return [(tally.name, tally.kept_type) for tally in _find(text, language)[0].values()]


def _find(text: str, language: str) -> tuple[dict[str, _Tally], list[Span]]:
    """What is named and how often, and the sentences of the text."""
    blanked = blank(text)
    spans = list(sentences(blanked))
    readings = _read(blanked, spans, language)
    tallies = _tally(readings)
    tallies = _folded(tallies, readings)
    _add_concepts(tallies, readings)
    return _keep(tallies), spans


def _read(text: str, spans: list[Span], language: str) -> list[Reading]:
    lower_seen = frozenset(_LOWER.findall(text))
    technical = (
        text.count(FILL) > MAX_PROSE_FILL * len(text) or len(lower_seen & english()["technical"]) >= MIN_TECHNICAL_WORDS
    )
    setting = Setting(lower_seen, marked_titles(text), technical)
    mixed = language != "ja" and _HAN.search(text) is not None
    readings: list[Reading] = []
    for span in spans:
        sentence = text[span.start : span.end]
        if mixed and 3 * len(_HAN.findall(sentence)) > len(sentence):
            readings.append(read_chinese(sentence, span.heading, text))
        else:
            readings.append(read_english(sentence, span.heading, setting))
    return readings


def _tally(readings: list[Reading]) -> dict[str, _Tally]:
    tallies: dict[str, _Tally] = {}
    for place, reading in enumerate(readings):
        for found in reading.names:
            tallies.setdefault(found.name.casefold(), _Tally()).add(found, place)
    return tallies


def _folded(tallies: dict[str, _Tally], readings: list[Reading]) -> dict[str, _Tally]:
    """Variants of a name within the text put together, "X" introduced as "X (Y)" under that whole spelling."""
    aliases: dict[str, str] = {}
    for reading in readings:
        for found in reading.names:
            if found.alias:
                aliases.setdefault(found.name.casefold(), found.alias)
    rows = {key: (tally.type if tally.strong else UNCERTAIN, len(tally.places)) for key, tally in tallies.items()}
    canonical = fold_names(rows, {(name, alias.casefold()) for name, alias in aliases.items()})
    folded: dict[str, _Tally] = {}
    for key in sorted(tallies, key=lambda key: key in canonical):
        into = canonical.get(key, key)
        if into == key:
            folded[key] = tallies[key]
        elif into in folded:
            folded[into].merge(tallies[key])
    for key, alias in aliases.items():
        tally = folded.get(canonical.get(key, key))
        if tally is not None:
            tally.spellings = Counter({f"{tallies[key].name} ({alias})": 1})
    return folded


def _add_concepts(tallies: dict[str, _Tally], readings: list[Reading]) -> None:
    """Noun phrases of several words, and single words that come back again and again; the most frequent first."""
    places: dict[str, list[int]] = {}
    for place, reading in enumerate(readings):
        for phrase in reading.nouns:
            places.setdefault(phrase, []).append(place)
    for phrase in list(places):
        for single in singulars(phrase):
            if single in places:
                places[single] = sorted(places[single] + places.pop(phrase))
                break
    kept = 0
    for phrase in sorted(places, key=lambda phrase: (-len(places[phrase]), places[phrase][0], phrase)):
        count = len(places[phrase])
        is_long = " " in phrase or (bool(_HAN.match(phrase)) and len(phrase) > 3)
        if phrase in tallies:
            tallies[phrase].places = sorted(tallies[phrase].places + places[phrase])
            tallies[phrase].votes[CONCEPT] = tallies[phrase].votes.get(CONCEPT, 0.0) + 0.2 * count
        elif kept < MAX_CONCEPTS and (is_long or count >= 3):
            tallies[phrase] = _Tally(Counter([phrase]), {CONCEPT: 1.0}, places[phrase], 1)
            kept += 1


def _keep(tallies: dict[str, _Tally]) -> dict[str, _Tally]:
    order = sorted(
        tallies, key=lambda key: (-min(tallies[key].strong, 1), -len(tallies[key].places), tallies[key].places[0], key)
    )
    kept = [key for key in order if tallies[key].strong][:MAX_MENTIONS]
    kept += [key for key in order if not tallies[key].strong][: min(MAX_UNCERTAIN, MAX_MENTIONS - len(kept))]
    return {key: tallies[key] for key in kept}


def _pairs(kept: Mapping[str, _Tally], names: Mapping[str, str]) -> list[CoOccurrence]:
    by_place: dict[int, list[str]] = {}
    for key, tally in kept.items():
        for place in sorted(set(tally.places)):
            by_place.setdefault(place, []).append(names[key])
    counts: Counter[tuple[str, str]] = Counter()
    for place, here in by_place.items():
        here = here[:MAX_NAMES_PER_SENTENCE]
        _count(counts, ((one, two) for at, one in enumerate(here) for two in here[at + 1 :]), SAME_SENTENCE)
        there = [name for name in by_place.get(place + 1, [])[:MAX_NAMES_PER_SENTENCE] if name not in here]
        _count(counts, ((one, two) for one in here for two in there), NEXT_SENTENCE)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_PAIRS]
    return [CoOccurrence(source, target, count) for (source, target), count in ranked]


def _count(counts: Counter[tuple[str, str]], pairs: Iterable[tuple[str, str]], weight: int) -> None:
    for one, two in pairs:
        counts[(one, two) if one < two else (two, one)] += weight


def _describe(text: str, spans: list[Span], tally: _Tally, name: str) -> str:
    """The sentence that introduces the thing, else the first that names it, cut to whole words around the name."""
    places = [place for place in tally.places if not spans[place].heading] or tally.places
    span = spans[tally.defined_at if tally.defined_at >= 0 else min(places)]
    sentence = " ".join(text[span.start : span.end].replace(FILL, " ").strip("#*_|>-• \n").split())
    if len(sentence) <= MAX_DESCRIPTION_CHARS:
        return sentence
    at = max(sentence.casefold().find(name.split(" (")[0].casefold()), 0)
    start = 0 if at < MAX_DESCRIPTION_CHARS // 2 else at - MAX_DESCRIPTION_CHARS // 4
    end = min(len(sentence), start + MAX_DESCRIPTION_CHARS - 2)
    if start and (space := sentence.find(" ", start, at)) >= 0:
        start = space + 1
    if end < len(sentence) and (space := sentence.rfind(" ", at + 1, end)) > 0:
        end = space
    return ("…" if start else "") + sentence[start:end] + ("…" if end < len(sentence) else "")
