"""A report without a model: names, and the best sentences of the descriptions, of a community's top entities."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from graphmill.engine.report_context import Material
from graphmill.engine.report_text import Finding, ReportText
from graphmill.engine.sentences import join_sentences, sentence_key, split_sentences

MAX_TITLE_NAMES = 3
MAX_SUMMARY_SENTENCES = 3
MAX_FINDINGS = 8
MAX_OF_A_KIND = 5
MAX_SENTENCE = 360
MAX_READ = 2000
"""Characters of a description that are looked at."""

_LEANS = re.compile(
    r"(?:he|she|it|they|his|her|its|their|this|that|these|those|such|there)\b|[他她它这那其该此]", re.IGNORECASE
)
"""How a sentence begins that only makes sense after another."""

_WORDS = {
    "en": {
        "comma": ", ",
        "and": " and ",
        "colon": ": ",
        "quote": "{}",
        "alone": "{names} stands on its own: no relationship to anything else was found.",
        "unlinked": "{names} belong together, though no relationship among them was described.",
        "pair": "{names} are related to each other.",
        "few": "{names} are linked by {num_relationships} relationships.",
        "many": "This group of {size} entities and {num_relationships} relationships centres on {names}.",
        "explanation": "Worked out without a model: the relationships in this community weigh {weight:.1f}, "
        "those of the heaviest one {heaviest:.1f}.",
        "failed": "The model gave no usable report; this one is put together from what is said of the top entities.",
    },
    "zh": {
        "comma": "、",
        "and": "和",
        "colon": "：",
        "quote": "“{}”",
        "alone": "{names}单独成组，没有发现它与其他实体的关系。",
        "unlinked": "{names}同属一组，但没有记载它们之间的关系。",
        "pair": "{names}之间有直接关系。",
        "few": "{names}之间共有{num_relationships}条关系。",
        "many": "这一组包含{size}个实体和{num_relationships}条关系，以{names}为中心。",
        "explanation": "未使用模型得出：该社群内关系的权重合计为{weight:.1f}，权重最大的社群为{heaviest:.1f}。",
        "failed": "模型没有给出可用的报告；本报告由主要实体的描述拼成。",
    },
}


def ratings(material: Material, weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rating of each community without a model, and the weight it comes from, float64 [num_communities].

    rating = 1 + 9 (w / w_max) ** (1/3), to one decimal, where w is the summed weight of the relationships inside a
    community and w_max the most that any community has; 1 where there is none. The root spreads the many small
    communities over the lower half of the scale.
    """
    community = np.repeat(np.arange(len(material.inner)), np.diff(material.inner.offsets))
    inside = np.bincount(community, weight[material.inner.values], len(material.inner)).astype(np.float64)
    heaviest = float(inside.max(initial=0.0))
    share = inside / heaviest if heaviest > 0 else np.zeros(len(inside))
    return np.round(1 + 9 * np.cbrt(share), 1), inside


@dataclass
class Extracts:
    """Names and descriptions by row, and the sentences of those that were looked at."""

    material: Material
    names: pa.ChunkedArray
    descriptions: pa.ChunkedArray
    relationship_descriptions: pa.ChunkedArray
    rating: NDArray[np.float64]
    weight: NDArray[np.float64]
    heaviest: float
    _names: dict[int, str] = field(default_factory=dict)
    _sentences: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    @staticmethod
    def of(material: Material, entities: pa.Table, relationships: pa.Table) -> Extracts:
        rating, inside = ratings(material, relationships["weight"].to_numpy())
        texts = (entities["name"], entities["description"], relationships["description"])
        return Extracts(material, *texts, rating, inside, float(inside.max(initial=0.0)))

    def name(self, entity: int) -> str:
        if entity not in self._names:
            self._names[entity] = self.names[entity].as_py()
        return self._names[entity]

    def sentences_of(self, kind: str, row: int) -> list[str]:
        """Sentences of an entity's ("entity") or a relationship's description."""
        key = (kind, row)
        if key not in self._sentences:
            texts = self.descriptions if kind == "entity" else self.relationship_descriptions
            text = texts[row].as_py() or ""
            self._sentences[key] = [_shortened(s) for s in split_sentences(text[:MAX_READ])]
        return self._sentences[key]

    def sample(self, row: int, num_entities: int = 6) -> str:
        """Some of what is said of a community's top entities, to tell its language by."""
        members = self.material.members[row][:num_entities].tolist()
        return " ".join(f"{self.name(e)} {(self.descriptions[e].as_py() or '')[:200]}" for e in members)


def extractive_report(extracts: Extracts, row: int, language: str, failed: bool = False) -> ReportText:
    """The report of the community in this row; ``failed`` where it stands in for one the model did not give.

    Its connecting words are Chinese for "zh" and English otherwise; all else is taken from the descriptions as it is.
    """
    words = _WORDS["zh" if language == "zh" else "en"]
    material = extracts.material
    members, inner = material.members[row].tolist(), material.inner[row].tolist()
    top = members[:MAX_TITLE_NAMES]
    used: set[str] = set()
    opening = _opening([words["quote"].format(extracts.name(e)) for e in top], len(members), len(inner), words)
    sentences = [s for e in members[:MAX_SUMMARY_SENTENCES] if (s := _best(extracts, e, used, words))]
    if len(members) == 1:
        sentences = _unused(extracts.sentences_of("entity", members[0]), used, MAX_SUMMARY_SENTENCES - 1, sentences)
    findings = _findings(extracts, members, inner, used, words)
    explanation = words["explanation"].format(weight=extracts.weight[row], heaviest=extracts.heaviest)
    return ReportText(
        title=_listed([extracts.name(e) for e in top], words),
        summary=join_sentences([opening, *sentences] if len(members) > 1 or not sentences else sentences),
        rating=0.0 if failed else float(extracts.rating[row]),
        rating_explanation=words["failed"] if failed else explanation,
        findings=findings,
    )


def _opening(names: Sequence[str], size: int, num_relationships: int, words: dict[str, str]) -> str:
    kind = "many" if size > len(names) else "few"
    if size == 1:
        kind = "alone"
    elif not num_relationships:
        kind = "unlinked"
    elif num_relationships == 1 and kind == "few":
        kind = "pair"
    return words[kind].format(names=_listed(names, words), size=size, num_relationships=num_relationships)


def _findings(
    extracts: Extracts, members: list[int], inner: list[int], used: set[str], words: dict[str, str]
) -> list[Finding]:
    """What the top relationships, then the top entities, have to say that was not said yet."""
    findings: list[Finding] = []
    source, target = extracts.material.source, extracts.material.target
    for edge in inner[: 4 * MAX_OF_A_KIND]:
        if len(findings) == MAX_OF_A_KIND:
            break
        said = _unused(_linking(extracts, edge, int(source[edge]), int(target[edge])), used, 1)
        if said:
            ends = [extracts.name(int(source[edge])), extracts.name(int(target[edge]))]
            findings.append(Finding(_listed(ends, words), join_sentences(said)))
    for entity in members[: 2 * MAX_OF_A_KIND]:
        if len(findings) >= MAX_FINDINGS:
            break
        said = _unused(extracts.sentences_of("entity", entity), used, 1)
        if said:
            findings.append(Finding(extracts.name(entity), join_sentences(said)))
    return findings


def _linking(extracts: Extracts, edge: int, source: int, target: int) -> list[str]:
    """A relationship's own sentences, or those of its ends that name both: mere co-occurrence is not described."""
    own = extracts.sentences_of("relationship", edge)
    if own:
        return own
    names = (extracts.name(source).casefold(), extracts.name(target).casefold())
    found = [*extracts.sentences_of("entity", source), *extracts.sentences_of("entity", target)]
    return [s for s in found if all(name in s.casefold() for name in names)]


def _best(extracts: Extracts, entity: int, used: set[str], words: dict[str, str]) -> str:
    """The sentence that says most about an entity: one that names it, at best as its subject, and stands by itself."""
    name = extracts.name(entity).casefold()
    best, best_score = "", -np.inf
    for place, sentence in enumerate(extracts.sentences_of("entity", entity)[:20]):
        if sentence_key(sentence) in used:
            continue
        length = len(sentence.encode())
        folded = sentence.casefold()
        score = 2.0 * (name in folded) + folded.startswith(name) - 1.5 * (_LEANS.match(folded) is not None)
        score += (40 <= length <= 320) - 0.1 * place
        if score > best_score:
            best, best_score = sentence, score
    if not best:
        return ""
    used.add(sentence_key(best))
    return best if name in best.casefold() else f"{extracts.name(entity)}{words['colon']}{best}"


def _unused(sentences: Sequence[str], used: set[str], most: int, before: Sequence[str] = ()) -> list[str]:
    """``before`` and up to ``most`` of the sentences that are not used yet, which then are."""
    result = list(before)
    for sentence in sentences:
        if len(result) - len(before) == most:
            break
        key = sentence_key(sentence)
        if key and key not in used:
            used.add(key)
            result.append(sentence)
    return result


def _listed(names: Sequence[str], words: dict[str, str]) -> str:
    head = words["comma"].join(names[:-1])
    return f"{head}{words['and']}{names[-1]}" if head else names[-1]


def _shortened(sentence: str) -> str:
    if len(sentence) <= MAX_SENTENCE:
        return sentence
    cut = sentence[:MAX_SENTENCE]
    return (cut.rsplit(None, 1)[0] if " " in cut[-60:] else cut).rstrip(" ,;，；、") + "…"
