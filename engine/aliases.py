"""Names of one thing: which entities are to be one, confirmed by the model, or by a threshold where there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.alias_candidates import Names, candidate_pairs, names_to_compare
from graphmill.engine.alias_spelling import is_safe, may_be_one
from graphmill.engine.confirm_aliases import Question, confirm, instructions
from graphmill.engine.ids import content_id
from graphmill.engine.models import Embedder, Generator, Tokenizer
from graphmill.engine.prompt_language import prompt_language
from graphmill.kernels.backend import NUMPY, Backend
from graphmill.kernels.merge import UNKNOWN

ALIASES = pa.schema(
    [
        ("key", pa.string()),
        ("same_as", pa.string()),
        ("name", pa.string()),
        ("same_as_name", pa.string()),
        ("similarity", pa.float64()),
        ("source", pa.string()),
    ]
)
"""One row a key that is folded into another, ``same_as``, which is itself folded into none; sorted by key.

``source``: "model", "threshold", or "edited" where a person said so.
"""

ALIAS_PAIRS = pa.schema(
    [
        ("key", pa.string()),
        ("other", pa.string()),
        ("name", pa.string()),
        ("other_name", pa.string()),
        ("num_chunks", pa.int32()),
        ("other_num_chunks", pa.int32()),
        ("similarity", pa.float64()),
        ("same", pa.bool_()),
        ("source", pa.string()),
        ("asked", pa.string()),
    ]
)
"""One row a pair that was judged, key < other, sorted: whether the two are the same, and who says so.

``source``: "model", "threshold", or "unread" where the model gave no answer that could be read. ``asked`` is the hash
of all that the model's answer depends on, "" where it gave none: the same question is not asked twice.
"""

PERSON = "PERSON"
MAX_NAME, MAX_SAID = 200, 240
"""Characters of a name, and of what is said about it, that a prompt shows."""


@dataclass(frozen=True)
class AliasesConfig:
    """Whether names of one thing are looked for, and how near they must be."""

    enabled: bool = False
    min_cosine: float = 0.75
    """Least cosine of two names' vectors for a pair to be asked about."""
    min_ratio: float = 0.75
    """Least likeness of two names' spellings for a pair to be asked about."""
    threshold: float = 0.96
    """Without a model: least likeness of spellings at which two names are one."""
    max_per_entity: int = 5
    """Nearest names that each entity is compared with."""
    max_pairs: int = 100_000
    """Most pairs that are asked about, the most alike first. 0 looks for none and leaves what people entered."""
    batch_size: int = 20
    """Pairs in one prompt."""
    prompts: str = "aliases"
    """Name of the packaged prompts, or path of a TOML file."""

    def __post_init__(self) -> None:
        for name in ("min_cosine", "min_ratio", "threshold"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"aliases.{name} must be in (0, 1], got {getattr(self, name)}")
        for name, minimum in (("max_per_entity", 1), ("max_pairs", 0), ("batch_size", 1)):
            if getattr(self, name) < minimum:
                raise ValueError(f"aliases.{name} must be at least {minimum}, got {getattr(self, name)}")


@dataclass(frozen=True)
class Found:
    """Pairs that were judged, and what was not to be had."""

    pairs: pa.Table
    """ALIAS_PAIRS."""
    num_unread: int = 0
    """Pairs that the model gave no readable answer about; they count as not the same."""
    num_left_out: int = 0
    """Pairs beyond ``max_pairs``, which were not judged."""


def find_aliases(
    entities: pa.Table,
    languages: Sequence[str],
    embedder: Embedder,
    generator: Generator | None,
    tokenizer: Tokenizer,
    config: AliasesConfig,
    known: Mapping[str, bool] | None = None,
    backend: Backend = NUMPY,
) -> Found:
    """Entities (key, name, type, descriptions, num_chunks) -> ALIAS_PAIRS; fold_aliases() makes ALIASES of them.

    languages  of the entities, which pick the prompts
    known      answers that the model gave before, by ``asked``

    Does not depend on the order of the entities. Each candidate is judged. Then those that only a chain of two or more
    pairs connects to the entity they would be folded into are judged against that very entity, since nothing is folded
    on the strength of a chain: "Smith" may be Alice's name and Bob's.
    """
    if not config.max_pairs:
        return Found(ALIAS_PAIRS.empty_table())
    order = pc.sort_indices(entities["key"]).to_numpy()
    entities, languages = entities.take(pa.array(order)), [languages[row] for row in order]
    num_chunks = entities["num_chunks"].to_numpy().astype(np.int64)
    names = names_to_compare(entities["name"].to_pylist(), entities["type"].to_pylist(), num_chunks, embedder)
    if getattr(embedder, "loads_engine", False):
        embedder.close()  # the model that is asked next may want its memory
    limits = (config.min_cosine, config.min_ratio, config.max_per_entity, config.max_pairs)
    found = candidate_pairs(names, *limits, backend)
    backend.release()
    judge = _Judge(entities, names, languages, generator, tokenizer, config, dict(known or {}))
    parts = [judge.pairs(found.one, found.other, found.similarity)]
    one, other = _chained(found.one, found.other, parts[0]["same"].to_numpy(zero_copy_only=False), num_chunks)
    possible = names.each(may_be_one, one, other)
    one, other = one[possible], other[possible]
    parts.append(judge.pairs(one, other, np.maximum(*names.similarity(one, other))))
    pairs = pa.concat_tables(parts).sort_by([("key", "ascending"), ("other", "ascending")])
    return Found(pairs, pc.sum(pc.equal(pairs["source"], "unread")).as_py() or 0, found.num_left_out)


@dataclass(frozen=True)
class _Judge:
    """Says of pairs of entities, by row, whether they are the same."""

    entities: pa.Table
    names: Names
    languages: Sequence[str]
    generator: Generator | None
    tokenizer: Tokenizer
    config: AliasesConfig
    known: dict[str, bool]

    def pairs(self, one: NDArray[np.int64], other: NDArray[np.int64], similarity: NDArray[np.float64]) -> pa.Table:
        """ALIAS_PAIRS of pairs of rows, the lower row first."""
        if self.generator is None:
            same, asked = self._by_threshold(one, other), [""] * len(one)
            sources = ["threshold"] * len(one)
        else:
            verdicts, asked = self._by_model(self.generator, one, other)
            same = [verdict is True for verdict in verdicts]
            sources = ["unread" if verdict is None else "model" for verdict in verdicts]
            asked = ["" if verdict is None else mark for verdict, mark in zip(verdicts, asked, strict=True)]
        first, second = (self.entities.take(pa.array(rows)) for rows in (one, other))
        columns = [first["key"], second["key"], first["name"], second["name"], first["num_chunks"]]
        columns += [second["num_chunks"], pa.array(similarity, pa.float64()), pa.array(same, pa.bool_())]
        columns += [pa.array(sources, pa.string()), pa.array(asked, pa.string())]
        return pa.table(columns, schema=ALIAS_PAIRS)

    def _by_threshold(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> list[bool]:
        """Names that are all but equal and, as far as is known, of one type."""
        _, alike = self.names.similarity(one, other)
        types, spellings = self.names.types, self.names.spellings
        return [
            bool(ratio >= self.config.threshold)
            and (types[a] == types[b] or UNKNOWN in (types[a], types[b]))
            and is_safe(spellings[a], spellings[b], may_slip=PERSON not in (types[a], types[b]))
            for a, b, ratio in zip(one.tolist(), other.tolist(), alike.tolist(), strict=True)
        ]

    def _by_model(
        self, generator: Generator, one: NDArray[np.int64], other: NDArray[np.int64]
    ) -> tuple[list[bool | None], list[str]]:
        """The model's verdicts, None where it gave none, and the hashes of what it was asked."""
        rows = np.unique(np.concatenate([one, other]))
        shown = self.entities.take(pa.array(rows)).select(["name", "type", "descriptions"]).to_pylist()
        lines = {row: _line(**values) for row, values in zip(rows.tolist(), shown, strict=True)}
        questions, asked = [], []
        for a, b in zip(one.tolist(), other.tolist(), strict=True):
            question = Question(lines[a], lines[b], prompt_language(self.languages[a]))
            rules = instructions(self.config.prompts, question.language)
            questions.append(question)
            asked.append(content_id("alias", generator.model, rules, *question))
        new = [at for at, mark in enumerate(asked) if mark not in self.known]
        answers = confirm(
            [questions[at] for at in new], generator, self.tokenizer, self.config.prompts, self.config.batch_size
        )
        verdicts: list[bool | None] = [self.known.get(mark) for mark in asked]
        for at, answer in zip(new, answers, strict=True):
            verdicts[at] = answer
        return verdicts, asked


def _line(name: str, type: str, descriptions: Sequence[str]) -> str:  # noqa: A002
    """What a prompt shows of an entity: what is not known is left out."""
    said = " ".join(" ".join(descriptions[:3]).split())
    said = said if len(said) <= MAX_SAID else said[: MAX_SAID - 1] + "…"
    values = {"name": name[:MAX_NAME], "type": "" if type == UNKNOWN else type, "said": said}
    return json.dumps({key: value for key, value in values.items() if value}, ensure_ascii=False, separators=(",", ":"))


def _chained(
    one: NDArray[np.int64], other: NDArray[np.int64], same: NDArray[np.bool_], num_chunks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs, not judged yet, of an entity and the one of the most chunks that confirmed pairs connect it to."""
    group = np.arange(len(num_chunks))
    pairs = list(zip(one[same].tolist(), other[same].tolist(), strict=True))

    def first(row: int) -> int:
        while group[row] != row:
            group[row] = group[group[row]]
            row = int(group[row])
        return row

    for a, b in pairs:
        a, b = first(a), first(b)
        if a != b:
            better, worse = sorted((a, b), key=lambda row: (-num_chunks[row], row))
            group[worse] = better
    judged = set(zip(one.tolist(), other.tolist(), strict=True))
    ends = {row for pair in pairs for row in pair}
    wanted = {(min(row, first(row)), max(row, first(row))) for row in ends if row != first(row)} - judged
    found = np.array(sorted(wanted), np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
