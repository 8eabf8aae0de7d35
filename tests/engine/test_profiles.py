from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.engine.answer_prompts import KINDS, MAP_KINDS, answer_messages, no_context_answer
from graphmill.engine.profiles import Delimiters, load_profile, messages, packaged_profiles
from graphmill.engine.prompt_language import language_code, language_name, prompt_language
from graphmill.engine.read_reply import LAYOUTS, Reading, read_reply
from graphmill.engine.templates import fill

MINIMAL = """
name = "mine"
layout = "graphrag"
language = "en"
entity_types = ["ship"]
system = "{examples}Types: {entity_types}\\nText: {text}"
user = "Answer in {language}, end with {completion_delimiter}."
example = "Example {number}: {text} -> {output}"
[[examples]]
entity_types = ["ship"]
text = "The {text} Ada sank with {entity_types}."
output = "(Ada{tuple_delimiter}ship)"
"""


def write(tmp_path: Path, content: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(content, "utf-8")
    return str(path)


PACKAGED = [(name, language) for name, languages in packaged_profiles().items() for language in languages]
packaged = pytest.mark.parametrize(("name", "language"), PACKAGED)
LIGHTRAG_TYPES = "person organization location event product equipment category concept"
GRAPHGEN_TYPES = (
    "concept date location keyword organization person event work nature artificial science technology mission gene"
)


def test_every_layout_has_its_packaged_profile_in_english_and_chinese() -> None:
    assert packaged_profiles() == dict.fromkeys(sorted(LAYOUTS), ("en", "zh"))
    for name, language in PACKAGED:
        profile = load_profile(name, language)
        assert (profile.name, profile.layout.name, profile.language) == (name, name, language)


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("graphrag", "organization person geo event"),
        ("lightrag-classic", "organization person geo event category"),
        ("lightrag", LIGHTRAG_TYPES),
        ("graphgen", GRAPHGEN_TYPES),
    ],
)
def test_both_languages_look_for_the_same_entity_types(name: str, types: str) -> None:
    assert {load_profile(name, language).entity_types for language in ("en", "zh")} == {tuple(types.split())}


@pytest.mark.parametrize(("name", "language"), [*PACKAGED, *((name, "de") for name in packaged_profiles())])
def test_a_packaged_profile_leaves_no_placeholder_unfilled(name: str, language: str) -> None:
    profile = load_profile(name, language)
    prompts = [message["content"] for message in messages(profile, "TEXT")]
    for text in (*prompts, profile.continue_prompt, profile.more):
        assert text
        assert not re.search(r"\{[a-z_]+\}", text)
    asked = "\n".join(prompts)
    assert {"en": "English", "zh": "中文", "de": "German"}[language] in asked
    assert ", ".join(profile.entity_types) in asked
    if profile.layout.format == "delimited":
        assert "<|COMPLETE|>" in asked
        assert "<|COMPLETE|>" in profile.continue_prompt
    assert "YES" in profile.more


@packaged
def test_all_texts_share_the_prompt_up_to_their_own_text(name: str, language: str) -> None:
    profile = load_profile(name, language)
    firsts, seconds = (messages(profile, text) for text in ("one passage", "another"))
    assert [m["role"] for m in firsts] == (["system", "user"] if name == "lightrag" else ["user"])
    first, second = firsts[0]["content"], seconds[0]["content"]
    assert first.count("one passage") == 1
    shared = first.index("one passage")
    assert first[:shared] == second[:shared]
    assert len(first) - shared < 50
    assert firsts[1:] == seconds[1:]
    for example in profile.examples:
        assert first.index(example.text) < shared


def test_prompts_follow_the_language() -> None:
    chinese = load_profile("graphrag", "zh")
    assert chinese.language == "zh"
    assert "描述用中文书写" in messages(chinese, "正文")[0]["content"]
    german = load_profile("graphrag", "de")
    assert german.language == "en"
    assert "Write the descriptions in German." in messages(german, "Text")[0]["content"]
    unknown = load_profile("graphrag", "")
    assert "in the language of the source text." in messages(unknown, "Text")[0]["content"]


def test_delimiters_are_a_setting_of_every_part_of_the_prompt() -> None:
    profile = load_profile("graphrag", "zh", Delimiters("<|#|>", "\n", "<END>"))
    texts = [messages(profile, "正文")[0]["content"], profile.continue_prompt]
    assert not any("<|>" in text or "<|COMPLETE|>" in text for text in texts)
    assert all("<END>" in text for text in texts)


def kinds(reading: Reading, kind: str) -> list[Any]:
    return [record for record in reading.records if record.kind == kind]


@packaged
def test_the_examples_are_read_without_a_fault_and_hold_to_their_own_rules(name: str, language: str) -> None:
    profile = load_profile(name, language)
    assert 2 <= len(profile.examples) <= 3
    for example in profile.examples:
        reading = read_reply(example.output, profile.layout)
        assert reading.complete
        assert (reading.rejected, reading.repairs) == (0, {})
        entities, relationships = kinds(reading, "entity"), kinds(reading, "relationship")
        names = [r.name for r in entities]
        assert len(names) == len(set(names))
        ends = {end for r in relationships for end in (r.name, r.target)}
        assert ends <= set(names)
        allowed = {*example.entity_types, "other"} if name == "lightrag" else set(example.entity_types)
        assert {r.type.lower() for r in entities} <= allowed
        pairs = [frozenset((r.name, r.target)) for r in relationships]
        assert len(pairs) == len(set(pairs)) > 0
        assert all(r.description.endswith((".", "。")) for r in (*entities, *relationships))


@packaged
def test_the_examples_fill_the_fields_of_their_layout(name: str, language: str) -> None:
    profile = load_profile(name, language)
    fields = profile.layout.relationship
    for example in profile.examples:
        reading = read_reply(example.output, profile.layout)
        for record in kinds(reading, "relationship"):
            assert bool(record.keywords) == ("keywords" in fields)
            assert 1 <= record.strength <= 10
        if "strength" in fields:
            assert len({record.strength for record in kinds(reading, "relationship")}) > 1
        num_keywords = 0 if name in ("graphrag", "lightrag") else 1
        assert len(kinds(reading, "keywords")) == num_keywords
        order = [record.kind for record in reading.records]
        assert order == sorted(order, key=["entity", "relationship", "keywords"].index)
        if profile.layout.format == "delimited":
            assert example.output.startswith('("entity"<|>' if profile.layout.quoted_tag else "(entity<|>")


@packaged
def test_the_names_of_the_examples_stand_in_their_text_and_no_pronoun_in_a_description(
    name: str, language: str
) -> None:
    profile = load_profile(name, language)
    for example in profile.examples:
        records = read_reply(example.output, profile.layout).records
        for record in records:
            assert not re.search(r"\b(?i:he|she|they|him|her|his|their|them)\b|[他她]", record.description)
            if record.kind == "entity":  # so that the grounding check keeps what a model learns from them
                assert record.name.casefold() in example.text.casefold()
        if language == "zh":
            assert all(re.search("[\u4e00-\u9fff]", record.description or "中") for record in records)


def test_no_two_examples_are_about_the_same_text() -> None:
    texts = [example.text for name, language in PACKAGED for example in load_profile(name, language).examples]
    assert len(texts) == len(set(texts))


def objects_of(schema: Any) -> list[Mapping[str, Any]]:
    members = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    inner = [found for member in members for found in objects_of(member)]
    return [schema, *inner] if isinstance(schema, dict) and schema.get("type") == "object" else inner


def test_only_the_json_profile_has_a_schema_and_its_examples_hold_to_it() -> None:
    for name, language in PACKAGED:
        profile = load_profile(name, language)
        assert (profile.schema is not None) == (name == "json")
        if profile.schema is None:
            continue
        whole, entity, relationship = objects_of(profile.schema)
        for schema in (whole, entity, relationship):
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(schema["properties"])
        assert entity["properties"]["type"] == {"type": "string"}
        assert relationship["properties"]["strength"] == {"type": "integer", "enum": list(range(1, 11))}
        for example in profile.examples:
            value = json.loads(example.output)
            assert list(value) == whole["required"]
            for members, schema in (("entities", entity), ("relationships", relationship)):
                assert {tuple(member) for member in value[members]} == {tuple(schema["required"])}
            assert all(type(r["strength"]) is int for r in value["relationships"])


def test_the_layout_knows_the_delimiters_and_the_types() -> None:
    profile = load_profile("graphrag", "en", Delimiters("<|#|>", "\n", "<END>"), ("Gene",))
    assert profile.layout.tuple_delimiter == "<|#|>"
    assert profile.layout.completion == "<END>"
    assert profile.layout.types == {"gene"}
    assert "Entity types: Gene\nPassage" in messages(profile, "")[0]["content"]


def test_the_callers_entity_types_take_the_place_of_the_profiles() -> None:
    prompt = messages(load_profile("graphrag", "en"), "TEXT", ["gene", "protein"])[0]["content"]
    assert "Entity types: gene, protein\n" in prompt
    assert "Entity types: organization, person, geo, event\nPassage:\nTEXT" not in prompt


@given(st.text(alphabet="{}textniyp_s<|>#\\", max_size=40))
def test_a_text_with_braces_stays_as_it_is(text: str) -> None:
    prompt = messages(load_profile("graphrag", "en"), text)[0]["content"]
    assert prompt.endswith(f"Passage:\n{text}\n\nOutput:")
    assert fill("{a}-{b}", {"a": "{b}", "b": text}) == "{b}-" + text


def test_a_profile_may_have_system_and_user_roles_and_examples_with_braces(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, MINIMAL), "fr")
    assert messages(profile, "Bo {x}") == [
        {
            "role": "system",
            "content": "Example 1: The {text} Ada sank with {entity_types}. -> (Ada<|>ship)\nTypes: ship\nText: Bo {x}",
        },
        {"role": "user", "content": "Answer in French, end with <|COMPLETE|>."},
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("layout", "layuot"), r"mine\.toml: unknown key 'layuot'; did you mean 'layout'\?"),
        (('name = "mine"', ""), r"mine\.toml: missing key 'name'"),
        (("{completion_delimiter}", "{completion}"), r"mine\.toml: unknown placeholder \{completion\} in user"),
        (
            ("Text: {text}", "Text:"),
            r"mine\.toml: system and user must hold \{text\} once between them, they hold it 0 times",
        ),
        (('["ship"]\nsystem', '"ship"\nsystem'), r"mine\.toml: entity_types must be a list of strings, got 'ship'"),
        (("output =", "answer ="), r"mine\.toml: example 1: unknown key 'answer'"),
        (('"graphrag"', '"grafrag"'), r"mine\.toml: unknown layout 'grafrag'; known are graphrag, "),
        (("language = ", "language = en"), r"mine\.toml is not valid TOML"),
    ],
)
def test_a_faulty_profile_is_refused_by_file_and_key(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_profile(write(tmp_path, MINIMAL.replace(*change)), "en")


def test_a_profile_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"no profile 'grapfrag'; packaged are graphgen, graphrag, json, lightrag"):
        load_profile("grapfrag", "en")
    with pytest.raises(ValueError, match=r"there is no prompt file no/where\.toml"):
        load_profile("no/where.toml", "en")


def test_the_hash_of_a_profile_covers_its_prompts_and_not_where_it_lies(tmp_path: Path) -> None:
    packaged = load_profile("graphrag", "en")
    assert packaged.content_hash == load_profile("graphrag", "English").content_hash
    assert packaged.content_hash != load_profile("graphrag", "de").content_hash
    one = load_profile(write(tmp_path, MINIMAL), "en")
    (tmp_path / "sub").mkdir()
    other = load_profile(write(tmp_path / "sub", MINIMAL.replace("sank", "swam")), "en")
    assert one.content_hash != other.content_hash


def test_languages_are_known_by_code_and_by_name() -> None:
    assert [language_code(x) for x in ("zh-CN", "Chinese", "中文", "DE", "german", "auto", "Klingon")] == [
        "zh", "zh", "zh", "de", "de", "", "Klingon",
    ]  # fmt: skip
    assert prompt_language("zh_TW") == "zh"
    assert prompt_language("ja") == "en"
    assert language_name("ja", "en") == "Japanese"
    assert language_name("Klingon", "en") == "Klingon"


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("kind", KINDS)
def test_answer_prompts_hold_knowledge_then_history_then_question(kind: str, language: str) -> None:
    history = [{"role": "user", "content": "before"}, {"role": "assistant", "content": "answer"}]
    found = answer_messages(kind, language, "KNOW {question}", "why {context}?", history, "A list", "be brief {x}")
    assert [m["role"] for m in found] == ["system", "user", "assistant", "user"]
    assert "KNOW {question}" in found[0]["content"]
    assert not re.search(r"\{[a-z_]+\}", found[0]["content"].replace("{question}", ""))
    assert found[-1]["content"].startswith("why {context}?")
    assert "be brief {x}" in found[-1]["content"]
    if kind not in MAP_KINDS:
        assert "A list" in found[0]["content"]
    assert "created_at" in found[0]["content"]


def test_strict_and_permissive_answers_are_asked_for_in_different_words() -> None:
    strict, permissive = (
        answer_messages("local", "en", "K", "Q", strict=strict)[0]["content"] for strict in (True, False)
    )
    assert "Use only the knowledge given below" in strict
    assert "(general knowledge)" in permissive
    assert "Use only the knowledge" not in permissive


def test_an_answer_without_context_is_an_apology_in_the_language_of_the_question() -> None:
    assert no_context_answer("de").endswith("[no-context]")
    assert no_context_answer("zh").startswith("抱歉")
    assert no_context_answer("zh").endswith("[no-context]")
    with pytest.raises(ValueError, match="kind must be one of"):
        answer_messages("mixed", "en", "", "")
