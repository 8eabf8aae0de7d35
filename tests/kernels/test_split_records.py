from __future__ import annotations

import pyarrow as pa
import pytest

from graphmill.kernels.backend import Backend
from graphmill.kernels.split_records import FREE_TEXT, ROUGH, Shape, Split, split_records

SHAPES = [Shape(('"entity"', "entity"), ("name", "type", FREE_TEXT)), Shape(("link",), ("one", "other", "weight"))]


def split(texts: list[str], backend: Backend, separator: str = ")##(") -> Split:
    return split_records(pa.array(texts, pa.large_string()), separator, "##", "<|>", SHAPES, backend)


def test_texts_come_apart_into_records_of_each_shape(backend: Backend) -> None:
    found = split(["entity<|>A<|>t<|>one)##(link<|>A<|>B<|>7)##(entity<|>B<|>t<|>two", "link<|>B<|>A<|>7"], backend)
    assert found.well_formed.tolist() == [True, True]
    entities, links = found.records
    assert entities.to_pylist() == [
        {"text": 0, "place": 0, "name": "A", "type": "t", FREE_TEXT: "one", ROUGH: False},
        {"text": 0, "place": 2, "name": "B", "type": "t", FREE_TEXT: "two", ROUGH: False},
    ]
    assert links.to_pylist() == [
        {"text": 0, "place": 1, "one": "A", "other": "B", "weight": "7"},
        {"text": 1, "place": 0, "one": "B", "other": "A", "weight": "7"},
    ]
    assert links["weight"].combine_chunks().dictionary.to_pylist() == ["7"]


@pytest.mark.parametrize(
    "record",
    [
        "entity<|>A<|>t", "entity<|>A<|>t<|>x<|>y", "thing<|>A<|>t<|>x", "link<|>A<|>B", "", "entity", "<|>",
        "entity<|>A<|>t<|>a < b", "entity<|>A<|>t<|>a | b", "entity<|>A<|>t<|>a\nb", "entity<|>A<|>t<|>a\tb",
        "entity<|>A<|>t<|>a\x7fb", "entity<|>A<|>t<|>a｜b", "entity<|>A<|>t<|>a ## b", "entity<|>A<|>t<|>&lt;",
        "entity<|>A<|>t<|>&#38;", "entity<|>A (<|>t<|>x)", "entity<|>A<|>t<|>:)", "entity<|>A<|>t<|>((((x))))",
        "entity<|>A<|>t<|>（x", ")##(",
    ],
)  # fmt: skip
def test_a_text_with_one_odd_record_is_not_well_formed_and_its_neighbours_are(record: str, backend: Backend) -> None:
    good = "entity<|>G<|>t<|>x"
    for place in range(3):
        records = [good, good]
        records.insert(place, record)
        found = split([good, ")##(".join(records), f"{good})##({good}"], backend)
        assert found.well_formed.tolist() == [True, False, True]
        assert found.records[0]["text"].to_pylist() == [0, 2, 2]
        assert found.records[0]["place"].to_pylist() == [0, 0, 1]


def test_brackets_that_close_ampersands_and_signs_alone_are_text(backend: Backend) -> None:
    texts = ["a (b (c) d)", "（全角）(US)", "R&D and AT&T", "C# > B#", "x = &;", "é, 北京 and 🙂"]
    found = split([f"entity<|>A<|>t<|>{text}" for text in texts], backend)
    assert found.well_formed.all()
    assert found.records[0][FREE_TEXT].to_pylist() == texts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"), ('"quoted"', "quoted"), ('it is "so" here', 'it is "so" here'), ('"éa"', "éa"),
        ("6'2 tall", "6'2 tall"),
    ],
)  # fmt: skip
def test_quotes_round_a_free_text_go_where_nothing_else_is_to_be_seen_to(
    text: str, shown: str, backend: Backend
) -> None:
    found = split([f"entity<|>A<|>t<|>{text}"], backend)
    assert found.records[0][FREE_TEXT].to_pylist() == [shown]
    assert found.records[0][ROUGH].to_pylist() == [False]
    assert found.rough[0].to_pylist() == []


def test_free_texts_with_more_at_their_edges_are_told_and_given_as_they_are(backend: Backend) -> None:
    rough = [
        '"a" and "b"',
        '"',
        '""',
        "",
        " x",
        "x ",
        "'x'",
        '"half',
        'half"',
        "“x”",
        '" x"',
        '"“x”"',
        "an_id",
        "...",
        "[x",
        '"{x}"',
    ]
    texts = [f"entity<|>A<|>t<|>{text}" for text in ["fine", *rough]]
    found = split(texts, backend)
    assert found.well_formed.all()
    assert found.records[0][ROUGH].to_pylist() == [False] + [True] * len(rough)
    assert found.rough[0].to_pylist() == rough


def test_nothing_well_formed_leaves_empty_tables(backend: Backend) -> None:
    found = split(["nonsense", "x)##("], backend)
    assert not found.well_formed.any()
    assert [table.num_rows for table in found.records] == [0, 0]
    assert found.records[0].column_names == ["text", "place", "name", "type", FREE_TEXT, ROUGH]


def test_the_other_separator_splits_at_line_breaks(backend: Backend) -> None:
    found = split(["link<|>A<|>B<|>1)##\n(link<|>B<|>C<|>2", "link<|>A<|>B<|>1)\n(link<|>B<|>C<|>2"], backend, ")##\n(")
    assert found.well_formed.tolist() == [True, False]
