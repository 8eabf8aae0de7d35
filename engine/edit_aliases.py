"""What people change of the table of aliases: they give the table as it should be, and get just that."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from graphmill.engine.decode_text import decode
from graphmill.engine.fold_aliases import ALIAS_EDITS, fold_aliases, last_of
from graphmill.engine.names import name_key

COLUMNS = ("name", "same_as", "similarity", "source")
"""Of the file that people edit; the last two are there to be looked at and need not be filled in."""


def edit_aliases(wanted: Mapping[str, str], pairs: pa.Table, edits: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """ALIAS_EDITS that make fold_aliases() give just these rows, key to key; as many as it takes and no more.

    edits  those there are; of them stays what doesn't contradict the rows
    names  shown name of every entity by key; rows with a key that is not there are kept, and have no effect until it is

    What is no longer folded is kept apart from all that it was one with, whatever is found later on.
    Raises ValueError where rows go round in a circle.
    """
    before = edits.to_pylist()
    folded = {row["key"]: row["other"] for row in before if row["same"]}
    waiting = {k: end for k, end in folded.items() if k not in wanted and not (k in names and end in names)}
    last_of(waiting | dict(wanted))  # together they must not go round either
    wanted = last_of(wanted)
    group = wanted | {end: end for end in wanted.values()}
    here = {key: end for key, end in wanted.items() if key in names and end in names}
    same = waiting | {key: end for key, end in wanted.items() if folded.get(key) == end or key not in here}
    apart = {(row["key"], row["other"]) for row in before if not row["same"]}
    apart = {(a, b) for a, b in apart if a not in group or b not in group or group[a] != group[b]}
    table = _table(same, apart)
    while True:
        got = {row["key"]: row["same_as"] for row in fold_aliases(pairs, table, names).to_pylist()}
        together = got | {end: end for end in got.values()}
        same |= {key: end for key, end in here.items() if got.get(key) != end}
        for key, end in got.items():
            own = group.get(key, key)
            if own != group.get(end, end):
                others = (k for k, its_end in together.items() if its_end == end and group.get(k, k) != own)
                apart |= {(min(key, other), max(key, other)) for other in others}
        made = _table(same, apart)
        if made.equals(table):
            return table
        table = made  # more was said: what that does to the rest is looked at again


def _table(same: Mapping[str, str], apart: set[tuple[str, str]]) -> pa.Table:
    rows = [(key, end, True) for key, end in same.items()] + [(a, b, False) for a, b in apart]
    columns = zip(*sorted(rows), strict=True) if rows else ([], [], [])
    return pa.table([list(column) for column in columns], schema=ALIAS_EDITS)


def write_rows(aliases: pa.Table, file: Path) -> None:
    """ALIASES as a CSV file for people. Raises FileExistsError rather than write over what someone may have edited."""
    with file.open("x", encoding="utf-8-sig", newline="") as out:  # the mark at the start tells Excel it is UTF-8
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        for row in aliases.to_pylist():
            writer.writerow([row["name"], row["same_as_name"], row["similarity"], row["source"]])


def read_rows(file: Path, names: Mapping[str, str]) -> dict[str, str]:
    """The rows of such a file, key to key. Raises ValueError that names the file, the line and what is wrong."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)  # Excel writes semicolons where the comma is for decimals
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    missing = [name for name in COLUMNS[:2] if name not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"{file} must have the columns name and same_as in its first line, and lacks {missing[0]}")
    find = key_finder(names)
    rows: dict[str, str] = {}
    for row in reader:
        key, end = (find(row[column] or "") for column in COLUMNS[:2])
        if not key and not end:
            continue
        where = f"{file}, line {reader.line_num}"
        said = f"{row['name']!r} and {row['same_as']!r}"
        if not key or not end:
            raise ValueError(f"{where}: name and same_as must both be filled in, got {said}")
        if key == end:
            raise ValueError(f"{where}: {said} are one name as it is")
        if rows.setdefault(key, end) != end:
            raise ValueError(
                f"{where}: {row['name']!r} can be the same as one name only, and a line before has another"
            )
    try:
        last_of(rows)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return rows


def key_finder(names: Mapping[str, str]) -> Callable[[str], str]:
    """Key of the entity that a person means by a name: the name's own, else that of an entity shown under it."""
    shown = {name_key(name): key for key, name in sorted(names.items(), reverse=True)}

    def find(name: str) -> str:
        key = name_key(name)
        return key if key in names else shown.get(key, key)

    return find
