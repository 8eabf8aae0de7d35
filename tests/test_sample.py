from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import graphmill

SAMPLE = Path(graphmill.__file__).parent / "sample"
CORPUS = SAMPLE / "corpus"


def records(path: Path) -> list[str]:
    """The texts of a file as the engine reads them: one a record in jsonl and csv, else one a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in text.splitlines()]
    elif path.suffix == ".csv":
        rows = list(csv.DictReader(text.splitlines()))
    else:
        return [text]
    return [row["text"] for row in rows]


def files() -> list[Path]:
    return sorted(path for path in CORPUS.rglob("*") if path.is_file())


def questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SAMPLE / "questions.jsonl").read_text(encoding="utf-8").splitlines()]


def is_chinese(text: str) -> bool:
    return len(re.findall(r"[\u4e00-\u9fff]", text)) > len(text) / 2


def folded(document: str) -> str:
    return "\n".join(records(CORPUS / document)).casefold()


def test_every_fact_of_a_question_occurs_in_a_document_it_names() -> None:
    missing = [
        (question["id"], fact)
        for question in questions()
        for fact in question["facts"]
        if not any(alternative.casefold() in folded(doc) for alternative in fact for doc in question["documents"])
    ]
    assert missing == []


def test_every_document_a_question_names_holds_one_of_its_facts() -> None:
    idle = [
        (question["id"], doc)
        for question in questions()
        for doc in question["documents"]
        if not any(alternative.casefold() in folded(doc) for fact in question["facts"] for alternative in fact)
    ]
    assert idle == []


def test_no_fact_is_given_away_by_the_whole_corpus() -> None:
    """A fact found in nearly every document would be retrieved by chance."""
    texts = [text.casefold() for path in files() for text in records(path)]
    for question in questions():
        for fact in question["facts"]:
            holders = sum(any(alternative.casefold() in text for alternative in fact) for text in texts)
            assert holders < len(texts) / 2, (question["id"], fact, holders)


def test_questions_have_distinct_ids_and_known_modes_and_languages() -> None:
    rows = questions()
    assert len({row["id"] for row in rows}) == len(rows)
    assert {row["mode_hint"] for row in rows} == {"naive", "local", "global"}
    assert sum(row["language"] == "en" for row in rows) >= 16
    assert sum(row["language"] == "zh" for row in rows) >= 8
    assert all(is_chinese(row["question"]) == (row["language"] == "zh") for row in rows)


def test_the_corpus_holds_at_least_forty_documents_in_both_languages_and_four_formats() -> None:
    texts = [text for path in files() for text in records(path)]
    chinese = sum(map(is_chinese, texts))
    assert len(texts) >= 40
    assert chinese >= 12
    assert len(texts) - chinese >= 28
    assert {path.suffix for path in files()} == {".txt", ".md", ".jsonl", ".csv"}


def test_documents_are_distinct_and_record_ids_are_unique() -> None:
    texts = [text for path in files() for text in records(path)]
    assert len(set(texts)) == len(texts)
    lines = (CORPUS / "records" / "courier-notices.jsonl").read_text(encoding="utf-8").splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    assert len(set(ids)) == len(ids)
