from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.engine.claim_prompts import claim_messages, load_claim_prompts
from graphmill.engine.claims import Claim, read_claims
from graphmill.engine.profiles import Delimiters

FIRST = Claim(
    "ACME LTD",
    "TOWN OF HEX",
    "BRIBERY",
    "TRUE",
    "2030-01-10",
    "2030-02",
    "Acme Ltd paid the clerk of Hex (40 crowns).",
    "Acme paid. The clerk took it (all of it).",
)
SECOND = Claim(
    "IDA MOOR", "NONE", "TAX EVASION", "SUSPECTED", "NONE", "NONE", "Ida Moor may owe taxes.", "Moor owes, some say."
)


def record(claim: Claim, delimiter: str = "<|>") -> str:
    return delimiter.join(getattr(claim, name) for name in Claim.__slots__)


TWO = f"({record(FIRST)})##\n({record(SECOND)})\n<|COMPLETE|>"


def test_a_reply_to_the_letter_is_read_as_it_stands() -> None:
    read = read_claims(TWO)
    assert read.claims == [FIRST, SECOND]
    assert read.complete
    assert (read.reasons, read.repairs) == ({}, {})


@pytest.mark.parametrize(
    "reply",
    [
        TWO.replace("(ACME", "Here are the claims:\n\n(ACME").replace("<|COMPLETE|>", "<|COMPLETE|>\nThat is all."),
        TWO.replace("##", ""),
        TWO.replace("##\n", ""),
        TWO.replace("##\n", " ").replace("\n", " "),
        TWO.replace("<|>", "<|#|>"),
        TWO.replace("<|>", "|>"),
        TWO.replace("<", "&lt;").replace(">", "&gt;"),
        "```\n" + TWO + "\n```",
        "<think>The clerk (in Hex<|>took it.</think>" + TWO,
        "1. " + TWO.replace("##\n", "\n2. "),
        "* " + TWO.replace("##\n", "\n* "),
        TWO.replace("(ACME", '("claim"<|>ACME').replace("(IDA", '("claim"<|>IDA'),
        f"{record(FIRST)}\n{record(SECOND)}\n<|COMPLETE|>",
        f"- {record(FIRST)}##\n- {record(SECOND)}\n<|COMPLETE|>",
        f"{record(FIRST)}##{record(SECOND)}<|COMPLETE|>",
        re.sub("(?m)^[(](.*)[)](##)?$", r"（\1）\2", TWO),
        TWO.replace("ACME LTD", "Acme Ltd").replace("IDA MOOR", '"Ida Moor"').replace("BRIBERY", "bribery"),
        TWO.replace("<|>NONE<|>TAX", "<|>unknown<|>TAX").replace("NONE<|>NONE", "N/A<|>"),
        TWO.replace("\n", "\r\n"),
    ],
)
def test_the_same_claims_are_read_from_every_shape(reply: str) -> None:
    read = read_claims(reply)
    assert read.claims == [FIRST, SECOND]
    assert read.complete
    assert not read.reasons


def test_a_status_or_a_date_that_is_none_is_mended_and_counted() -> None:
    reply = TWO.replace("TRUE", "probably").replace("2030-01-10", "2030-02-30").replace("<|>2030-02<|>", "<|>May<|>")
    read = read_claims(reply)
    assert (read.claims[0].status, read.claims[0].start, read.claims[0].end) == ("SUSPECTED", "NONE", "NONE")
    assert read.repairs == {"status": 1, "date": 2}
    assert not read.reasons


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("2031", "2031"),
        ("2031-03", "2031-03"),
        ("2031-03-09T14:30:00Z", "2031-03-09T14:30:00Z"),
        ("2031-03-09 14:30", "2031-03-09T14:30"),
        ("２０３１-03-09", "2031-03-09"),
        ('"2031-03-09"', "2031-03-09"),
        ("none", "NONE"),
        ("无", "NONE"),
        ("2031-13", "NONE"),
        ("2031/03/09", "NONE"),
        ("0000", "NONE"),
        ("9 March 2031", "NONE"),
    ],
)
def test_dates_are_kept_in_iso_8601_or_not_at_all(written: str, kept: str) -> None:
    assert read_claims(TWO.replace("2030-01-10", written)).claims[0].start == kept


def test_a_claim_that_is_cut_off_is_rejected_and_the_reply_not_complete() -> None:
    for at in range(TWO.index("##"), TWO.rindex(")")):
        read = read_claims(TWO[:at], finish_reason="length")
        assert read.claims == [FIRST]
        assert not read.complete
        assert read.reasons == ({"cut off": 1} if at > TWO.index("(IDA") else {})
    whole = read_claims(TWO.removesuffix("\n<|COMPLETE|>"))
    assert (whole.claims, whole.complete, whole.reasons) == ([FIRST, SECOND], False, {})
    assert read_claims(TWO.removesuffix("\n<|COMPLETE|>"), finish_reason="stop").complete


def test_what_is_no_claim_is_rejected_by_reason() -> None:
    rest = "<|>NONE<|>FRAUD<|>TRUE<|>NONE<|>NONE<|>It is so.<|>So it is."
    replies = {
        "too few fields": "(ACME<|>NONE<|>FRAUD)",
        "empty name": f'(""{rest})',
        "placeholder": "(subject<|>object<|>type<|>status<|>start<|>end<|>description<|>source)",
    }
    for reason, wrong in replies.items():
        read = read_claims(f"({record(FIRST)})##\n{wrong}##\n({record(SECOND)})\n<|COMPLETE|>")
        assert read.claims == [FIRST, SECOND]
        assert read.reasons == {reason: 1}
    assert read_claims(f"(NONE{rest})").reasons == {"empty name": 1}


def test_a_delimiter_inside_the_description_stays_there_and_a_missing_source_is_empty() -> None:
    read = read_claims(TWO.replace("paid the clerk", "paid <|> the clerk"))
    assert read.claims[0].description == "Acme Ltd paid <|> the clerk of Hex (40 crowns)."
    assert read.claims[0].source == FIRST.source
    assert read.repairs == {"delimiter in description": 1}
    short = read_claims(TWO.replace("<|>" + FIRST.source, ""))
    assert (short.claims[0].description, short.claims[0].source) == (FIRST.description, "")
    assert short.claims[1] == SECOND


def test_nothing_found_is_a_complete_reply_without_claims() -> None:
    assert read_claims("<|COMPLETE|>")[:2] == ([], True)
    assert read_claims("")[:2] == ([], False)
    assert read_claims("<think>Hm, (ACME<|>")[:2] == ([], False)


def test_other_delimiters_are_read_as_they_are_set() -> None:
    delimiters = Delimiters("<|#|>", "\n", "<END>")
    reply = f"({record(FIRST, '<|#|>')})\n\n({record(SECOND, '<|#|>')})\n<END>"
    assert read_claims(reply, delimiters)[:2] == ([FIRST, SECOND], True)


@given(st.text(alphabet="(<|>)# \nAcé（）&;T", max_size=120))
def test_no_text_whatever_stops_the_reader(text: str) -> None:
    for reply in (text, TWO + text, text + TWO):
        read = read_claims(reply)
        assert all(claim.status in ("TRUE", "FALSE", "SUSPECTED") for claim in read.claims)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_examples_of_the_prompts_are_read_without_a_fault(language: str) -> None:
    prompts = load_claim_prompts("claims", language)
    assert prompts.language == language
    assert len(prompts.examples) == 2
    statuses = set()
    for example in prompts.examples:
        read = read_claims(example.output)
        assert read.complete
        assert (read.reasons, read.repairs) == ({}, {})
        for claim in read.claims:
            statuses.add(claim.status)
            assert claim.subject in example.text.upper()
            assert claim.object == "NONE" or claim.object in example.text.upper()
            for sentence in re.split(r"(?<=[.。]) ?(?=\S)", claim.source):
                assert sentence in example.text
            assert claim.description.endswith((".", "。"))
    assert statuses == {"TRUE", "FALSE", "SUSPECTED"}


@pytest.mark.parametrize("language", ["en", "zh", "fr"])
def test_what_is_looked_for_comes_before_the_text_and_texts_share_all_before_theirs(language: str) -> None:
    prompts = load_claim_prompts(language=language)
    (one,), (other,) = (
        claim_messages(prompts, text, "SPECS {text}", "WANTED") for text in ("one text", "another text")
    )
    prompt = one["content"]
    shared = prompt.rindex("one text")
    assert one["role"] == "user"
    assert prompt[:shared] == other["content"][:shared]
    assert prompt.index("SPECS {text}") < prompt.index("WANTED") < shared
    assert len(prompt) - shared < 50
    for text in (prompt.replace("SPECS {text}", ""), prompts.continue_prompt, prompts.more):
        assert text
        assert not re.search(r"\{[a-z_]+\}", text)
    assert {"en": "English", "zh": "中文", "fr": "French"}[language] in prompt


def test_claim_prompts_take_the_delimiters_and_refuse_another_layout(tmp_path: Path) -> None:
    prompts = load_claim_prompts("claims", "en", Delimiters("<|#|>", "@@", "<END>"))
    prompt = claim_messages(prompts, "", "", "")[0]["content"]
    assert "<|>" not in prompt
    assert "<|COMPLETE|>" not in prompt + prompts.continue_prompt
    assert prompts.content_hash != load_claim_prompts("claims", "en").content_hash
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "m"\nlayout = "graphrag"\nlanguage = "en"\nuser = "{text} {entity_specs} {claim_description}"'
    )
    with pytest.raises(ValueError, match=r"mine\.toml: the layout of claim prompts must be 'claims', got 'graphrag'"):
        load_claim_prompts(str(path))
    path.write_text('name = "m"\nlayout = "claims"\nlanguage = "en"\nuser = "{text} {entity_specs}"')
    with pytest.raises(ValueError, match=r"mine\.toml: user must hold \{claim_description\} once"):
        load_claim_prompts(str(path))
