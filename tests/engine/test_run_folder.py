"""The run folder survives crashes, full disks and other versions."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path

import pyarrow as pa
import pytest

from graphmill.engine.run_folder import MANIFEST, IndexFolderError, RunFolder, TableWriter


def rows(*values: int) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.int64())})


def test_a_written_table_is_read_back_whole_and_in_order(tmp_path: Path) -> None:
    with RunFolder.lock(tmp_path / "index") as folder:
        writer = folder.start("numbers", "f")
        writer.append(rows(1, 2))
        writer.append(rows(3))
        writer.finish()
    opened = RunFolder.open(tmp_path / "index")
    assert opened.is_finished("numbers", "f")
    assert opened.read("numbers")["value"].to_pylist() == [1, 2, 3]


def test_shards_of_an_unfinished_table_are_kept_for_the_next_run(tmp_path: Path) -> None:
    with RunFolder.lock(tmp_path / "index") as folder:
        folder.start("numbers", "f").append(rows(1, 2))
    with RunFolder.lock(tmp_path / "index") as folder:
        assert not folder.is_finished("numbers", "f")
        writer = folder.start("numbers", "f")
        assert writer.table.rows == 2
        writer.append(rows(3))
        writer.finish()
    assert RunFolder.open(tmp_path / "index").read("numbers")["value"].to_pylist() == [1, 2, 3]


def test_a_table_made_from_something_else_is_begun_anew(tmp_path: Path) -> None:
    with RunFolder.lock(tmp_path / "index") as folder:
        folder.write("numbers", "old", rows(1, 2))
        writer = folder.start("numbers", "new")
        assert writer.table.rows == 0
        assert folder.read("numbers").num_rows == 2
        writer.append(rows(9))
        writer.finish()
        assert folder.read("numbers")["value"].to_pylist() == [9]


def test_litter_of_a_crash_is_removed_by_the_next_writer_and_nothing_else_is(tmp_path: Path) -> None:
    with RunFolder.lock(tmp_path / "index") as folder:
        folder.write("numbers", "f", rows(1))
    litter = tmp_path / "index" / "numbers" / "00001-deadbeef.parquet"
    part = tmp_path / "index" / "numbers" / "00002-deadbeef.parquet.part"
    litter.write_bytes(b"half")
    part.write_bytes(b"half")
    with RunFolder.lock(tmp_path / "index") as folder:
        assert not litter.exists()
        assert not part.exists()
        assert folder.read("numbers")["value"].to_pylist() == [1]


def test_a_half_built_word_index_is_litter_too(tmp_path: Path) -> None:
    with RunFolder.lock(tmp_path / "index") as folder:
        folder.write("numbers", "f", rows(1))
    part = tmp_path / "index" / "words" / "chunks.part"
    part.mkdir(parents=True)
    (part / "meta.json").write_text("half")
    with RunFolder.lock(tmp_path / "index"):
        assert not part.exists()


def test_a_run_that_was_killed_before_its_first_table_can_go_on(tmp_path: Path) -> None:
    with RunFolder.lock(tmp_path / "index") as folder:
        folder.restart("numbers", "f").append(rows(1))
    with RunFolder.lock(tmp_path / "index") as folder:
        folder.write("numbers", "f", rows(1))
    assert RunFolder.open(tmp_path / "index").read("numbers").num_rows == 1


@pytest.mark.parametrize(
    "manifest", ['{"format": 2', '{"format": 2}', '{"format": 2, "facts": {}, "tables": {"a": {}}}']
)
def test_a_manifest_that_is_broken_is_named_with_what_to_do(tmp_path: Path, manifest: str) -> None:
    (tmp_path / MANIFEST).write_text(manifest)
    with pytest.raises(IndexFolderError, match=f"can't read .*{MANIFEST}.*into another folder"):
        RunFolder.open(tmp_path)


def test_a_table_with_a_broken_shard_is_dropped_with_those_made_beside_it(tmp_path: Path) -> None:
    with RunFolder.lock(tmp_path / "index") as folder:
        for name, fingerprint in (("a", "f"), ("b", "f"), ("c", "g")):
            folder.write(name, fingerprint, rows(1, 2))
        shard = tmp_path / "index" / folder.tables["a"].shards[0]["file"]
    shard.write_bytes(shard.read_bytes()[:-9])
    with RunFolder.lock(tmp_path / "index") as folder:
        assert folder.damaged == [f"a/{shard.name}"]
        assert set(folder.tables) == {"c"}


def test_a_second_writer_is_refused_while_the_first_one_runs(tmp_path: Path) -> None:
    with (
        RunFolder.lock(tmp_path / "index"),
        pytest.raises(IndexFolderError, match="another process"),
        RunFolder.lock(tmp_path / "index"),
    ):
        pass


def test_a_folder_of_other_things_is_not_taken_for_an_index(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(IndexFolderError, match="is not empty"), RunFolder.lock(tmp_path):
        pass
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != ".lock") == ["thesis.txt"]


def test_an_index_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    with RunFolder.lock(tmp_path / "index") as folder:
        folder.write("numbers", "f", rows(1))
    manifest = tmp_path / "index" / MANIFEST
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 99}))
    with pytest.raises(IndexFolderError, match="format 99"):
        RunFolder.open(tmp_path / "index")
    with pytest.raises(IndexFolderError, match="format 99"), RunFolder.lock(tmp_path / "index"):
        pass


def test_a_missing_folder_and_a_folder_without_a_manifest_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match="there is no such folder"):
        RunFolder.open(tmp_path / "nowhere")
    with pytest.raises(IndexFolderError, match=MANIFEST):
        RunFolder.open(tmp_path)


def test_a_full_disk_leaves_what_was_finished_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunFolder.lock(tmp_path / "index") as folder:
        folder.write("numbers", "f", rows(1))

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(IndexFolderError, match="the disk is full"):
                folder.write("more", "f", rows(2))
    opened = RunFolder.open(tmp_path / "index")
    assert opened.read("numbers")["value"].to_pylist() == [1]
    assert "more" not in opened.tables
    assert not list((tmp_path / "index").rglob("*.part"))


def test_equal_tables_have_equal_hashes_and_file_contents(tmp_path: Path) -> None:
    hashes = []
    for name in ("a", "b"):
        with RunFolder.lock(tmp_path / name) as folder:
            folder.write("numbers", "f", rows(1, 2, 3))
            hashes.append(folder.tables["numbers"].hash)
    assert hashes[0] == hashes[1]


def test_two_tables_written_together_are_listed_both_or_not_at_all(tmp_path: Path) -> None:
    with RunFolder.lock(tmp_path / "index") as folder:
        a, b = folder.start("a", "f"), folder.start("b", "f")
        with folder.together():
            a.append(rows(1))
            assert "a" not in listed_tables(tmp_path / "index")
            b.append(rows(2))
        assert {"a", "b"} <= listed_tables(tmp_path / "index").keys()


def test_an_interrupt_waits_until_what_is_being_written_is_listed(tmp_path: Path) -> None:
    with RunFolder.lock(tmp_path / "index") as folder:
        writer = folder.start("a", "f")
        with pytest.raises(KeyboardInterrupt):
            _append_while_interrupted(folder, writer)
    assert RunFolder.open(tmp_path / "index").read("a")["value"].to_pylist() == [1]


def _append_while_interrupted(folder: RunFolder, writer: TableWriter) -> None:
    with folder.together():
        signal.raise_signal(signal.SIGINT)
        writer.append(rows(1))


def listed_tables(path: Path) -> dict[str, object]:
    """The tables that the manifest on disk lists at this moment."""
    manifest = path / MANIFEST
    return dict(json.loads(manifest.read_text())["tables"]) if manifest.exists() else {}
