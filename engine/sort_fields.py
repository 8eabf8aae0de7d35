"""Sorts out the fields of delimited records: which is which, and whether the tag in front of them is right."""

from __future__ import annotations

from graphmill.engine.names import name_key
from graphmill.engine.records import (
    Layout,
    Reading,
    add_entity,
    add_keywords,
    add_relationship,
    distinct_keywords,
    read_description,
    read_keywords,
    reject,
)
from graphmill.engine.split_delimited import Piece
from graphmill.engine.strength import DEFAULT_STRENGTH, is_level, is_strength, read_strength

_TYPES = """organization person geo event category location product equipment concept date keyword work nature
    artificial science technology mission gene other method content data unknown
    组织 机构 人物 地点 地理 事件 类别 产品 设备 概念 日期 技术 其他"""
_COMMON_TYPES = frozenset(_TYPES.split())
"""Of the profiles we know: one of these in the place of a type or target is no name."""
_NOTHING_KNOWN: tuple[set[str], set[str]] = (set(), set())


def add_pieces(reading: Reading, text: str, pieces: list[Piece], layout: Layout) -> None:
    """Adds the records to the reading in order, or counts why not."""
    doubtful = any(_is_doubtful(piece, layout) for piece in pieces)
    known = _known(text, pieces, layout) if doubtful else _NOTHING_KNOWN
    for piece in pieces:
        _add_piece(reading, text, piece, layout, known)


def _is_doubtful(piece: Piece, layout: Layout) -> bool:
    """True if the number of fields isn't what the tag says."""
    if piece.kind == "entity":
        return len(piece.fields) > 3
    return piece.kind == "relationship" and len(piece.fields) == 3 < len(layout.relationship)


def _known(text: str, pieces: list[Piece], layout: Layout) -> tuple[set[str], set[str]]:
    """Keys of the types and of the names of the reply's undoubted entities."""
    types = set(_COMMON_TYPES | layout.types)
    names: set[str] = set()
    for piece in pieces:
        if piece.kind == "entity" and len(piece.fields) == 3:
            name, type_ = (text[begin:end].strip() for begin, end in piece.fields[:2])
            names.add(name_key(name))
            types.add(name_key(type_))
    return types, names


def _kind(piece: Piece, fields: list[str], layout: Layout, known: tuple[set[str], set[str]]) -> str:
    """The kind of a doubtful record: its second field may be a type or a name, its last one a strength."""
    second = name_key(fields[1].strip())
    is_type = second in known[0] and second not in known[1]
    numbered = is_strength(fields[-1]) and not is_level(fields[-1])
    if piece.kind == "relationship":
        return "entity" if is_type and not numbered else "relationship"
    # A profile without a strength leaves only the count, which a delimiter in the description has too.
    counted = layout.relationship[-1] != "strength" and len(fields) == len(layout.relationship)
    return "relationship" if not is_type and (numbered or counted) else "entity"


def _add_piece(reading: Reading, text: str, piece: Piece, layout: Layout, known: tuple[set[str], set[str]]) -> None:
    fields = [text[begin:end] for begin, end in piece.fields]
    kind = _kind(piece, fields, layout, known) if _is_doubtful(piece, layout) else piece.kind
    if kind != piece.kind:
        reading.repairs["tag"] += 1
    if piece.num_variants:
        reading.repairs["delimiter"] += 1
    if not (piece.bracketed and piece.closed):
        reading.repairs["brackets"] += 1
    if kind == "keywords":
        add_keywords(reading, distinct_keywords([keyword for field in fields for keyword in read_keywords(field)]))
    elif len(fields) < 3:
        reject(reading, "too few fields")
    elif kind == "entity":
        if len(fields) > 3:
            reading.repairs["delimiter in description"] += 1
        description = text[piece.fields[2][0] : piece.fields[-1][1]]
        add_entity(reading, fields[0], fields[1], read_description(description, reading))
    else:
        _add_relationship(reading, text, piece.fields, layout)


def _add_relationship(reading: Reading, text: str, fields: list[tuple[int, int]], layout: Layout) -> None:
    """Tells description, keywords and strength apart: the description takes the fields that are too many."""
    source, target, *rest = fields
    wanted = len(layout.relationship)
    last = text[rest[-1][0] : rest[-1][1]]
    strength, keywords = DEFAULT_STRENGTH, ""
    if layout.relationship[-1] == "strength":
        # In its place a strength may be any short word; elsewhere it has to look like one.
        if is_strength(last) or (len(fields) == wanted and len(last) <= 40 and len(last.split()) <= 6):
            strength = read_strength(last)
            del rest[-1]
        else:
            reading.repairs["strength missing"] += 1
    elif is_strength(last) and not is_level(last) and (len(fields) > wanted or "keywords" in layout.relationship):
        del rest[-1]
        reading.repairs["number dropped"] += 1
    if not rest:
        reject(reading, "too few fields")
        return
    if "keywords" in layout.relationship:
        if len(rest) > 1:
            begin, end = rest.pop(0 if layout.relationship[2] == "keywords" else -1)
            keywords = text[begin:end]
        else:
            reading.repairs["keywords missing"] += 1
    if len(rest) > 1:
        reading.repairs["delimiter in description"] += 1
    description = read_description(text[rest[0][0] : rest[-1][1]], reading)
    one, other = (text[begin:end] for begin, end in (source, target))
    add_relationship(reading, one, other, description, read_keywords(keywords), strength)
