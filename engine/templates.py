"""Prompt files: TOML with one template a key. A placeholder is a lower-case word in braces, such as {text}."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from graphmill.engine.prompt_language import prompt_language

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def fill(template: str, values: Mapping[str, str]) -> str:
    """Puts the values in the place of their placeholders, in one pass: braces inside a value are ordinary text."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def read_prompt_file(name_or_path: str, language: str) -> tuple[str, dict[str, Any]]:
    """Where a prompt file is, for messages, and what it holds.

    A name ("graphrag") is a packaged file, in Chinese for Chinese and in English for every other language; a path (it
    ends in ".toml" or has a slash) is taken as it is. Raises ValueError that names the file.
    """
    if name_or_path.endswith(".toml") or "/" in name_or_path or "\\" in name_or_path:
        where, path = name_or_path, Path(name_or_path)
        if not path.is_file():
            raise ValueError(f"there is no prompt file {where}")
        content = path.read_bytes()
    else:
        folder = files("graphmill.engine") / "prompts"
        where = f"{name_or_path}.{prompt_language(language)}.toml"
        if not (folder / where).is_file():
            known = sorted({p.name.split(".")[0] for p in folder.iterdir() if p.name.endswith(".toml")})
            raise ValueError(
                f"there is no prompt file {where}; packaged are {', '.join(known)}, or give a path to a .toml"
            )
        content = (folder / where).read_bytes()
    try:
        return where, tomllib.loads(content.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{where} is not valid TOML: {error}") from error


def check_keys(
    where: str, values: Mapping[str, Any], required: Collection[str], optional: Collection[str] = ()
) -> None:
    """Raises ValueError for the first key that is missing or not known."""
    known = [*required, *optional]
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ValueError(f"{where}: unknown key {key!r}; {hint}")
    for key in required:
        if key not in values:
            raise ValueError(f"{where}: missing key {key!r}")


def check_template(where: str, key: str, template: Any, known: Collection[str], required: Collection[str] = ()) -> str:
    """The template without its outer line breaks; ValueError where it is no text or its placeholders are wrong."""
    if not isinstance(template, str):
        raise ValueError(f"{where}: {key} must be a string, got {template!r}")
    found = _PLACEHOLDER.findall(template)
    for name in found:
        if name not in known:
            hint = f"known are {', '.join(sorted(known))}" if known else "there are none here"
            raise ValueError(f"{where}: unknown placeholder {{{name}}} in {key}; {hint}")
    for name in required:
        if found.count(name) != 1:
            raise ValueError(f"{where}: {key} must hold {{{name}}} once, it holds it {found.count(name)} times")
    return template.strip("\r\n")


def load_examples(
    where: str,
    values: Mapping[str, Any],
    templates: Mapping[str, str],
    fields: Sequence[str],
    lists: Collection[str],
    constants: Mapping[str, str],
) -> list[dict[str, Any]]:
    """The [[examples]] of a prompt file, checked: texts without their outer line breaks, ``lists`` as tuples.

    Every example has just these fields; in "output" the constants, delimiters among them, are filled in. The template
    "example", and a place for {examples} in "system" or "user", must be there where there are examples.
    """
    given = values.get("examples", [])
    if not isinstance(given, list) or not all(isinstance(value, dict) for value in given):
        raise ValueError(f"{where}: examples must be tables, [[examples]], got {given!r}")
    asked = [key for key in ("system", "user") if key in templates]
    if given and not ("{examples}" in "".join(templates[key] for key in asked) and templates["example"]):
        raise ValueError(
            f"{where}: examples need the placeholder {{examples}} in {' or '.join(asked)} and a template example"
        )
    examples = []
    for number, value in enumerate(given, 1):
        place = f"{where}: example {number}"
        check_keys(place, value, fields)
        example: dict[str, Any] = {
            key: string_list(place, key, value[key]) if key in lists else string_value(place, value, key).strip("\r\n")
            for key in fields
        }
        examples.append({**example, "output": fill(example["output"], constants)})
    return examples


def show_examples(template: str, examples: Iterable[Mapping[str, str]]) -> str:
    """Examples as a prompt shows them, numbered from 1."""
    return "\n".join(fill(template, {**example, "number": str(n)}) + "\n" for n, example in enumerate(examples, 1))


def string_value(where: str, values: Mapping[str, Any], key: str) -> str:
    """The value of a key of a prompt file, which must be a string."""
    if not isinstance(values[key], str):
        raise ValueError(f"{where}: {key} must be a string, got {values[key]!r}")
    return str(values[key])


def string_list(where: str, key: str, value: Any) -> tuple[str, ...]:
    """A value that must be a list of strings."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{where}: {key} must be a list of strings, got {value!r}")
    return tuple(value)


Keys: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]


@cache
def load_templates(name_or_path: str, language: str, keys: Keys) -> Mapping[str, str]:
    """The templates of a prompt file, checked.

    ``keys`` are (key, placeholders) pairs: the keys the file must have, and the placeholders each must hold, of which
    any may be used in every template.
    """
    where, values = read_prompt_file(name_or_path, language)
    check_keys(where, values, [key for key, _ in keys], ["language"])
    known = {name for _, names in keys for name in names}
    return {key: check_template(where, key, values[key], known, names) for key, names in keys} | {
        "language": str(values.get("language", prompt_language(language)))
    }
