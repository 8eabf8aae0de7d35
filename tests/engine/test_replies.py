from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.engine.function_models import FunctionGenerator
from graphmill.engine.metered import MeteredGenerator
from graphmill.engine.models import AbortingGenerator, Generator, Reply, Request
from graphmill.engine.replies import MAX_WAITING, ReplyStore, StoredGenerator, export_replies
from graphmill.engine.reply_key import is_kept, request_key

REQUEST = Request("a", [{"role": "user", "content": "hello"}], max_tokens=100)
WHOLE = Reply("a", "hi", "stop", 7, 3)
TEMPORARY = tempfile.TemporaryDirectory()


def counting(reply: Reply = WHOLE) -> tuple[FunctionGenerator, list[str]]:
    asked: list[str] = []

    def answer(request: Request) -> Reply:
        asked.append(request.messages[-1]["content"])
        return reply

    return FunctionGenerator(answer, model="m"), asked


def ask(generator: Generator, *requests: Request) -> list[Reply]:
    for request in requests:
        generator.submit(request)
    replies: list[Reply] = []
    while len(replies) < len(requests):
        replies.extend(generator.collect())
    return replies


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [{"role": "user", "content": "hello "}]},
        {"messages": [{"role": "system", "content": "hello"}]},
        {"messages": [*REQUEST.messages, {"role": "assistant", "content": ""}]},
        {"temperature": 0.1},
        {"schema": {}},
        {"options": {"seed": 1}},
    ],
)
def test_the_key_changes_with_everything_that_shapes_the_reply(change: dict[str, Any]) -> None:
    assert request_key("m", replace(REQUEST, **change)) != request_key("m", REQUEST)
    assert request_key("n", REQUEST) != request_key("m", REQUEST)


def test_the_key_does_not_change_with_the_id_the_limit_or_the_order_of_fields() -> None:
    request = replace(REQUEST, id="b", max_tokens=5, messages=({"content": "hello", "role": "user"},))
    assert request_key("m", request) == request_key("m", REQUEST)


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        (WHOLE, True),
        (replace(WHOLE, finish_reason=None), True),
        (replace(WHOLE, finish_reason="length"), False),
        (replace(WHOLE, finish_reason="abort"), False),
        (replace(WHOLE, finish_reason=None, completion_tokens=100), False),
        (replace(WHOLE, error="timed out"), False),
        (replace(WHOLE, text=" \n"), False),
    ],
)
def test_only_whole_replies_are_kept(reply: Reply, kept: bool, tmp_path: Path) -> None:
    """Case O02."""
    assert is_kept(reply, 100) == kept
    generator, asked = counting(reply)
    with ReplyStore(tmp_path) as store:
        stored = StoredGenerator(generator, store)
        assert ask(stored, REQUEST) == [reply]
        assert ask(stored, REQUEST) == [reply]
        assert len(store) == kept
        assert (store.num_hits, store.num_misses) == (int(kept), 2 - kept)
    assert len(asked) == 2 - kept


def test_a_kept_reply_serves_a_later_process_under_the_id_that_asks(tmp_path: Path) -> None:
    with ReplyStore(tmp_path) as store:
        ask(StoredGenerator(counting()[0], store), REQUEST)
    generator, asked = counting()
    with ReplyStore(tmp_path) as store:
        assert ask(StoredGenerator(generator, store), replace(REQUEST, id="later")) == [replace(WHOLE, id="later")]
    assert asked == []


def test_a_kept_reply_that_is_longer_than_the_limit_is_not_used(tmp_path: Path) -> None:
    generator, asked = counting()
    with ReplyStore(tmp_path) as store:
        ask(StoredGenerator(generator, store), REQUEST)
        ask(StoredGenerator(generator, store), replace(REQUEST, max_tokens=2))
        ask(StoredGenerator(generator, store), replace(REQUEST, max_tokens=3))
    assert len(asked) == 2


def test_open_requests_of_one_id_do_not_mix_their_replies_up(tmp_path: Path) -> None:
    generator = FunctionGenerator(lambda request: request.messages[0]["content"].upper(), model="m")
    requests = [Request("same", [{"role": "user", "content": text}]) for text in ("one", "two")]
    with ReplyStore(tmp_path) as store:
        stored = StoredGenerator(generator, store)
        assert [reply.text for reply in ask(stored, *requests)] == ["ONE", "TWO"]
        assert [reply.text for reply in ask(stored, *reversed(requests))] == ["TWO", "ONE"]
        assert store.num_hits == 2


class Plain:
    """Can take nothing back."""

    def __init__(self, generator: Generator) -> None:
        self.model, self.context_tokens, self.max_in_flight = "m", 4096, generator.max_in_flight
        self.tokenizer, self.submit, self.collect = None, generator.submit, generator.collect

    def close(self) -> None: ...


def test_what_is_taken_back_does_not_come_and_what_an_earlier_run_left_open_is_not_taken_for_its_own(
    tmp_path: Path,
) -> None:
    kept, dropped = (Request(name, [{"role": "user", "content": name}]) for name in ("kept", "dropped"))
    generator, asked = counting()
    with ReplyStore(tmp_path) as store:
        stored = StoredGenerator(generator, store)
        stored.submit(dropped)
        stored.submit(kept)
        stored.abort({"dropped"})
        assert [reply.id for reply in stored.collect()] == ["kept"]
        assert asked == ["kept"]
        stored.submit(kept)  # which is in the store by now
        stored.abort({"kept"})
        left = StoredGenerator(plain := Plain(generator), store)
        left.submit(replace(dropped, id="again"))
        left.abort({"again"})
        assert ask(StoredGenerator(plain, store), replace(REQUEST, id="again"))[0].id == "again"
        assert asked == ["kept", "dropped", "hello"]
        assert store.get(request_key("m", dropped)) is None


def test_a_reply_that_comes_to_what_could_not_be_taken_back_is_kept_and_not_handed_out(tmp_path: Path) -> None:
    first, second = (Request(name, [{"role": "user", "content": name}]) for name in ("first", "second"))
    for number, meter in enumerate([lambda one: one, MeteredGenerator]):
        generator, asked = counting()
        with ReplyStore(tmp_path / str(number)) as store:
            stored = StoredGenerator(meter(Plain(generator)), store)
            stored.submit(first)
            stored.abort({"first"})
            stored.submit(second)
            assert [reply.id for reply in stored.collect()] == ["second"]
            stored.forget()  # which is of what was handed out
            assert [reply.id for reply in ask(stored, first)] == ["first"]
            assert [reply.id for reply in ask(stored, replace(second, id="again"))] == ["again"]
        assert asked == ["first", "second", "second"]


def test_a_meter_takes_back_what_its_generator_can() -> None:
    generator, asked = counting()
    metered = MeteredGenerator(generator)
    assert isinstance(metered, AbortingGenerator)
    assert not isinstance(MeteredGenerator(Plain(generator)), AbortingGenerator)
    metered.submit(REQUEST)
    metered.submit(replace(REQUEST, id="b"))
    metered.abort({"a"})
    assert [reply.id for reply in metered.collect()] == ["b"]
    assert asked == ["hello"]


def test_hits_come_at_once_and_misses_after_them(tmp_path: Path) -> None:
    generator, asked = counting()
    with ReplyStore(tmp_path) as store:
        stored = StoredGenerator(generator, store)
        ask(stored, REQUEST)
        other = replace(REQUEST, id="b", messages=[{"role": "user", "content": "new"}])
        stored.submit(other)
        stored.submit(REQUEST)
        assert [reply.id for reply in stored.collect()] == ["a"]
        assert [reply.id for reply in stored.collect()] == ["b"]
    assert asked == ["hello", "new"]


def test_a_reply_that_was_of_no_use_can_be_dropped(tmp_path: Path) -> None:
    key = request_key("m", REQUEST)
    with ReplyStore(tmp_path) as store:
        for flush in (False, True):
            store.put(key, "m", REQUEST, WHOLE)
            if flush:
                store.flush()
            store.drop(key)
            assert store.get(key) is None


@given(st.text(st.characters() | st.just("\ud800"), min_size=1))
def test_any_text_comes_back_as_it_was(text: str) -> None:
    with ReplyStore(Path(TEMPORARY.name), keep_messages=True) as store:
        request = replace(REQUEST, messages=[{"role": "user", "content": text}])
        key = request_key("m", request)
        kept = store.put(key, "m", request, replace(WHOLE, text=text))
        store.flush()
        found = store.get(key)
        assert kept == bool(text.strip())
        if found is not None:
            assert (found.text, found.messages) == (text, [{"role": "user", "content": text}])


def test_threads_can_share_a_store(tmp_path: Path) -> None:
    with ReplyStore(tmp_path) as store:

        def work(number: int) -> None:
            for n in range(100):
                request = replace(REQUEST, messages=[{"role": "user", "content": f"{number} {n}"}])
                store.put(request_key("m", request), "m", request, WHOLE)
                assert store.get(request_key("m", request)) is not None

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(store), store.num_hits) == (600, 600)


def test_a_killed_process_leaves_whole_replies_and_a_usable_store(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from graphmill.engine.models import Reply, Request\n"
        "from graphmill.engine.replies import ReplyStore\n"
        "store = ReplyStore(sys.argv[1])\n"
        "request = Request('a', [])\n"
        f"for n in range({MAX_WAITING} + 5):\n"
        "    store.put('%032x' % n, 'm', request, Reply('a', f'text {n}', 'stop'))\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=60, check=False)
    with ReplyStore(tmp_path) as store:
        assert MAX_WAITING <= len(store) <= MAX_WAITING + 5
        assert [stored.text for stored in store] == [f"text {n}" for n in range(len(store))]
        assert store.put("f" * 32, "m", REQUEST, WHOLE)


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "replies.sqlite").write_text("not a database, but long enough to be looked at as one" * 20)
    with pytest.raises(OSError, match=r"replies\.sqlite.*remove the file"):
        ReplyStore(tmp_path)


def test_an_export_has_one_line_a_reply_in_the_order_of_keys(tmp_path: Path) -> None:
    with ReplyStore(tmp_path / "store", keep_messages=True) as store:
        for n in (3, 1, 2):
            store.put(f"{n:032x}", "m", REQUEST, replace(WHOLE, text=f"é {n}", finish_reason=None))
        assert export_replies(store, tmp_path / "out.jsonl") == 3
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [row["text"] for row in rows] == ["é 1", "é 2", "é 3"]
    assert rows[0] == {
        "key": f"{1:032x}",
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "text": "é 1",
        "prompt_tokens": 7,
        "completion_tokens": 3,
    }
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["out.jsonl"]


def test_the_store_is_one_that_sqlite_itself_finds_sound(tmp_path: Path) -> None:
    with ReplyStore(tmp_path) as store:
        store.put("0" * 32, "m", REQUEST, WHOLE)
    database = sqlite3.connect(tmp_path / "replies.sqlite")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
