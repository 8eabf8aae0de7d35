"""Chunk texts that say nearly what an earlier one says: they are read once, and cited wherever they stand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from graphmill.engine.run import Run, fingerprint
from graphmill.engine.texts import texts_to_embed
from graphmill.kernels.minhash import near_duplicates, signatures

DUPLICATES = pa.schema([("text_id", pa.string()), ("same_as", pa.string()), ("similarity", pa.float64())])
"""One row a text that is not read: the text that is read in its place, and their similarity by MinHash."""


def find_duplicates(run: Run) -> None:
    """Chunks -> duplicates, where a threshold is set. A text repeats the first one, in the order of the documents."""
    threshold = run.config.extract.near_duplicates
    if not threshold:
        return
    stamp = fingerprint("duplicates", run.folder.tables["chunks"].hash, threshold)
    if run.is_done("duplicates", "duplicates", stamp):
        return
    text_ids, texts = texts_to_embed(run.folder, "chunks")
    with run.stage("duplicates", None, "texts"):
        same_as, similarity = near_duplicates(signatures(texts, run.backend), threshold, run.backend)
        rows = np.flatnonzero(same_as != np.arange(len(same_as)))
        ids = pa.array(text_ids, pa.string())
        columns = [ids.take(pa.array(rows)), ids.take(pa.array(same_as[rows])), pa.array(similarity[rows])]
        run.folder.write("duplicates", stamp, pa.table(columns, schema=DUPLICATES))
        run.progress.advance(len(text_ids))
    run.backend.release()
