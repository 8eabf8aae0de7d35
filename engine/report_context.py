"""What the model is given to write a report from: packed for all communities of a level at once.

Tokens of every line are counted once; what fits a community is then a prefix sum. Python touches strings only to join
the lines of a community.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graphmill.engine.rows import Lists
from graphmill.kernels.pack import pack

Ints = NDArray[np.int64]
BATCH = 1024
"""Communities whose lines are joined at a time, which bounds the memory they take."""


@dataclass(frozen=True)
class Material:
    """ENTITIES, RELATIONSHIPS and COMMUNITIES as arrays; a community is its row."""

    source: Ints
    target: Ints
    """Entity rows of each relationship's ends, int64 [num_relationships]."""
    entity_tokens: Ints
    relationship_tokens: Ints
    """Tokens of each line, its line break included."""
    members: Lists
    """Entity rows of each community, by rank."""
    inner: Lists
    """Relationship rows of each community, by rank."""
    parent: Ints
    """Row of each community's parent, -1 for none."""


class Context(NamedTuple):
    """Lines of one community's context; the reports of sub-communities stand for their members."""

    entities: str
    relationships: str
    parts: list[int]
    """Rows of the sub-communities whose reports are in."""
    num_tokens: int = 0


def contexts(
    material: Material,
    rows: Ints,
    report_tokens: Ints,
    budget: int,
    entity_lines: pa.Array,
    relationship_lines: pa.Array,
) -> Iterator[Context]:
    """The context of each community in ``rows`` (ascending, of one level), within ``budget`` tokens.

    Relationships come by rank, each with those of its two entities that are not in yet; then entities without any.
    Where that exceeds the budget, reports of sub-communities (``report_tokens`` int64 [num_communities]) take the
    place of their members and of the relationships among these, the largest first, until it fits; they come first.
    """
    chosen = _choose(material, rows, report_tokens, budget)
    for start in range(0, len(rows), BATCH):
        stop = min(start + BATCH, len(rows))
        entities = _joined(entity_lines, *chosen.entities, start, stop)
        relationships = _joined(relationship_lines, *chosen.relationships, start, stop)
        for number in range(start, stop):
            low, high = np.searchsorted(chosen.parts[0], [number, number + 1])
            parts = chosen.parts[1][low:high].tolist()
            num_tokens = int(chosen.num_tokens[number])
            yield Context(entities[number - start], relationships[number - start], parts, num_tokens)


class _Chosen(NamedTuple):
    """Groups, ascending, and the rows that each holds."""

    entities: tuple[Ints, Ints]
    relationships: tuple[Ints, Ints]
    parts: tuple[Ints, Ints]
    num_tokens: Ints
    """Of each group."""


def _choose(material: Material, rows: Ints, report_tokens: Ints, budget: int) -> _Chosen:
    num_entities = len(material.entity_tokens)
    edge, edge_group = _flat(material.inner, rows)
    member, member_group = _flat(material.members, rows)
    total = _sums(edge_group, material.relationship_tokens[edge], len(rows))
    total += _sums(member_group, material.entity_tokens[member], len(rows))
    part, part_group, is_replaced = _replace(material, rows, report_tokens, total, budget)
    source, target = material.source[edge], material.target[edge]
    # Relationships inside a part whose report is in go; those that cross over to another part stay.
    crosses = is_replaced[source] != is_replaced[target]
    edge, edge_group, source, target = (
        x[crosses | (is_replaced[source] == 0)] for x in (edge, edge_group, source, target)
    )
    end_group = np.repeat(edge_group, 2)
    end = np.stack([source, target], 1).ravel()
    keys, first = np.unique(end_group * num_entities + end, return_index=True)
    is_new = np.zeros(len(end), dtype=np.bool_)
    is_new[first] = True
    is_new &= is_replaced[end] == 0
    edge_cost = material.relationship_tokens[edge] + (is_new * material.entity_tokens[end]).reshape(-1, 2).sum(1)
    is_alone = (is_replaced[member] == 0) & ~np.isin(member_group * num_entities + member, keys, kind="sort")
    alone, alone_group = member[is_alone], member_group[is_alone]

    group = np.concatenate([part_group, edge_group, alone_group])
    tokens = np.concatenate([report_tokens[part], edge_cost, material.entity_tokens[alone]])
    order = np.argsort(group, kind="stable")
    kept = np.zeros(len(group), dtype=np.bool_)
    kept[order] = pack(group[order], tokens[order], budget)
    part_kept, edge_kept, alone_kept = np.split(kept, np.cumsum([len(part), len(edge)]))
    shown = is_new & np.repeat(edge_kept, 2)
    entity_group = np.concatenate([end_group[shown], alone_group[alone_kept]])
    by_group = np.argsort(entity_group, kind="stable")
    entity = np.concatenate([end[shown], alone[alone_kept]])
    return _Chosen(
        (entity_group[by_group], entity[by_group]),
        (edge_group[edge_kept], edge[edge_kept]),
        (part_group[part_kept], part[part_kept]),
        _sums(group[kept], tokens[kept], len(rows)),
    )


def _replace(material: Material, rows: Ints, report_tokens: Ints, total: Ints, budget: int) -> tuple[Ints, Ints, Ints]:
    """The sub-communities whose reports stand for them, in the order of groups and largest first, and their groups.

    Also, for each entity, 1 + the row of the sub-community that stands for it, or 0. A report that is longer than
    what it stands for replaces nothing.
    """
    is_replaced = np.zeros(len(material.entity_tokens), dtype=np.int64)
    group_of_row = np.full(len(material.parent) + 1, -1, dtype=np.int64)
    group_of_row[rows] = np.where(total > budget, np.arange(len(rows)), -1)
    parts = np.flatnonzero(group_of_row[material.parent] >= 0)
    if not len(parts):
        return parts, parts, is_replaced
    member, number = _flat(material.members, parts)
    edge, edge_number = _flat(material.inner, parts)
    cost = _sums(number, material.entity_tokens[member], len(parts))
    cost += _sums(edge_number, material.relationship_tokens[edge], len(parts))
    gain = cost - report_tokens[parts]
    group = group_of_row[material.parent[parts]]
    order = np.lexsort((-cost, group))
    order = order[(gain[order] > 0) & (report_tokens[parts[order]] <= budget)]
    before = np.cumsum(gain[order]) - gain[order]
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    before -= np.repeat(before[starts], np.diff(starts, append=len(order)))
    order = order[total[group[order]] - before > budget]
    taken = np.zeros(len(parts), dtype=np.int64)
    taken[order] = 1 + parts[order]
    is_replaced[member] = taken[number]
    return parts[order], group[order], is_replaced


def _flat(lists: Lists, rows: Ints) -> tuple[Ints, Ints]:
    """The values of the lists of ``rows``, and for each the place in ``rows`` of its list."""
    return lists.gather(rows), np.repeat(np.arange(len(rows), dtype=np.int64), lists.lengths(rows))


def _sums(group: Ints, tokens: Ints, n: int) -> Ints:
    return np.bincount(group, weights=tokens, minlength=n).astype(np.int64)


def _joined(lines: pa.Array, group: Ints, row: Ints, start: int, stop: int) -> Sequence[str]:
    """The lines of each group in [start, stop), one text a group."""
    offsets = np.searchsorted(group, np.arange(start, stop + 1))
    taken = lines.take(pa.array(row[offsets[0] : offsets[-1]]))
    lists = pa.ListArray.from_arrays(pa.array((offsets - offsets[0]).astype(np.int32)), taken)
    texts: list[str] = pc.binary_join(lists, "\n").to_pylist()
    return texts
