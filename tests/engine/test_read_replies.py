"""Replies read together come out as when each is read by itself."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reply_texts import ODD_FIELDS, PIECES, PLAIN_LAYOUTS, well_formed

import graphmill
from graphmill.engine import extract as extract_module
from graphmill.engine import read_replies as module
from graphmill.engine.config import Config
from graphmill.engine.extract import ExtractConfig, TextRead, extraction_tables, read_text
from graphmill.engine.function_models import FunctionGenerator, HashingEmbedder
from graphmill.engine.models import Reply, Request
from graphmill.engine.names import QUOTE_MARKS
from graphmill.engine.profiles import load_profile
from graphmill.engine.read_replies import Told, can_wait, read_replies
from graphmill.engine.read_reply import LAYOUTS, Layout
from graphmill.engine.read_well_formed import RECORDS
from graphmill.engine.tokenizers import WordTokenizer
from graphmill.kernels import split_records
from graphmill.kernels.backend import backend

CPU = backend("cpu")
CASES = [json.loads(line) for line in (Path(__file__).parents[1] / "cases.jsonl").read_text("utf-8").splitlines()]
FINISH_REASONS = st.sampled_from([None, "stop", "length"])
SEPARATORS = st.sampled_from(["##\n", "\n", "##"])


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Layout, str]:
    """A well-formed reply with some of it gone or something put into it, now and then."""
    layout, _, text = draw(well_formed())
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.one_of(PIECES, st.just(""))) + text[at + draw(st.integers(0, 4)) :]
    return layout, text


@st.composite
def odd(draw: st.DrawFn) -> tuple[Layout, str]:
    """The structure of a layout, with fields that try the rules for what may be in one."""
    layout = draw(PLAIN_LAYOUTS)
    records = []
    for _ in range(draw(st.integers(1, 4))):
        tag = draw(st.sampled_from(['"entity"', "relationship", "entity", '"relationship"', '"content_keywords"']))
        num_fields = {"entity": 3, "relationship": len(layout.relationship)}.get(tag.strip('"'), 1)
        fields = [draw(ODD_FIELDS) for _ in range(num_fields)]
        if "relationship" in tag and layout.relationship[-1] == "strength":
            fields[-1] = draw(st.sampled_from(["7", "10", "8/10", '"9"', "high", "0", "-1", "９", "unclear", ""]))
        if draw(st.booleans()):
            fields = [f'"{field}"' for field in fields]
        records.append(f"({'<|>'.join([tag, *fields])})")
    return layout, draw(SEPARATORS).join(records) + draw(st.sampled_from(["", "\n<|COMPLETE|>", "<|COMPLETE|>"]))


ANY_TEXT = st.tuples(PLAIN_LAYOUTS, st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=20).map("".join))
REPLIES = st.one_of(well_formed().map(lambda made: (made[0], made[2])), damaged(), odd(), ANY_TEXT)


@pytest.fixture(autouse=True)
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few there are."""
    monkeypatch.setattr(module, "MIN_TOGETHER", 1)


def outcomes(replies: Sequence[Told]) -> list[dict[str, Any]]:
    """Each reply's records and what else came of it; the table is sound in itself."""
    table = read_replies(replies, CPU)
    assert table.schema == RECORDS
    found: list[dict[str, Any]] = [
        {"complete": reply.complete, "reasons": dict(reply.reasons), "records": []} for reply in replies
    ]
    order = list(zip(table["reply"].to_pylist(), table["place"].to_pylist(), strict=True))
    assert order == sorted(set(order))
    for row in table.drop_columns("place").to_pylist():
        found[row.pop("reply")]["records"].append(row)
    return found


def assert_the_same_as_one_by_one(texts: Sequence[tuple[Layout, str]], finish_reason: str | None) -> list[Told]:
    frames = [Told(text, layout, finish_reason) for layout, text in texts]
    alone = [Told(text, layout, finish_reason) for layout, text in texts]
    for reply in alone:
        reply.read()
    assert outcomes(frames) == outcomes(alone)
    return frames


@given(st.lists(REPLIES, min_size=1, max_size=6), FINISH_REASONS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_replies_of_any_kind_and_mixture_are_read_as_one_by_one(
    texts: list[tuple[Layout, str]], finish_reason: str | None
) -> None:
    assert_the_same_as_one_by_one(texts, finish_reason)


@given(st.lists(odd(), min_size=4, max_size=12), FINISH_REASONS)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fields_that_are_odd_are_read_as_one_by_one(texts: list[tuple[Layout, str]], finish_reason: str | None) -> None:
    assert_the_same_as_one_by_one(texts, finish_reason)


@given(st.lists(well_formed(), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_replies_to_the_letter_are_not_read_one_by_one(made: list[tuple[Layout, list[dict[str, Any]], str]]) -> None:
    replies = [Told(text, layout) for layout, _, text in made]
    table = read_replies(replies, CPU)
    assert all(reply.reading is None and reply.complete for reply in replies)
    assert table.num_rows == sum(len(records) for _, records, _ in made)


def test_the_cases_are_read_as_one_by_one() -> None:
    cases = [case["input"] for case in CASES if case["kind"] == "extraction"]
    texts = [(LAYOUTS["graphrag" if case["format"] == "ms" else case["format"]], case["raw"]) for case in cases]
    assert len(texts) > 10
    for finish_reason in (None, "stop", "length"):
        assert_the_same_as_one_by_one(texts, finish_reason)


SAME = ['("entity"<|>Alice<|>person<|>Engineer at Acme)', '("relationship"<|>Alice<|>Acme<|>Alice works there<|>9)']


@pytest.mark.parametrize(
    ("record", "reasons"),
    [
        ('("entity"<|>""<|>person<|>x)', {"empty name": 1}),
        ('("entity"<|>name<|>type<|>description)', {"placeholder": 1}),
        ('("entity"<|>{entity_name}<|>person<|>x)', {"placeholder": 1}),
        ('("relationship"<|>source<|>target<|>x<|>1)', {"placeholder": 1}),
        ('("relationship"<|>name<|>TYPE<|>x<|>1)', {"placeholder": 1}),
        ('("relationship"<|>Acme<|>“ACME”<|>x<|>1)', {"self-loop": 1}),
        ('("relationship"<|>Acme<|>...<|>x<|>1)', {"placeholder": 1}),
        ('("content_keywords"<|>[])', {}),
        ('("entity"<|>B (US)<|>person<|>knows R&D, C#, a (b (c) d) and "some" \'quotes\')', {}),
        ('("entity"<|>B<|>person<|>"in quotes")', {}),
        ('("entity"<|>B<|>person<|>"in" two "quotes")', {}),
        ('("entity"<|>B<|>person<|>“in curly ones”)', {}),
        ('("entity"<|>B<|><|>)', {}),
        ('("entity"<|>B<|>person<|>entity_description)', {}),
        ('("relationship"<|>A<|>B<|>x<|>8/10)', {}),
    ],
)
def test_well_formed_replies_are_rejected_cleaned_and_kept_by_the_same_rules(
    record: str, reasons: dict[str, int]
) -> None:
    text = "##\n".join([SAME[0], record, SAME[1]]) + "\n<|COMPLETE|>"
    (reply,) = assert_the_same_as_one_by_one([(LAYOUTS["graphrag"], text)], None)
    assert reply.reading is None
    assert reply.reasons == reasons


@pytest.mark.parametrize(
    ("record", "profile"),
    [
        ('("entity"<|>B<|>person<|>AT&amp;T)', "graphrag"),
        ('("entity"<|>B<|>person<|>smiles :))', "graphrag"),
        ('("entity"<|>B<|>person<|>two\nlines)', "graphrag"),
        ('("entity"<|>B<|>person<|>a\u200bb)', "graphrag"),
        ('("entity"<|>B<|>person<|>a ## b)', "graphrag"),
        ('("entity"<|>B<|>person)', "graphrag"),
        ('("claim"<|>B<|>person<|>x)', "graphrag"),
        ('("relationship"<|>A<|>B<|>x<|>unclear)', "graphrag"),
        ('("relationship"<|>A<|>B<|>x<|>9)', "lightrag"),
        ('("relationship"<|>A<|>B<|>high)', "graphgen"),
        ("()", "graphrag"),
    ],
)
def test_what_is_doubtful_is_left_to_the_tolerant_reader(record: str, profile: str) -> None:
    entity = '("entity"<|>Alice<|>person<|>Engineer at Acme)'
    text = f"{entity}##\n{record}##\n{entity}"
    first, second = assert_the_same_as_one_by_one([(LAYOUTS[profile], text), (LAYOUTS[profile], entity)], None)
    assert first.reading is not None
    assert second.reading is None


def test_the_kernel_knows_the_quotes_that_names_are_cleaned_of() -> None:
    assert set(split_records._EDGES) == QUOTE_MARKS | {" "}


@given(REPLIES, FINISH_REASONS)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_reply_that_can_wait_holds_a_record_or_is_complete(
    made: tuple[Layout, str], finish_reason: str | None
) -> None:
    reply = Told(made[1], made[0], finish_reason)
    if can_wait(reply):
        assert reply.read().records or reply.read().complete


@given(well_formed())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_reply_to_the_letter_can_wait(made: tuple[Layout, list[dict[str, Any]], str]) -> None:
    assert can_wait(Told(made[2], made[0]))


def test_json_and_other_delimiters_cannot_wait_and_are_read_one_by_one() -> None:
    own = Layout("own", tuple_delimiter="::", completion="[DONE]")
    for layout, text in (
        (LAYOUTS["json"], '{"entities": []}'),
        (own, '("entity"::Alice::person::Engineer at Acme)[DONE]'),
    ):
        reply = Told(text, layout, "stop")
        assert not can_wait(reply)
        read_replies([reply], CPU)
        assert reply.reading is not None


def conversation(
    texts: Sequence[str], finish_reasons: Sequence[Any], config: ExtractConfig
) -> tuple[list[Any], TextRead]:
    """The requests of a conversation whose replies are these, and what came of it."""
    asked: list[Request] = []
    reading = read_text("t", "Alice is an engineer at Acme.", load_profile("graphrag", "en"), config)
    request = next(reading)
    replies: Iterator[tuple[str, Any]] = iter(zip(texts, finish_reasons, strict=True))
    while True:
        asked.append(request)
        text, finish_reason = next(replies)
        error = "gone" if text == "error" else None
        try:
            request = reading.send(Reply(request.id, text, finish_reason, prompt_tokens=3, error=error))
        except StopIteration as stop:
            return asked, stop.value


@given(
    st.lists(
        st.one_of(REPLIES.map(lambda made: made[1]), st.sampled_from(["", "YES", "error", "<|COMPLETE|>"])),
        min_size=8,
        max_size=8,
    ),
    st.lists(st.sampled_from(["stop", "length", "unknown"]), min_size=8, max_size=8),
    st.integers(0, 2),
    st.booleans(),
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_conversation_goes_on_the_same_way_whether_its_replies_wait_or_not(
    texts: list[str], finish_reasons: list[Any], max_gleanings: int, grounding: bool
) -> None:
    config = ExtractConfig(max_gleanings=max_gleanings, retries=2, grounding=grounding)
    asked, read = conversation(texts, finish_reasons, config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extract_module, "can_wait", lambda reply: not reply.read())
        asked_at_once, read_at_once = conversation(texts, finish_reasons, config)
    for reply in read_at_once.replies:
        reply.read()
    assert asked == asked_at_once
    assert extraction_tables([read], CPU) == extraction_tables([read_at_once], CPU)
    assert (read.status, read.reason) == (read_at_once.status, read_at_once.reason)


def test_shards_are_the_same_byte_for_byte_whichever_way_replies_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reply(request: Request) -> str:
        if not request.id.startswith("extract"):
            return "A summary."
        if len(request.messages) > 1:
            return "<|COMPLETE|>"
        number = int(request.messages[0]["content"].rsplit("Note", 1)[1].split(".")[0])
        rng = random.Random(number)
        names = [f"Person {rng.randrange(40)}" for _ in range(6)]
        rows = [f'("entity"<|>"{name}"<|>person<|>"{name} is in note {number}")' for name in names]
        rows += [f'("relationship"<|>{a}<|>{b}<|>They met<|>{number % 12})' for a, b in pairwise(names)]
        text = "##\n".join(rows) + "\n<|COMPLETE|>"
        return text[: len(text) // 2] if number % 7 == 0 else text.replace("<|>", "<|#|>") if number % 11 == 0 else text

    documents = [(f"{number}.txt", f"Note {number}. Some people met.") for number in range(60)]
    config = Config(extract=ExtractConfig(shard_texts=25), device="cpu")
    shards = []
    for limit in (1, 1000):
        monkeypatch.setattr(module, "MIN_TOGETHER", limit)
        path = tmp_path / str(limit)
        generator = FunctionGenerator(reply, model="scripted", max_in_flight=8)
        graphmill.index(documents, path, generator, HashingEmbedder(32), WordTokenizer(), config)
        files = [file for table in ("extractions", "readings") for file in sorted((path / table).iterdir())]
        shards.append({f"{file.parent.name}/{file.name}": file.read_bytes() for file in files})
    assert len(shards[0]) == 6
    assert shards[0] == shards[1]


def test_where_the_model_leaves_the_device_no_memory_replies_are_read_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layout = LAYOUTS["graphrag"]
    text = '("entity"<|>Ada<|>person<|>a sailor)##("relationship"<|>Ada<|>Bea<|>friends<|>8)<|COMPLETE|>'
    seen: list[str] = []
    whole = module.read_well_formed

    def full(bodies: list[str], separator: str, shape: Layout, chosen: Any) -> Any:
        seen.append(chosen.name)
        if chosen.name == "cuda":
            raise MemoryError("std::bad_alloc: out_of_memory: CUDA error")
        return whole(bodies, separator, shape, chosen)

    monkeypatch.setattr(module, "read_well_formed", full)
    told = [Told(text, layout, "stop") for _ in range(module.MIN_TOGETHER)]
    records = read_replies(told, replace(CPU, name="cuda"))
    assert seen == ["cuda", "cpu"]
    assert records.num_rows == 2 * len(told)
