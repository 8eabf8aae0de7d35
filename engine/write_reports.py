"""Reports by the model: one conversation a community, a level at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from graphmill.engine.context_rows import entity_lines, line_tokens, relationship_lines
from graphmill.engine.converse import Conversation, converse
from graphmill.engine.extractive_report import Extracts, extractive_report
from graphmill.engine.models import Generator, Message, Request, Tokenizer
from graphmill.engine.prompt_language import language_name
from graphmill.engine.report_claims import SHARE, ClaimLines
from graphmill.engine.report_context import Context, Material, contexts
from graphmill.engine.report_text import REPORT_SCHEMA, ReportText, read_report
from graphmill.engine.templates import fill, load_templates

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
    ("claims", ()),
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
class Written:
    """Reports as they come, one place a community."""

    texts: list[ReportText | None]
    sources: list[str]
    full_texts: list[str]
    num_tokens: NDArray[np.int64]

    def put(self, row: int, text: ReportText, source: str) -> None:
        self.texts[row], self.sources[row], self.full_texts[row] = text, source, text.render()

    def count(self, rows: NDArray[np.int64], tokenizer: Tokenizer) -> None:
        self.num_tokens[rows] = tokenizer.count([self.full_texts[row] for row in rows])


@dataclass
class ReportWriter:
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
    claims: ClaimLines | None = field(init=False, default=None)

    def prepare(self, entities: pa.Table, relationships: pa.Table, claims: pa.Table | None = None) -> None:
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
        if claims is not None and claims.num_rows:
            self.claims = ClaimLines.of(claims, entities, self.tokenizer)

    def write_level(self, rows: NDArray[np.int64], written: Written, advance: Callable[[int], object]) -> None:
        for row, text in converse(self.conversations(rows, written), self.generator):
            if text is None:
                written.put(row, extractive_report(self.extracts, row, self.languages[row], failed=True), "fallback")
            else:
                written.put(row, text, "repaired" if text.is_repaired else "model")
            advance(1)
        written.count(rows, self.tokenizer)

    def conversations(
        self, rows: NDArray[np.int64], written: Written
    ) -> Iterator[Conversation[tuple[int, ReportText | None]]]:
        budget = self.budget if self.claims is None else self.budget - self.budget // SHARE
        # Two tokens a report for the blank line after it.
        found = contexts(
            self.material, rows, written.num_tokens + 2, budget, self.entity_lines, self.relationship_lines
        )
        for row, context in zip(rows.tolist(), found, strict=True):
            parts = [written.full_texts[part] for part in context.parts]
            claims = ""
            if self.claims is not None:
                claims = self.claims.within(self.material.members[row], self.budget - context.num_tokens)
            is_empty = not (context.entities or parts)
            yield self.conversation(row, "" if is_empty else self.prompt(self.languages[row], context, parts, claims))

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
            asked = [
                *asked,
                {"role": "assistant", "content": reply.text[:QUOTED] or "{}"},
                {"role": "user", "content": again},
            ]
            reply = yield Request(f"report/{row}", asked, config.max_tokens, config.temperature, REPORT_SCHEMA)
            text = None if reply.error else read_report(reply.text)
        return row, text

    def prompt(self, language: str, context: Context, parts: Sequence[str], claims: str = "") -> str:
        templates = load_templates(self.config.prompts, language, _KEYS)
        sections = (
            ("parts", "\n\n".join(parts)),
            ("entities", context.entities),
            ("relationships", context.relationships),
            ("claims", claims),
        )
        material = "\n\n".join(f"{templates[heading]}\n{text}" for heading, text in sections if text)
        words_per_token = 0.8 if templates["language"] == "zh" else 0.6
        values = {
            "context": material,
            "language": language_name(language, templates["language"]),
            "max_words": str(round(self.config.max_tokens * words_per_token)),
        }
        return fill(templates["report"], values)
