"""The phrase finder on single texts: what is a name and of what type, what isn't, and what it costs."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.engine.phrases import MAX_MENTIONS, MAX_PAIRS, find_phrases

ENGLISH = (
    "Ingrid Halvorsen is a marine biologist in Bergen. In 1974 Dr. Halvorsen joined the Kvarra Marine Institute (KMI), "
    "whose first director was Rasmus Eldholm. The Institute owns the research vessel Petrel Dawn. On Monday the KMI "
    "published the Gannet Sound Survey. Nobody at the University of Vienna or at Hartvig & Dole Ltd. had expected it, "
    "said Professor Lin Zhiruo (林芷若). She had sailed from Lake Ladoga to Cooper's Quay during the Second World War."
)
CHINESE = (
    "昨天上午，北岭大学海洋学院的林芷若教授在鹭汀港会见了英格丽·哈尔沃森博士（Ingrid Halvorsen）。"
    "哈尔沃森来自挪威，现任克瓦拉海洋研究所所长。两人合著的《海带之光》记录了“芫荽号”的沉没。"
    "沧屿航运股份有限公司董事长顾明川表示，公司将支持青屿渔业合作社。"
)


def types(text: str, language: str = "en") -> dict[str, str]:
    return {mention.name: mention.type for mention in find_phrases(text, language)[0]}


def test_english_names_get_their_types() -> None:
    found = types(ENGLISH)
    expected = {
        "Ingrid Halvorsen": "PERSON",
        "Rasmus Eldholm": "PERSON",
        "Lin Zhiruo (林芷若)": "PERSON",
        "Bergen": "GEO",
        "Lake Ladoga": "GEO",
        "Cooper's Quay": "GEO",
        "Kvarra Marine Institute (KMI)": "ORGANIZATION",
        "University of Vienna": "ORGANIZATION",
        "Hartvig & Dole Ltd": "ORGANIZATION",
        "Petrel Dawn": "VESSEL",
        "Gannet Sound Survey": "EVENT",
        "Second World War": "EVENT",
    }
    assert {name: found.get(name) for name in expected} == expected


def test_chinese_names_get_their_types() -> None:
    found = types(CHINESE, "zh")
    expected = {
        "林芷若": "PERSON",
        "英格丽·哈尔沃森 (Ingrid Halvorsen)": "PERSON",
        "顾明川": "PERSON",
        "北岭大学海洋学院": "ORGANIZATION",
        "克瓦拉海洋研究所": "ORGANIZATION",
        "沧屿航运股份有限公司": "ORGANIZATION",
        "青屿渔业合作社": "ORGANIZATION",
        "鹭汀港": "GEO",
        "挪威": "GEO",
        "芫荽号": "VESSEL",
        "海带之光": "WORK",
    }
    assert {name: found.get(name) for name in expected} == expected


def test_no_pronoun_month_title_or_first_word_of_a_sentence_is_a_name() -> None:
    text = (
        "She left in March. However, They said nothing. On Tuesday Everything changed. The President spoke; Doctor, I "
        "said, come. Running is fun. Recently Harvard moved. NOTE: this MUST be read. See Figure 2 and Chapter IV. "
        "I am English and so is He."
    )
    assert {name for name, kind in types(text).items() if kind} == {"Harvard"}


def test_no_chinese_function_word_or_plain_noun_is_a_name() -> None:
    found = types(
        "但是他们昨天已经知道这个问题。因为时间关系，我们今天没有进行讨论。大家的工作情况很好，其中一些人非常高兴。",
        "zh",
    )
    assert found == {}


def test_variants_within_a_text_are_one_mention_with_all_its_places() -> None:
    text = (
        "Ingrid Halvorsen came first. I. Halvorsen stayed. Dr. Halvorsen spoke, and Halvorsen's boat left with Ingrid. "
        "They met the Port Merrow Harbour Trust. Later the Harbour Trust paid, and the Trust closed."
    )
    counts = {mention.name: mention.count for mention in find_phrases(text, "en")[0] if mention.type}
    assert counts == {"Ingrid Halvorsen": 5, "Port Merrow Harbour Trust": 3}


def test_a_surname_that_two_people_share_stays_apart() -> None:
    found = types("Adela Renwick and Tobias Renwick met in Bergen. Everyone knew that Renwick would not pay.")
    assert {"Adela Renwick", "Tobias Renwick", "Renwick"} <= set(found)


def test_a_heading_proves_no_name_but_a_sentence_does() -> None:
    found = types(
        "# Getting Started With Widgets\n\nWe went to see Mary Poppins in Bergen.\n\n## Known Issues\n\nNone so far."
    )
    assert {name for name, kind in found.items() if kind} == {"Mary Poppins", "Bergen"}


def test_code_addresses_and_markup_bring_no_names() -> None:
    text = (
        "See https://Example.org/Foo/Bar and mail Bob.Builder@Example.com.\n\n```python\nclass FooBar(BaseThing):\n"
        "    Return = Other.Thing\n```\n\nRun `pip install Nothing` in C:\\Windows\\System32 or /usr/Local/Share.\n\n"
        '<div class="Wide"><b>Alice Munro</b> wrote that.</div> CVE-2021-44228 and FOO_BAR_BAZ are fixed.\n'
    )
    assert set(types(text)) == {"Alice Munro"}


def test_licence_boilerplate_is_skipped() -> None:
    text = (
        'THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED. Permission is hereby '
        "granted to any Licensee of the Software to use the Derivative Works. In no event shall the Holders be liable."
    )
    assert types(text) == {}


def test_a_name_broken_over_two_wrapped_lines_is_one_name() -> None:
    text = "It was in the long cold winter of that year that Ingrid\nHalvorsen first saw the light under the water."
    assert types(text) == {"Ingrid Halvorsen": "PERSON"}


def test_the_description_is_the_sentence_that_says_what_the_thing_is() -> None:
    text = (
        "They knew Rhoda Ambler well. Rhoda Ambler, a civil engineer from Leeds, wrote the report. Rhoda Ambler left."
    )
    (mention,) = [mention for mention in find_phrases(text, "en")[0] if mention.name == "Rhoda Ambler"]
    assert mention.description == "Rhoda Ambler, a civil engineer from Leeds, wrote the report."


def test_a_long_description_is_cut_at_words_and_holds_the_name() -> None:
    text = (
        "It is well known to everyone "
        + "who has ever been there " * 20
        + "that Rhoda Ambler came "
        + "again and again " * 20
        + "."
    )
    (mention,) = [mention for mention in find_phrases(text, "en")[0] if mention.name == "Rhoda Ambler"]
    assert "Rhoda Ambler" in mention.description
    assert len(mention.description) <= 200
    assert set(mention.description.strip("…").split()) <= set(text.split())


def test_pairs_in_one_sentence_weigh_more_than_those_in_neighbouring_ones() -> None:
    text = "Alice Munro met Bob Dylan. Then Carol King came. Nothing happened then. David Bowie left."
    pairs = {(pair.source, pair.target): pair.count for pair in find_phrases(text, "en")[1]}
    assert pairs == {
        ("Alice Munro", "Bob Dylan"): 2,
        ("Alice Munro", "Carol King"): 1,
        ("Bob Dylan", "Carol King"): 1,
    }


def test_a_text_in_both_languages_is_read_in_both() -> None:
    found = types("We met Mary Poppins in Bergen.\n\n林芷若教授在北岭大学工作。\n")
    assert found == {"Mary Poppins": "PERSON", "Bergen": "GEO", "林芷若": "PERSON", "北岭大学": "ORGANIZATION"}


def test_results_travel_between_processes() -> None:
    found = find_phrases(ENGLISH, "en")
    assert pickle.loads(pickle.dumps(found)) == found


def test_results_are_bounded() -> None:
    text = " ".join(
        f"Here {first}{last} Smith{last} met Bob{first} Jones{last}." for first in "abcdefgh" for last in "ijklmnop"
    )
    text = text.title().replace("Here", "There").replace(" Met ", " met ")
    mentions, pairs = find_phrases(text * 20, "en")
    assert 0 < len(mentions) <= MAX_MENTIONS
    assert 0 < len(pairs) <= MAX_PAIRS


def test_the_same_text_gives_the_same_result_under_any_hash_seed() -> None:
    script = f"from graphmill.engine.phrases import find_phrases; print(find_phrases({(ENGLISH + CHINESE)!r}, 'en'))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ".", "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@given(
    st.text(alphabet=st.sampled_from("aAbZ林北大学·《》“”号 .,'’&()[]<>*_`/@#-\n1:é\x01\ud800"), max_size=300),
    st.sampled_from(["en", "zh", "ja"]),
)
@settings(max_examples=150, deadline=None)
def test_no_text_breaks_the_finder(text: str, language: str) -> None:
    mentions, pairs = find_phrases(text, language)
    names = [mention.name for mention in mentions]
    assert len(names) == len(set(names))
    assert all(name.strip() == name != "" and "\x01" not in name for name in names)
    assert all(pair.source < pair.target and pair.count > 0 for pair in pairs)
    assert {end for pair in pairs for end in pair[:2]} <= set(names)


LINES = {
    "one word": "a",
    "one word in capitals": "A",
    "capitals": "THE SOFTWARE ",
    "names": "Alice of the Trust and Bob & Smith's ",
    "minified JSON": '{"Name":"Foo Bar","v":[1,2,3]},',
    "quotes": '"Aa ',
    "emphasis": "*Aa b ",
    "links": "[Aa](",
    "tags": "<a ",
    "dots": "A.",
    "brackets": "Aa (",
    "Han": "林芷若",
    "sounds": "克瓦拉·",
    "titles": "《林",
}


@pytest.mark.parametrize("kind", LINES)
def test_one_long_line_of_anything_is_read_to_its_end_within_the_bounds(kind: str) -> None:
    # A quadratic step would take minutes and more.
    text = LINES[kind] * (80_000 // len(LINES[kind]))
    mentions, pairs = find_phrases(text, "zh" if kind in ("Han", "sounds", "titles") else "en")
    assert len(mentions) <= MAX_MENTIONS
    assert len(pairs) <= MAX_PAIRS
