"""What in a model's text is a citation, in whatever form, and which brackets are the text's own."""

from __future__ import annotations

import pytest

from graphmill.engine.cite import cite, numbers_cited, only_citing
from graphmill.engine.contexts import Reference

REFERENCES = [Reference(n, "chunk", f"d{n}.txt", f"d{n}.txt", f"c{n}", 0, 9) for n in range(1, 9)]


@pytest.mark.parametrize(
    "text",
    [
        "The score lies in [0, 1], a[0] = 2 and a[9][1].",
        "In the years [2018] and [2021-2023], and [2018, 2019].",
        "From [1-100], [-1, 1], [1.5, 2], [5-3], [007], [12345678] and [99999].",
        "M = [[1, 2], [3, 4]], x = [1, 2], row_of[3], $[1]$ and \\[1\\].",
        "Between [1, 5], the interval [2, 3], 区间[1, 2], and in [1, 100].",
        "See [9](http://a.b) and [the page](http://c.d).",
        "[9]: http://a.b",
        "Code `a[1]` and\n```\n[2]\n```",
        "Code\n- ```py\n  a b [1]\n  ```\n```\n[2] ```\n[9]",
        "il y a[9], x[1] = 5, y = z[1], (a[1]), $x[1]$ and x_i[2].",
        "- [ ] one\n- [x] two [^note] [a] [references are few] (referencereference 3) (reference 99) (1) [8 days]",
    ],
)
def test_brackets_that_are_the_texts_own_are_left_as_they_are(text: str) -> None:
    assert cite(text, REFERENCES) == (text, [])


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Ada [reference 3].", "Ada [3]."),
        ("Ada [Reference 3, 4].", "Ada [3][4]."),
        ("Ada [ref. 2; ref. 3].", "Ada [2][3]."),
        ('Ada ["reference": 3] and [reference_id: 4].', "Ada [3] and [4]."),
        ("Ada [ref 999], [reference 0] and [reference 2018].", "Ada, and."),
        ("Ada [1, 2 and 3] and [1; 2].", "Ada [1][2][3] and [1][2]."),
        ("Ada [1 und 2] [3, et 4].", "Ada [1][2] [3][4]."),
        ("Ada【1†source】 and 【2†L3-L5】, not 【4:2†source】.", "Ada[1] and [2], not."),
        ("Ada [^1] [^2, ^3] [^9].", "Ada [1] [2][3]."),
        ("Ada ［1］ [１] [1、2] [参考编号 3] [来源：4]。", "Ada [1] [1] [1][2] [3] [4]。"),
        ("由她建立[1]。1888年[2]", "由她建立[1]。1888年[2]"),
        ("Founded in 1888[1][2], by the Trust[3] and Zoë's[99].", "Founded in 1888[1][2], by the Trust[3] and Zoë's."),
        ("Ada (reference 3)，见（参考3）。", "Ada [3]，见[3]。"),
        ("Ada [[1]] and [[99]].", "Ada [1] and."),
        ("Ada [1, 99] and [99][1].", "Ada [1] and [1]."),
        ("Ada [1](http://a.b) and [1, 1].", "Ada [1](http://a.b) and [1]."),
        (
            "10 m[1], 9 km/h[2], 5 g[3], 20 °c[4], 3 p.m[5], main.c[9]",
            "10 m[1], 9 km/h[2], 5 g[3], 20 °c[4], 3 p.m[5], main.c",
        ),
        ("5$[1],\n$E=mc^2$[2] and $E$[9].", "5$[1],\n$E=mc^2$[2] and $E$."),
        ("Vitamin c[1], il y a[2][9].", "Vitamin c[1], il y a[2]."),
        ("Write ``` to open code [1] [9].\n```\n[9]\n```\n[9]", "Write ``` to open code [1].\n```\n[9]\n```\n"),
        ("A line of ```[9]``` and `[9]` [9].", "A line of ```[9]``` and `[9]`."),
        ("Ada [1,2,\n3].", "Ada [1][2][3]."),
        ("As said in [1, 2], as said in [99].", "As said in [1][2], as said in."),
    ],
)
def test_citations_take_our_form_and_those_of_nothing_go(text: str, kept: str) -> None:
    answer, references = cite(text, REFERENCES)
    assert answer == kept
    assert {reference.number for reference in references} == numbers_cited([kept])


def test_a_number_above_999_is_a_citation_where_as_many_rows_were_shown() -> None:
    assert only_citing("Ada [1200], [1300], [2018].", range(1, 1251)) == "Ada [1200], [1300], [2018]."
    assert only_citing("Ada [1200], [1300], [2018].", [1, 2000, 3000]) == "Ada,,."
    assert cite("Ada [1200].", [Reference(1200, "chunk", "d", "d", "c", 0, 9)])[1]


def test_only_what_an_answer_cites_is_taken_from_it() -> None:
    answer, _ = cite("In [0, 1] since [2018] (a[0]) [reference 3][1].", REFERENCES)
    assert only_citing(answer, ()) == "In [0, 1] since [2018] (a[0])."
    assert numbers_cited([answer, "`[4]` [5-6] [0, 1]"]) == {1, 3, 5, 6, 2018}  # a row 2018 may have been shown
