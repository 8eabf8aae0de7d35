"""Aliases: which pairs are asked about, what is made of the answers, and that people have the last word."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Scripted, WordTokenizer

from graphmill.engine.alias_candidates import candidate_pairs, gram_vectors, names_to_compare, neighbours
from graphmill.engine.alias_spelling import is_safe, is_within, similarity, spelling
from graphmill.engine.aliases import ALIAS_PAIRS, ALIASES, AliasesConfig, Found, find_aliases
from graphmill.engine.apply_aliases import apply_aliases, apply_to_claims, apply_to_weights
from graphmill.engine.config import ConfigError, load_config
from graphmill.engine.confirm_aliases import instructions, read_answers
from graphmill.engine.edit_aliases import edit_aliases, read_rows, write_rows
from graphmill.engine.extract import EXTRACTIONS
from graphmill.engine.extract_claims import CLAIMS
from graphmill.engine.fold_aliases import ALIAS_EDITS, fold_aliases
from graphmill.engine.function_models import HashingEmbedder
from graphmill.engine.models import Reply, Request
from graphmill.engine.names import name_key
from graphmill.engine.resolve import resolve
from graphmill.engine.weigh_phrases import WEIGHTS
from graphmill.kernels.backend import backend

THINGS = {
    "IBM": ("ORGANIZATION", "IBM makes computers in Armonk.", 5),
    "I.B.M.": ("COMPANY", "I.B.M. sold its laptops in 2005.", 2),
    "International Business Machines": ("ORGANIZATION", "A maker of computers from Armonk.", 1),
    "Alice Smith": ("PERSON", "Alice Smith runs the observatory.", 3),
    "Dr. Alice Smith": ("PERSON", "Dr. Alice Smith is an astronomer.", 1),
    "Alice Smythe": ("PERSON", "Alice Smythe sells fish.", 1),
    "Apollo 11": ("EVENT", "", 1),
    "Apollo 12": ("EVENT", "", 1),
    "Tide Table": ("CONCEPT", "", 1),
}
SAME = ({"IBM", "I.B.M.", "International Business Machines"}, {"Alice Smith", "Dr. Alice Smith"})
Pair = tuple[str, str]


def entities(things: dict[str, tuple[str, str, int]] | Iterable[str] = THINGS) -> pa.Table:
    if not isinstance(things, dict):
        things = dict.fromkeys(things, ("UNKNOWN", "", 1))
    return pa.table(
        {
            "key": [name_key(name) for name in things],
            "name": list(things),
            "type": [kind for kind, _, _ in things.values()],
            "descriptions": pa.array([[said] if said else [] for _, said, _ in things.values()], pa.list_(pa.string())),
            "num_chunks": pa.array([num for _, _, num in things.values()], pa.int32()),
        }
    )


def find(
    table: pa.Table, model: Scripted | None = None, known: dict[str, bool] | None = None, **settings_: Any
) -> Found:
    config = AliasesConfig(enabled=True, **settings_)
    languages = ["en"] * table.num_rows
    return find_aliases(table, languages, HashingEmbedder(32), model, WordTokenizer(), config, known)


def asked(request: Request) -> list[Pair]:
    """The pairs of names of a prompt, in its order."""
    lines = request.messages[0]["content"].splitlines()
    pairs = [json.loads(line) for line in lines if line.startswith('{"pair":')]
    assert [pair["pair"] for pair in pairs] == list(range(1, len(pairs) + 1))
    return [(pair["first"]["name"], pair["second"]["name"]) for pair in pairs]


def answers(pairs: list[Pair], same: Callable[[str, str], bool]) -> str:
    return json.dumps({"answers": [{"pair": n, "same": same(*pair)} for n, pair in enumerate(pairs, 1)]})


def is_same(one: str, other: str) -> bool:
    return any({one, other} <= group for group in SAME)


def knowing(same: Callable[[str, str], bool] = is_same, **options: Any) -> Scripted:
    return Scripted(lambda request: answers(asked(request), same), **options)


def judged(found: Found) -> dict[Pair, bool]:
    return {(row["name"], row["other_name"]): row["same"] for row in found.pairs.to_pylist()}


def fold(found: pa.Table, edits: pa.Table | None = None, names: Iterable[str] = THINGS) -> dict[str, str]:
    shown = {name_key(name): name for name in names}
    table = fold_aliases(found, ALIAS_EDITS.empty_table() if edits is None else edits, shown)
    return {row["name"]: row["same_as_name"] for row in table.to_pylist()}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I.B.M.", "IBM"),
        ("Smith, Alice", "Alice Smith"),
        ("Université de Montréal", "Universite de Montreal"),
        ("data base", "Database"),
        ("The Harbour Trust", "harbour trust"),
        ("O'Brien & Sons", "O’Brien and Sons"),
        ("Port-Merrow", "Port Merrow"),
        ("Port Merrow Harbour Trust", "Port Merrow Harbor Trust"),
    ],
)
def test_spellings_of_one_name_are_safe_to_take_for_one(one: str, other: str) -> None:
    assert similarity(one, other) >= AliasesConfig().threshold
    assert is_safe(spelling(one), spelling(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Second World War I", "The Second World War II"),
        ("Apollo 11", "Apollo 12"),
        ("Department of Inorganic Chemistry", "Department of Organic Chemistry"),
        ("C", "C++"),
        ("C++", "C#"),
        ("Python 3.1", "Python 31"),
        ("11 9 2001", "9 11 2001"),
        ("Henry VII of England", "Henry VIII of England"),
        ("Republic of Iran", "Republic of Iraq"),
        ("John A. Smith", "John B. Smith"),
        ("Alice Smith", "Dr. Alice Smith"),
        ("Harbour Trust", "Harbour Police"),
        ("Daniel Weber", "Daniela Weber"),
        ("Francis Underwood Foundation", "Frances Underwood Foundation"),
        ("北岭大学海洋学院", "北林大学海洋学院"),
    ],
)
def test_names_that_differ_by_what_matters_are_not_safe(one: str, other: str) -> None:
    assert not is_safe(spelling(one), spelling(other))


def test_a_slip_is_not_taken_for_one_in_the_name_of_a_person() -> None:
    one, other = spelling("Aleksandra Merrow"), spelling("Alexandra Merrow")
    assert not is_safe(one, other, may_slip=False)
    assert is_safe(spelling("Merrow, Alexandra"), other, may_slip=False)


def test_names_whose_numbers_contradict_do_not_meet_in_a_third() -> None:
    pairs = [("apollo", "apollo 11", 0.9), ("apollo", "apollo 12", 0.8)]
    found = pa.Table.from_pylist(
        [
            {
                "key": key, "other": other, "name": key, "other_name": other, "num_chunks": 9, "other_num_chunks": 1,
                "similarity": alike, "same": True, "source": "model", "asked": "",
            }
            for key, other, alike in pairs
        ],
        schema=ALIAS_PAIRS,
    )  # fmt: skip
    names = {key: key.title() for key in ("apollo", "apollo 11", "apollo 12")}
    table = fold_aliases(found, ALIAS_EDITS.empty_table(), names)
    assert [(row["key"], row["same_as"]) for row in table.to_pylist()] == [("apollo 11", "apollo")]


def test_a_name_within_another_is_seen_in_words_and_in_scripts_without_spaces() -> None:
    assert is_within(spelling("Dr. Alice Smith"), spelling("Alice Smith"))
    assert is_within(spelling("林芷若"), spelling("林芷若教授"))
    assert not is_within(spelling("Alice Smith"), spelling("Smith, Alice"))
    assert not is_within(spelling("Alic"), spelling("Alice Smith"))


@settings(deadline=None)
@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_similarity_is_symmetric_and_one_for_a_name_and_itself(one: str, other: str) -> None:
    assert similarity(one, other) == similarity(other, one)
    assert 0 <= similarity(one, other) <= 1
    assert similarity(one, one) == 1


def test_near_spellings_are_neighbours_among_many_names() -> None:
    generator = random.Random(3)
    words = ["".join(generator.choices("abcdefghijklmnoprstuvw", k=generator.randint(4, 9))) for _ in range(300)]
    names = [" ".join(generator.sample(words, 3)) for _ in range(1500)]
    misspelt = [name[:5] + name[6:] for name in names[:200]]
    near = neighbours(gram_vectors([spelling(name).sorted for name in names + misspelt]), 3)
    found = {(int(a), int(b)) for a, b in near}
    assert sum((1500 + row, row) in found for row in range(200)) >= 198


def test_the_names_of_one_thing_come_up_as_pairs_and_contradicting_numbers_do_not() -> None:
    model = knowing()
    pairs = {frozenset(pair) for pair in judged(find(entities(), model))}
    for group in SAME:
        first, *rest = sorted(group)
        assert all(frozenset({first, name}) in pairs for name in rest)
    assert frozenset({"Alice Smith", "Alice Smythe"}) in pairs
    assert frozenset({"Apollo 11", "Apollo 12"}) not in pairs
    assert not any("Tide Table" in pair for pair in pairs)


def test_what_the_model_confirms_is_folded_into_the_name_of_most_chunks() -> None:
    found = find(entities(), knowing())
    assert fold(found.pairs) == {
        "I.B.M.": "IBM",
        "International Business Machines": "IBM",
        "Dr. Alice Smith": "Alice Smith",
    }
    assert found.num_unread == 0
    assert set(found.pairs["source"].to_pylist()) == {"model"}


@settings(max_examples=15, deadline=None)
@given(st.permutations(list(THINGS)))
def test_nothing_depends_on_the_order_of_the_entities(order: list[str]) -> None:
    things = {name: THINGS[name] for name in order}
    for same in (is_same, None):
        found = find(entities(things), None if same is None else knowing(same))
        assert found.pairs.equals(find(entities(), None if same is None else knowing(same)).pairs)


def test_each_name_keeps_its_nearest_and_the_best_pairs_of_all_are_asked_about() -> None:
    names = [f"Gull Rock Light {word}" for word in "ash beech cedar elm fir hazel maple oak pine rowan".split()]
    compared = names_to_compare(names, ["UNKNOWN"] * 10, np.ones(10, np.int64), HashingEmbedder(32))
    few = candidate_pairs(compared, 0.5, 0.5, 1, 1000)
    many = candidate_pairs(compared, 0.5, 0.5, 9, 1000)
    assert len(few.one) <= 10 < len(many.one)
    assert set(np.concatenate([few.one, few.other]).tolist()) == set(range(10))
    best = candidate_pairs(compared, 0.5, 0.5, 9, 3)
    assert (len(best.one), best.num_left_out) == (3, len(many.one) - 3)
    assert best.similarity.min() >= np.sort(many.similarity)[-3]
    assert find(entities(names), knowing(), max_pairs=3).num_left_out > 0


def test_no_pairs_are_wanted_where_max_pairs_is_0() -> None:
    model = knowing()
    assert find(entities(), model, max_pairs=0).pairs.equals(ALIAS_PAIRS.empty_table())
    assert not model.requests


def test_names_in_a_language_that_the_embedder_does_not_know_are_compared_by_spelling_alone() -> None:
    embedder = HashingEmbedder(32)
    embedder.languages = frozenset({"en"})
    names = names_to_compare(["林芷若", "Oona Tarrant", "北岭大学"], ["UNKNOWN"] * 3, np.ones(3, np.int64), embedder)
    assert np.isnan(names.vectors[:, 0]).tolist() == [True, False, True]
    model = knowing(lambda one, other: True)
    found = find_aliases(
        entities(["林芷若", "林芷若教授", "Oona Tarrant"]),
        ["zh"] * 3,
        embedder,
        model,
        WordTokenizer(),
        AliasesConfig(),
    )
    assert list(judged(found)) == [("林芷若", "林芷若教授")]
    assert "知识图谱" in model.prompts()[0]


def test_pairs_go_to_the_model_in_batches_that_fit_its_context() -> None:
    names = [f"Gull Rock Light {word}" for word in "ash beech cedar elm fir hazel maple oak pine rowan".split()]
    said = dict.fromkeys(names, ("UNKNOWN", "It stands on the rock. " * 40, 1))
    wide, narrow = knowing(), knowing(context_tokens=2900)
    found = find(entities(said), wide, batch_size=7)
    sizes = [len(asked(request)) for request in wide.requests]
    assert sum(sizes) == found.pairs.num_rows
    assert max(sizes) == 7
    assert (
        find(entities(said), narrow, batch_size=7).pairs.drop_columns("asked").equals(found.pairs.drop_columns("asked"))
    )
    assert len(narrow.requests) >= len(wide.requests)
    tokens = WordTokenizer()
    for request, prompt in zip(narrow.requests, narrow.prompts(), strict=True):
        assert tokens.count([prompt])[0] + request.max_tokens <= 2900
    with pytest.raises(ValueError, match=r"lower aliases\.batch_size=20"):
        find(entities(), knowing(context_tokens=2000))


@pytest.mark.parametrize(
    "reply",
    [
        '{"answers":[{"pair":1,"same":true},{"pair":2,"same":false}]}',
        '```json\n{"answers": [{"pair": "1", "same": "yes"}, {"pair": 2, "same": "No."},]}\n```',
        '<think>{"pair":1,"same":false}</think>[{"pair":1,"same":true},{"pair":2,"same":false}]',
        '{"answers":{"1":true,"2":false}}',
        '{"answers":[{"pair":1,"same":"是"},{"pair":2,"same":"否"},{"pair":3,"same":true}]}',
        "{'answers': [{'pair': 1, 'same': True}, {'pair': 2, 'same': False}]}",
    ],
)
def test_answers_are_read_from_every_shape(reply: str) -> None:
    assert read_answers(reply, 2) == {1: True, 2: False}


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("", {}),
        ("All of them are the same.", {}),
        ('{"answers":[{"pair":1,"same":true},{"pair":2,"sa', {1: True}),
        ('{"answers":[{"pair":1,"same":true},{"pair":1,"same":false},{"pair":2,"same":true}]}', {2: True}),
        ('{"answers":[{"pair":1,"same":"perhaps"},{"pair":9,"same":true},{"pair":true,"same":true}]}', {}),
        ('{"answers":7}', {}),
    ],
)
def test_what_is_no_answer_is_not_read_as_one(reply: str, read: dict[int, bool]) -> None:
    assert read_answers(reply, 2) == read


def test_a_reply_that_cannot_be_read_is_asked_for_again_once() -> None:
    model = Scripted(lambda r: answers(asked(r), is_same) if len(r.messages) > 1 else "I think so.")
    found = find(entities(), model)
    assert (found.num_unread, len(fold(found.pairs))) == (0, 3)
    assert [len(request.messages) for request in model.requests] == [1, 3] * (len(model.requests) // 2)
    assert model.requests[1].messages[1]["content"] == "I think so."


def test_pairs_without_a_readable_answer_count_as_different_and_are_told() -> None:
    garbage = Scripted(lambda request: "I think so.")
    found = find(entities(), garbage)
    assert found.num_unread == found.pairs.num_rows > 0
    assert not any(found.pairs["same"].to_pylist())
    assert len(garbage.requests) == 2
    assert fold(found.pairs) == {}
    broken = Scripted(lambda request: None)
    assert find(entities(), broken).num_unread == found.num_unread
    assert len(broken.requests) == 1  # the server has tried again itself


def test_only_the_pairs_that_a_reply_left_open_are_asked_about_again() -> None:
    def partly(request: Request) -> str:
        pairs = asked(request)
        whole = json.loads(answers(pairs, is_same))["answers"]
        if len(request.messages) == 1:
            return json.dumps({"answers": whole[1:]})
        assert "1" in request.messages[2]["content"]
        assert "2" not in request.messages[2]["content"]
        return json.dumps({"answers": [whole[0]]})

    found = find(entities(), Scripted(partly))
    assert judged(found) == judged(find(entities(), knowing()))
    assert found.num_unread == 0


def test_the_same_question_is_not_asked_twice() -> None:
    found = find(entities(), knowing())
    known = {row["asked"]: row["same"] for row in found.pairs.to_pylist()}
    assert "" not in known
    again = knowing()
    assert find(entities(), again, known).pairs.equals(found.pairs)
    assert not again.requests
    changed = knowing()
    things = THINGS | {"Alice Smythe": ("PERSON", "Alice Smythe has left.", 1)}
    find(entities(things), changed, known)
    assert all("Alice Smythe" in pair for request in changed.requests for pair in asked(request))
    assert changed.requests


def test_no_name_is_folded_on_the_strength_of_a_chain() -> None:
    things = {
        "Oona Tarrant": ("PERSON", "a", 9),
        "Tarrant": ("PERSON", "b", 3),
        "Edwin Tarrant": ("PERSON", "c", 5),
    }
    direct = {frozenset({"Oona Tarrant", "Tarrant"}), frozenset({"Edwin Tarrant", "Tarrant"})}
    model = knowing(lambda one, other: frozenset({one, other}) in direct)
    found = find(entities(things), model, min_cosine=0.99, min_ratio=0.99)
    assert judged(found)["Edwin Tarrant", "Oona Tarrant"] is False  # asked, though no candidate by itself
    assert fold(found.pairs, names=things) == {"Tarrant": "Oona Tarrant"}
    trusting = find(entities(things), knowing(lambda one, other: True), min_cosine=0.99, min_ratio=0.99)
    assert fold(trusting.pairs, names=things) == {"Tarrant": "Oona Tarrant", "Edwin Tarrant": "Oona Tarrant"}


def test_without_a_model_only_names_that_are_all_but_equal_and_of_one_type_are_folded() -> None:
    things = {
        "IBM": ("ORGANIZATION", "", 3),
        "I.B.M.": ("ORGANIZATION", "", 1),
        "International Business Machines": ("ORGANIZATION", "", 1),
        "Port Merrow Harbour Trust": ("ORGANIZATION", "", 1),
        "Port Merrow Harbor Trust": ("UNKNOWN", "", 1),
        "Mercury": ("PLANET", "", 2),
        "mércury": ("GOD", "", 1),
        "Alice Smith": ("PERSON", "", 1),
        "Dr. Alice Smith": ("PERSON", "", 1),
    }
    found = find(entities(things))
    assert set(found.pairs["source"].to_pylist()) == {"threshold"}
    assert fold(found.pairs, names=things) == {
        "I.B.M.": "IBM",
        "Port Merrow Harbour Trust": "Port Merrow Harbor Trust",
    }
    strict = find(entities(things), threshold=1.0)
    assert fold(strict.pairs, names=things) == {"I.B.M.": "IBM"}


def pair_rows(pairs: Iterable[tuple[str, str, bool, float]], chunks: dict[str, int]) -> pa.Table:
    rows = [
        {
            "key": a, "other": b, "name": a, "other_name": b, "num_chunks": chunks[a], "other_num_chunks": chunks[b],
            "similarity": alike, "same": same, "source": "model", "asked": "",
        }
        for a, b, same, alike in pairs
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=ALIAS_PAIRS)


KEYS = "abcdefg"
SHOWN = {key: key.upper() for key in KEYS}
CHUNKS = {key: 1 + number % 3 for number, key in enumerate(KEYS)}
JUDGED = st.dictionaries(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)).filter(lambda pair: pair[0] < pair[1]),
    st.tuples(st.booleans(), st.sampled_from([0.7, 0.8, 0.9])),
).map(lambda found: [(a, b, same, alike) for (a, b), (same, alike) in found.items()])
WANTED = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("efgz"), max_size=4)
"""Rows of a table as a person may want it; z is no entity's key."""


@settings(deadline=None)
@given(JUDGED, st.randoms(use_true_random=False))
def test_folded_keys_were_judged_the_same_and_none_of_a_group_different(
    pairs: list[Any], shuffle: random.Random
) -> None:
    table = pair_rows(pairs, CHUNKS)
    aliases = fold_aliases(table, ALIAS_EDITS.empty_table(), SHOWN)
    rows = aliases.to_pylist()
    folded = {row["key"]: row["same_as"] for row in rows}
    said = {(a, b): same for a, b, same, _ in pairs}
    assert not folded.keys() & set(folded.values())
    assert list(folded) == sorted(folded)
    assert all(said[min(pair), max(pair)] for pair in folded.items())
    group = {key: folded.get(key, key) for key in KEYS}
    assert all(same or group[a] != group[b] for (a, b), same in said.items())
    assert all((-CHUNKS[end], end) < (-CHUNKS[key], key) for key, end in folded.items())
    order = list(range(table.num_rows))
    shuffle.shuffle(order)
    assert fold_aliases(table.take(pa.array(order, pa.int64())), ALIAS_EDITS.empty_table(), SHOWN).equals(aliases)


@settings(max_examples=50, deadline=None)
@given(JUDGED, WANTED, WANTED)
def test_people_get_just_the_table_they_ask_for_and_again_after_another_edit(
    pairs: list[Any], first: dict[str, str], second: dict[str, str]
) -> None:
    table = pair_rows(pairs, CHUNKS)
    edits = ALIAS_EDITS.empty_table()
    for wanted in (first, second, {}):
        edits = edit_aliases(wanted, table, edits, SHOWN)
        rows = fold_aliases(table, edits, SHOWN).to_pylist()
        there = {key: end for key, end in wanted.items() if end in SHOWN}
        got = {row["key"]: row["same_as"] for row in rows}
        # Two that wait for the same name may be one in the meantime.
        assert {key: end for key, end in got.items() if wanted.get(key) != "z" or wanted.get(end) != "z"} == there
        assert {row["source"] for row in rows} <= {"edited", "model"}
        assert edit_aliases(wanted, table, edits, SHOWN).equals(edits)


@settings(deadline=None)
@given(JUDGED)
def test_keeping_the_table_as_it_is_takes_no_edit(pairs: list[Any]) -> None:
    table = pair_rows(pairs, CHUNKS)
    rows = fold_aliases(table, ALIAS_EDITS.empty_table(), SHOWN).to_pylist()
    wanted = {row["key"]: row["same_as"] for row in rows}
    assert edit_aliases(wanted, table, ALIAS_EDITS.empty_table(), SHOWN).num_rows == 0


def test_what_people_took_apart_stays_apart_whatever_is_found_later() -> None:
    chunks = {"a": 3, "b": 2, "c": 1}
    before = pair_rows([("a", "b", True, 0.9)], chunks)
    edits = edit_aliases({}, before, ALIAS_EDITS.empty_table(), SHOWN)
    later = pair_rows([("a", "b", True, 0.9), ("a", "c", True, 0.8), ("b", "c", True, 0.9)], chunks)
    aliases = fold_aliases(later, edits, SHOWN)
    assert [(row["key"], row["same_as"]) for row in aliases.to_pylist()] == [("c", "a")]


def test_the_key_that_people_chose_is_the_one_that_others_are_folded_into() -> None:
    pairs = pair_rows([("a", "b", True, 0.9), ("b", "c", True, 0.8)], {"a": 9, "b": 5, "c": 1})
    edits = edit_aliases({"a": "b"}, pairs, ALIAS_EDITS.empty_table(), SHOWN)
    rows = fold_aliases(pairs, edits, SHOWN).to_pylist()
    assert [(row["key"], row["same_as"], row["source"]) for row in rows] == [("a", "b", "edited")]
    edits = edit_aliases({"a": "b", "c": "b"}, pairs, edits, SHOWN)
    assert fold_aliases(pairs, edits, SHOWN)["source"].to_pylist() == ["edited", "model"]


def test_a_row_for_a_name_that_is_not_there_waits_for_it() -> None:
    none = pair_rows([], CHUNKS)
    edits = edit_aliases({"a": "z"}, none, ALIAS_EDITS.empty_table(), SHOWN)
    assert fold_aliases(none, edits, SHOWN).num_rows == 0
    edits = edit_aliases({"b": "c"}, none, edits, SHOWN)
    assert fold_aliases(none, edits, SHOWN | {"z": "Z"})["key"].to_pylist() == ["a", "b"]


def test_rows_that_go_round_in_a_circle_are_refused() -> None:
    with pytest.raises(ValueError, match="each is to be folded into the other: a, b, c"):
        edit_aliases({"a": "b", "b": "c", "c": "a"}, pair_rows([], CHUNKS), ALIAS_EDITS.empty_table(), SHOWN)


def test_a_file_for_people_gives_the_rows_back_that_were_written(tmp_path: Path) -> None:
    found = find(entities(), knowing())
    shown = {name_key(name): name for name in THINGS}
    aliases = fold_aliases(found.pairs, ALIAS_EDITS.empty_table(), shown)
    file = tmp_path / "aliases.csv"
    write_rows(aliases, file)
    rows = read_rows(file, shown)
    assert rows == dict(zip(aliases["key"].to_pylist(), aliases["same_as"].to_pylist(), strict=True))
    file.write_text(file.read_text("utf-8-sig").replace(",", ";"), "utf-8")
    assert read_rows(file, shown) == rows
    with pytest.raises(FileExistsError):
        write_rows(aliases, file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,other\nA,B\n", "must have the columns name and same_as in its first line, and lacks same_as"),
        ("", "lacks name"),
        ("name,same_as\nA,\n", "line 2: name and same_as must both be filled in, got 'A' and ''"),
        ("name,same_as\nA,B\n\na,“A”\n", "line 4: 'a' and '“A”' are one name as it is"),
        ("name,same_as\nA,B\na,C\n", "line 3: 'a' can be the same as one name only"),
        ("name,same_as\nA,B\nB,A\n", "each is to be folded into the other"),
    ],
)
def test_a_file_with_rows_that_cannot_be_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "aliases.csv"
    file.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"aliases\.csv") as error:
        read_rows(file, {"a": "A", "b": "B", "c": "C"})
    assert message in str(error.value)


def record(text: str, number: int, name: str, target: str = "", kind: str = "PERSON") -> dict[str, Any]:
    return {
        "text_id": text, "record": number, "kind": "relationship" if target else "entity", "name": name,
        "key": name_key(name), "type": "" if target else kind, "target": target, "target_key": name_key(target),
        "description": f"{name} {target}", "keywords": [], "strength": 1.0,
    }  # fmt: skip


def aliases_of(folded: dict[str, str]) -> pa.Table:
    rows = [
        {
            "key": name_key(name), "same_as": name_key(end), "name": name, "same_as_name": end, "similarity": 1.0,
            "source": "model",
        }
        for name, end in sorted(folded.items())
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=ALIASES)


READ = [
    record("x", 0, "IBM", kind="ORGANIZATION"), record("x", 1, "Ada"), record("x", 2, "IBM", "Ada"),
    record("y", 0, "I.B.M.", kind="COMPANY"), record("y", 1, "Bob"), record("y", 2, "Bob", "I.B.M."),
    record("y", 3, "I.B.M.", "IBM"), record("z", 0, "Ada", "I.B.M."), record("z", 1, "I.B.M.", kind="ORGANIZATION"),
]  # fmt: skip
TEXTS = pa.table({"chunk_id": ["x", "y", "z"], "text_id": ["x", "y", "z"]})


def test_folded_records_are_one_entity_under_the_name_they_are_folded_into() -> None:
    read = pa.Table.from_pylist(READ, schema=EXTRACTIONS)
    aliases = aliases_of({"I.B.M.": "IBM"})
    found = apply_aliases(read, aliases)
    assert found.schema.equals(read.schema)
    assert found.num_rows == read.num_rows - 1  # IBM and I.B.M. were related
    graph = resolve(found, TEXTS, backend("cpu"))
    rows = {row["name"]: row for row in graph.entities.to_pylist()}
    assert rows.keys() == {"IBM", "Ada", "Bob"}
    assert (rows["IBM"]["key"], rows["IBM"]["type"], rows["IBM"]["num_chunks"]) == ("ibm", "ORGANIZATION", 3)
    weights = {(row["source"], row["target"]): row["weight"] for row in graph.relationships.to_pylist()}
    assert weights == {("Ada", "IBM"): 2.0, ("Bob", "IBM"): 1.0}
    by_hand = [
        record(r["text_id"], r["record"], *(r[n].replace("I.B.M.", "IBM") for n in ("name", "target")), r["type"])
        | {"description": r["description"]}
        for r in READ
        if r["record"] != 3
    ]
    same = resolve(pa.Table.from_pylist(by_hand, schema=EXTRACTIONS), TEXTS, backend("cpu"))
    assert graph.entities.equals(same.entities)
    assert graph.relationships.equals(same.relationships)


@settings(max_examples=30, deadline=None)
@given(st.permutations(READ), st.sampled_from([{}, {"I.B.M.": "IBM"}, {"IBM": "I.B.M.", "Bob": "Ada"}]))
def test_applying_aliases_twice_changes_nothing_and_order_does_not_matter(
    rows: list[dict[str, Any]], folded: dict[str, str]
) -> None:
    aliases = aliases_of(folded)
    once = apply_aliases(pa.Table.from_pylist(rows, schema=EXTRACTIONS), aliases)
    assert apply_aliases(once, aliases).equals(once)
    straight = apply_aliases(pa.Table.from_pylist(READ, schema=EXTRACTIONS), aliases)
    one, two = resolve(once, TEXTS, backend("cpu")), resolve(straight, TEXTS, backend("cpu"))
    assert one.entities.equals(two.entities)
    assert one.relationships.equals(two.relationships)


def test_weights_and_claims_follow_their_keys() -> None:
    aliases = aliases_of({"I.B.M.": "IBM", "Abe": "Zoe"})
    pairs = [("abe", "bob", 0.3), ("ada", "i.b.m.", 0.4), ("ada", "ibm", 0.5), ("i.b.m.", "ibm", 0.9)]
    weights = pa.Table.from_pylist([dict(zip(WEIGHTS.names, pair, strict=True)) for pair in pairs], schema=WEIGHTS)
    folded = apply_to_weights(weights, aliases)
    assert folded is not None
    assert [tuple(row.values()) for row in folded.to_pylist()] == [("ada", "ibm", 0.5), ("bob", "zoe", 0.3)]
    assert apply_to_weights(None, aliases) is None
    claim = dict.fromkeys(CLAIMS.names, "") | {"subject": "I.B.M.", "subject_key": "i.b.m.", "object_key": "ada"}
    (row,) = apply_to_claims(pa.Table.from_pylist([claim], schema=CLAIMS), aliases).to_pylist()
    assert (row["subject"], row["subject_key"], row["object_key"]) == ("I.B.M.", "ibm", "ada")


@pytest.mark.parametrize("language", ["en", "zh", "fr"])
def test_the_prompts_ask_for_a_reply_that_is_read_as_meant(language: str) -> None:
    text = instructions("aliases", language)
    example = next(line for line in text.splitlines() if line.startswith('{"answers"'))
    assert read_answers(example, 2) == {1: True, 2: False}
    assert text.rstrip().endswith("{pairs}")
    assert ("知识图谱" in text) == (language == "zh")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("min_cosine = 0\n", r"aliases.min_cosine must be in \(0, 1\], got 0"),
        ("min_ratio = 1.5\n", r"aliases.min_ratio must be in \(0, 1\], got 1.5"),
        ("threshold = nan\n", r"aliases.threshold must be in \(0, 1\], got nan"),
        ("max_per_entity = 0\n", "aliases.max_per_entity must be at least 1, got 0"),
        ("max_pairs = -1\n", "aliases.max_pairs must be at least 0, got -1"),
        ("batch_size = 0\n", "aliases.batch_size must be at least 1, got 0"),
        ("enabld = true\n", "unknown setting aliases.enabld; did you mean aliases.enabled?"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, toml: str, message: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[aliases]\n" + toml)
    with pytest.raises(ConfigError, match=message):
        load_config(file)


def test_a_reply_that_was_cut_off_keeps_what_it_holds() -> None:
    def cut(request: Request) -> Reply:
        text = answers(asked(request), is_same)
        return Reply(request.id, text[:-2] if len(request.messages) == 1 else "", "length")

    found = find(entities(), Scripted(cut))
    assert found.num_unread == 0
    assert judged(found) == judged(find(entities(), knowing()))
