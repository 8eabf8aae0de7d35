"""``graphmill evaluate`` as a person and as a program uses it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from graphmill.jobs.evaluate import cells, footnote, plain, run
from tests.jobs.command_line import graphmill, graphmill_apart

DOCUMENTS = {
    "harbour.md": "# The harbour\n\nAda Thornbury founded the Marrowport Harbour Trust in 1911.\n",
    "light.txt": "Edwin Carrow was the keeper of Gull Rock Light from 1902.\n",
}
QUESTIONS: list[dict[str, Any]] = [
    {"id": "trust", "question": "Who founded the Marrowport Harbour Trust?", "facts": [["Ada Thornbury"], "1911"]},
    {"question": "Who kept Gull Rock Light?", "facts": ["Edwin Carrow", "1999"], "documents": ["light.txt", "no.txt"]},
    {"question": "What is there?"},
]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    corpus = tmp_path_factory.mktemp("corpus")
    for name, text in DOCUMENTS.items():
        (corpus / name).write_text(text, "utf-8")
    done = graphmill("index", corpus, corpus.parent / "kb")
    assert done.returncode == 0, done.stderr
    return corpus.parent / "kb"


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS), "utf-8")
    return path


def test_it_prints_a_plain_table_on_a_pipe_and_writes_a_line_a_question_and_mode(
    index: Path, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results.jsonl"
    done = graphmill("evaluate", index, questions, "--mode", "naive", "--mode", "local", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    head, naive, local, note, _ = done.stdout.splitlines()
    assert head.split("  ")[0] == "mode"
    assert "context recall" in head
    assert "failed" not in head  # nothing did
    assert "model tokens" not in head  # there is none
    assert (naive.split()[:3], local.split()[0]) == (["naive", "0.750", "0.500"], "local")
    assert note.startswith("3 questions, 1 without facts, which no recall counts; answers are passages")
    assert "warning: the index has no document no.txt" in done.stderr
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [(row["mode"], row["id"]) for row in rows[:4]] == [
        ("naive", "trust"), ("naive", "2"), ("naive", "3"), ("local", "trust"),
    ]  # fmt: skip
    assert rows[1]["missing_facts"] == ["1999"]


def test_json_is_one_document_with_the_modes_and_every_result(index: Path, questions: Path) -> None:
    done = graphmill_apart("evaluate", index, questions, "--json")  # whose libraries have nothing to say either
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert done.stderr == ""
    assert [mode["mode"] for mode in document["modes"]] == [
        "naive", "local", "global", "keywords-local", "keywords-global", "hybrid", "mix", "drift",
    ]  # fmt: skip
    assert len(document["results"]) == 24
    assert document["modes"][0]["context_recall"] == 0.75
    assert document["model"] is None


def test_what_is_wrong_is_told_before_any_work(index: Path, questions: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"question": "Fine?"}\n{"question": 5}\n', "utf-8")
    for arguments, words in (
        ([bad], 'bad.jsonl has 1 bad line:\n  line 2: "question" must be a text that asks something, got 5'),
        ([tmp_path / "none.jsonl"], "can't read the questions"),
        ([questions, "--mode", "naiv"], "mode must be one of"),
        ([questions, "--top-k", "0"], "top_k must be at least 1"),
        ([questions, "--out", questions], "is the file of the questions"),
        ([questions, "--out", tmp_path / "no" / "r.jsonl"], "can't write --out"),
    ):
        done = graphmill("evaluate", index, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
    assert questions.read_text("utf-8").startswith('{"id": "trust"')
    assert graphmill("evaluate", tmp_path / "no-index", questions).returncode == 1


def test_questions_that_fail_are_counted_and_shown_and_the_exit_code_says_so(
    index: Path, questions: Path, tmp_path: Path
) -> None:
    recorded = tmp_path / "replies.jsonl"
    recorded.write_text("", "utf-8")
    done = graphmill("evaluate", index, questions, "--mode", "naive", "--llm", f"replay:{recorded}")
    assert done.returncode == 1, done.stderr  # all of them
    assert "warning: question trust in naive: the model gave no answer" in done.stderr
    assert done.stdout.splitlines()[1].split()[-1] == "3"


def test_the_file_of_an_earlier_run_stays_until_all_results_are_there(
    index: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, part = tmp_path / "results.jsonl", tmp_path / "results.jsonl.part"
    out.write_text("before", "utf-8")
    assert graphmill("evaluate", tmp_path / "no-index", questions, "--out", out).returncode == 1
    assert (out.read_text("utf-8"), part.exists()) == ("before", False)

    from graphmill.jobs import evaluate as job

    real = job.evaluate

    def stopped_at_the_third(*arguments: Any) -> Any:
        for number, result in enumerate(real(*arguments)):
            if number == 2:
                raise KeyboardInterrupt
            yield result

    monkeypatch.setattr(job, "evaluate", stopped_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        run(index, questions, ["naive"], {}, None, {}, out, as_json=False)
    assert out.read_text("utf-8") == "before"
    assert [json.loads(line)["id"] for line in part.read_text("utf-8").splitlines()] == ["trust", "2"]
    assert f"{part} holds the 2 results so far" in capsys.readouterr().err
    monkeypatch.setattr(job, "evaluate", real)
    (tmp_path / "link.jsonl").symlink_to(out)
    assert run(index, questions, ["naive"], {}, None, {}, tmp_path / "link.jsonl", as_json=False) == 0
    assert (len(out.read_text("utf-8").splitlines()), part.exists()) == (3, False)
    assert (tmp_path / "link.jsonl").is_symlink()


def left_behind(index: Path, questions: Path, out: Path, *ids: str) -> Path:
    """The results of some questions in naive, where a run that was stopped has put them."""
    from graphmill.jobs import evaluate as job

    real = job.evaluate

    def stopped(*arguments: Any) -> Any:
        for result in real(*arguments):
            if result["id"] not in ids:
                raise KeyboardInterrupt
            yield result | {"answer": "from before"}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(job, "evaluate", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(index, questions, ["naive"], {}, None, {}, out, as_json=False)
    return out.with_name(out.name + ".part")


def test_an_evaluation_that_was_stopped_goes_on_where_it_was(index: Path, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    part = left_behind(index, questions, out, "trust", "2")
    lines = [json.loads(line) for line in part.read_text("utf-8").splitlines()]
    lines[0]["error"] = "the server was busy"  # so it is asked again, and stands first for all that
    part.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"id": "3", "quest', "utf-8")
    done = graphmill("evaluate", index, questions, "--mode", "naive", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == ["trust", "2", "3"]
    assert [row["answer"] == "from before" for row in rows] == [False, True, False]
    assert rows == json.loads(done.stdout)["results"]
    assert [name for name in rows[0] if name in ("index", "asked", "model", "modes", "questions")] == []
    assert json.loads(done.stdout)["modes"][0]["num_questions"] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["questions.jsonl", "results.jsonl"]


def test_what_another_evaluation_has_left_is_refused_and_stays_as_it_is(
    index: Path, questions: Path, tmp_path: Path
) -> None:
    out, other = tmp_path / "results.jsonl", tmp_path / "other.jsonl"
    part = left_behind(index, questions, out, "trust")
    before = part.read_bytes()
    for changed, told in (
        ({"facts": ["Ada"]}, "was made with questions = '"),
        ({"question": "Who else?"}, "answers a question with the id 'trust' that is not among these"),
    ):
        other.write_text("".join(json.dumps(row) + "\n" for row in [QUESTIONS[0] | changed, *QUESTIONS[1:]]), "utf-8")
        done = graphmill("evaluate", index, other, "--mode", "naive", "--out", out)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr
        assert "move it away, or name another file with --out" in done.stderr
    for arguments, told in (
        (["--mode", "local"], "modes = ['naive'], this run has modes = ['local']"),
        (["--mode", "naive", "--top-k", "3"], "asked.top_k = None"),
        (["--mode", "naive", "--llm", f"replay:{questions}"], "asked.llm = 'none'"),
    ):
        done = graphmill("evaluate", index, questions, *arguments, "--out", out)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr
        assert "results so far" not in done.stderr
    assert part.read_bytes() == before
    part.write_text("what somebody keeps here", "utf-8")
    assert graphmill("evaluate", index, questions, "--out", out).returncode == 2
    assert part.read_text("utf-8") == "what somebody keeps here"
    assert not out.exists()


def test_two_evaluations_do_not_write_one_file(index: Path, questions: Path, tmp_path: Path) -> None:
    from graphmill.engine.answer_file import AnswerFile

    with AnswerFile(tmp_path / "results.jsonl.part", [], {}):
        done = graphmill("evaluate", index, questions, "--mode", "naive", "--out", tmp_path / "results.jsonl")
    assert done.returncode == 2
    assert "another process is writing" in done.stderr


def test_results_can_go_into_a_pipe(index: Path, questions: Path) -> None:
    reading, writing = os.pipe()  # with room for a few lines that nobody has read yet
    done = graphmill("evaluate", index, questions, "--mode", "naive", "--out", f"/dev/fd/{writing}")
    os.close(writing)
    assert done.returncode == 0, done.stderr
    with open(reading, encoding="utf-8") as results:  # noqa: PTH123  (a number, not a path)
        assert [json.loads(line)["id"] for line in results] == ["trust", "2", "3"]


def test_the_table_leaves_out_columns_that_say_nothing_and_keeps_zeros() -> None:
    measures: dict[str, Any] = {"context_recall": 0.0, "complete": 0.0, "answer_recall": None, "num_failed": 0}
    measures |= {"reference_precision": None, "context_tokens": 12345.6, "prompt_tokens": 1.0, "model_tokens": None}
    modes = [{"mode": "mix", **measures, "seconds": 0.0625}, {"mode": "bypass", **measures, "seconds": None}]
    heads, rows = cells(modes)
    assert heads == ["mode", "context recall", "all facts", "context tokens", "prompt tokens", "seconds"]
    assert rows[0] == ["mix", "0.000", "0.000", "12,346", "1", "0.062"]
    assert rows[1][-1] == "–"
    lines = plain(heads, rows).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1].startswith("mix     ")
    report = {"num_questions": 1, "num_without_facts": 0, "model": "m"}
    assert footnote(report).startswith("1 question; answers are the model's.")
