"""``graphmill query --questions``: a batch in, JSON lines out."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import graphmill
from graphmill.engine.function_models import FunctionGenerator
from graphmill.engine.models import Reply, Request
from graphmill.engine.query_param import MODES
from tests.engine.model_server import Answer, chat, models, serving
from tests.jobs.command_line import graphmill as run
from tests.jobs.command_line import graphmill_apart

QUESTIONS = [
    {"question": "Who met Ada Thornbury?", "id": "ada", "mode": "naive"},
    {"question": "Where is Saltmere Castle?"},
    {"question": "What happened on day 3?", "id": 7, "mode": "local"},
]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("batch") / "kb"
    texts = [(f"d{n}.txt", f"Ada Thornbury met Elias Wren at Saltmere Castle on day {n}.") for n in range(8)]
    graphmill.index(texts, path)
    return path


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    return path


def test_every_question_has_a_line_in_its_own_mode(kb: Path, questions: Path) -> None:
    done = graphmill_apart("query", kb, "--questions", questions)
    assert done.returncode == 0, done.stderr
    found = {row["id"]: row for row in lines(done.stdout)}
    assert {key: row["mode"] for key, row in found.items()} == {"ada": "naive", "2": "mix", "7": "local"}
    assert "Elias Wren" in found["ada"]["answer"]
    assert found["ada"]["references"][0]["document"].startswith("d")
    assert "context" not in found["ada"]


def test_a_second_run_asks_only_what_is_missing_and_says_so(kb: Path, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert run("query", kb, "--questions", questions, "--out", out).returncode == 0
    whole = sorted(out.read_text().split("\n"))
    out.write_text("\n".join(out.read_text().split("\n")[:2]) + "\n")
    done = run("query", kb, "--questions", questions, "--out", out, "--json")
    assert json.loads(done.stdout) == {"questions": 3, "asked": 1, "failed": 0, "out": str(out)}
    again = sorted(out.read_text().split("\n"))
    drop = [{**json.loads(line), "timings": 0} for line in whole if line]
    assert [{**json.loads(line), "timings": 0} for line in again if line] == drop


def test_an_answer_file_of_another_index_model_or_option_is_refused(kb: Path, questions: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "out.jsonl", tmp_path / "other"
    graphmill.index([("d.txt", "Ada Thornbury met Elias Wren on day 3.")], other)
    assert run("query", kb, "--questions", questions, "--out", out).returncode == 0
    row = lines(out.read_text())[0]
    assert (row["model"], row["reranker"], row["asked"]["llm"]) == ("none", "none", "none")
    before = out.read_bytes()
    for arguments, says in (
        ([other], "was made with index = "),
        ([kb, "--llm", "http://127.0.0.1:9/v1"], "made with asked.llm = 'none', this run has asked.llm = 'http://"),
        ([kb, "--top-k", "3"], "this run has asked.top_k = 3, asked.chunk_top_k = 3"),
    ):
        done = run("query", *arguments, "--questions", questions, "--out", out)
        assert done.returncode == 2
        assert says in done.stderr
        assert out.read_bytes() == before


def test_another_model_at_the_same_address_is_refused(kb: Path, questions: Path, tmp_path: Path) -> None:
    served = ["m"]

    def script(path: str, body: Any) -> Answer:
        if path.endswith("/models"):
            return models(served[0], max_model_len=8192)
        return chat("So [1].") if "messages" in body else Answer({"detail": "Not Found"}, status=404)

    out = tmp_path / "out.jsonl"
    with serving(script) as server:
        command = ("query", kb, "--questions", questions, "--out", out, "--llm", server.url, "--mode", "naive")
        assert run(*command).returncode == 0
        assert {row["model"] for row in lines(out.read_text())} == {"m"}
        out.write_text(out.read_text().split("\n")[0] + "\n")
        before, served[0] = out.read_bytes(), "n"
        done = run(*command)
    assert done.returncode == 2
    assert "was made with model = 'm', this run has model = 'n'" in done.stderr
    assert out.read_bytes() == before


def test_a_question_whose_mode_was_changed_is_asked_again(kb: Path, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert run("query", kb, "--questions", questions, "--out", out).returncode == 0
    questions.write_text(questions.read_text().replace('"naive"', '"local"'))
    done = run("query", kb, "--questions", questions, "--out", out, "--json")
    assert json.loads(done.stdout)["asked"] == 1
    assert {row["id"]: row["mode"] for row in lines(out.read_text())} == {"ada": "local", "2": "mix", "7": "local"}


def test_where_there_is_no_index_the_answers_are_left_as_they_are(kb: Path, questions: Path, tmp_path: Path) -> None:
    out, pipe = tmp_path / "out.jsonl", tmp_path / "pipe"
    missing = run("query", tmp_path / "nowhere", "--questions", questions, "--out", out)
    assert "no index at" in missing.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["questions.jsonl"]
    os.mkfifo(pipe)
    done = run("query", kb, "--questions", questions, "--out", pipe)
    assert done.returncode == 2
    assert "is no regular file" in done.stderr


@pytest.mark.parametrize("end", ["", ".partial"])
def test_the_answers_do_not_go_into_the_file_of_the_questions(
    kb: Path, questions: Path, tmp_path: Path, end: str
) -> None:
    file = questions.rename(tmp_path / f"both.jsonl{end}")
    before = file.read_bytes()
    done = run("query", kb, "--questions", file, "--out", tmp_path / "both.jsonl")
    assert done.returncode == 2
    assert f"{file} is the file of the questions" in done.stderr
    assert file.read_bytes() == before


def test_an_answer_that_was_kept_says_so(kb: Path, tmp_path: Path) -> None:
    def script(path: str, body: Any) -> Answer:
        if path.endswith("/models"):
            return models("m", max_model_len=8192)
        if "messages" not in body:
            return Answer({"detail": "Not Found"}, status=404)
        delta = {"choices": [{"index": 0, "delta": {"content": "Elias [1]."}, "finish_reason": "stop"}]}
        return Answer(events=(delta, "[DONE]")) if body.get("stream") else chat("Elias [1].")

    index, file = tmp_path / "kb", tmp_path / "questions.jsonl"
    shutil.copytree(kb, index)
    file.write_text('{"question": "Who met Ada?"}')
    with serving(script) as server:
        options = ("--mode", "naive", "--llm", server.url, "--cache", "exact")
        first, again = (run("query", index, "Who met Ada?", *options) for _ in range(2))
        batch = run("query", index, "--questions", file, *options)
    assert first.stdout == again.stdout
    assert "kept" not in first.stderr
    assert "from the answers that are kept, to: Who met Ada?" in again.stderr
    assert lines(batch.stdout)[0]["cached"] == "Who met Ada?"


def test_one_question_that_fails_is_counted_and_the_others_go_on(kb: Path, questions: Path, tmp_path: Path) -> None:
    def script(path: str, body: Any) -> Answer:
        if path.endswith("/models"):
            return models("m", max_model_len=8192)
        if "messages" not in body:
            return Answer({"detail": "Not Found"}, status=404)
        text = body["messages"][-1]["content"]
        return Answer({"error": {"message": "no"}}, status=400) if "day 3" in text else chat("So it is [1].")

    out = tmp_path / "out.jsonl"
    with serving(script) as server:
        done = run("query", kb, "--questions", questions, "--out", out, "--llm", server.url, "--mode", "naive")
    assert done.returncode == 3
    assert "1 of 3 questions failed" in done.stderr
    found = {row["id"]: row for row in lines(out.read_text())}
    assert "400" in found["7"]["error"]
    assert found["ada"]["answer"].startswith("So it is [1].\n\n### References")


def test_equal_questions_have_a_line_each_and_are_put_to_the_model_once(kb: Path, tmp_path: Path) -> None:
    def script(path: str, body: Any) -> Answer:
        if path.endswith("/models"):
            return models("m", max_model_len=8192)
        return chat("So [1].") if "messages" in body else Answer({"detail": "Not Found"}, status=404)

    file, out = tmp_path / "questions.jsonl", tmp_path / "out.jsonl"
    file.write_text('{"question": "Who met Ada?"}\n' * 5 + '{"question": "Who met Elias?"}\n')
    with serving(script) as server:
        options = ("--llm", server.url, "--mode", "naive", "--json")
        done = run("query", kb, "--questions", file, "--out", out, *options)
        asked = [path for path in server.paths() if path.endswith("/chat/completions")]
    assert json.loads(done.stdout) == {"questions": 6, "asked": 6, "failed": 0, "out": str(out)}
    found = {row["id"]: row for row in lines(out.read_text())}
    assert [found[str(n)]["question"] for n in range(1, 7)] == ["Who met Ada?"] * 5 + ["Who met Elias?"]
    assert {row["answer"].split("\n")[0] for row in found.values()} == {"So [1]."}
    assert len(out.read_text().splitlines()) == 6
    assert len(asked) == 2


def test_a_line_sets_what_its_own_question_is_asked_with(kb: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "questions.jsonl", tmp_path / "out.jsonl"
    row = {"question": "Who met Ada Thornbury?", "mode": "naive"}
    rows = [{}, {"top_k": 1}, {"chunk_top_k": 2, "top_k": 7}, {"only_need_prompt": True, "user_prompt": "In verse."}]
    file.write_text("".join(json.dumps(row | {"param": own | {"only_need_context": True}}) + "\n" for own in rows))
    options = ("--questions", file, "--out", out, "--top-k", "3")
    assert run("query", kb, *options).returncode == 0
    found = {line["id"]: line for line in lines(out.read_text())}
    assert [len(found[key]["data"]["chunks"]) for key in "1234"] == [3, 1, 2, 3]
    assert "In verse." in found["4"]["prompt"][-1]["content"]
    assert [("prompt" in found[key], found[key]["asked"]["top_k"]) for key in "14"] == [(False, 3), (True, 3)]
    assert found["2"]["param"] == {"chunk_top_k": 1, "top_k": 1, "only_need_context": True}

    file.write_text(file.read_text().replace('"top_k": 1,', '"top_k": 2,'))
    assert json.loads(run("query", kb, *options, "--json").stdout)["asked"] == 1
    changed = {line["id"]: line for line in lines(out.read_text())}
    assert len(changed["2"]["data"]["chunks"]) == 2
    assert json.loads(run("query", kb, *options, "--json").stdout)["asked"] == 0


def test_fields_that_nothing_reads_are_told_once_and_what_may_be_misspelt_first(kb: Path, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    rows = [
        {"expected": "Elias", "facts": ["Elias"]},
        {"expected": "Elias\x1b[2J", "mod": "naive", "TopK": 3, "param": {"level": 1}},
    ]
    file.write_text("".join(json.dumps({"question": "Who met Ada?", **row}) + "\n" for row in rows))
    done = run("query", kb, "--questions", file, "--json")
    assert done.returncode == 0
    assert done.stderr == (
        f"{file} has fields that are not used: mod (1 line; is mode meant?), TopK (1 line; is "
        '"param": {"top_k": …} meant?), expected (2 lines)\n'
    )
    file.write_text('{"question": "Who met Ada?", "facts": ["Elias"], "documents": [], "param": {"level": 1}}')
    assert run("query", kb, "--questions", file, "--json").stderr == ""


@pytest.mark.parametrize(
    ("line", "says"),
    [('{"question": ""}', "line 1"), ('{"question": "x", "mode": "nope"}', '"mode" must be one of')],
)
def test_a_bad_line_is_told_before_anything_is_loaded(kb: Path, tmp_path: Path, line: str, says: str) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(line)
    done = run("query", kb, "--questions", bad)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("arguments", [[], ["x", "--questions", "q.jsonl"], ["x", "--out", "o.jsonl"]])
def test_a_question_and_a_file_of_them_exclude_each_other(kb: Path, arguments: list[str]) -> None:
    assert run("query", kb, *arguments).returncode == 2


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_gives_what_each_question_gives_alone(kb: Path, mode: str) -> None:
    def reply(request: Request) -> str | Reply:
        kind = request.id.split("/")[1].rstrip("0123456789-")
        if kind == "map":
            points = {"points": [{"description": "They met [1].", "score": 50}], "follow_ups": ["Who is Elias Wren?"]}
            return json.dumps(points)
        if kind == "keywords":
            return json.dumps({"high_level_keywords": ["meetings"], "low_level_keywords": ["Elias Wren"]})
        return f"About {request.messages[-1]['content'][-20:]} [1][2]."

    texts = ["Who met Ada Thornbury?", "Where is Saltmere Castle?", "", "What happened on day 3?"]
    param = graphmill.QueryParam(mode=mode, top_k=3)
    with graphmill.open(kb, None, FunctionGenerator(reply, max_in_flight=2)) as opened:
        each = dict(opened.query_each([(text, param) for text in texts]))
        alone = [opened.query(text, param) for text in texts]
    assert sorted(each) == [0, 1, 2, 3]
    for number, answer in enumerate(alone):
        assert each[number].document() | {"timings": 0} == answer.document() | {"timings": 0}
