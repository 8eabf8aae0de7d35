from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.engine.names import clean_name, clean_text, name_key, strip_brackets, strip_quotes
from graphmill.engine.strength import is_strength, read_strength


@pytest.mark.parametrize(
    "spelling",
    [
        "ALICE  SMITH",
        " alice smith ",
        "Ａｌｉｃｅ　Smith",
        '"Alice Smith"',
        "(Alice Smith)",
        "Alice\u00a0Smith",
        "“Alice\u200b Smith”",
    ],
)
def test_spellings_of_one_name_share_a_key(spelling: str) -> None:
    assert name_key(spelling) == name_key("Alice Smith") == "alice smith"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Straße", "STRASSE"),
        ("ﬁre", "FIRE"),
        ("é", "e\u0301"),
        ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
        ("《红楼梦》", "红楼梦"),
        ("【阿里】", "阿里"),
    ],
)
def test_compatible_characters_share_a_key(one: str, other: str) -> None:
    assert name_key(one) == name_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("C", "C++"), ("C", "C#"), ("(a) and (b)", "a) and (b"), ("Python (language)", "Python"), ("6", '6"')],
)
def test_names_that_only_look_alike_keep_their_own_keys(one: str, other: str) -> None:
    assert name_key(one) != name_key(other)


@pytest.mark.parametrize("nothing", ["", "  ", '""', "()", "“”", "\u200b", "[ ]"])
def test_a_name_of_which_nothing_is_left_has_an_empty_key(nothing: str) -> None:
    assert name_key(nothing) == ""


@given(st.text())
def test_keys_are_their_own_keys(name: str) -> None:
    assert name_key(name_key(name)) == name_key(name)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cn", "Co"])))
def test_a_clean_name_is_clean(name: str) -> None:
    once = clean_name(name)
    assert name_key(clean_name(once)) == name_key(once)
    assert once == " ".join(once.split())
    assert "\x00" not in once
    once.encode()


@given(st.text(st.characters(categories=["Cs", "Cc", "Cf", "Zs", "Lu"])))
def test_cleaned_text_can_be_written_to_any_table(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode()
    assert not any(character in cleaned for character in "\x00\n\r\t\x1b\u200b\ufeff\u2028")


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("AT&amp;amp;T", "AT&T"),
        ("AT&amp;" + "amp;" * 50 + "T", "AT&T"),
        ("R&D; more", "R&D; more"),
        ("?a=1&copy=2", "?a=1&copy=2"),
        ("&#65;&#x42;&lt;c&gt;", "AB<c>"),
        ("Al\u200bice\x00\ufeff", "Alice"),
        ("\ud83dAlice", "Alice"),
        ("👨\u200d👩\u200d👧 family", "👨\u200d👩\u200d👧 family"),
        ("Al\u200dice", "Alice"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("**Alice**", "Alice"),
        ("`Alice`", "Alice"),
        ("__init__", "__init__"),
        ("*args", "*args"),
        ("「甲」", "甲"),
        ("《红楼梦》", "《红楼梦》"),
        ("(Alice)", "(Alice)"),
        ('"“Alice”"', "Alice"),
        ("'Alice's Restaurant'", "Alice's Restaurant"),
        ("O'Brien", "O'Brien"),
        ('"Alice', "Alice"),
        ('Alice"', "Alice"),
        ('Pipe of 6"', 'Pipe of 6"'),
        ('"A" and "B"', '"A" and "B"'),
        ("“A” and “B”", "“A” and “B”"),
        ('"The "pipe" operator"', 'The "pipe" operator'),
        ("a\r\n b\t c", "a b c"),
        ('"', ""),
    ],
)
def test_a_name_is_shown_clean_in_its_own_spelling(raw: str, clean: str) -> None:
    assert clean_name(raw) == clean


def test_a_description_keeps_its_spaces_and_loses_its_line_breaks() -> None:
    assert clean_text("one  two\n\n  three\u2028four") == "one  two three four"


@given(st.text(), st.sampled_from(['""', "“”", "‘’", "''", "「」", "``", "«»"]))
def test_quotes_round_a_plain_text_come_off(text: str, quotes: str) -> None:
    plain = " ".join("".join(letter for letter in text if letter.isalnum() or letter == " ").split())
    assert strip_quotes(quotes[0] + plain + quotes[1]) == plain


@given(st.text("()[]ab ", max_size=30))
def test_only_brackets_round_the_whole_come_off(text: str) -> None:
    inner = strip_brackets(text)
    assert inner == text or text[1:-1].strip() == inner


@given(st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.booleans(), st.lists(st.integers())))
def test_a_strength_is_finite_and_positive_whatever_is_given(value: object) -> None:
    strength = read_strength(value)
    assert strength > 0
    assert math.isfinite(strength)


@pytest.mark.parametrize(
    ("value", "strength"),
    [
        ("Strength (1-10): 7", 7),
        ("７．５／１０", 7.5),
        ("0/10", 1),
        ("-3", 1),
        ("−3", 1),
        ("about .5", 0.5),
        ("٩", 9),
        ("9" * 5000, 1),
        (10**400, 1),
        (True, 1),
        (2.5, 2.5),
        ([9], 1),
        ("strong (9)", 9),
        ("强度：8", 8),
        ("1e400", 1),
    ],
)
def test_strengths_are_read_as_they_are_meant(value: object, strength: float) -> None:
    assert read_strength(value) == strength


@pytest.mark.parametrize(
    "text", ["9", "8/10", '"9"', "9)", "Strength: 7", "10 (very strong)", "７", "high", "7 out of 10"]
)
def test_a_strength_is_known_by_its_looks(text: str) -> None:
    assert is_strength(text)


@pytest.mark.parametrize(
    "text", ["y in the shell", "9 people work there", "founded 1890", "", "a 9 b", "2001: A Space Odyssey"]
)
def test_a_text_with_a_number_in_it_is_no_strength(text: str) -> None:
    assert not is_strength(text)
