"""Which co-occurrences mean something: discounted normalised pointwise mutual information over pair counts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

DISCOUNT = 2.0


def pmi(xd: Any, pairs: Any, max_per_entity: int = 16) -> Any:
    """Pairs above chance with their weight, as a frame of the same library.

    xd      the frame module (pandas or cudf)
    pairs   frame with source, target (ids of one sortable kind, source != target, either way round) and count (> 0);
            rows of one pair are summed, so it may hold a row a text
    returns frame with source < target, count, weight (float64, in (0, 1)), sorted by source, target

    With c the count of a pair, m the summed counts of all pairs of an entity and T the sum over all pairs, the share of
    a pair expected by chance is 2 (m_x / 2T) (m_y / 2T), and
        weight = log(2 c T / (m_x m_y)) / log(2 T / c) * c / (c + DISCOUNT)
    where the first quotient is 1 for two entities that have no other pair. The discount keeps pairs seen once from
    beating all others (after Pantel & Lin 2002). Pairs at or below 0 are dropped; of the rest a pair stays if it is
    among the ``max_per_entity`` strongest of either end (ties: the lower id of the other end), so at most
    max_per_entity pairs an entity are left in all.
    """
    if max_per_entity < 1:
        raise ValueError(f"max_per_entity must be at least 1, got {max_per_entity}")
    swapped = pairs["source"] > pairs["target"]
    low = pairs["source"].where(~swapped, pairs["target"])
    high = pairs["target"].where(~swapped, pairs["source"])
    frame = xd.DataFrame({"source": low, "target": high, "count": pairs["count"].astype("int64")})
    frame = frame.groupby(["source", "target"], sort=True)["count"].sum().reset_index()
    if not len(frame):
        return frame.assign(weight=frame["count"].astype("float64"))
    ends = _both_ends(xd, frame)
    mass = ends.groupby("end", sort=True)["count"].sum().reset_index()
    frame = frame.merge(mass.rename(columns={"end": "source", "count": "source_mass"}), on="source")
    frame = frame.merge(mass.rename(columns={"end": "target", "count": "target_mass"}), on="target")
    frame["weight"] = _weights(frame["count"], frame["source_mass"], frame["target_mass"], float(frame["count"].sum()))
    frame = frame[frame["weight"] > 0.0][["source", "target", "count", "weight"]]
    frame = frame.sort_values(["source", "target"]).reset_index(drop=True)
    frame["row"] = np.arange(len(frame))
    ends = _both_ends(xd, frame).sort_values(["end", "weight", "other"], ascending=[True, False, True])
    rows = ends[ends.groupby("end").cumcount() < max_per_entity]["row"].drop_duplicates().sort_values()
    return frame.iloc[rows.to_numpy()][["source", "target", "count", "weight"]].reset_index(drop=True)


def _both_ends(xd: Any, frame: Any) -> Any:
    """Each pair twice, once under either end."""
    return xd.concat(
        [
            frame.rename(columns={"source": "end", "target": "other"}),
            frame.rename(columns={"target": "end", "source": "other"}),
        ],
        ignore_index=True,
    )


def _weights(count: Any, source_mass: Any, target_mass: Any, total: float) -> Any:
    count = count.astype("float64")
    information = np.log(2.0 * count * total / (source_mass.astype("float64") * target_mass.astype("float64")))
    return information / np.log(2.0 * total / count) * (count / (count + DISCOUNT))


def pmi_reference(pairs: Iterable[tuple[Any, Any, int]], max_per_entity: int = 16) -> list[tuple[Any, Any, int, float]]:
    """What pmi() must match, row by row: (source, target, count, weight), sorted by source, target."""
    counts: dict[tuple[Any, Any], int] = {}
    for one, two, count in pairs:
        pair = (one, two) if one < two else (two, one)
        counts[pair] = counts.get(pair, 0) + count
    total = sum(counts.values())
    mass: dict[Any, int] = {}
    for pair, count in counts.items():
        for end in pair:
            mass[end] = mass.get(end, 0) + count
    neighbours: dict[Any, list[tuple[float, Any, tuple[Any, Any]]]] = {}
    weights: dict[tuple[Any, Any], float] = {}
    for (one, two), count in counts.items():
        information = math.log(2.0 * count * total / (mass[one] * mass[two]))
        weight = information / math.log(2.0 * total / count) * (count / (count + DISCOUNT))
        if weight > 0.0:
            weights[one, two] = weight
            neighbours.setdefault(one, []).append((-weight, two, (one, two)))
            neighbours.setdefault(two, []).append((-weight, one, (one, two)))
    kept = {pair for rows in neighbours.values() for _, _, pair in sorted(rows)[:max_per_entity]}
    return [(*pair, counts[pair], weights[pair]) for pair in sorted(kept)]
