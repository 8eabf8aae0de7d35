"""Chunk texts to records without a model, in processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from graphmill.engine.extract import ExtractConfig, TextRead
from graphmill.engine.records import Record

PHRASES = 2
"""Version of the rules, raised when they change, so that texts are read again."""

TEXTS_PER_TASK = 32
MIN_TEXTS_FOR_PROCESSES = 256
"""Below this, starting processes takes longer than the reading."""

Text = tuple[str, str, str]


def extract_phrases(texts: Iterable[Text], config: ExtractConfig) -> Iterator[list[TextRead]]:
    """Reads (text id, text, language) triples by rules; yields batches of at most ``config.shard_texts``."""
    source = iter(texts)
    first = list(islice(source, MIN_TEXTS_FOR_PROCESSES))
    num_processes = os.cpu_count() or 1
    if len(first) < MIN_TEXTS_FOR_PROCESSES or num_processes == 1:
        parts: Iterable[list[TextRead]] = map(_read_texts, _tasks(first, source))
    else:
        # joblib's workers, unlike multiprocessing's, don't import the caller's script anew.
        from joblib import Parallel, delayed

        pool = Parallel(n_jobs=num_processes, return_as="generator", pre_dispatch=f"{2 * num_processes}", batch_size=1)
        parts = pool(delayed(_read_texts)(task) for task in _tasks(first, source))
    batch: list[TextRead] = []
    for part in parts:
        batch.extend(part)
        if len(batch) >= config.shard_texts:
            yield batch
            batch = []
    if batch:
        yield batch


def _tasks(first: Sequence[Text], rest: Iterator[Text]) -> Iterator[list[Text]]:
    for start in range(0, len(first), TEXTS_PER_TASK):
        yield list(first[start : start + TEXTS_PER_TASK])
    while task := list(islice(rest, TEXTS_PER_TASK)):
        yield task


def _read_texts(texts: Sequence[Text]) -> list[TextRead]:
    return [_read_text(*text) for text in texts]


def _read_text(text_id: str, text: str, language: str) -> TextRead:
    """One text; should a rule break on it, it is set aside with the reason like a chunk that a model failed on."""
    from graphmill.engine.phrases import find_phrases

    read = TextRead(text_id, rounds=1)
    try:
        mentions, pairs = find_phrases(text, language)
    except Exception as error:
        read.status, read.reason = "failed", f"phrase finder: {type(error).__name__}: {error}"
        return read
    for mention in mentions:
        read.records.append(
            Record("entity", mention.name, mention.type, "", mention.description, [], float(mention.count))
        )
    for pair in pairs:
        read.records.append(Record("relationship", pair.source, "", pair.target, "", [], float(pair.count)))
    return read
