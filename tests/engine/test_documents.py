"""Documents come from any file in the order of their paths; what gives none is a row with a reason."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.engine import read_records
from graphmill.engine.decode_text import NotTextError, clean, decode
from graphmill.engine.documents import (
    DOCUMENTS,
    SKIPPED,
    Document,
    Reason,
    Skipped,
    corpus_fingerprint,
    document_batches,
    from_iterable,
    read_corpus,
)
from graphmill.engine.ids import content_id

NOW = datetime(2024, 5, 6, 7, 8, 9, 999, UTC)
TEXTS = {
    "zh": "资料显示，上海市是中国的经济中心。许多公司在这里设立总部，包括银行和科技企业。\n",
    "ja": "東京は日本の首都であり、多くの会社がここに本社を置いています。ひらがなとカタカナ。\n",
    "ko": "서울은 대한민국의 수도이며 많은 회사가 이곳에 본사를 두고 있습니다.\n",
    "fr": "L'été dernier, le café où nous étions a fermé. Ça m'a étonné, « déjà » ?\n",
    "ru": "Москва является столицей России, и многие компании находятся здесь.\n",
    "en": "Plain “quoted” text – with dashes…\n",
}


def read(path: Path, **options: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Texts by path, and reasons by path."""
    items = list(read_corpus(path, **options))
    assert len({item.path for item in items}) == len(items)
    assert all(item.reason in get_args(Reason) for item in items if isinstance(item, Skipped))
    return (
        {item.path: item.text for item in items if isinstance(item, Document)},
        {item.path: item.reason for item in items if isinstance(item, Skipped)},
    )


def detail(path: Path, **options: Any) -> str:
    (item,) = read_corpus(path, **options)
    assert isinstance(item, Skipped)
    return item.detail


def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.md", "a-b/c.rst", "a/b/deep.txt", "README", "a.txt", "ä.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}", "utf-8")
    texts, skipped = read(tmp_path)
    assert list(texts) == ["README", "a-b/c.rst", "a.txt", "a/b/deep.txt", "a/z.md", "b.txt", "ä.txt"]
    assert texts["a/b/deep.txt"] == "text of a/b/deep.txt"
    assert not skipped


def test_one_file_is_a_corpus_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text", "utf-8")
    assert list(read_corpus(tmp_path / "a.txt")) == [Document("a.txt", "text", "a.txt")]
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        read_corpus(tmp_path / "b.txt")


def test_hidden_files_and_indexes_are_passed_over(tmp_path: Path) -> None:
    for name in (".git/config.txt", ".notes.md", "kb/documents/0.txt", "old/documents/0.txt", "a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text", "utf-8")
    for name in ("old/manifest.json", "old/.lock"):
        (tmp_path / name).write_text("{}", "utf-8")
    assert read(tmp_path, exclude=[tmp_path / "kb"]) == ({"a.txt": "text"}, {})


def test_links_in_a_ring_are_all_that_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to("b.txt")
    (tmp_path / "b.txt").symlink_to("a.txt")
    (tmp_path / "c.txt").write_text("text")
    items = list(read_corpus(tmp_path))
    assert [(item.path, isinstance(item, Document)) for item in items] == [
        ("a.txt", False), ("b.txt", False), ("c.txt", True)
    ]  # fmt: skip


def test_linked_folders_end_and_are_read_once(tmp_path: Path) -> None:
    corpus, elsewhere = tmp_path / "corpus", tmp_path / "elsewhere"
    (corpus / "a").mkdir(parents=True)
    elsewhere.mkdir()
    (corpus / "a" / "x.txt").write_text("x", "utf-8")
    (elsewhere / "y.txt").write_text("y", "utf-8")
    (corpus / "a" / "up").symlink_to(corpus)
    (corpus / "again").symlink_to(corpus / "a")
    (corpus / "out").symlink_to(elsewhere)
    (corpus / "out2").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(elsewhere)
    (corpus / "gone.txt").symlink_to(tmp_path / "nothing")
    texts, skipped = read(corpus)
    assert texts == {"a/x.txt": "x", "out/y.txt": "y"}
    assert skipped == {
        "a/up": "link", "again": "link", "gone.txt": "unreadable", "out/back": "link", "out2": "link"
    }  # fmt: skip


def test_what_is_no_text_is_skipped_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "blank.txt").write_text(" \n\u200b\ufeff", "utf-8")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "image.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    (tmp_path / "program").write_bytes(b"\x7fELF" + bytes(500))
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.7")
    (tmp_path / "paper.txt").write_bytes(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(os.urandom(5000))[:-2000])
    (tmp_path / "no.txt.gz").write_bytes(b"not gzip")
    os.mkfifo(tmp_path / "pipe.txt")
    texts, skipped = read(tmp_path)
    assert not texts
    assert skipped == {
        "blank.txt": "empty", "empty": "empty", "image.txt": "binary", "program": "binary", "paper.pdf": "unsupported",
        "paper.txt": "binary", "cut.txt.gz": "unreadable", "no.txt.gz": "unreadable", "pipe.txt": "unsupported",
    }  # fmt: skip


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text", "utf-8")
    (tmp_path / "a.txt").chmod(0)
    assert read(tmp_path) == ({}, {"a.txt": "unreadable"})


def test_text_is_found_in_gzip_and_under_names_without_a_suffix(tmp_path: Path) -> None:
    for name in ("changelog.gz", "changelog.Debian.gz", "notes.md.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"text"))
    for name in ("LICENSE", "LICENSE-2.0", "README.Debian", "notes.MD"):
        (tmp_path / name).write_text("text", "utf-8")
    texts, skipped = read(tmp_path)
    assert len(texts) == 7
    assert not skipped


def test_a_text_over_the_limit_is_skipped_even_when_it_is_compressed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 101, "utf-8")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"x" * 1_000_000))
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": "x" * 101}) + '\n{"text": "short"}\n', "utf-8")
    (tmp_path / "d.txt").write_text("x" * 100, "utf-8")
    texts, skipped = read(tmp_path, max_document_bytes=100)
    assert set(texts) == {"c.jsonl#2", "d.txt"}
    assert skipped == {"a.txt": "too large", "b.txt.gz": "too large", "c.jsonl#1": "too large"}
    assert detail(tmp_path / "a.txt", max_document_bytes=100) == "max_document_bytes is 100, got 101"


def test_an_endless_line_of_json_is_skipped_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_records, "_max_line", lambda _: 1000)
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "one"}\n{"text": "' + "x" * 5000 + '"}\n{"text": "three"}\n', "utf-8")
    assert read(file) == ({"a.jsonl#1": "one", "a.jsonl#3": "three"}, {"a.jsonl#2": "too large"})


def test_one_bad_line_of_json_does_not_lose_the_others(tmp_path: Path) -> None:
    lines = [
        '{"text": "one", "id": "a/1"}',
        '{"text": "two", ',
        "",
        '["three"]',
        '{"text": 4}',
        '{"text": null}',
        '{"content": "seven"}',
        '{"other": "eight"}',
        '{"text": "nine \\ud800 \\ud83d\\ude00"}',
        '{"text": "ten", "id": 10}',
        '{"text": "one", "id": "a/1"}',
        '{"text": "other one", "id": "a/1"}',
        '{"text": ' + "[" * 100_000,
    ]
    (tmp_path / "r.jsonl").write_bytes("\r\n".join(lines).encode())
    items = list(read_corpus(tmp_path))
    texts = [(item.path, item.text) for item in items if isinstance(item, Document)]
    skipped = [(item.path, item.reason) for item in items if isinstance(item, Skipped)]
    assert texts == [
        ("r.jsonl#a/1", "one"), ("r.jsonl#7", "seven"), ("r.jsonl#9", "nine \ufffd 😀"), ("r.jsonl#10", "ten"),
        ("r.jsonl#a/1", "other one"),
    ]  # fmt: skip
    assert skipped == [
        ("r.jsonl#2", "bad record"), ("r.jsonl#4", "bad record"), ("r.jsonl#5", "bad record"), ("r.jsonl#6", "empty"),
        ("r.jsonl#8", "no text column"), ("r.jsonl#a/1", "duplicate"), ("r.jsonl#13", "bad record"),
    ]  # fmt: skip


def test_a_file_of_records_without_texts_is_one_skipped_row_that_names_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"name": "x", "size": 1}\n' * 5, "utf-8")
    (tmp_path / "b.csv").write_text("name,size\nx,1\ny,2\n", "utf-8")
    pq.write_table(pa.table({"name": ["x"], "text": [1]}), tmp_path / "c.parquet")
    (tmp_path / "d.jsonl").write_text("no json\n" * 1000, "utf-8")
    texts, skipped = read(tmp_path)
    assert not texts
    assert skipped == {
        "a.jsonl": "no text column", "b.csv": "no text column", "c.parquet": "no text column", "d.jsonl": "bad record"
    }  # fmt: skip
    assert "the columns are name, size" in detail(tmp_path / "a.jsonl")
    assert "no column 'body'; the columns are name, size" in detail(tmp_path / "b.csv", text_column="body")
    assert "text is int64" in detail(tmp_path / "c.parquet")
    assert list(read(tmp_path / "b.csv", text_column="name")[0].values()) == ["x", "y"]


def test_csv_is_read_with_quotes_line_breaks_and_any_delimiter(tmp_path: Path) -> None:
    long = "x" * 500_000
    (tmp_path / "a.csv").write_bytes(
        b'\xef\xbb\xbfID,Title,Text\r\n7,"A, b","one\r\n""two"""\r\n\r\n8,,'
        + long.encode()
        + b",\r\n9,short\r\n,t,last\r\n"
    )
    (tmp_path / "b.csv").write_text("titel;text;zahl\nA;eins, zwei;1\n", "utf-8")
    (tmp_path / "c.tsv").write_text("text\tid\none, two; three\t1\n", "utf-8")
    texts, skipped = read(tmp_path)
    assert texts == {
        "a.csv#7": 'one\r\n"two"', "a.csv#8": long, "a.csv#4": "last", "b.csv#1": "eins, zwei",
        "c.tsv#1": "one, two; three",
    }  # fmt: skip
    assert skipped == {"a.csv#3": "bad record"}
    first = next(iter(read_corpus(tmp_path / "a.csv")))
    assert isinstance(first, Document)
    assert first.title == "A, b"


def test_records_in_other_encodings_are_read(tmp_path: Path) -> None:
    record = json.dumps({"text": TEXTS["zh"]}, ensure_ascii=False)
    (tmp_path / "gb.jsonl").write_bytes((record + "\n").encode("gb18030") * 20)
    (tmp_path / "le.jsonl").write_bytes((record + "\n").encode("utf-16"))
    (tmp_path / "fr.csv").write_bytes(("text\n" + TEXTS["fr"].replace(",", " ")).encode("cp1252"))
    (tmp_path / "some.jsonl").write_bytes(
        b'{"text": "caf\xe9"}\n' + '{"text": "déjà vu, été, à côté, Ça"}\n'.encode() * 9
    )
    texts, _ = read(tmp_path)
    assert texts["gb.jsonl#20"] == texts["le.jsonl#1"] == TEXTS["zh"]
    assert texts["fr.csv#1"] == TEXTS["fr"].replace(",", " ").rstrip("\n")
    assert texts["some.jsonl#1"] == "café"


def test_parquet_is_read_in_rows_of_any_string_type(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [1, None, 3, 4],
            "text": pa.array(["one", "two", None, " "], pa.large_string()),
            "title": pa.array(["A", None, "C", "D"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    pq.write_table(pa.table({"body": ["x"] * 3000}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"text": pa.array(["été".encode("latin-1"), b"ok"])}), tmp_path / "c.parquet")
    (tmp_path / "d.parquet").write_bytes(b"PAR1 broken")
    texts, skipped = read(tmp_path)
    assert texts["a.parquet#1"] == "one"
    assert texts["a.parquet#2"] == "two"
    assert texts["b.parquet#3000"] == "x"
    assert texts["c.parquet#1"] == "été"
    assert skipped == {"a.parquet#3": "empty", "a.parquet#4": "empty", "d.parquet": "broken file"}


def test_a_parquet_file_cut_off_in_the_middle_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    random = Random(0)
    pq.write_table(pa.table({"text": [random.randbytes(50).hex() for _ in range(5000)]}), file, row_group_size=500)
    content = bytearray(file.read_bytes())
    # Not zeros, which may read as texts of length 0.
    content[len(content) // 2 : len(content) // 2 + 20_000] = b"\xff" * 20_000
    file.write_bytes(content)
    reasons = [item.reason for item in read_corpus(file) if isinstance(item, Skipped)]
    assert reasons == ["broken file"]


@pytest.mark.parametrize(
    ("language", "encoding"),
    [
        ("zh", "gb18030"), ("ja", "shift_jis"), ("ja", "euc_jp"), ("ko", "euc_kr"), ("fr", "cp1252"), ("fr", "latin-1"),
        ("ru", "cp1251"), ("ru", "koi8_r"), ("en", "cp1252"),
        *((language, encoding) for language in TEXTS for encoding in (
            "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("times", [1, 3, 60])
def test_text_in_any_encoding_is_read(language: str, encoding: str, times: int) -> None:
    text = "".join(f"{line}\n" for line in TEXTS[language].splitlines()) * times
    assert decode(text.encode(encoding)) == text


def test_an_ascii_start_does_not_hide_the_encoding() -> None:
    text = "an ascii line\n" * 30_000 + TEXTS["zh"] * 20
    assert decode(text.encode("gb18030")) == text


def test_wrong_bytes_in_utf8_are_read_as_windows_1252() -> None:
    good = TEXTS["fr"] * 50
    assert decode(good.encode() + b"caf\xe9\n" + good.encode()) == good + "café\n" + good


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_text_or_no_text(data: bytes) -> None:
    try:
        text = decode(data)
    except NotTextError:
        return
    clean(text).encode("utf-8")


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(), max_size=50))
def test_cleaning_leaves_text_that_any_format_can_hold(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert not [c for c in cleaned if (c < " " and c not in "\t\n\r") or "\x7f" <= c <= "\x9f" or c in "\ufffe\uffff"]
    assert clean(cleaned).removeprefix("\ufeff") == cleaned.removeprefix("\ufeff")


def test_cleaning_joins_surrogate_pairs_and_keeps_line_breaks() -> None:
    assert clean("\ufeffa\x00b\r\nc\x0bd\x0ce\x85f \ud83d\ude00 \ud800") == "ab\r\nc\nd\ne\nf 😀 \ufffd"


def test_values_become_documents() -> None:
    values: list[Any] = [
        "a text",
        ("notes/b.txt", "b"),
        {"path": "c", "text": "cc", "title": "C"},
        {"id": 4, "content": "dd"},
        Document("e", "ee", "E"),
        {"text": "no path"},
        "été".encode("latin-1"),
        " ",
        5,
        {"title": "nothing"},
        None,
        "a text",
        ("notes/b.txt", "another"),
        "\ud800 lone",
    ]
    items = list(from_iterable(values))
    assert (
        items
        == [
            Document(f"text-{content_id('a text')[:16]}", "a text"),
            Document("notes/b.txt", "b"),
            Document("c", "cc", "C"),
            Document("4", "dd"),
            Document("e", "ee", "E"),
            Document(f"text-{content_id('no path')[:16]}", "no path"),
            Document(f"text-{content_id('été')[:16]}", "été"),
            Skipped("item-8", "empty"),
            *(Skipped(f"item-{n}", "bad record", items[n - 1].detail) for n in (9, 10, 11)),  # type: ignore[union-attr]
            Skipped(f"text-{content_id('a text')[:16]}", "duplicate"),
            Document("notes/b.txt", "another"),
            Document(f"text-{content_id('� lone')[:16]}", "\ufffd lone"),
        ]
    )


def test_batches_are_bounded_and_hold_every_item() -> None:
    def items() -> Iterator[Document | Skipped]:
        for number in range(100):
            yield Document(f"{number:03}", "x" * 100)
            yield Skipped(f"{number:03}.pdf", "unsupported")

    batches = list(document_batches(items(), NOW, max_bytes=1000))
    assert len(batches) > 10
    for documents, skipped in batches:
        assert documents.schema == DOCUMENTS
        assert skipped.schema == SKIPPED
        assert sum(map(len, documents["text"].to_pylist())) <= 1000
    assert sum(documents.num_rows for documents, _ in batches) == 100
    assert sum(skipped.num_rows for _, skipped in batches) == 100


def test_a_corpus_of_nothing_gives_one_empty_pair() -> None:
    ((documents, skipped),) = document_batches([], NOW)
    assert (documents.num_rows, skipped.num_rows) == (0, 0)
    assert documents.schema == DOCUMENTS


def test_rows_hold_the_id_the_language_and_the_time_of_the_first_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    old, new = Document("a", TEXTS["zh"]), Document("b", "The mill stood by the river, and it was old.", "B")
    before = datetime(2020, 1, 1, tzinfo=UTC)
    ((documents, _),) = document_batches([old, new], NOW, {old.document_id: before})
    first, second = documents.to_pylist()
    assert first["document_id"] == content_id("a", TEXTS["zh"])
    assert (first["language"], second["language"]) == ("zh", "en")
    assert first["created_at"] == before
    assert second["created_at"] == NOW.replace(microsecond=0)
    assert second["title"] == "B"


def test_source_date_epoch_pins_the_time_and_must_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    ((documents, _),) = document_batches([Document("a", "text")], NOW)
    assert documents["created_at"].to_pylist() == [datetime(1970, 1, 2, tzinfo=UTC)]
    for wrong in ("-1", "1e9", "yesterday", "٣", str(10**12)):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", wrong)
        with pytest.raises(ValueError, match=r"SOURCE_DATE_EPOCH must be whole seconds in \[0, 253402300799\]"):
            next(document_batches([], NOW))


def test_the_fingerprint_follows_names_sizes_and_times(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("text", "utf-8")
    (tmp_path / ".hidden").write_text("x", "utf-8")
    seen = [corpus_fingerprint(tmp_path)]
    (tmp_path / ".hidden").write_text("xy", "utf-8")
    assert corpus_fingerprint(tmp_path) == seen[0]
    file.write_text("text!", "utf-8")
    seen.append(corpus_fingerprint(tmp_path))
    os.utime(file, ns=(1, 1))
    seen.append(corpus_fingerprint(tmp_path))
    file.rename(tmp_path / "b.txt")
    seen.append(corpus_fingerprint(tmp_path))
    seen.append(corpus_fingerprint(tmp_path / "b.txt"))
    (tmp_path / "c.txt").symlink_to("nowhere")
    seen.append(corpus_fingerprint(tmp_path))
    assert len(set(seen[:4])) == 4
    assert len({*seen[:4], seen[5]}) == 5


def test_a_name_that_is_no_utf8_is_still_a_path(tmp_path: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("text", "utf-8")
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    assert read(tmp_path) == ({"caf\ufffd.txt": "text"}, {})
