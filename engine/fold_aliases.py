"""Pairs that were judged, and what people changed -> the table of aliases."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache

import pyarrow as pa

from graphmill.engine.alias_spelling import Spelling, may_be_one, similarity, spelling
from graphmill.engine.aliases import ALIASES

ALIAS_EDITS = pa.schema([("key", pa.string()), ("other", pa.string()), ("same", pa.bool_())])
"""One row a thing that a person said: ``key`` is to be folded into ``other``, or the two, key < other, are to be kept
apart. Sorted; kept from run to run, and stronger than what is found."""


def fold_aliases(pairs: pa.Table, edits: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """ALIAS_PAIRS, ALIAS_EDITS -> ALIASES.

    names  shown name of every entity by key; a pair or an edit of a key that is not there has no effect

    What people folded is one to begin with, under the key they chose. Then entities are taken in turn, those that
    people chose first, then by number of chunks, ties in the order of keys, and each takes in those that are not taken
    yet and were judged the same as itself, the most alike first. Nothing comes in by way of a third, and nothing that
    was judged different from one that is in already, by the model or by a person, or whose numbers contradict it:
    Apollo 11 and Apollo 12 don't meet in Apollo. So a chain of likenesses doesn't
    run away with the graph, and where answers contradict each other less is folded rather than more.

    The same for any order of the rows.
    """
    evidence = _Evidence.of(pairs, edits, names)

    @cache
    def shown(key: str) -> Spelling:
        return spelling(names[key])

    def may_be(key: str, other: str) -> bool:
        return may_be_one(shown(key), shown(other))

    centre: dict[str, str] = {}
    for key in sorted(evidence.same, key=evidence.rank):
        if key in centre:
            continue
        centre[key] = key
        group = [key]
        for other in sorted(evidence.same[key], key=lambda other: (-evidence.same[key][other], other)):
            apart: AbstractSet[str] = evidence.different.get(other, frozenset())
            if other not in centre and apart.isdisjoint(group) and all(may_be(other, member) for member in group):
                centre[other] = key
                group.append(other)
    folded = {key: centre.get(root, root) for key, root in evidence.roots.items()}
    folded |= {key: end for key, end in centre.items() if key != end}
    rows = []
    for key, end in sorted(folded.items()):
        alike, source = evidence.judged.get((min(key, end), max(key, end)), (None, "edited"))
        source = "edited" if key in evidence.roots else source
        rows.append(
            {
                "key": key,
                "same_as": end,
                "name": names[key],
                "same_as_name": names[end],
                "similarity": similarity(names[key], names[end]) if alike is None else alike,
                "source": source,
            }
        )
    return pa.Table.from_pylist(rows, schema=ALIASES)


@dataclass
class _Evidence:
    """What speaks for and against; ``same`` and ``different`` are between the keys that others are folded into."""

    roots: dict[str, str]
    """What people folded, to the last key."""
    chosen: frozenset[str]
    """The last keys."""
    num_chunks: dict[str, int] = field(default_factory=dict)
    judged: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict)
    """Similarity and source of the pairs that were judged the same."""
    same: dict[str, dict[str, float]] = field(default_factory=dict)
    different: dict[str, set[str]] = field(default_factory=dict)

    @staticmethod
    def of(pairs: pa.Table, edits: pa.Table, names: Mapping[str, str]) -> _Evidence:
        said = [row for row in edits.to_pylist() if row["key"] in names and row["other"] in names]
        roots = last_of({row["key"]: row["other"] for row in said if row["same"]})
        found = _Evidence(roots, frozenset(roots.values()))
        for row in pairs.to_pylist():
            key, other = row["key"], row["other"]
            if key not in names or other not in names:
                continue
            found.num_chunks |= {key: row["num_chunks"], other: row["other_num_chunks"]}
            if row["same"]:
                found.judged[key, other] = row["similarity"], row["source"]
                found._join(key, other, row["similarity"])
            elif row["source"] != "unread":
                found._part(key, other)
        for row in said:
            if not row["same"]:
                found._part(row["key"], row["other"])
        return found

    def rank(self, key: str) -> tuple[bool, int, str]:
        """In which order keys take in others."""
        return (key not in self.chosen, -self.num_chunks.get(key, 0), key)

    def _join(self, key: str, other: str, alike: float) -> None:
        a, b = self.roots.get(key, key), self.roots.get(other, other)
        if a != b:
            for one, two in ((a, b), (b, a)):
                nearest = self.same.setdefault(one, {})
                nearest[two] = max(nearest.get(two, 0.0), alike)

    def _part(self, key: str, other: str) -> None:
        a, b = self.roots.get(key, key), self.roots.get(other, other)
        if a != b:
            self.different.setdefault(a, set()).add(b)
            self.different.setdefault(b, set()).add(a)


def last_of(step: Mapping[str, str]) -> dict[str, str]:
    """Where each key ends that is folded into another, which may be folded too. Raises ValueError for a circle."""
    ends: dict[str, str] = {}
    for key in step:
        end, seen = step[key], {key}
        while end in step:
            if end in seen:
                raise ValueError(f"each is to be folded into the other: {', '.join(sorted(seen))}")
            seen.add(end)
            end = step[end]
        if end == key:
            raise ValueError(f"{key} is to be folded into itself")
        ends[key] = end
    return ends
