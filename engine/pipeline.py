"""The method, top to bottom: a corpus in, an index out. ``build`` is its order.

Each step reads tables of the run folder and writes tables. It has a fingerprint of what shapes it, its settings and the
content of its input; a finished table with the same fingerprint is not made again, so that running twice goes on
from where the first run stopped, and a changed setting or corpus costs only what it touches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from graphmill.engine.apply_aliases import apply_aliases, apply_to_claims, apply_to_weights
from graphmill.engine.chunk import chunk
from graphmill.engine.cluster import cluster
from graphmill.engine.context_tokens import chunk_tokens, finish_tokens
from graphmill.engine.describe import describe
from graphmill.engine.documents import Document, Skipped, document_batches
from graphmill.engine.embed import embed, vectors_schema
from graphmill.engine.extract import NoRecordsError, TextRead, extract, extraction_tables
from graphmill.engine.extract_phrases import extract_phrases
from graphmill.engine.find_claims import find_claims
from graphmill.engine.find_duplicates import find_duplicates
from graphmill.engine.index_vectors import index_vectors
from graphmill.engine.index_words import chunk_words, finish_words
from graphmill.engine.keep_aliases import keep_aliases
from graphmill.engine.replies import StoredGenerator
from graphmill.engine.report import report
from graphmill.engine.resolve import Graph, resolve
from graphmill.engine.run import Run, fingerprint
from graphmill.engine.summary import latest_readings, summarise_run
from graphmill.engine.texts import EMBEDDED, texts_to_embed, texts_to_read
from graphmill.engine.weigh_phrases import weigh_phrases
from graphmill.engine.write_behind import WriteBehind

SHARD_S, SHARD_ROWS = 30.0, 32_768
"""How much embedding a kill may cost, and the most rows of a shard."""
QUOTED_TOKENS = 120
"""Longest description that is made of quoted sentences: past the first few they are chance finds, not a portrait."""


class EmptyCorpusError(ValueError):
    """The corpus holds nothing that can be read."""


def build(run: Run, read: Callable[[], Iterable[Document | Skipped]], stamp: str | None, name: str) -> dict[str, Any]:
    """Runs every stage that is not done yet, and returns what the index holds."""
    read_documents(run, read, stamp, name)
    chunk_documents(run)
    with chunk_words(run) as words, chunk_tokens(run) as tokens:
        find_duplicates(run)
        extract_chunks(run)
        find_claims(run)
        keep_aliases(run)
        resolve_extractions(run)
        run.rest()
        find_communities(run)
        run.backend.release()
        write_reports(run)
        run.rest()
        embed_texts(run)
        index_vectors(run)
        finish_words(run, words)
        finish_tokens(run, tokens)
    return summarise_run(run)


def read_documents(run: Run, read: Callable[[], Iterable[Document | Skipped]], stamp: str | None, name: str) -> None:
    """Corpus -> documents, skipped. Without a stamp, as for an iterator, the corpus is read anew each time."""
    folder = run.folder
    stamp_ = fingerprint("documents", stamp, run.config.corpus)
    if stamp is not None and run.is_done("documents", "documents", stamp_):
        return
    known = {}
    if "documents" in folder.tables:
        before = folder.read("documents", ["document_id", "created_at"])
        known = dict(zip(*(before[column].to_pylist() for column in before.column_names), strict=True))
    documents, skipped = folder.restart("documents", stamp_), folder.restart("skipped", stamp_)
    identity = ""
    with run.stage("documents", None, "documents"):
        for batch, left_out in document_batches(read(), run.now, known):
            documents.append(batch)
            skipped.append(left_out)
            identity = fingerprint(identity, batch["document_id"].to_pylist())
            run.progress.advance(batch.num_rows)
        if not documents.table.rows:
            raise EmptyCorpusError(_empty(name, folder.root, skipped.table.rows, left_out))
        skipped.finish()
        documents.finish()
    folder.put_facts({"documents": identity})


def chunk_documents(run: Run) -> None:
    """Documents -> chunks, shard by shard."""
    folder, settings, tokenizer = run.folder, run.config.chunk, run.models.tokenizer
    stamp = fingerprint("chunks", folder.facts["documents"], settings, tokenizer.name)
    if run.is_done("chunks", "chunks", stamp):
        return
    chunks = folder.start("chunks", stamp)
    num_done = len(chunks.table.shards)
    documents = folder.tables["documents"]
    with run.stage("chunks", documents.rows, "documents", sum(s["rows"] for s in documents.shards[:num_done])):

        def write(made: pa.Table, num_documents: int) -> None:
            chunks.append(made)
            run.progress.advance(num_documents)

        with WriteBehind() as behind:
            for number, batch in enumerate(folder.shards("documents")):
                if number >= num_done:
                    behind.do(partial(write, chunk(batch, tokenizer, settings), batch.num_rows))
        chunks.finish()


def extract_chunks(run: Run) -> None:
    """Chunks -> extractions, readings. Texts that were read before are not read again, but for those that failed."""
    folder = run.folder
    stamp = fingerprint("extractions", run.reader())
    extractions, readings = folder.start("extractions", stamp), folder.start("readings", stamp)
    languages = run.texts()
    wanted = languages.keys() - _read_before(run, stamp, "ok", "incomplete")
    if not wanted and folder.is_finished("extractions", stamp):
        run.progress.skip("extractions")
        return
    with run.stage("extractions", len(languages), "texts", len(languages) - len(wanted)):
        texts = texts_to_read(folder, wanted, languages)
        failed_before = _read_before(run, stamp, "failed") if run.retry_failures else frozenset()

        def write(batch: list[TextRead]) -> None:
            records, read = extraction_tables(batch, run.backend)
            with folder.together():
                extractions.append(records)
                readings.append(read)
            run.progress.advance(len(batch), _failures(batch))

        with WriteBehind() as behind:
            for batch in _read_texts(run, texts, languages, failed_before):
                behind.do(partial(write, batch))
        with folder.together():
            extractions.finish()
            readings.finish()


def _read_texts(
    run: Run, texts: Iterator[tuple[str, str, str]], languages: dict[str, str], failed_before: frozenset[str]
) -> Iterator[list[TextRead]]:
    """What the model, or the phrase finder, reads in the texts; replies that no record was found in are not kept."""
    generator, settings = run.generator, run.config.extract
    if generator is None:
        yield from extract_phrases(texts, settings)
        return
    if isinstance(generator, StoredGenerator):
        generator.anew = failed_before
    try:
        yield from extract(texts, generator, run.profiles(languages.values()), settings)
    except NoRecordsError:
        # Else the next run would be given them again, though the model may have been mended by then.
        if isinstance(generator, StoredGenerator):
            generator.forget()
        raise


def resolve_extractions(run: Run) -> None:
    """Extractions, chunks -> entities, relationships."""
    folder, config = run.folder, run.config
    inputs = [folder.tables[name].hash for name in ("extractions", "chunks")]
    inputs += [folder.tables["duplicates"].hash] if config.extract.near_duplicates else []
    inputs += [folder.tables["aliases"].hash] if config.aliases.enabled else []
    shaping = [config.resolve.max_per_entity, config.resolve.rank, config.summarise]
    stamp = fingerprint("graph", inputs, *shaping, config.extract.language, run.reader())
    if folder.is_finished("relationships", stamp) and run.is_done("entities", "entities", stamp):
        return
    with run.stage("entities", None, "entities"):
        extractions, chunks = folder.read("extractions"), run.chunks("text_id", "language")
        weights = None
        if run.generator is None:
            extractions, weights = weigh_phrases(extractions, chunks, config.resolve.max_per_entity, run.backend)
        if config.aliases.enabled:
            aliases = folder.read("aliases")
            extractions, weights = apply_aliases(extractions, aliases), apply_to_weights(weights, aliases)
        run.rest()
        graph = resolve(extractions, chunks, run.backend, weights, config.resolve)
        run.backend.release()
        entities, relationships = _described(run, graph, chunks)
        if not entities.num_rows:
            run.progress.warn(_no_entities(run))
        with folder.together():
            if config.aliases.enabled:
                folder.write("aliases_used", stamp, aliases)  # what people change is not in the graph until then
            folder.write("entities", stamp, entities)
            folder.write("relationships", stamp, relationships)
        run.progress.advance(entities.num_rows)


def _described(run: Run, graph: Graph, chunks: pa.Table) -> tuple[pa.Table, pa.Table]:
    """A graph's tables with one description a row."""
    settings = run.config.summarise
    if run.generator is None:
        settings = replace(settings, max_tokens=min(settings.max_tokens, QUOTED_TOKENS))
    entities, relationships, made = describe(
        graph, run.generator, run.models.tokenizer, settings, lambda chunk_ids: run.languages(chunk_ids, chunks)
    )
    if made.num_failed:
        run.progress.warn(f"{made.num_failed} descriptions could not be summarised; they were joined and cut instead")
    return entities, relationships


def find_communities(run: Run) -> None:
    """Entities, relationships -> communities."""
    folder, settings = run.folder, run.config.cluster
    inputs = [folder.tables[name].hash for name in ("entities", "relationships")]
    stamp = fingerprint("communities", inputs, settings, run.backend.name)
    if run.is_done("communities", "communities", stamp):
        return
    with run.stage("communities", None, "communities"):
        entities = folder.read("entities", ["entity_id", "chunk_ids"])
        ends = ["relationship_id", "source_id", "target_id", "weight", "chunk_ids"]
        chunk_ids = run.chunks()["chunk_id"].combine_chunks()
        communities = cluster(entities, folder.read("relationships", ends), chunk_ids, settings, run.backend)
        folder.write("communities", stamp, communities)
        run.progress.advance(communities.num_rows)


def write_reports(run: Run) -> None:
    """Communities, entities, relationships -> reports."""
    folder, settings = run.folder, run.config.report
    inputs = [folder.tables[name].hash for name in ("communities", "entities", "relationships")]
    claims = run.claims()
    if claims is not None and run.config.aliases.enabled:
        claims = apply_to_claims(claims, folder.read("aliases"))
    if claims is not None:
        inputs.append(fingerprint(claims["claim_id"].to_pylist(), claims["description"].to_pylist()))
    stamp = fingerprint("reports", inputs, settings, run.config.extract.language, run.reader())
    if run.is_done("reports", "reports", stamp):
        return
    communities, entities, relationships = (folder.read(name) for name in ("communities", "entities", "relationships"))
    with run.stage("reports", communities.num_rows, "communities"):
        reports = report(
            communities,
            entities,
            relationships,
            run.generator,
            run.models.tokenizer,
            settings,
            run.languages(communities["chunk_ids"], run.chunks("language")),
            run.progress.advance,
            claims,
        )
        folder.write("reports", stamp, reports)
        num_failed = pc.sum(pc.equal(reports["source"], "fallback")).as_py()
        if num_failed:
            run.progress.warn(
                f"{num_failed} reports could not be had from the model and were made from the top entities"
            )


def embed_texts(run: Run) -> None:
    """Chunks, entities, relationships, reports -> vectors of each."""
    folder, embedder = run.folder, run.models.embedder
    for name in EMBEDDED:
        if getattr(run.config.embed, name):
            stamp = fingerprint("vectors", folder.tables[name].hash, embedder.model, embedder.dimension)
            if not run.is_done(f"{name} vectors", f"vectors_{name}", stamp):
                _embed_table(run, name, stamp)
    folder.put_facts({"embedder": {"model": embedder.model, "dimension": embedder.dimension}})


def _embed_table(run: Run, name: str, stamp: str) -> None:
    """Vectors, and the ids that could not be embedded, in shards of some SHARD_S seconds' work."""
    folder, embedder = run.folder, run.models.embedder
    ids, texts = texts_to_embed(folder, name)
    vectors, left_out = folder.start(f"vectors_{name}", stamp), folder.start(f"unembedded_{name}", stamp)
    num_done = vectors.table.rows + left_out.table.rows
    held: list[pa.Table] = []
    bad: list[str] = []

    def write() -> None:
        with folder.together():
            if held or not vectors.table.shards:
                vectors.append(pa.concat_tables([*held, vectors_schema(embedder.dimension).empty_table()]))
            left_out.append(pa.table({"id": pa.array(bad, pa.string())}))
        held.clear()
        bad.clear()

    with run.stage(f"{name} vectors", len(ids), "texts", num_done):
        written = time.monotonic()
        try:
            for batch, not_embedded in embed(ids[num_done:], texts[num_done:], embedder):
                held.append(batch)
                bad += not_embedded
                run.progress.advance(batch.num_rows + len(not_embedded))
                if time.monotonic() - written > SHARD_S or sum(part.num_rows for part in held) > SHARD_ROWS:
                    write()
                    written = time.monotonic()
        except KeyboardInterrupt:
            write()
            raise
        write()
        with folder.together():
            vectors.finish()
            left_out.finish()
    if left_out.table.rows:
        told = f"{left_out.table.rows} of {len(ids)} {name} could not be embedded"
        run.progress.warn(f"{told}, though each was tried twice; search leaves them out")


def _read_before(run: Run, stamp: str, *statuses: str) -> frozenset[str]:
    """Ids of the texts that a run with the same reader came to one of these ends with."""
    if "readings" not in run.folder.tables or run.folder.tables["readings"].fingerprint != stamp:
        return frozenset()
    readings = latest_readings(run.folder)
    return frozenset(readings.filter(pc.is_in(readings["status"], pa.array(statuses)))["text_id"].to_pylist())


def _failures(batch: list[TextRead]) -> str:
    failed = sum(read.status == "failed" for read in batch)
    return f"{failed} failed" if failed else ""


def _empty(name: str, root: Any, num_skipped: int, last: pa.Table) -> str:
    if not num_skipped:
        return f"the corpus {name} is empty: it holds no file that graphmill reads (txt, md, jsonl, csv, parquet)"
    shown = "; ".join(f"{row['path']}: {row['reason']}" for row in last.slice(0, 3).to_pylist())
    return f"the corpus {name} holds no text that can be read; {num_skipped:,} files or records were skipped ({shown})"


def _no_entities(run: Run) -> str:
    """Why the graph is empty, as far as the readings tell."""
    readings = latest_readings(run.folder)
    failed = pc.sum(pc.equal(readings["status"], "failed")).as_py() or 0
    rejected = pc.sum(readings["num_rejected"]).as_py() or 0
    if failed:
        why = f"{failed} of {readings.num_rows} texts could not be read"
    elif rejected:
        why = f"the replies held {rejected} records, and none could be used"
    else:
        why = (
            "the replies held no records" if run.generator is not None else "the phrase finder found none in the texts"
        )
    return f"no entities: {why}; chunks can still be searched (--mode naive)"
