"""The command line as a person and as a program uses it: output, JSON, exit codes."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.command_line import graphmill, graphmill_apart

DOCUMENTS = {
    "harbour.md": "# The harbour\n\nOld Ferry Quay is the oldest quay of Marrowport. Ada Thornbury founded the "
    "Marrowport Harbour Trust in 1911. The Marrowport Harbour Trust owns Old Ferry Quay.\n",
    "letters/ada.txt": "Ada Thornbury wrote to Edwin Carrow from Marrowport. Edwin Carrow was the keeper of Gull Rock "
    "Light.\n",
    "光.txt": "林芷若在北岭大学任教。北岭大学位于鹭汀市。林芷若研究灯笼海带。\n",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for name, text in DOCUMENTS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    (folder / "blank.txt").write_text(" \n")
    return folder


@pytest.fixture(scope="module")
def index(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "kb"
    done = graphmill_apart("index", corpus, path)
    assert done.returncode == 0, done.stderr
    assert "entities" in done.stdout
    assert "1 empty" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr  # plain where it is piped
    return path


def test_index_prints_one_json_document_and_goes_on_from_where_it_was(corpus: Path, index: Path) -> None:
    done = graphmill("index", corpus, index, "--json")
    summary = json.loads(done.stdout)
    assert done.returncode == 0
    assert (summary["status"], summary["documents"], summary["skipped"]) == ("complete", 3, {"empty": 1})
    again = graphmill("index", corpus, index)
    assert again.stderr.count("already done") >= 8


@pytest.mark.parametrize("mode", ["naive", "local", "global"])
def test_query_answers_in_every_mode_with_references_in_json(index: Path, mode: str) -> None:
    done = graphmill("query", index, "Who founded the Marrowport Harbour Trust?", "--mode", mode, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert {"answer", "references", "context", "timings"} <= document.keys()
    for reference in document["references"]:
        assert {"kind", "label", "document", "chunk_id", "start", "end"} <= reference.keys()
    if mode != "global":
        assert "Ada Thornbury" in document["answer"]
        assert "harbour.md" in {reference["document"] for reference in document["references"]}


def test_a_chinese_question_finds_chinese_text_through_words(index: Path) -> None:
    done = graphmill("query", index, "林芷若研究什么？", "--mode", "local")
    assert "灯笼海带" in done.stdout
    assert "参考资料" in done.stdout


def test_only_need_context_prints_json_lines_and_no_answer(index: Path) -> None:
    done = graphmill("query", index, "Who founded the Trust?", "--mode", "local", "--only-need-context")
    assert "-----Entities-----" in done.stdout
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert any(row.get("entity") == "Ada Thornbury" for row in rows)


def test_inspect_shows_counts_an_entity_a_community_and_failures(index: Path) -> None:
    overview = json.loads(graphmill("inspect", index, "--json").stdout)
    assert "Ada Thornbury" in {row["name"] for row in overview["top_entities"]}
    entity = json.loads(graphmill("inspect", index, "--entity", "ada  THORNBURY", "--json").stdout)
    assert (entity["name"], entity["type"]) == ("Ada Thornbury", "PERSON")
    assert entity["sources"]
    community = json.loads(graphmill("inspect", index, "--community", "0", "--json").stdout)
    assert community["report"]["full_text"].startswith("# ")
    assert "blank.txt: empty" in graphmill("inspect", index, "--failures").stdout


def test_what_inspect_cannot_find_is_named_with_what_is_near(index: Path) -> None:
    missing = graphmill("inspect", index, "--entity", "Thornbury Ada")
    assert missing.returncode == 1
    assert "no entity 'Thornbury Ada'" in missing.stderr
    assert "from 0 to" in graphmill("inspect", index, "--community", "9999").stderr


def test_parse_prints_what_the_engine_makes_of_a_reply() -> None:
    reply = '("entity"<|>Alice<|>person<|>Engineer)##\n("relationship"<|>Alice<|>Acme<|>works at<|>9)\n<|COMPLETE|>'
    done = graphmill_apart("parse", "--profile", "graphrag", "--json", stdin=reply)
    assert json.loads(done.stdout) == {
        "entities": [["Alice", "PERSON", "Engineer"]],
        "relationships": [["Alice", "Acme", "works at", 9.0]],
        "keywords": [],
        "complete": True,
        "rejected": 0,
        "reasons": {},
    }
    cut = graphmill("parse", "--finish-reason", "length", "--json", stdin='("entity"<|>Alice<|>per')
    assert json.loads(cut.stdout)["complete"] is False


def test_doctor_tells_packages_and_backends_and_mends_what_is_missing() -> None:
    report = json.loads(graphmill_apart("doctor", "--json").stdout)
    assert report["packages"]["engine"]["numpy"]
    assert report["backends"]["communities"]
    assert report["missing"] == []
    assert report["faults"] == []


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ('echo \'graphmill {"vllm": "0.26.0", "imports": "0.26.0"}\'', None),
        ('echo \'graphmill {"vllm": "0.26.0", "fails": "ImportError: torchvision"}\'', "ImportError: torchvision"),
        ("echo 'graphmill {}'", "there is no vLLM in the environment of"),
        ("echo no such module >&2; exit 1", "did not answer: no such module"),
    ],
)
def test_doctor_asks_the_models_environment_of_its_own_accord(tmp_path: Path, said: str, fault: str | None) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{said}\n")
    python.chmod(0o755)
    done = graphmill("doctor", "--llm-python", str(python), "--json")
    report = json.loads(done.stdout)
    assert done.returncode == (1 if fault else 0)
    assert bool(report["mend"]) == bool(fault)
    if fault is None:
        assert "vLLM 0.26.0" in report["backends"]["model"]
    else:
        assert fault in report["faults"][0]
        assert fault in graphmill("doctor", "--llm-python", str(python)).stdout


def test_doctor_names_a_python_that_can_not_be_run() -> None:
    report = json.loads(graphmill("doctor", "--llm-python", "/no/such/python", "--json").stdout)
    assert report["faults"] == ["vLLM can't be used: /no/such/python can't be run: No such file or directory"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["index", "nowhere", "kb"], 2, "no corpus at nowhere"),
        (["index", "{corpus}", "kb", "--profile", "grafrag"], 2, "grafrag"),
        (["index", "{corpus}", "kb", "--llm", "./nomodel"], 2, "a folder with config.json"),
        (["index", "{corpus}", "kb", "--llm-arg", "seed"], 2, "--llm-arg must be KEY=VALUE, got 'seed'"),
        (["index", "{corpus}", "kb", "--llm", "some/model", "--llm-python", "nopython"], 1, "can't start nopython"),
        (["index", "{corpus}", "kb", "--llm", "http://localhost:9/v1"], 1, "localhost:9"),
        (["index", "{corpus}", "kb", "--embedder", "nomodel"], 2, "nomodel"),
        (["index", "{corpus}", "kb", "--device", "tpu"], 2, "device must be one of"),
        (["query", "nowhere", "Who?"], 1, "no index at nowhere"),
        (["query", "{index}", "Who?", "--mode", "psychic"], 2, "mode must be one of naive, local, global"),
        (["query", "{index}", "Who?", "--top-k", "0"], 2, "top_k must be at least 1, got 0"),
        (["inspect"], 2, "INDEX"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_bad_usage_is_one_line_that_names_the_thing_and_the_right_exit_code(
    corpus: Path, index: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    filled = [a.format(corpus=corpus, index=index) for a in arguments]
    filled = [str(tmp_path / "kb") if a == "kb" else a for a in filled]
    done = graphmill(*filled)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[chunk]\ntokenz = 5\n", "unknown setting chunk.tokenz; did you mean chunk.tokens?"),
        ("[chunk]\ntokens = 100\noverlap = 100\n", "chunk.overlap must be in [0, chunk.tokens=100), got 100"),
        ('[chunk]\ntokens = "many"\n', "chunk.tokens must be an integer, got 'many'"),
        ("[extract]\nmax_gleanings = -1\n", "extract.max_gleanings must be at least 0, got -1"),
        ("[chunk\n", "is not valid TOML"),
        ("chunk = 3\n", "chunk is a section, got 3"),
    ],
)
def test_a_config_with_unknown_or_impossible_keys_is_refused_before_any_work(
    corpus: Path, tmp_path: Path, toml: str, message: str
) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(toml)
    done = graphmill("index", corpus, tmp_path / "kb", "--config", config)
    assert done.returncode == 2
    assert message in done.stderr
    assert str(config) in done.stderr
    assert not (tmp_path / "kb").exists()


def test_an_empty_corpus_and_one_of_empty_files_fail_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "blank").mkdir()
    (tmp_path / "blank" / "a.txt").write_text("\n")
    none = graphmill("index", tmp_path / "none", tmp_path / "kb1")
    blank = graphmill("index", tmp_path / "blank", tmp_path / "kb2")
    assert (none.returncode, blank.returncode) == (1, 1)
    assert "is empty" in none.stderr
    assert "a.txt: empty" in blank.stderr


def test_another_embedding_model_is_refused_with_the_way_to_rebuild(index: Path, tmp_path: Path) -> None:
    manifest = json.loads((index / "manifest.json").read_text())
    assert manifest["facts"]["embedder"]["dimension"] == 384
    manifest["facts"]["embedder"] = {"model": "other", "dimension": 1024}
    copy = tmp_path / "kb"
    copy.mkdir()
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = graphmill("query", copy, "Who?")
    assert done.returncode == 1
    for part in ("other", "1024", "384", "rebuild"):
        assert part in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_index_is_refused_for_writing(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb").chmod(stat.S_IRUSR | stat.S_IXUSR)
    done = graphmill("index", corpus, tmp_path / "kb")
    assert done.returncode == 1
    assert "can't write" in done.stderr


def test_ctrl_c_stops_with_a_line_and_the_next_run_finishes(corpus: Path, tmp_path: Path) -> None:
    # In the middle of a stage, which doesn't end before the interrupt has come.
    code = (
        "import sys\n"
        "from graphmill.engine.minilm import MiniLM\n"
        "from graphmill.jobs.cli import main\n"
        "MiniLM.embed = lambda self, texts: print('embedding', flush=True) or sys.stdin.read()\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, "index", str(corpus), str(tmp_path / "kb")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "embedding\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert process.stderr is not None
        told = process.stderr.read()
    assert (tmp_path / "kb" / "manifest.json").exists()
    assert "the same command goes on from here" in told
    assert "Traceback" not in told
    done = graphmill("index", corpus, tmp_path / "kb", "--json")
    assert json.loads(done.stdout)["status"] == "complete"
