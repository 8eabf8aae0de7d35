"""Tokens of the texts that contexts quote, counted once when they are indexed and not with every question.

A chunk or a report is quoted as a JSON string, which has more tokens than the bare text. The lines of entities and
relationships are counted with their tables (context_rows).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pyarrow as pa

from graphmill.engine.run import Run, fingerprint
from graphmill.engine.run_folder import RunFolder

TOKENS = pa.schema([("id", pa.string()), ("num_tokens", pa.int32())])
"""Of tokens_chunks, by text id, and of tokens_reports, by community id: what the text takes as ``quoted``."""
QUOTED = {"chunks": ("text_id", "text"), "reports": ("community_id", "full_text")}
_BATCH = 2048
_encode = json.JSONEncoder(ensure_ascii=False).encode


def quoted(text: str) -> str:
    """The text as a JSON string."""
    return _encode(text)


def tokens_print(folder: RunFolder, name: str, tokenizer: str) -> str:
    """What a table of counts is made from."""
    return fingerprint("context tokens", folder.tables[name].hash, tokenizer)


@contextmanager
def chunk_tokens(run: Run) -> Iterator[Future[pa.Table] | None]:
    """Counts the chunks beside what is done in the block, for ``finish_tokens``; None where that is done."""
    if run.folder.is_finished("tokens_chunks", tokens_print(run.folder, "chunks", run.models.tokenizer.name)):
        yield None
        return
    stopped = Event()
    with ThreadPoolExecutor(1) as aside:
        try:
            yield aside.submit(_count, run, "chunks", stopped)
        finally:
            stopped.set()  # a run that fails does not wait until all is counted


def finish_tokens(run: Run, chunks: Future[pa.Table] | None) -> None:
    """Waits for the counts of the chunks, and makes those of the reports."""
    for name in QUOTED:
        print_ = tokens_print(run.folder, name, run.models.tokenizer.name)
        if not run.folder.is_finished(f"tokens_{name}", print_):
            with run.stage(f"{name} tokens", None, "texts"):
                counted = chunks.result() if name == "chunks" and chunks is not None else _count(run, name)
                run.folder.write(f"tokens_{name}", print_, counted)
                run.progress.advance(counted.num_rows)


def _count(run: Run, name: str, stopped: Event | None = None) -> pa.Table:
    counts: dict[str, int] = {}
    for shard in run.folder.shards(name, list(QUOTED[name])):
        for start in range(0, shard.num_rows, _BATCH):
            if stopped is not None and stopped.is_set():
                break
            ids, texts = (shard[column].slice(start, _BATCH).to_pylist() for column in QUOTED[name])
            new = {text_id: text for text_id, text in zip(ids, texts, strict=True) if text_id not in counts}
            counted = run.models.tokenizer.count([quoted(text) for text in new.values()])
            counts.update(zip(new, counted.tolist(), strict=True))
    return pa.table([pa.array(list(counts), pa.string()), pa.array(list(counts.values()), pa.int32())], schema=TOKENS)
