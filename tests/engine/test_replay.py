from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from graphmill.engine.function_models import FunctionGenerator
from graphmill.engine.models import Generator, Reply, Request
from graphmill.engine.replay import ReplayGenerator
from graphmill.engine.replies import ReplyStore, StoredGenerator, export_replies

MESSAGES = [{"role": "user", "content": "hello"}]
REQUEST = Request("a", MESSAGES)


def ask(generator: Generator, request: Request = REQUEST) -> Reply:
    generator.submit(request)
    (reply,) = generator.collect()
    return reply


def recording(folder: Path, *rows: object, tail: str = "") -> ReplayGenerator:
    file = folder / "recording.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail, "utf-8")
    return ReplayGenerator(file)


def test_what_was_recorded_is_replayed_from_the_file_and_from_the_store(tmp_path: Path) -> None:
    with ReplyStore(tmp_path / "replies") as store:
        first = StoredGenerator(FunctionGenerator(lambda request: Reply("", "hi", "stop", 7, 3), model="big"), store)
        ask(first)
        export_replies(store, tmp_path / "recording.jsonl")
    for path in (tmp_path / "recording.jsonl", tmp_path / "replies"):
        generator = ReplayGenerator(path, context_tokens=99)
        assert isinstance(generator, Generator)
        assert (generator.model, generator.context_tokens) == ("big", 99)
        assert ask(generator, replace(REQUEST, id="b", max_tokens=50)) == Reply("b", "hi", "stop", 7, 3)
        assert ask(generator, replace(REQUEST, temperature=1.0)).error == f"not in the recording {path}"
        generator.close()


def test_a_recording_knows_whether_its_model_held_replies_to_a_schema(tmp_path: Path) -> None:
    for name, enforces in (("free", False), ("held", True)):
        model = FunctionGenerator(lambda request: "{}", model=name)
        model.enforces_schema = enforces  # type: ignore[attr-defined]
        with ReplyStore(tmp_path / name) as store:
            ask(StoredGenerator(model, store))
            export_replies(store, tmp_path / f"{name}.jsonl")
        for path in (tmp_path / name, tmp_path / f"{name}.jsonl"):
            with contextlib.closing(ReplayGenerator(path)) as replay, ReplyStore(tmp_path / "copy" / path.name) as copy:
                assert replay.enforces_schema == enforces
                assert StoredGenerator(replay, copy).enforces_schema == copy.enforces_schema == enforces


def test_a_line_with_messages_answers_them_whatever_the_sampling(tmp_path: Path) -> None:
    generator = recording(tmp_path, {"messages": MESSAGES, "text": "by hand", "finish_reason": "length"})
    assert generator.model == "replay"
    assert ask(generator, replace(REQUEST, temperature=0.7, options={"seed": 1})) == Reply("a", "by hand", "length")


def test_an_error_can_be_recorded(tmp_path: Path) -> None:
    assert ask(recording(tmp_path, {"messages": MESSAGES, "error": "timed out"})).error == "timed out"


def test_replies_of_several_models_are_all_found(tmp_path: Path) -> None:
    with ReplyStore(tmp_path / "replies") as store:
        for model in ("small", "big"):
            answer = FunctionGenerator(lambda request: request.messages[0]["content"] + "!", model=model)
            ask(StoredGenerator(answer, store), Request("a", [{"role": "user", "content": model}]))
        export_replies(store, tmp_path / "recording.jsonl")
    generator = ReplayGenerator(tmp_path / "recording.jsonl")
    assert generator.model == "replay"
    assert [ask(generator, Request("a", [{"role": "user", "content": m}])).text for m in ("big", "small")] == [
        "big!", "small!",
    ]  # fmt: skip


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    generator = recording(tmp_path, {"messages": MESSAGES, "text": "whole"}, tail='{"messages": [{"role": "us')
    assert ask(generator).text == "whole"


@pytest.mark.parametrize(
    "line", ["not json", "[1]", '{"text": "of nothing"}', '{"messages": [], "text": 5}', '{"messages": [1]}']
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(ValueError, match=r"recording\.jsonl, line 2: "):
        recording(tmp_path, {"messages": MESSAGES, "text": "x"}, tail=line + "\n")


def test_a_recording_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.jsonl"):
        ReplayGenerator(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="no recorded replies"):
        ReplayGenerator(tmp_path)
