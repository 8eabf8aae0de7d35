"""Extraction profiles: prompts, few-shot examples, entity types and the record layout, each a TOML file of data."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple

from graphmill.engine.extraction_schema import EXTRACTION_SCHEMA
from graphmill.engine.ids import content_id
from graphmill.engine.models import Message
from graphmill.engine.prompt_language import language_name
from graphmill.engine.records import LAYOUTS, Layout
from graphmill.engine.templates import (
    check_keys,
    check_template,
    fill,
    load_examples,
    read_prompt_file,
    show_examples,
    string_list,
    string_value,
)


class Delimiters(NamedTuple):
    """What stands between the fields of a record, between records, and at the end of a reply."""

    tuple_delimiter: str = "<|>"
    record_delimiter: str = "##"
    completion_delimiter: str = "<|COMPLETE|>"


DELIMITERS = Delimiters()


class Example(NamedTuple):
    """A passage and the reply to it, as a model should give it."""

    entity_types: tuple[str, ...]
    text: str
    output: str


@dataclass(frozen=True)
class Profile:
    """How a passage is put to a model, for one output language and one set of delimiters, which are filled in."""

    name: str
    layout: Layout
    """By which replies are read."""
    language: str
    """Language the prompts are written in."""
    output_language: str
    """Name of the language that they ask for."""
    entity_types: tuple[str, ...]
    """Types looked for where the caller names none."""
    system: str
    user: str
    continue_prompt: str
    """Asks for what was missed, as the next user message; "" where the profile has no gleaning."""
    more: str
    """Asks whether anything is still missing, YES or NO."""
    example: str
    """Template by which an example is shown."""
    examples: tuple[Example, ...]

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """JSON schema of a reply to the opening and to the continue prompt; None where replies are not JSON.

        Not of the answer to ``more``, which is a word.
        """
        return EXTRACTION_SCHEMA if self.layout.format == "json" else None

    @cached_property
    def content_hash(self) -> str:
        """Hash of everything that shapes a reply: the prompts and, where there is one, the schema."""
        shaping = dataclasses.astuple(self) + ((self.schema,) if self.schema else ())
        return content_id(json.dumps(shaping, ensure_ascii=False, default=sorted))


_DELIMITERS = Delimiters._fields
_PROMPT_KEYS = {
    "system": ("text", "entity_types", "language", "examples", *_DELIMITERS),
    "user": ("text", "entity_types", "language", "examples", *_DELIMITERS),
    "continue": ("language", *_DELIMITERS),
    "more": ("language", *_DELIMITERS),
    "example": ("number", "entity_types", "text", "output"),
}
"""Keys of a profile file that are templates, with the placeholders that may be used in each."""


@cache
def packaged_profiles() -> Mapping[str, tuple[str, ...]]:
    """Names of the packaged profiles in order, each with the languages that it has prompts in."""
    found: dict[str, tuple[str, ...]] = {}
    for file in sorted((files("graphmill.engine") / "prompts").iterdir(), key=lambda file: file.name.split(".")):
        name, _, rest = file.name.partition(".")
        if rest.endswith(".toml") and tomllib.loads(file.read_text("utf-8")).get("layout") in LAYOUTS:
            found[name] = (*found.get(name, ()), rest.removesuffix(".toml"))
    return found


@cache
def load_profile(
    name_or_path: str, language: str = "", delimiters: Delimiters = DELIMITERS, entity_types: tuple[str, ...] = ()
) -> Profile:
    """The packaged profile of this name, or the one in a TOML file, for text in this language.

    ``language``: an ISO 639-1 code or an English name. Chinese has prompts of its own; for every other language the
    English ones ask for it by name. ``entity_types`` take the place of the profile's own where there are any. Raises
    ValueError that names the file and the key.
    """
    is_path = name_or_path.endswith(".toml") or "/" in name_or_path or "\\" in name_or_path
    if not is_path and name_or_path not in packaged_profiles():
        names = ", ".join(packaged_profiles())
        raise ValueError(f"there is no profile {name_or_path!r}; packaged are {names}, or give a path to a .toml")
    where, values = read_prompt_file(name_or_path, language)
    check_keys(
        where,
        values,
        ["name", "layout", "language", "entity_types", "user"],
        ["system", "continue", "more", "example", "examples"],
    )
    templates = {key: check_template(where, key, values.get(key, ""), known) for key, known in _PROMPT_KEYS.items()}
    num_text = sum(templates[key].count("{text}") for key in ("system", "user"))
    if num_text != 1:
        raise ValueError(
            f"{where}: system and user must hold {{text}} once between them, they hold it {num_text} times"
        )
    constants = {**delimiters._asdict(), "language": language_name(language, string_value(where, values, "language"))}
    examples = load_examples(where, values, templates, Example._fields, ("entity_types",), constants)
    types = entity_types or string_list(where, "entity_types", values["entity_types"])
    return Profile(
        name=string_value(where, values, "name"),
        layout=_layout(where, string_value(where, values, "layout"), delimiters, types),
        language=string_value(where, values, "language"),
        output_language=constants["language"],
        entity_types=types,
        system=fill(templates["system"], constants),
        user=fill(templates["user"], constants),
        continue_prompt=fill(templates["continue"], constants),
        more=fill(templates["more"], constants),
        example=templates["example"],
        examples=tuple(Example(**example) for example in examples),
    )


def messages(profile: Profile, text: str, entity_types: Sequence[str] = ()) -> list[Message]:
    """The opening of a conversation about a text: instructions and examples first, the text after them.

    All texts share the part before theirs, which a model server then computes once. ``entity_types`` take the place of
    the profile's own where there are any.
    """
    return [
        {"role": role, "content": before if after is None else before + text + after}
        for role, before, after in _parts(profile, tuple(entity_types) or profile.entity_types)
    ]


@cache
def _parts(profile: Profile, entity_types: tuple[str, ...]) -> list[tuple[str, str, str | None]]:
    """Role, what stands before the text, and what after it; None for a message without the text."""
    shown = show_examples(
        profile.example, ({**e._asdict(), "entity_types": ", ".join(e.entity_types)} for e in profile.examples)
    )
    values = {"entity_types": ", ".join(entity_types), "examples": shown}
    parts = []
    for role, template in (("system", profile.system), ("user", profile.user)):
        before, has_text, after = template.partition("{text}")
        if template:
            parts.append((role, fill(before, values), fill(after, values) if has_text else None))
    return parts


def _layout(where: str, name: str, delimiters: Delimiters, entity_types: tuple[str, ...]) -> Layout:
    if name not in LAYOUTS:
        raise ValueError(f"{where}: unknown layout {name!r}; known are {', '.join(LAYOUTS)}")
    return dataclasses.replace(
        LAYOUTS[name],
        tuple_delimiter=delimiters.tuple_delimiter,
        record_delimiter=delimiters.record_delimiter,
        completion=delimiters.completion_delimiter,
        types=frozenset(entity_type.lower() for entity_type in entity_types),
    )
