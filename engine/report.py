"""Communities to reports: what each is about, by the model where there is one, from the top entities where not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.extractive_report import Extracts, extractive_report
from graphmill.engine.models import Generator, Tokenizer
from graphmill.engine.prompt_language import language_code, language_of_text
from graphmill.engine.report_context import Material
from graphmill.engine.rows import Lists, id_lists, rows_of
from graphmill.engine.write_reports import ReportConfig, ReportWriter, Written

__all__ = ["REPORTS", "ReportConfig", "report"]

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


def report(
    communities: pa.Table,
    entities: pa.Table,
    relationships: pa.Table,
    generator: Generator | None,
    tokenizer: Tokenizer,
    config: ReportConfig,
    language: str | Sequence[str] = "auto",
    advance: Callable[[int], object] = lambda num_written: None,
    claims: pa.Table | None = None,
) -> pa.Table:
    """COMMUNITIES, ENTITIES, RELATIONSHIPS -> REPORTS, a row for every community, whatever the model does.

    The deepest level comes first, all of a level in one batch, so that a report can stand for its community in the
    context of the parent. A community of one entity takes no model call.

    language  of the reports, one for all or one a community: a code or name, or "auto", which tells Chinese by the
              script of the top entities and else asks for the language of the material
    advance   is told the number of reports as they are written
    claims    CLAIMS about the entities, which then are part of the material
    """
    material = _material(communities, entities, relationships)
    extracts = Extracts.of(material, entities, relationships)
    languages = [language] * communities.num_rows if isinstance(language, str) else list(language)
    languages = [_known(wanted, extracts, row, generator is None) for row, wanted in enumerate(languages)]
    num = communities.num_rows
    written = Written([None] * num, [""] * num, [""] * num, np.zeros(num, dtype=np.int64))
    size = np.diff(material.members.offsets)
    without_model = np.arange(num) if generator is None else np.flatnonzero(size == 1)
    for row in without_model.tolist():
        written.put(row, extractive_report(extracts, row, languages[row]), "extractive")
    written.count(without_model, tokenizer)
    advance(len(without_model))
    if generator is not None and len(without_model) < num:
        writer = ReportWriter(material, extracts, languages, generator, tokenizer, config)
        writer.prepare(entities, relationships, claims)
        level = communities["level"].to_numpy()
        for depth in np.unique(level)[::-1]:
            writer.write_level(np.flatnonzero((level == depth) & (size > 1)), written, advance)
    return _table(communities, written)


def _material(communities: pa.Table, entities: pa.Table, relationships: pa.Table) -> Material:
    """Ids as rows, and the members of every community by rank, then chunks; for relationships, then weight."""
    entity_ids = entities["entity_id"]
    entity_rank = _ranks(entities["rank"], entities["num_chunks"])
    relationship_rank = _ranks(relationships["rank"], relationships["weight"])
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
    order = np.lexsort((-second.to_numpy(), -first.to_numpy()))
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


def _table(communities: pa.Table, written: Written) -> pa.Table:
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
