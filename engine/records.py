"""What a model's reply holds once it is read, and the checks that every record passes however it was written."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from graphmill.engine.names import clean_name, clean_text, name_key, strip_brackets

UNKNOWN_TYPE = "UNKNOWN"
_MAX_CACHED_CHARS = 256


@dataclass(frozen=True, slots=True)
class Layout:
    """How a profile asks for its records. The reader accepts much else."""

    name: str
    format: str = "delimited"
    """"delimited" or "json"."""
    relationship: tuple[str, ...] = ("source", "target", "description", "strength")
    """Fields after the tag: source and target, then description, keywords, strength as the profile orders them."""
    quoted_tag: bool = True
    tuple_delimiter: str = "<|>"
    record_delimiter: str = "##"
    completion: str = "<|COMPLETE|>"
    types: frozenset[str] = frozenset()
    """The profile's entity types, lower-case: they help to tell a delimiter in a description from a wrong tag."""

    def __post_init__(self) -> None:
        for name in ("tuple_delimiter", "record_delimiter", "completion"):
            if not getattr(self, name):
                raise ValueError(f"{name} must not be empty")


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("graphrag"),
        Layout("lightrag-classic", relationship=("source", "target", "description", "keywords", "strength")),
        Layout("lightrag", relationship=("source", "target", "keywords", "description"), quoted_tag=False),
        Layout("graphgen", relationship=("source", "target", "description")),
        Layout("json", format="json", relationship=("source", "target", "description", "keywords", "strength")),
    )
}


@dataclass(slots=True)
class Record:
    """One record of a reply.

    kind          "entity", "relationship" or "keywords" (of the whole chunk)
    name          the entity, or the relationship's source
    type          of an entity, upper-case; target, keywords and strength of a relationship
    """

    kind: str
    name: str
    type: str
    target: str
    description: str
    keywords: list[str]
    strength: float


@dataclass(slots=True)
class Reading:
    """A reply as read: its records in order, and what became of the rest."""

    records: list[Record] = field(default_factory=list)
    complete: bool = False
    """The completion mark is there, the JSON object closes, or the model is known to have stopped by itself."""
    rejected: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Rejected records by reason: "cut off", "too few fields", "unknown tag", "empty name", "placeholder", "self-loop",
    "not an object"."""
    repairs: Counter[str] = field(default_factory=Counter)
    """What was mended on the way, by kind."""


def reject(reading: Reading, reason: str) -> None:
    reading.rejected += 1
    reading.reasons[reason] += 1


_PLACEHOLDER_WORDS = (
    r"(?:(?:source|target|head|tail|entity|relation(?:ship)?|subject|object|your|the|first|second|another)[ _-]?){0,3}"
    r"(?:name|type|description|entity|summary|strength|keywords?|source|target|relation(?:ship)?)(?:[ _-]?\d)?"
)
_PLACEHOLDER = re.compile(
    rf"[<{{\[]{{1,2}}\s?\$?{_PLACEHOLDER_WORDS}\s?[>}}\]]{{1,2}}"
    r"|(?:source|target)_entity(?:_name)?|entity_(?:name|type|description)\d?|relation(?:ship)?_(?:type|description|strength|keywords)"
    r"|[<{\[]{1,2}\s?(?:实体|源实体|目标实体|关系)(?:名称?|类型|描述|强度|关键词)\s?[>}\]]{1,2}"
    r"|[<{\[]?(?:\.{3,}|…{1,2})[>}\]]?",
    re.IGNORECASE,
)
_PLACEHOLDER_STARTS = frozenset("<{[.…")


def is_placeholder(text: str) -> bool:
    """True for a field of the prompt's template that the model gave back unfilled."""
    likely = len(text) <= 64 and (text[:1] in _PLACEHOLDER_STARTS or "_" in text)
    return likely and _PLACEHOLDER.fullmatch(text) is not None


def is_template(first: str, second: str) -> bool:
    """True for the record's own field names given back as its first two fields, name and TYPE or source and target."""
    return (second == "TYPE" and first.lower() == "name") or (second == "target" and first == "source")


def _vet(raw: str) -> tuple[str, str, str]:
    name = clean_name(raw)
    key = name_key(name)
    if not key:
        return name, key, "empty name"
    return name, key, "placeholder" if is_placeholder(name) else ""


_cached_vet = lru_cache(maxsize=1 << 15)(_vet)


def vet_name(raw: str) -> tuple[str, str, str]:
    """Name as shown, its key, and why it can't be a name ("" if it can)."""
    return _cached_vet(raw) if len(raw) <= _MAX_CACHED_CHARS else _vet(raw)


def _type(raw: str) -> str:
    name = clean_name(raw)
    if is_placeholder(name):
        return UNKNOWN_TYPE
    return strip_brackets(name).strip().upper() or UNKNOWN_TYPE


_cached_type = lru_cache(maxsize=1 << 12)(_type)


def read_type(raw: str) -> str:
    """Type of an entity: cleaned, upper-case, UNKNOWN if there is none."""
    return _cached_type(raw) if len(raw) <= _MAX_CACHED_CHARS else _type(raw)


_KEYWORD_BREAK = re.compile(r"[,，、;；\n|]")


def read_keywords(raw: str) -> list[str]:
    """The distinct keywords of a list in one string, in order."""
    if is_placeholder(raw):
        return []
    return distinct_keywords(_KEYWORD_BREAK.split(raw.strip(" []【】")))


def distinct_keywords(raw: list[str]) -> list[str]:
    """The keywords cleaned, without the empty ones and the repeated ones, in order."""
    keywords: dict[str, str] = {}
    for part in raw:
        name, key, problem = vet_name(part)
        if not problem:
            keywords.setdefault(key, name)
    return list(keywords.values())


def read_description(raw: str, reading: Reading) -> str:
    """The description as it is shown."""
    text = clean_text(raw)
    if is_placeholder(text):
        reading.repairs["placeholder"] += 1
        return ""
    if text != raw.strip():
        reading.repairs["cleaned"] += 1
    return text


def add_entity(reading: Reading, raw_name: str, raw_type: str, description: str) -> None:
    """Adds an entity, or counts why not. The description is taken as it is."""
    name, _, problem = vet_name(raw_name)
    kind = read_type(raw_type)
    if problem:
        reject(reading, problem)
    elif is_template(name, kind):
        reject(reading, "placeholder")
    else:
        if name != raw_name and name != raw_name.strip():
            reading.repairs["cleaned"] += 1
        reading.records.append(Record("entity", name, kind, "", description, [], 0.0))


def add_relationship(
    reading: Reading, raw_source: str, raw_target: str, description: str, keywords: list[str], strength: float
) -> None:
    """Adds a relationship, or counts why not. All but the two names is taken as it is."""
    source, source_key, problem = vet_name(raw_source)
    target, target_key, target_problem = vet_name(raw_target)
    if problem or target_problem:
        reject(reading, problem or target_problem)
    elif is_template(source, target):
        reject(reading, "placeholder")
    elif source_key == target_key:
        reject(reading, "self-loop")
    else:
        if (source != raw_source or target != raw_target) and (
            source != raw_source.strip() or target != raw_target.strip()
        ):
            reading.repairs["cleaned"] += 1
        reading.records.append(Record("relationship", source, "", target, description, keywords, strength))


def add_keywords(reading: Reading, keywords: list[str]) -> None:
    """Adds the keywords of the chunk, if there are any."""
    if keywords:
        reading.records.append(Record("keywords", "", "", "", "", keywords, 0.0))
