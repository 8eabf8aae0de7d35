"""The aliases step of a run: pairs are judged once and kept, and what people changed is applied on top."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from graphmill.engine.aliases import find_aliases
from graphmill.engine.confirm_aliases import instructions
from graphmill.engine.fold_aliases import ALIAS_EDITS, fold_aliases
from graphmill.engine.resolve import resolve
from graphmill.engine.run import Run, fingerprint
from graphmill.engine.run_folder import RunFolder
from graphmill.engine.weigh_phrases import weigh_phrases

ALIAS_NAMES = pa.schema([("key", pa.string()), ("name", pa.string())])
"""Every entity as it is without aliases, those included that are folded into another; sorted by key."""


ALIAS_ANSWERS = pa.schema([("asked", pa.string()), ("same", pa.bool_())])
"""Every answer the model ever gave, by the hash of what it was asked: a pair that comes back is not asked again."""


def keep_aliases(run: Run) -> None:
    """Extractions -> alias_names, alias_pairs, aliases, where they are asked for.

    ``alias_edits`` is what people change, and no run touches it. A change to it costs no question, and of a changed
    corpus only pairs are asked about that are new, or of whose names something else is said.
    """
    folder, config = run.folder, run.config.aliases
    if not config.enabled:
        if folder.tables.pop("aliases", None) is not None:
            folder.tables.pop("aliases_used", None)
            folder.save()  # so that a table of aliases is there just where it is in use
        return
    inputs: list[Any] = [folder.tables[name].hash for name in ("extractions", "chunks")]
    inputs += [folder.tables["duplicates"].hash] if run.config.extract.near_duplicates else []
    model = None if run.generator is None else run.generator.model
    prompts = [instructions(config.prompts, language) for language in ("en", "zh")]
    stamp = fingerprint("alias_pairs", inputs, config, prompts, run.reader(), model, run.models.embedder.model)
    judged = folder.is_finished("alias_pairs", stamp) and folder.is_finished("alias_names", stamp)
    if judged and run.is_done("aliases", "aliases", aliases_stamp(folder)):
        return
    with run.stage("aliases", None, "names"):
        if not judged:
            _judge(run, stamp)
        write_aliases(folder)
        run.progress.advance(folder.tables["alias_names"].rows)


def write_aliases(folder: RunFolder, edits: pa.Table | None = None) -> pa.Table:
    """Writes ALIASES as they follow from the folder's tables, together with new ALIAS_EDITS where there are any."""
    with folder.together():
        if edits is not None:
            folder.write("alias_edits", fingerprint("alias_edits", edits.to_pylist()), edits)
        aliases = fold_aliases(folder.read("alias_pairs"), read_edits(folder), read_names(folder))
        folder.write("aliases", aliases_stamp(folder), aliases)
    return aliases


def read_edits(folder: RunFolder) -> pa.Table:
    """ALIAS_EDITS; none where nobody has changed anything."""
    return folder.read("alias_edits") if "alias_edits" in folder.tables else ALIAS_EDITS.empty_table()


def read_names(folder: RunFolder) -> dict[str, str]:
    """Shown name of every entity by key, those that are folded included."""
    names = folder.read("alias_names")
    return dict(zip(names["key"].to_pylist(), names["name"].to_pylist(), strict=True))


def aliases_stamp(folder: RunFolder) -> str:
    """Fingerprint of what shapes the table of aliases."""
    pairs, edits = folder.tables["alias_pairs"], folder.tables.get("alias_edits")
    return fingerprint("aliases", pairs.fingerprint, pairs.hash, edits.hash if edits is not None else "")


def _judge(run: Run, stamp: str) -> None:
    """Entities as they are without aliases, and the pairs of them that may be one."""
    folder, config, models = run.folder, run.config, run.models
    extractions, chunks = folder.read("extractions"), run.chunks("text_id", "language")
    if run.generator is None:
        extractions, _ = weigh_phrases(extractions, chunks, config.resolve.max_per_entity, run.backend)
    run.rest()
    # Ranks are not wanted here.
    entities = resolve(extractions, chunks, run.backend, None, replace(config.resolve, rank="degree")).entities
    run.backend.release()
    languages = run.languages(entities["chunk_ids"], chunks)
    known: dict[str, bool] = {}
    if "alias_answers" in folder.tables:
        before = folder.read("alias_answers")
        known = dict(zip(before["asked"].to_pylist(), before["same"].to_pylist(), strict=True))
    asked = (models.embedder, run.generator, models.tokenizer, config.aliases)
    found = find_aliases(entities, languages, *asked, known, run.backend)
    with folder.together():
        folder.write("alias_names", stamp, entities.select(ALIAS_NAMES.names).sort_by("key").cast(ALIAS_NAMES))
        folder.write("alias_pairs", stamp, found.pairs)
        answered = dict(zip(*(found.pairs[name].to_pylist() for name in ("asked", "same")), strict=True))
        answers = sorted((known | {mark: same for mark, same in answered.items() if mark}).items())
        columns = [[mark for mark, _ in answers], [same for _, same in answers]]
        folder.write("alias_answers", fingerprint("alias_answers", answers), pa.table(columns, schema=ALIAS_ANSWERS))
    if found.num_unread:
        told = f"{found.num_unread} pairs of names got no answer from the model that could be read"
        run.progress.warn(f"{told}, though it was asked twice; they were not taken for one")
    if found.num_left_out:
        told = f"{found.num_left_out} pairs of names that are alike were not judged"
        run.progress.warn(f"{told}: aliases.max_pairs is {config.aliases.max_pairs}")
