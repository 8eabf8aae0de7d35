"""``graphmill prompts``, which shows what a model would be sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from graphmill.engine.config import ConfigError
from graphmill.engine.profiles import load_profile, messages
from graphmill.jobs.cli import app
from graphmill.jobs.errors import explain
from graphmill.jobs.prompts import conversation

NAMES = ["graphgen", "graphrag", "json", "lightrag", "lightrag-classic", "claims"]


def graphmill(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["prompts", *arguments], input=stdin)


def test_show_prints_the_messages_that_extraction_sends(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Ada met Bo in {braces}.", "utf-8")
    done = graphmill("show", "lightrag", "--text", str(tmp_path / "note.txt"), "--json")
    assert done.exit_code == 0
    shown = json.loads(done.stdout)
    profile = load_profile("lightrag", "en")
    assert shown["messages"] == messages(profile, "Ada met Bo in {braces}.")
    assert [message["role"] for message in shown["messages"]] == ["system", "user"]
    assert (shown["continue"], shown["more"], shown["schema"]) == (profile.continue_prompt, profile.more, None)


def test_show_prints_roles_and_contents_in_the_order_of_the_conversation() -> None:
    done = graphmill("show", "lightrag")
    profile = load_profile("lightrag", "en")
    (system, user) = (message["content"] for message in messages(profile, "<the text>"))
    parts = ["----- system -----", system, "----- user -----", user, profile.continue_prompt, profile.more]
    places = [done.stdout.index(part) for part in parts]
    assert places == sorted(places)
    assert done.stdout.count("<the text>") == 1


def test_the_language_follows_the_text_unless_it_is_set() -> None:
    followed = json.loads(graphmill("show", "graphrag", "--text", "-", "--json", stdin="林芷若在北岭大学任教。").stdout)
    assert (followed["language"], followed["output_language"]) == ("zh", "中文")
    assert "林芷若在北岭大学任教。" in followed["messages"][0]["content"]
    assert conversation("graphrag")["language"] == "en"
    assert conversation("graphrag", language="zh")["language"] == "zh"
    german = conversation("graphrag", language="de")
    assert (german["language"], german["output_language"]) == ("en", "German")


def test_entity_types_take_the_place_of_the_profiles_own() -> None:
    shown = json.loads(graphmill("show", "graphrag", "--entity-types", "vessel, reef", "--json").stdout)
    assert shown["messages"] == messages(load_profile("graphrag", "en", entity_types=("vessel", "reef")), "<the text>")
    assert "Entity types: vessel, reef" in shown["messages"][0]["content"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_packaged_profile_can_be_shown(name: str, language: str) -> None:
    shown = conversation(name, "TEXT", language)
    assert (shown["profile"], shown["language"]) == (name, language)
    assert sum(message["content"].count("TEXT") for message in shown["messages"]) == 1
    assert shown["continue"]
    assert shown["more"]
    assert (shown["schema"] is not None) == (name == "json")


def test_list_names_the_packaged_profiles() -> None:
    rows = json.loads(graphmill("list", "--json").stdout)
    assert [row["profile"] for row in rows] == NAMES
    assert all(row["languages"] == ["en", "zh"] for row in rows)
    lines = graphmill("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == NAMES


def test_a_profile_of_ones_own_is_shown_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\nlayout = "graphrag"\nlanguage = "en"\nentity_types = ["ship"]\nuser = "{entity_types}: {text}"',
        "utf-8",
    )
    assert graphmill("show", str(path)).stdout == "----- user -----\nship: <the text>\n"
    other = tmp_path / "other.toml"
    other.write_text('name = "mine"', "utf-8")
    with pytest.raises(ConfigError, match=r"other\.toml: missing key 'layout'"):
        conversation(str(other))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "grafrag"], "one of graphgen, graphrag, json, lightrag, lightrag-classic, claims or a TOML file"),
        (["show", "answer"], "got 'answer'"),
        (["show", "no/where.toml"], "there is no prompt file no/where.toml"),
        (["show", "graphrag", "--text", "no/where.txt"], "there is no file no/where.txt"),
        (["show", "graphrag", "--language", "xx"], "language"),
    ],
)
def test_what_is_not_there_is_a_usage_error(arguments: list[str], message: str) -> None:
    error = graphmill(*arguments).exception
    assert isinstance(error, ConfigError)
    told, code = explain(error)
    assert code == 2
    assert message in str(told)
