"""``graphmill aliases``: which names were taken for one thing, and what a person makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from graphmill.engine.config import ConfigError
from graphmill.engine.edit_aliases import edit_aliases, key_finder, read_rows, write_rows
from graphmill.engine.fold_aliases import ALIAS_EDITS
from graphmill.engine.keep_aliases import read_edits, read_names, write_aliases
from graphmill.engine.run_folder import IndexFolderError, RunFolder
from graphmill.jobs.inspect import NotFoundError
from graphmill.jobs.show import show_result


def run(
    index: Path,
    export: Path | None = None,
    edit: Path | None = None,
    undo: Sequence[str] = (),
    undo_all: bool = False,
    reset: bool = False,
    as_json: bool = False,
) -> int:
    """Prints the aliases of an index, after a change where one is asked for."""
    given = {"--export": export, "--edit": edit, "--undo": undo, "--undo-all": undo_all, "--reset": reset}
    chosen = [name for name, value in given.items() if value]
    if len(chosen) > 1:
        raise ConfigError(f"one of {', '.join(given)} can be given at a time, got {' and '.join(chosen)}")
    folder = RunFolder.open(index)
    _check(folder)
    changed: dict[str, int] | None = None
    if export is not None:
        try:
            write_rows(folder.read("aliases"), export)
        except FileExistsError as error:
            raise ConfigError(f"{export} is there already, and may have been edited; name another file") from error
    elif chosen:
        with RunFolder.lock(index) as folder:
            _check(folder)
            changed = _change(folder, edit, undo, reset)
    view = aliases_view(folder) | ({} if changed is None else {"changed": changed})
    view |= {} if export is None else {"file": str(export)}
    show_result(view, render, as_json)
    return 0


def aliases_view(folder: RunFolder) -> dict[str, Any]:
    """The rows of the table, what people keep apart, and names they gave that no entity has."""
    names, edits = read_names(folder), read_edits(folder).to_pylist()
    return {
        "index": str(folder.root),
        "aliases": folder.read("aliases").to_pylist(),
        "apart": [
            {"name": names.get(row["key"], row["key"]), "other_name": names.get(row["other"], row["other"])}
            for row in edits
            if not row["same"]
        ],
        "unknown": sorted({row[end] for row in edits for end in ("key", "other")} - names.keys()),
    }


def render(view: Mapping[str, Any]) -> str:
    """Names with what is folded into them, then counts, and what to do next."""
    if "file" in view:
        return f"{len(view['aliases']):,} aliases written to {view['file']}; `--edit` reads it back once it is changed"
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in view["aliases"]:
        groups.setdefault(row["same_as_name"], []).append(row)
    lines = []
    for name, rows in sorted(groups.items()):
        lines.append(name)
        lines += [f"  {row['similarity']:.2f}  {row['source']:<9}  {row['name']}" for row in rows]
    lines += [""] if lines else []
    lines.append(f"{len(view['aliases']):,} names folded into {len(groups):,}; {len(view['apart']):,} pairs kept apart")
    if view["unknown"]:
        lines.append(f"no entity is named {', '.join(view['unknown'])}: this has no effect until there is one")
    if "changed" in view:
        added, removed = view["changed"]["added"], view["changed"]["removed"]
        lines.append(f"{added:,} rows came in, {removed:,} went" if added or removed else "nothing changed")
        if added or removed:
            lines.append(
                "Run `graphmill index` again as before: it makes entities and what follows anew; no text is read again."
            )
    return "\n".join(lines)


def _change(folder: RunFolder, edit: Path | None, undo: Sequence[str], reset: bool) -> dict[str, int]:
    """Writes the table as it is wanted, and tells how many rows came in and went.

    With nothing but the folder, everything is undone.
    """
    before = _rows(folder.read("aliases"))
    edits = ALIAS_EDITS.empty_table() if reset else _edits(folder, before, edit, undo)
    is_whole = folder.facts.get("state") == folder.state
    with folder.together():
        after = _rows(write_aliases(folder, edits))
        if is_whole:  # entities and all that follows still fit together, so questions can go on being asked
            folder.put_facts({"state": folder.state})
    return {"added": len(after.items() - before.items()), "removed": len(before.items() - after.items())}


def _edits(folder: RunFolder, before: Mapping[str, str], edit: Path | None, undo: Sequence[str]) -> pa.Table:
    """ALIAS_EDITS after a file was read, or after names were undone: none stands for all of them."""
    names, pairs, edits = read_names(folder), folder.read("alias_pairs"), read_edits(folder)
    if edit is not None:
        return edit_aliases(_wanted(edit, names), pairs, edits, names)
    entered = [(row["key"], row["other"]) if row["same"] else () for row in edits.to_pylist()]
    keys = {*before, *before.values(), *(key for row in entered for key in row)}
    if undo:
        find = key_finder(names)
        for name in undo:
            if find(name) not in keys:
                raise NotFoundError(
                    f"no alias {name!r} in {folder.root}: nothing is folded into it, nor it into another"
                )
        keys = {find(name) for name in undo}
    kept = edits.filter(pa.array([keys.isdisjoint(row) for row in entered], pa.bool_()))
    wanted = {key: end for key, end in before.items() if key not in keys and end not in keys}
    return edit_aliases(wanted, pairs, kept, names)


def _wanted(file: Path, names: Mapping[str, str]) -> dict[str, str]:
    if not file.is_file():
        raise ConfigError(f"there is no file {file} to take --edit from")
    try:
        return read_rows(file, names)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _rows(aliases: pa.Table) -> dict[str, str]:
    return dict(zip(aliases["key"].to_pylist(), aliases["same_as"].to_pylist(), strict=True))


def _check(folder: RunFolder) -> None:
    if "aliases" not in folder.tables:
        raise IndexFolderError(
            f"the index {folder.root} holds no aliases: run `graphmill index` on it with a config that says "
            "[aliases] enabled = true"
        )
