"""Phrases over a corpus: variants, junk, types; and that order doesn't matter."""

from __future__ import annotations

import random

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.engine.names import name_key
from graphmill.engine.phrases import find_phrases
from graphmill.engine.phrases_corpus import Settled, fold_variants, rank_phrases, settle
from graphmill.engine.phrases_fold import fold_names

Row = tuple[str, str, str, int]


def frame(rows: list[Row]) -> pd.DataFrame:
    """Rows of (document, name, type, count); each document is one text."""
    return pd.DataFrame(
        [(document, document, name_key(name), name, kind, count) for document, name, kind, count in rows],
        columns=["text_id", "document_id", "key", "name", "type", "count"],
    )


def folded(rows: list[Row]) -> dict[tuple[str, str], str]:
    result = fold_variants(frame(rows)[["document_id", "key", "type", "count"]])
    return {(document, key): canonical for document, key, canonical in result.itertuples(index=False, name=None)}


def read(documents: dict[str, tuple[str, str]], **options: int) -> Settled:
    mentions, pairs = [], []
    for document, (language, text) in documents.items():
        found, together = find_phrases(text, language)
        mentions += [(document, document, name_key(m.name), m.name, m.type, m.count) for m in found]
        pairs += [(document, name_key(p.source), name_key(p.target), p.count) for p in together]
    return settle(
        pd.DataFrame(mentions, columns=["text_id", "document_id", "key", "name", "type", "count"]),
        pd.DataFrame(pairs, columns=["text_id", "source_key", "target_key", "count"]),
        **options,
    )


def test_a_surname_goes_to_the_full_name_in_its_document_and_else_to_the_only_one_in_the_corpus() -> None:
    found = folded(
        [
            ("a", "Adela Renwick", "PERSON", 2),
            ("a", "Renwick", "CONCEPT", 1),
            ("b", "Tobias Renwick", "PERSON", 2),
            ("b", "Renwick", "CONCEPT", 1),
            ("c", "Renwick", "CONCEPT", 1),
            ("c", "Halvorsen", "PERSON", 1),
            ("d", "Ingrid Halvorsen", "PERSON", 1),
        ]
    )
    assert found == {
        ("a", "renwick"): "adela renwick",
        ("b", "renwick"): "tobias renwick",
        ("c", "halvorsen"): "ingrid halvorsen",
    }


def test_titles_articles_initials_plurals_and_legal_forms_are_dropped() -> None:
    rows: list[Row] = [
        ("a", "Dr. Ingrid Halvorsen", "PERSON", 1),
        ("a", "Ingrid Halvorsen", "PERSON", 1),
        ("a", "I. Halvorsen", "PERSON", 1),
        ("a", "The Kvarra Courier", "ORGANIZATION", 1),
        ("a", "Kvarra Courier", "ORGANIZATION", 1),
        ("a", "language models", "CONCEPT", 1),
        ("a", "language model", "CONCEPT", 1),
        ("a", "Sound Futures", "CONCEPT", 1),
        ("a", "Sound Futures Ltd", "ORGANIZATION", 1),
    ]
    assert {key: canonical for (_, key), canonical in folded(rows).items()} == {
        "dr. ingrid halvorsen": "ingrid halvorsen",
        "i. halvorsen": "ingrid halvorsen",
        "the kvarra courier": "kvarra courier",
        "language models": "language model",
        "sound futures": "sound futures ltd",
    }


def test_an_acronym_goes_to_its_long_form_in_every_document() -> None:
    rows: list[Row] = [
        ("a", "Kvarra Marine Institute (KMI)", "ORGANIZATION", 3),
        ("b", "KMI", "ORGANIZATION", 2),
        ("c", "Kvarra Marine Institute", "ORGANIZATION", 1),
    ]
    assert set(folded(rows).values()) == {"kvarra marine institute"}
    assert len(folded(rows)) == 2


def test_an_acronym_of_two_things_is_left_alone_where_neither_is_introduced() -> None:
    rows: list[Row] = [
        ("a", "Port Merrow Council (PMC)", "ORGANIZATION", 3),
        ("a", "PMC", "ORGANIZATION", 1),
        ("b", "Private Military Company (PMC)", "ORGANIZATION", 2),
        ("c", "PMC", "ORGANIZATION", 1),
    ]
    found = folded(rows)
    assert found["a", "pmc"] == "port merrow council"
    assert ("c", "pmc") not in found


def test_a_name_in_two_scripts_is_one_thing_in_every_document() -> None:
    rows: list[Row] = [
        ("a", "Lin Zhiruo (林芷若)", "PERSON", 1),
        ("b", "林芷若", "PERSON", 5),
        ("b", "林教授", "PERSON", 1),
        ("c", "Lin Zhiruo", "PERSON", 2),
        ("c", "Lin", "CONCEPT", 2),
    ]
    assert set(folded(rows).values()) == {"林芷若"}
    assert len(folded(rows)) == 4


def test_chinese_short_forms_go_to_the_long_form_of_their_document() -> None:
    rows: list[Row] = [
        ("a", "北岭大学海洋学院", "ORGANIZATION", 2),
        ("a", "海洋学院", "ORGANIZATION", 1),
        ("a", "学院", "", 1),
        ("b", "学院", "", 1),
        ("b", "沧屿航运股份有限公司", "ORGANIZATION", 1),
        ("b", "沧屿航运", "ORGANIZATION", 1),
    ]
    assert folded(rows) == {
        ("a", "海洋学院"): "北岭大学海洋学院",
        ("a", "学院"): "北岭大学海洋学院",
        ("b", "沧屿航运"): "沧屿航运股份有限公司",
    }


NAMES = [
    *("Ada Lovelace", "Lovelace", "Ada", "A. Lovelace", "Dr. Lovelace", "Ada Byron", "Byron"),
    *("Analytical Society (AS)", "AS", "Analytical Society", "the Society", "Society"),
    *("林芷若", "林教授", "Lin Zhiruo (林芷若)", "engines", "engine"),
]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(NAMES),
        st.sampled_from(["PERSON", "ORGANIZATION", "CONCEPT", ""]),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=40,
)


@given(rows=ROWS, seed=st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_folding_and_ranking_do_not_depend_on_the_order_of_rows(rows: list[Row], seed: random.Random) -> None:
    shuffled = list(rows)
    seed.shuffle(shuffled)
    assert folded(rows) == folded(shuffled)
    pd.testing.assert_frame_equal(rank_phrases(frame(rows), 3), rank_phrases(frame(shuffled), 3))


@given(rows=ROWS)
@settings(max_examples=80, deadline=None)
def test_a_canonical_key_is_not_folded_any_further(rows: list[Row]) -> None:
    kinds = {name_key(name): (kind, count) for _, name, kind, count in rows}
    step = fold_names(kinds)
    assert not set(step) & set(step.values())


def test_junk_is_left_out() -> None:
    rows: list[Row] = [
        ("a", "Ingrid Halvorsen", "PERSON", 1),
        ("a", "Installation", "", 3),  # only in headings
        ("a", "steepest loss", "CONCEPT", 1),  # once
        ("a", "lantern kelp", "CONCEPT", 1),
        ("b", "lantern kelp", "CONCEPT", 1),
        ("a", "Widget", "CONCEPT", 2),  # a common noun, as three other texts show
        ("b", "widget", "CONCEPT", 3),
        ("c", "widget", "CONCEPT", 3),
        ("d", "widget frame", "CONCEPT", 2),
    ]
    kept = rank_phrases(frame(rows), 4)
    assert list(kept["name"]) == ["Ingrid Halvorsen", "lantern kelp", "widget frame"]


def test_what_stands_everywhere_tells_nothing_in_a_large_corpus() -> None:
    rows: list[Row] = [(f"d{at}", "user guide", "CONCEPT", 1) for at in range(600)]
    rows += [(f"d{at}", "lantern kelp", "CONCEPT", 1) for at in range(30)]
    assert list(rank_phrases(frame(rows), 600)["key"]) == ["lantern kelp"]


def test_the_type_is_the_corpus_majority_and_a_guess_yields_to_knowledge() -> None:
    rows: list[Row] = [
        ("a", "Ansby", "CONCEPT", 5),
        ("b", "Ansby", "GEO", 2),
        ("c", "Ansby", "PERSON", 1),
        ("a", "Kvarra Islands", "GEO", 1),
        ("a", "Kvarra", "CONCEPT", 2),
        ("b", "Kvarra", "CONCEPT", 2),
        ("a", "Merrow Gateway Ltd", "PERSON", 2),
    ]
    kinds = rank_phrases(frame(rows), 3).set_index("name")["type"].to_dict()
    assert kinds == {"Ansby": "GEO", "Kvarra": "GEO", "Kvarra Islands": "GEO", "Merrow Gateway Ltd": "ORGANIZATION"}


DOCUMENTS = {
    "1.txt": (
        "en",
        "Ingrid Halvorsen is a marine biologist. In Bergen Halvorsen met Lin Zhiruo (林芷若). They found lantern kelp.",
    ),
    "2.txt": (
        "zh",
        "林芷若教授与英格丽·哈尔沃森（Ingrid Halvorsen）在北岭大学合作。林教授说，灯笼海带会发光。",
    ),
    "3.txt": (
        "en",
        "The Port Merrow Harbour Trust paid Piet Darroch. Later the Trust moved to Ansby. Lantern kelp grows in Ansby.",
    ),
    "4.txt": (
        "en",
        "Dr. Halvorsen wrote to the Harbour Trust at Port Merrow. Nobody in Ansby replied.",
    ),
}


def test_a_small_corpus_in_two_languages_comes_out_as_one_graph() -> None:
    settled = read(DOCUMENTS)
    entities = settled.entities.set_index("name")
    assert entities.loc["Ingrid Halvorsen", ["type", "num_texts"]].tolist() == ["PERSON", 3]
    assert entities.loc["林芷若" if "林芷若" in entities.index else "Lin Zhiruo", "num_texts"] == 2
    assert entities.loc["Port Merrow Harbour Trust", ["type", "num_texts"]].tolist() == ["ORGANIZATION", 2]
    assert entities.loc["Ansby", "type"] == "GEO"
    assert "Trust" not in entities.index
    ends = set(settled.pairs["source"]) | set(settled.pairs["target"])
    assert ends <= set(settled.entities["key"])
    assert (settled.pairs["source"] < settled.pairs["target"]).all()
    assert not settled.mentions.duplicated(["text_id", "key"]).any()


def test_the_graph_does_not_depend_on_the_order_of_documents() -> None:
    one, other = read(DOCUMENTS), read(dict(reversed(DOCUMENTS.items())))
    pd.testing.assert_frame_equal(one.entities, other.entities)
    pd.testing.assert_frame_equal(one.pairs, other.pairs)
    pd.testing.assert_frame_equal(one.mentions, other.mentions)


def test_many_names_are_folded_without_comparing_each_with_each() -> None:
    kinds = ("PERSON", "ORGANIZATION", "CONCEPT", "")
    rows = {f"given{at % 97} name{at} of surname{at % 1009}": (kinds[at % 4], 1) for at in range(50_000)}
    rows |= {f"surname{at}": ("CONCEPT", 1) for at in range(1009)}
    folded = fold_names(rows)
    assert set(folded.values()) <= rows.keys()
