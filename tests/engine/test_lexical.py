"""BM25 over words and CJK bigrams."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphmill.engine.lexical import LexicalIndex, bigrams


def test_bigrams_cut_every_cjk_run_and_leave_other_scripts_alone() -> None:
    assert bigrams("北岭大学 and 港") == "北岭 岭大 大学 港"
    assert bigrams("plain English") == ""


def test_words_match_by_stem_and_case_and_chinese_by_any_part_of_a_name(tmp_path: Path) -> None:
    index = LexicalIndex.build(tmp_path / "w", [["Foxes RUN home", "北岭大学的林芷若教授"], ["nothing here", "林芷若"]])
    assert index.search("a running fox", 10)[1].tolist() == [0]
    assert index.search("林芷若是谁？", 10)[1].tolist() == [3, 1]


def test_ties_go_to_the_lower_row_and_k_bounds_the_hits(tmp_path: Path) -> None:
    index = LexicalIndex.build(tmp_path / "w", [["harbour"] * 5])
    scores, rows = index.search("harbour", 3)
    assert rows.tolist() == [0, 1, 2]
    assert scores[0] == scores[2] > 0


@pytest.mark.parametrize("question", ["", "   ", "AND OR NOT", "the of", '"(+-~^*:[]{}\\/', "?!"])
def test_a_question_is_never_syntax_and_one_of_stop_words_matches_nothing(tmp_path: Path, question: str) -> None:
    index = LexicalIndex.build(tmp_path / "w", [["the harbour and the sea"]])
    assert index.search(question, 5)[1].tolist() == []


def test_half_a_character_of_a_question_is_left_out_of_the_search(tmp_path: Path) -> None:
    index = LexicalIndex.build(tmp_path / "w", [["the harbour"], ["林芷若"]])
    assert index.search("\ud83d harbour", 5)[1].tolist() == [0]
    assert index.search("林芷\ude00若", 5)[1].tolist() == [1]


def test_an_index_is_found_again_on_disk_and_an_empty_one_finds_nothing(tmp_path: Path) -> None:
    LexicalIndex.build(tmp_path / "w", [["salt"], ["iron"]])
    assert LexicalIndex.open(tmp_path / "w").search("iron", 5)[1].tolist() == [1]
    assert LexicalIndex.build(tmp_path / "e", []).search("iron", 5)[1].tolist() == []


def test_an_index_in_a_folder_that_cannot_be_written_to_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LexicalIndex.build(tmp_path / "words", [["the harbour", "the castle"]])
    before = sorted(file.name for file in (tmp_path / "words").iterdir())
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as for another user; root may write anywhere
    opened = LexicalIndex.open(tmp_path / "words")
    assert opened.search("castle", 2)[1].tolist() == [1]
    assert sorted(file.name for file in (tmp_path / "words").iterdir()) == before
