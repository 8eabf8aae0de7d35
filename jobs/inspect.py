"""``graphmill inspect``: what an index holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from graphmill.engine.apply_aliases import apply_to_claims, canonical_key
from graphmill.engine.index_vectors import describe_searches, tell
from graphmill.engine.names import name_key
from graphmill.engine.run_folder import IndexFolderError, RunFolder
from graphmill.engine.summary import latest_readings
from graphmill.jobs.show import show_result


class NotFoundError(LookupError):
    """The index holds no such entity or community."""


def run(index: Path, entity: str | None, community: int | None, failures: bool, top: int, as_json: bool) -> int:
    """Prints one view of the index."""
    folder = RunFolder.open(index)
    view: dict[str, Any]
    render: Callable[[Mapping[str, Any]], str]
    if entity is not None:
        view, render = entity_view(folder, entity, top), render_entity
    elif community is not None:
        view, render = community_view(folder, community, top), render_community
    elif failures:
        view, render = failures_view(folder), render_failures
    else:
        view, render = overview(folder, top), render_overview
    show_result(view, render, as_json)
    return 0


def overview(folder: RunFolder, top: int) -> dict[str, Any]:
    """Counts, levels, the entities of the highest degree and the largest communities."""
    if "summary" not in folder.facts:
        raise IndexFolderError(f"the index {folder.root} is not finished; run `graphmill index` on it again")
    entities = folder.read("entities", ["name", "type", "degree", "rank", "num_chunks", "key"])
    best = entities.take(
        pc.sort_indices(entities, [("rank", "descending"), ("num_chunks", "descending"), ("key", "ascending")])[:top]
    )
    communities = folder.read("communities", ["community", "level", "size", "occurrence"])
    largest = communities.take(pc.sort_indices(communities, [("size", "descending"), ("community", "ascending")])[:top])
    titles = folder.read("reports", ["community", "title", "rating"]).to_pylist()
    by_number = {row["community"]: row for row in titles}
    summary = dict(folder.facts["summary"])
    return {
        "summary": summary,
        "top_entities": best.drop_columns(["key"]).to_pylist(),
        "largest_communities": [
            row | {"title": by_number[row["community"]]["title"], "rating": by_number[row["community"]]["rating"]}
            for row in largest.to_pylist()
        ],
        "search": describe_searches(folder),
    }


def entity_view(folder: RunFolder, name: str, top: int) -> dict[str, Any]:
    """An entity with its relationships by rank, its communities and its sources."""
    entities = folder.read("entities")
    found = entities.filter(pc.equal(entities["key"], canonical_key(folder, name_key(name))))
    if not found.num_rows:
        raise NotFoundError(f"no entity {name!r} in {folder.root}{_nearest(entities, name)}")
    entity = found.to_pylist()[0]
    relationships = folder.read("relationships")
    mine = relationships.filter(
        pc.or_(
            pc.equal(relationships["source_id"], entity["entity_id"]),
            pc.equal(relationships["target_id"], entity["entity_id"]),
        )
    ).sort_by([("weight", "descending"), ("rank", "descending"), ("relationship_id", "ascending")])
    communities = folder.read("communities", ["community", "level", "entity_ids"])
    titles = dict(
        zip(
            *(folder.read("reports", ["community", "title"])[c].to_pylist() for c in ("community", "title")),
            strict=True,
        )
    )
    member_of = [
        {"community": row["community"], "level": row["level"], "title": titles[row["community"]]}
        for row in communities.to_pylist()
        if entity["entity_id"] in row["entity_ids"]
    ]
    chunks = folder.read("chunks", ["chunk_id", "path", "start", "end"])
    sources = chunks.filter(pc.is_in(chunks["chunk_id"], value_set=pa.array(entity["chunk_ids"])))
    return {
        **{key: entity[key] for key in ("name", "type", "degree", "description", "descriptions", "num_chunks")},
        "relationships": [
            {
                "with": row["target"] if row["source_id"] == entity["entity_id"] else row["source"],
                "weight": row["weight"],
                "description": row["description"],
            }
            for row in mine.slice(0, top).to_pylist()
        ],
        "num_relationships": mine.num_rows,
        "claims": _claims(folder, entity["key"], top),
        "communities": member_of,
        "sources": sources.slice(0, top).to_pylist(),
    }


def _claims(folder: RunFolder, key: str, top: int) -> list[dict[str, Any]]:
    """What was claimed of an entity, or against others in relation to it."""
    if "claims" not in folder.tables:
        return []
    # A text that the corpus no longer holds keeps its claims, in case it comes back.
    held = pc.unique(folder.read("chunks", ["text_id"])["text_id"])
    claims = folder.read("claims")
    claims = claims.filter(pc.is_in(claims["text_id"], value_set=held))
    if "aliases_used" in folder.tables:
        claims = apply_to_claims(claims, folder.read("aliases_used"))
    mine = claims.filter(pc.or_(pc.equal(claims["subject_key"], key), pc.equal(claims["object_key"], key)))
    shown = mine.select(["subject", "object", "type", "status", "start", "end", "description", "source", "text_id"])
    rows: list[dict[str, Any]] = shown.slice(0, top).to_pylist()
    return rows


def community_view(folder: RunFolder, number: int, top: int) -> dict[str, Any]:
    """A community with its report and its members by degree."""
    communities = folder.read("communities")
    if not 0 <= number < communities.num_rows:
        raise NotFoundError(
            f"no community {number} in {folder.root}: they are numbered from 0 to {communities.num_rows - 1}"
        )
    community = communities.filter(pc.equal(communities["community"], number)).to_pylist()[0]
    reports = folder.read("reports")
    report = reports.filter(pc.equal(reports["community"], number)).to_pylist()[0]
    entities = folder.read("entities", ["entity_id", "name", "type", "degree", "rank"])
    members = entities.filter(pc.is_in(entities["entity_id"], value_set=pa.array(community["entity_ids"])))
    members = members.sort_by([("rank", "descending"), ("entity_id", "ascending")])
    return {
        **{key: community[key] for key in ("community", "level", "parent", "children", "size", "occurrence")},
        "num_relationships": len(community["relationship_ids"]),
        "num_chunks": len(community["chunk_ids"]),
        "members": members.drop_columns(["entity_id"]).slice(0, top).to_pylist(),
        "report": {key: report[key] for key in ("title", "rating", "rating_explanation", "source", "full_text")},
    }


def failures_view(folder: RunFolder) -> dict[str, Any]:
    """Files that were skipped, and texts that could not be read or came out incomplete, with their reasons."""
    readings = latest_readings(folder)
    bad = readings.filter(pc.not_equal(readings["status"], "ok"))
    chunks = folder.read("chunks", ["text_id", "path", "start", "end"])
    places = {row["text_id"]: row for row in chunks.to_pylist()} if bad.num_rows else {}
    return {
        "skipped": folder.read("skipped").to_pylist(),
        "texts": [
            {key: places[row["text_id"]][key] for key in ("path", "start", "end")}
            | {key: row[key] for key in ("status", "reason")}
            for row in bad.to_pylist()
            if row["text_id"] in places
        ],
    }


def render_overview(view: Mapping[str, Any]) -> str:
    from graphmill.jobs.index import render

    lines = [render({**view["summary"], "index": "INDEX"}), "", "top entities"]
    lines += [
        f"  {e['degree']:>5}  {e['name']} ({e['type'].lower()}, {e['num_chunks']} chunks)" for e in view["top_entities"]
    ]
    lines += ["", "largest communities"]
    lines += [
        f"  {c['community']:>5}  level {c['level']}, {c['size']} entities: {c['title']}"
        for c in view["largest_communities"]
    ]
    lines += ["", "vectors", *(f"  {tell(name, facts)}" for name, facts in view["search"].items())]
    return "\n".join(lines)


def render_entity(view: Mapping[str, Any]) -> str:
    lines = [
        f"{view['name']} ({view['type'].lower()}), degree {view['degree']}, {view['num_chunks']} chunks",
        "",
        view["description"],
        "",
    ]
    lines.append(f"relationships ({view['num_relationships']})")
    lines += [
        f"  {r['weight']:>8.2f}  {r['with']}" + (f": {r['description']}" if r["description"] else "")
        for r in view["relationships"]
    ]
    if view["claims"]:
        told = (f"{c['type']} {c['status']}: {c['description']}" for c in view["claims"])
        lines += ["", "claims", *(f"  {line}" for line in told)]
    lines += ["", "communities"] + [
        f"  {c['community']:>5}  level {c['level']}: {c['title']}" for c in view["communities"]
    ]
    lines += ["", "sources"] + [f"  {s['path']} [{s['start']}:{s['end']}]" for s in view["sources"]]
    return "\n".join(lines)


def render_community(view: Mapping[str, Any]) -> str:
    parent = "none" if view["parent"] < 0 else view["parent"]
    children = ", ".join(map(str, view["children"])) or "none"
    lines = [
        f"community {view['community']}, level {view['level']}, parent {parent}, children {children}",
        _sizes(view),
        "",
        view["report"]["full_text"],
        "",
        "members",
    ]
    return "\n".join(lines + [f"  {m['degree']:>5}  {m['name']} ({m['type'].lower()})" for m in view["members"]])


def _sizes(view: Mapping[str, Any]) -> str:
    sizes = f"{view['size']} entities, {view['num_relationships']} relationships, {view['num_chunks']} chunks"
    return f"{sizes}, rating {view['report']['rating']} ({view['report']['source']} report)"


def render_failures(view: Mapping[str, Any]) -> str:
    lines = [f"skipped files ({len(view['skipped'])})"]
    lines += [f"  {s['path']}: {s['reason']}" + (f" ({s['detail']})" if s["detail"] else "") for s in view["skipped"]]
    lines += ["", f"texts not read whole ({len(view['texts'])})"]
    lines += [f"  {t['path']} [{t['start']}:{t['end']}]: {t['status']}, {t['reason']}" for t in view["texts"]]
    return "\n".join(lines)


def _nearest(entities: pa.Table, name: str) -> str:
    key = name_key(name)
    near = (
        entities.filter(pc.match_substring(entities["key"], key)).sort_by([("rank", "descending")])["name"].slice(0, 5)
    )
    names = near.to_pylist()
    if not names:
        import difflib

        names = difflib.get_close_matches(name, entities["name"].to_pylist(), 5, 0.7)
    return f"; near it: {', '.join(names)}" if names else ""
