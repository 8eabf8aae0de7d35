"""Prompts that ask for claims: what a text asserts about entities of one's choice."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from graphmill.engine.ids import content_id
from graphmill.engine.models import Message
from graphmill.engine.profiles import DELIMITERS, Delimiters
from graphmill.engine.prompt_language import language_name
from graphmill.engine.templates import (
    check_keys,
    check_template,
    fill,
    load_examples,
    read_prompt_file,
    show_examples,
    string_value,
)


class ClaimExample(NamedTuple):
    """A text with what is looked for in it, and the reply as a model should give it."""

    entity_specs: str
    claim_description: str
    text: str
    output: str


@dataclass(frozen=True)
class ClaimPrompts:
    """How a text is put to a model that is to find claims; output language and delimiters are filled in."""

    name: str
    language: str
    """Language the prompts are written in."""
    output_language: str
    delimiters: Delimiters
    user: str
    continue_prompt: str
    more: str
    example: str
    examples: tuple[ClaimExample, ...]

    @cached_property
    def content_hash(self) -> str:
        """Hash of everything that shapes a prompt."""
        return content_id(json.dumps(dataclasses.astuple(self), ensure_ascii=False))


_PROMPT_KEYS = {
    "user": ("text", "entity_specs", "claim_description", "language", "examples", *Delimiters._fields),
    "continue": ("language", *Delimiters._fields),
    "more": ("language", *Delimiters._fields),
    "example": ("number", *ClaimExample._fields),
}
"""Keys of a claims file that are templates, with the placeholders that may be used in each."""
_ASKED = ("text", "entity_specs", "claim_description")


@cache
def load_claim_prompts(
    name_or_path: str = "claims", language: str = "", delimiters: Delimiters = DELIMITERS
) -> ClaimPrompts:
    """The packaged claim prompts, or those in a TOML file, for text in this language: as load_profile() does it."""
    where, values = read_prompt_file(name_or_path, language)
    check_keys(where, values, ["name", "layout", "language", "user"], ["continue", "more", "example", "examples"])
    if values["layout"] != "claims":
        raise ValueError(f"{where}: the layout of claim prompts must be 'claims', got {values['layout']!r}")
    templates = {
        key: check_template(where, key, values.get(key, ""), known, _ASKED if key == "user" else ())
        for key, known in _PROMPT_KEYS.items()
    }
    constants = {**delimiters._asdict(), "language": language_name(language, string_value(where, values, "language"))}
    examples = load_examples(where, values, templates, ClaimExample._fields, (), constants)
    return ClaimPrompts(
        name=string_value(where, values, "name"),
        language=string_value(where, values, "language"),
        output_language=constants["language"],
        delimiters=delimiters,
        user=fill(templates["user"], constants),
        continue_prompt=fill(templates["continue"], constants),
        more=fill(templates["more"], constants),
        example=templates["example"],
        examples=tuple(ClaimExample(**example) for example in examples),
    )


def claim_messages(prompts: ClaimPrompts, text: str, entity_specs: str, claim_description: str) -> list[Message]:
    """The opening of a conversation about a text: instructions, examples and what is looked for, then the text.

    entity_specs       names of entities or kinds of entities, as they are to stand in the prompt
    claim_description  which claims about them are looked for
    """
    before, after = _parts(prompts, entity_specs, claim_description)
    return [{"role": "user", "content": before + text + after}]


@cache
def _parts(prompts: ClaimPrompts, entity_specs: str, claim_description: str) -> tuple[str, str]:
    """What stands before the text and what after it."""
    shown = show_examples(prompts.example, (example._asdict() for example in prompts.examples))
    values = {"entity_specs": entity_specs, "claim_description": claim_description, "examples": shown}
    before, _, after = prompts.user.partition("{text}")
    return fill(before, values), fill(after, values)
