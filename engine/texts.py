"""Which texts are embedded and searched, and how a row of each table reads as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from graphmill.engine.order import sort_chunks
from graphmill.engine.run_folder import RunFolder

EMBEDDED = ("chunks", "entities", "relationships", "reports")
SEARCHED = ("chunks", "entities", "relationships", "reports")
"""What may have an index of words: of the texts that are embedded, in their order."""


def texts_to_embed(folder: RunFolder, name: str) -> tuple[list[str], list[str]]:
    """Ids and texts of a table's rows, in the table's order.

    chunks         their distinct texts, by text id, in the order of the chunks
    entities       name, line break, description
    relationships  keywords, source, target, description; those that co-occurrence made have no text and are left out
    reports        the full text, by community id
    """
    if name == "chunks":
        chunks = sort_chunks(folder.read("chunks", ["path", "document_id", "position", "text_id", "text"]))
        return _first_of_each(chunks["text_id"].to_pylist(), chunks["text"].to_pylist())
    if name == "entities":
        table = folder.read("entities", ["entity_id", "name", "description"])
        texts = pc.binary_join_element_wise(table["name"], table["description"], "\n")
        return table["entity_id"].to_pylist(), texts.to_pylist()
    if name == "relationships":
        table = folder.read("relationships", ["relationship_id", "source", "target", "description", "keywords"])
        table = table.filter(pc.not_equal(table["description"], ""))
        return table["relationship_id"].to_pylist(), relationship_texts(table)
    table = folder.read("reports", ["community_id", "full_text"])
    return table["community_id"].to_pylist(), table["full_text"].to_pylist()


def relationship_texts(table: pa.Table) -> list[str]:
    """Keywords, then both names, then the description, a line each; without keywords the names come first."""
    names = pc.binary_join_element_wise(table["source"], table["target"], "\t")
    lines = pc.binary_join_element_wise(names, table["description"], "\n")
    keywords = pc.binary_join(table["keywords"], ", ")
    with_keywords = pc.binary_join_element_wise(keywords, lines, "\n")
    texts: list[str] = pc.if_else(pc.equal(keywords, ""), lines, with_keywords).to_pylist()
    return texts


def distinct_texts(folder: RunFolder) -> dict[str, str]:
    """Language of each distinct chunk text, by text id, in the order of the shards; the first document's counts."""
    languages: dict[str, str] = {}
    for shard in folder.shards("chunks", ["text_id", "language"]):
        for text_id, language in zip(shard["text_id"].to_pylist(), shard["language"].to_pylist(), strict=True):
            languages.setdefault(text_id, language)
    return languages


def _first_of_each(ids: list[str], values: list[Any]) -> tuple[list[str], list[Any]]:
    first: dict[str, Any] = {}
    for text_id, value in zip(ids, values, strict=True):
        first.setdefault(text_id, value)
    return list(first), list(first.values())


def texts_to_read(
    folder: RunFolder, wanted: AbstractSet[str], languages: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """(text id, text, language) of the wanted texts, each once, shard by shard."""
    left = set(wanted)
    for shard in folder.shards("chunks", ["text_id", "text"]):
        for text_id, text in zip(shard["text_id"].to_pylist(), shard["text"].to_pylist(), strict=True):
            if text_id in left:
                left.remove(text_id)
                yield text_id, text, languages[text_id]
