"""Reader of extraction replies in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from graphmill.engine.mend_json import FoundObject
from graphmill.engine.read_object import find_objects
from graphmill.engine.records import (
    Reading,
    add_entity,
    add_keywords,
    add_relationship,
    distinct_keywords,
    read_description,
    read_keywords,
    reject,
)
from graphmill.engine.strength import read_strength

_ENTITIES, _RELATIONSHIPS, _KEYWORDS = (
    ("entities", "nodes"),
    ("relationships", "relations", "edges"),
    ("keywords", "content_keywords"),
)
_NAME = ("name", "entity_name", "entity", "title")
_TYPE = ("type", "entity_type", "label", "category")
_DESCRIPTION = ("description", "summary", "relationship_description", "entity_description", "relation", "relationship")
_SOURCE = ("source", "source_entity", "src", "head", "from", "subject")
_TARGET = ("target", "target_entity", "tgt", "dst", "tail", "to", "object")
_STRENGTH = ("strength", "relationship_strength", "weight", "score")
_NAMES, _SOURCES, _TARGETS = frozenset(_NAME), frozenset(_SOURCE), frozenset(_TARGET)
_RECORD_KEYWORDS = ("keywords", "relationship_keywords")


def read_json(text: str, finish_reason: str | None) -> Reading:
    """Reads a reply that has no reasoning in it. Of a cut-off reply the whole members are kept."""
    reading = Reading()
    stopped = finish_reason == "stop"
    found = list(find_objects(text, keep_open=stopped))
    graph, used = _graph(found)
    if used:
        closed = all(object_.closed for object_ in used)
    else:
        # The records stand one by one: in a bare list, which shows its end, or as lines, which don't.
        used = [object_ for object_ in found if _looks_like_record(object_.value)]
        graph = {"entities": [object_.value for object_ in used]}
        closed = bool(used) and used[-1].closed and text.rstrip(" \n`").endswith("]")
    for member in _members(graph, _ENTITIES):
        _read_member(member, reading, is_relationship=False)
    for member in _members(graph, _RELATIONSHIPS):
        _read_member(member, reading, is_relationship=True)
    for name in _KEYWORDS:
        add_keywords(reading, _keywords(graph.get(name)))
    for _ in range(sum(object_.num_cut for object_ in used)):
        reject(reading, "cut off")
    reading.complete = closed or stopped
    return reading


def _graph(found: list[FoundObject]) -> tuple[dict[str, Any], list[FoundObject]]:
    """The lists of records, and the objects they come from: the first one that has a list counts."""
    graph: dict[str, Any] = {}
    used: list[FoundObject] = []
    for object_ in found:
        wrapped = (value for value in object_.value.values() if isinstance(value, dict))
        for value in (object_.value, *wrapped):
            lists = {name: value[name] for name in (*_ENTITIES, *_RELATIONSHIPS, *_KEYWORDS) if name in value}
            is_record = _looks_like_record(value)  # One relationship with its keywords.
            if lists and not is_record and not any(graph.get(name) for name in lists):
                graph.update(lists)
                used.append(object_)
                break
    return graph, used


def _members(graph: Mapping[str, Any], names: Iterable[str]) -> Iterable[Any]:
    for name in names:
        value = graph.get(name)
        if isinstance(value, list):
            yield from value
        elif isinstance(value, Mapping):
            if _looks_like_record(value):
                yield value
            else:  # An object by name.
                for key, member in value.items():
                    yield (
                        {"name": key, **member} if isinstance(member, Mapping) else {"name": key, "description": member}
                    )


def _looks_like_record(value: Mapping[str, Any]) -> bool:
    has_description = any(name in value for name in ("type", "entity_type", "description"))
    return _is_relationship(value) or (has_description and any(name in value for name in _NAME))


def _is_relationship(value: Mapping[str, Any]) -> bool:
    return not (_SOURCES.isdisjoint(value) or _TARGETS.isdisjoint(value))


def _read_member(member: Any, reading: Reading, is_relationship: bool) -> None:
    if not isinstance(member, Mapping):
        reject(reading, "not an object")
        return
    description = read_description(_text(_first(member, _DESCRIPTION)), reading)
    # What stands in the wrong list is known by its keys.
    is_meant = _is_relationship(member) or (is_relationship and _NAMES.isdisjoint(member))
    if is_meant != is_relationship:
        reading.repairs["tag"] += 1
    if is_meant:
        source, target = _text(_first(member, _SOURCE)), _text(_first(member, _TARGET))
        keywords = _keywords(_first(member, _RECORD_KEYWORDS))
        add_relationship(reading, source, target, description, keywords, read_strength(_first(member, _STRENGTH)))
    else:
        add_entity(reading, _text(_first(member, _NAME)), _text(_first(member, _TYPE)), description)


def _first(member: Mapping[str, Any], names: Iterable[str]) -> Any:
    for name in names:
        if name in member:
            return member[name]
    return None


def _text(value: Any, max_depth: int = 3) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool) or not max_depth:
        return ""
    if isinstance(value, Mapping):
        return _text(_first(value, _NAME), max_depth - 1)
    if isinstance(value, list):
        texts = (_text(item, max_depth - 1) for item in value)
        return "; ".join(text for text in texts if text)
    return str(value)


def _keywords(value: Any) -> list[str]:
    if isinstance(value, list):
        return distinct_keywords([_text(keyword) for keyword in value])
    return read_keywords(_text(value))
