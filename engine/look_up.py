"""What a question searches an index for, and the looking up: of one question, or of many together.

All texts that are not embedded yet go to the embedder in one call, and each table is searched for all texts at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple

import numpy as np

from graphmill.engine.embed import embed_texts
from graphmill.engine.index import Index, Scores
from graphmill.engine.rows import Rows


class Want(NamedTuple):
    """A text to be embedded, and, where a table is named, its k best rows there."""

    text: str
    table: str = ""
    """One of "texts", "entities", "relationships" and "reports"; "" wants the vector alone."""
    k: int = 0


@dataclass
class Found:
    """What was looked up for a question so far."""

    vectors: dict[str, Scores] = field(default_factory=dict)
    """Unit vector, float32 [1, d], of each text; NaN where it can't be embedded."""
    rows: dict[Want, tuple[Rows, Scores]] = field(default_factory=dict)
    """Rows and how near they are, best first; none of a text that can't be embedded."""
    reports: Rows | None = None
    """The reports that drift begins with."""


class Lookup(NamedTuple):
    """Wants of one question, the place for what is found, and whether words are searched (``QueryParam.lexical``)."""

    wants: list[Want]
    found: Found
    lexical: bool | None


def look_up(index: Index, lookups: Iterable[Lookup]) -> None:
    """Finds what is wanted and not found yet; equal texts are embedded, and searched for, once."""
    vectors: dict[str, Scores] = {}
    askers: dict[tuple[Want, bool | None], list[Found]] = defaultdict(list)
    unknown: dict[str, list[Found]] = defaultdict(list)
    for wants, found, lexical in lookups:
        vectors.update(found.vectors)
        for want in wants:
            if want in found.rows:
                continue
            if want.text not in found.vectors:
                unknown[want.text].append(found)
            if want.table:
                askers[want, lexical].append(found)
    new = [text for text in unknown if text not in vectors]
    if new:
        embedded = embed_texts(new, index.embedder)
        vectors.update((text, embedded[n : n + 1]) for n, text in enumerate(new))
    for text, owners in unknown.items():
        for found in owners:
            found.vectors[text] = vectors[text]
    searches: dict[tuple[str, int, bool | None], list[Want]] = defaultdict(list)
    for want, lexical in askers:
        searches[want.table, want.k, lexical].append(want)
    for (table, k, lexical), wanted in searches.items():
        of_texts = np.concatenate([vectors[want.text] for want in wanted])
        if not np.isfinite(of_texts).all():  # one question's bad text is not to stop the others
            can_search = np.isfinite(of_texts).all(axis=1)
            of_texts, wanted = of_texts[can_search], list(compress(wanted, can_search.tolist()))
        texts = [want.text for want in wanted]
        results = index.search_each(getattr(index, f"search_{table}"), texts, of_texts, k, lexical)
        for want, result in zip(wanted, results, strict=True):
            for found in askers[want, lexical]:
                found.rows[want] = result


def found_rows(found: Found, want: Want) -> tuple[Rows, Scores]:
    """What was found of a want; raises ValueError where its text can't be embedded."""
    if want not in found.rows:
        raise no_vector(want.text)
    return found.rows[want]


def no_vector(text: str) -> ValueError:
    """The error of a text that can't be embedded."""
    return ValueError(f"the embedder gives no vector that is finite for {text[:200]!r}")
