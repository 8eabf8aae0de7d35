"""The lexical indexes of a run folder: made beside the other stages, never left standing for another table's rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from graphmill.engine.lexical import LexicalIndex
from graphmill.engine.run import Run, fingerprint
from graphmill.engine.texts import SEARCHED, texts_to_embed


@contextmanager
def chunk_words(run: Run) -> Iterator[Future[str | None] | None]:
    """Starts the index of the chunks beside what is done in the block, since Tantivy works in threads of its own.

    Gives the future of its stamp, for ``finish_words``; None where no lexical index is wanted.
    """
    if not run.config.embed.lexical:
        for name in SEARCHED:
            _remove(run, name)
        yield None
        return
    _forget(run, "chunks")
    with ThreadPoolExecutor(1) as aside:
        yield aside.submit(_build, run, "chunks")


def finish_words(run: Run, chunks: Future[str | None] | None) -> None:
    """Waits for the lexical index of the chunks, and makes those of the other tables."""
    for name in SEARCHED if chunks is not None else ():
        if name == "relationships" and not run.config.embed.relationships:
            _remove(run, name)  # they are searched by their vectors, and by their words beside these
            continue
        with run.stage(f"{name} words", run.folder.tables[name].rows, "texts"):
            if name == "chunks" and chunks is not None:
                stamp = chunks.result()
            else:
                _forget(run, name)
                stamp = _build(run, name)
            run.progress.advance(run.folder.tables[name].rows)
        if stamp is not None:
            run.folder.put_facts({f"words_{name}": stamp})


def _stamp(run: Run, name: str) -> str:
    """What the lexical index of a table is made from."""
    return fingerprint("words", run.folder.tables[name].hash)


def _forget(run: Run, name: str) -> None:
    """Strikes out a lexical index that is about to be replaced: a kill in between must not leave the new one for it."""
    if run.folder.facts.get(f"words_{name}") not in (None, _stamp(run, name)):
        run.folder.put_facts({f"words_{name}": None})


def _remove(run: Run, name: str) -> None:
    if run.folder.facts.get(f"words_{name}") is not None:
        run.folder.put_facts({f"words_{name}": None})
    shutil.rmtree(run.folder.root / "words" / name, ignore_errors=True)


def _build(run: Run, name: str) -> str | None:
    """The texts of a table -> the lexical index of them; returns its stamp, None where it was there."""
    folder = run.folder
    stamp = _stamp(run, name)
    if folder.facts.get(f"words_{name}") == stamp and LexicalIndex.is_whole(folder.root / "words" / name):
        return None
    LexicalIndex.build(folder.root / "words" / name, [texts_to_embed(folder, name)[1]])
    return stamp
