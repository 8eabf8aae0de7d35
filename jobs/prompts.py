"""``graphmill prompts``: which extraction prompts there are, and what a model is sent with them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphmill.engine.claim_prompts import claim_messages, load_claim_prompts
from graphmill.engine.config import ConfigError
from graphmill.engine.decode_text import decode
from graphmill.engine.extract import ExtractConfig
from graphmill.engine.language import detect_language
from graphmill.engine.profiles import load_profile, messages, packaged_profiles
from graphmill.engine.templates import read_prompt_file
from graphmill.jobs.show import show_result

TEXT_LINE = "<the text>"
"""Stands for the text where none is given."""
CLAIMS = "claims"


def show(profile: str, language: str, text_file: Path | None, entity_types: Sequence[str], as_json: bool) -> int:
    """Prints the messages about a text, from a file or from standard input."""
    text = None if text_file is None else _read(text_file)
    shown = conversation(profile, text, language, entity_types)
    show_result(shown, render, as_json)
    return 0


def list_prompts(as_json: bool) -> int:
    """Prints the packaged profiles: name, languages, layout, entity types."""
    rows = packaged()
    show_result(rows, render_list, as_json)
    return 0


def conversation(
    profile: str, text: str | None = None, language: str = "auto", entity_types: Sequence[str] = ()
) -> dict[str, Any]:
    """What a model is sent about a text with a profile.

    profile     name of a packaged one, "claims" included, or a TOML file
    text        None leaves a line in its place
    language    of prompts and descriptions; "auto" follows the text
    entity_types
                what to look for, in the place of the profile's own

    Returns {"profile", "language" (of the prompts), "output_language", "messages": [{"role", "content"}], "continue",
    "more", "schema"}. Raises ConfigError.
    """
    packaged_names = [*packaged_profiles(), CLAIMS]
    if profile not in packaged_names and not profile.endswith(".toml"):
        raise ConfigError(f"PROFILE must be one of {', '.join(packaged_names)} or a TOML file, got {profile!r}")
    try:
        chosen = ExtractConfig(profile=profile, language=language).language
        wanted = detect_language(text or "") if chosen == "auto" else chosen
        if read_prompt_file(profile, wanted)[1].get("layout") == CLAIMS:
            return _about_claims(profile, TEXT_LINE if text is None else text, wanted)
        loaded = load_profile(profile, wanted, entity_types=tuple(entity_types))
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return {
        "profile": loaded.name,
        "language": loaded.language,
        "output_language": loaded.output_language,
        "messages": messages(loaded, TEXT_LINE if text is None else text),
        "continue": loaded.continue_prompt,
        "more": loaded.more,
        "schema": loaded.schema,
    }


def _about_claims(name: str, text: str, language: str) -> dict[str, Any]:
    prompts = load_claim_prompts(name, language)
    return {
        "profile": prompts.name,
        "language": prompts.language,
        "output_language": prompts.output_language,
        "messages": claim_messages(prompts, text, "<the entity specification>", "<the claim description>"),
        "continue": prompts.continue_prompt,
        "more": prompts.more,
        "schema": None,
    }


def render(shown: dict[str, Any]) -> str:
    """The messages under their roles, then the continue and the yes/no prompt."""
    parts = [(message["role"], message["content"]) for message in shown["messages"]]
    parts += [
        ("user, after the reply: asks for what was missed", shown["continue"]),
        ("user, before each further round: YES or NO", shown["more"]),
    ]
    return "\n\n".join(f"----- {head} -----\n{content}" for head, content in parts if content)


def packaged() -> list[dict[str, Any]]:
    """The packaged profiles as rows: profile, languages, layout, entity_types."""
    rows: list[dict[str, Any]] = []
    for name, languages in packaged_profiles().items():
        profile = load_profile(name, languages[0])
        rows.append(
            {
                "profile": name,
                "languages": list(languages),
                "layout": profile.layout.name,
                "entity_types": list(profile.entity_types),
            }
        )
    return [*rows, {"profile": CLAIMS, "languages": ["en", "zh"], "layout": CLAIMS, "entity_types": []}]


def render_list(rows: list[dict[str, Any]]) -> str:
    """One line a profile, in columns."""
    width = max(len(row["profile"]) for row in rows)
    return "\n".join(
        f"{row['profile']:{width}}  {', '.join(row['languages'])}  "
        f"{', '.join(row['entity_types']) or 'what the caller looks for'}"
        for row in rows
    )


def _read(file: Path) -> str:
    if str(file) == "-":
        return decode(sys.stdin.buffer.read())
    if not file.is_file():
        raise ConfigError(f"there is no file {file} to take --text from")
    return decode(file.read_bytes())
