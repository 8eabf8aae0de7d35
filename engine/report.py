"""Communities to reports: what each is about, by the model where there is one, from the top entities where not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.context_rows import entity_lines, line_tokens, relationship_lines
from graphmill.engine.converse import Conversation, converse
from graphmill.engine.extractive_report import Extracts, extractive_report
from graphmill.engine.models import Generator, Message, Request, Tokenizer
from graphmill.engine.prompt_language import language_code, language_name, language_of_text
from graphmill.engine.report_context import Context, Material, contexts
from graphmill.engine.report_text import REPORT_SCHEMA, ReportText, read_report
from graphmill.engine.rows import Lists, id_lists, rows_of
from graphmill.engine.templates import fill, load_templates

REPORTS = pa.schema(
    [
        ("community", pa.int32()),
        ("community_id", pa.string()),
        ("level", pa.int32()),
        ("title", pa.string()),
        ("summary", pa.string()),
        ("rating", pa.float64()),
        ("rating_explanation", pa.string()),
        ("findings", pa.list_(pa.struct([("summary", pa.string()), ("explanation", pa.string())]))),
        ("full_text", pa.string()),
        ("source", pa.string()),
        ("num_tokens", pa.int32()),
    ]
)
"""One row a community, in the order of COMMUNITIES. ``full_text`` is the report as Markdown, ``num_tokens`` its length.

``source``: "model"; "repaired", a reply that was not quite the JSON asked for; "fallback", where the model gave
nothing usable, rated 0; "extractive", made without asking the model.
"""

CHAT_TOKENS = 64
"""Set aside for what the model's chat template puts round a prompt."""
HEADING_TOKENS = 32
QUOTED = 400
"""Characters of an unreadable reply that are shown to the model when it is asked again."""
AGAIN_TOKENS = 512

_KEYS = (
    ("report", ("context", "language", "max_words")),
    ("again", ()),
    ("entities", ()),
    ("relationships", ()),
    ("parts", ()),
)


@dataclass(frozen=True)
class ReportConfig:
    """How long reports, and what they are written from, may be."""

    report_tokens: int = 8000
    """Most tokens of a community's context; less where the model's own context is smaller."""
    max_tokens: int = 2000
    """Most tokens of a report."""
    temperature: float = 0.0
    prompts: str = "report"
    """Name of the packaged prompts, or path of a TOML file."""

    def __post_init__(self) -> None:
        for name, minimum in (("report_tokens", 1000), ("max_tokens", 100)):
            if getattr(self, name) < minimum:
                raise ValueError(f"report.{name} must be at least {minimum}, got {getattr(self, name)}")
        if not 0 <= self.temperature <= 2:
            raise ValueError(f"report.temperature must be in [0, 2], got {self.temperature}")


@dataclass
class _Written:
    """Reports as they come, one place a community."""

    texts: list[ReportText | None]
    sources: list[str]
    full_texts: list[str]
    num_tokens: NDArray[np.int64]

    def put(self, row: int, text: ReportText, source: str) -> None:
        self.texts[row], self.sources[row], self.full_texts[row] = text, source, text.render()

    def count(self, rows: NDArray[np.int64], tokenizer: Tokenizer) -> None:
        self.num_tokens[rows] = tokenizer.count([self.full_texts[row] for row in rows])


def report(
    communities: pa.Table,
    entities: pa.Table,
    relationships: pa.Table,
    generator: Generator | None,
    tokenizer: Tokenizer,
    config: ReportConfig,
    language: str | Sequence[str] = "auto",
    advance: Callable[[int], object] = lambda num_written: None,
) -> pa.Table:
    """COMMUNITIES, ENTITIES, RELATIONSHIPS -> REPORTS, a row for every community, whatever the model does.

    The deepest level comes first, all of a level in one batch, so that a report can stand for its community in the
    context of the parent. A community of one entity takes no model call.

    language  of the reports, one for all or one a community: a code or name, or "auto", which tells Chinese by the
              script of the top entities and else asks for the language of the material
    advance   is told the number of reports as they are written
    """
    material = _material(communities, entities, relationships)
    extracts = Extracts.of(material, entities, relationships)
    languages = [language] * communities.num_rows if isinstance(language, str) else list(language)
    languages = [_known(wanted, extracts, row, generator is None) for row, wanted in enumerate(languages)]
    num = communities.num_rows
    written = _Written([None] * num, [""] * num, [""] * num, np.zeros(num, dtype=np.int64))
    size = np.diff(material.members.offsets)
    without_model = np.arange(num) if generator is None else np.flatnonzero(size == 1)
    for row in without_model.tolist():
        written.put(row, extractive_report(extracts, row, languages[row]), "extractive")
    written.count(without_model, tokenizer)
    advance(len(without_model))
    if generator is not None and len(without_model) < num:
        writer = _Writer(material, extracts, languages, generator, tokenizer, config)
        writer.prepare(entities, relationships)
        level = communities["level"].to_numpy()
        for depth in np.unique(level)[::-1]:
            writer.write_level(np.flatnonzero((level == depth) & (size > 1)), written, advance)
    return _table(communities, written)


@dataclass
class _Writer:
    """Writes reports with the model, level by level."""

    material: Material
    extracts: Extracts
    languages: list[str]
    generator: Generator
    tokenizer: Tokenizer
    config: ReportConfig
    entity_lines: pa.Array = field(init=False)
    relationship_lines: pa.Array = field(init=False)
    budget: int = field(init=False)

    def prepare(self, entities: pa.Table, relationships: pa.Table) -> None:
        """Renders the lines that contexts are made of, and works out how many tokens a context may have."""
        self.entity_lines, self.relationship_lines = entity_lines(entities), relationship_lines(relationships)
        if not (self.material.entity_tokens.all() and self.material.relationship_tokens.all()):
            self.material = dataclasses.replace(
                self.material,
                entity_tokens=line_tokens(self.entity_lines, self.tokenizer).astype(np.int64),
                relationship_tokens=line_tokens(self.relationship_lines, self.tokenizer).astype(np.int64),
            )
        prompts = {self.prompt(language, Context("", "", []), []) for language in set(self.languages)}
        instructions = int(self.tokenizer.count(sorted(prompts)).max())
        reserved = instructions + self.config.max_tokens + CHAT_TOKENS + HEADING_TOKENS + AGAIN_TOKENS
        room = self.generator.context_tokens - reserved
        if room < 500:
            raise ValueError(
                f"a report's instructions and reply take {reserved} tokens of the model's context of "
                f"{self.generator.context_tokens}, which leaves {max(room, 0)} for its material where 500 are needed; "
                f"lower report.max_tokens={self.config.max_tokens} or take a model with a longer context"
            )
        self.budget = min(self.config.report_tokens - HEADING_TOKENS, room)

    def write_level(self, rows: NDArray[np.int64], written: _Written, advance: Callable[[int], object]) -> None:
        for row, text in converse(self.conversations(rows, written), self.generator):
            if text is None:
                written.put(row, extractive_report(self.extracts, row, self.languages[row], failed=True), "fallback")
            else:
                written.put(row, text, "repaired" if text.is_repaired else "model")
            advance(1)
        written.count(rows, self.tokenizer)

    def conversations(
        self, rows: NDArray[np.int64], written: _Written
    ) -> Iterator[Conversation[tuple[int, ReportText | None]]]:
        # Two tokens a report for the blank line after it.
        found = contexts(
            self.material, rows, written.num_tokens + 2, self.budget, self.entity_lines, self.relationship_lines
        )
        for row, context in zip(rows.tolist(), found, strict=True):
            parts = [written.full_texts[part] for part in context.parts]
            is_empty = not (context.entities or parts)
            yield self.conversation(row, "" if is_empty else self.prompt(self.languages[row], context, parts))

    def conversation(self, row: int, prompt: str) -> Conversation[tuple[int, ReportText | None]]:
        """Asks for a report, and once more where the reply can't be read; None where there is nothing to ask about."""
        if not prompt:
            return row, None
        asked: list[Message] = [{"role": "user", "content": prompt}]
        config = self.config
        reply = yield Request(f"report/{row}", asked, config.max_tokens, config.temperature, REPORT_SCHEMA)
        text = None if reply.error else read_report(reply.text)
        if text is None and not reply.error:
            again = load_templates(config.prompts, self.languages[row], _KEYS)["again"]
            asked += [
                {"role": "assistant", "content": reply.text[:QUOTED] or "{}"},
                {"role": "user", "content": again},
            ]
            reply = yield Request(f"report/{row}", asked, config.max_tokens, config.temperature, REPORT_SCHEMA)
            text = None if reply.error else read_report(reply.text)
        return row, text

    def prompt(self, language: str, context: Context, parts: Sequence[str]) -> str:
        templates = load_templates(self.config.prompts, language, _KEYS)
        sections = (
            ("parts", "\n\n".join(parts)),
            ("entities", context.entities),
            ("relationships", context.relationships),
        )
        material = "\n\n".join(f"{templates[heading]}\n{text}" for heading, text in sections if text)
        words_per_token = 0.8 if templates["language"] == "zh" else 0.6
        values = {
            "context": material,
            "language": language_name(language, templates["language"]),
            "max_words": str(round(self.config.max_tokens * words_per_token)),
        }
        return fill(templates["report"], values)


def _material(communities: pa.Table, entities: pa.Table, relationships: pa.Table) -> Material:
    """Ids as rows, and the members of every community by rank: degree, then chunks; for relationships, then weight."""
    entity_ids = entities["entity_id"]
    entity_rank = _ranks(entities["degree"], entities["num_chunks"])
    relationship_rank = _ranks(relationships["combined_degree"], relationships["weight"])
    number = communities["community"].to_numpy()
    row_of = np.full(int(number.max(initial=-1)) + 2, -1, dtype=np.int64)
    row_of[number] = np.arange(len(number))
    return Material(
        source=rows_of(relationships["source_id"], entity_ids),
        target=rows_of(relationships["target_id"], entity_ids),
        entity_tokens=entities["num_tokens"].to_numpy().astype(np.int64),
        relationship_tokens=relationships["num_tokens"].to_numpy().astype(np.int64),
        members=_ranked(id_lists(communities["entity_ids"], entity_ids), entity_rank),
        inner=_ranked(id_lists(communities["relationship_ids"], relationships["relationship_id"]), relationship_rank),
        parent=row_of[communities["parent"].to_numpy()],
    )


def _ranks(first: pa.ChunkedArray, second: pa.ChunkedArray) -> NDArray[np.int64]:
    """Place of each row by two columns, both descending; ties stay in the table's order."""
    order = np.lexsort((-second.to_numpy(), -first.to_numpy().astype(np.int64)))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _ranked(lists: Lists, rank: NDArray[np.int64]) -> Lists:
    group = np.repeat(np.arange(len(lists), dtype=np.int64), np.diff(lists.offsets))
    return Lists(lists.offsets, lists.values[np.argsort(group * max(len(rank), 1) + rank[lists.values])])


def _known(language: str, extracts: Extracts, row: int, only_chinese: bool) -> str:
    """Code of the language of a report; "" where it is to be the material's own. ``only_chinese``: no other matters."""
    if language not in ("", "auto"):
        return language_code(language)
    text = extracts.sample(row)
    return "" if only_chinese and text.isascii() else language_of_text(text)


def _table(communities: pa.Table, written: _Written) -> pa.Table:
    texts = [text for text in written.texts if text is not None]
    if len(texts) != communities.num_rows:
        raise RuntimeError(f"{communities.num_rows} communities got {len(texts)} reports")
    return pa.table(
        [
            communities["community"],
            communities["community_id"],
            communities["level"],
            [text.title for text in texts],
            [text.summary for text in texts],
            [text.rating for text in texts],
            [text.rating_explanation for text in texts],
            [[finding._asdict() for finding in text.findings] for text in texts],
            written.full_texts,
            written.sources,
            pc.cast(pa.array(written.num_tokens), pa.int32()),
        ],
        schema=REPORTS,
    )
