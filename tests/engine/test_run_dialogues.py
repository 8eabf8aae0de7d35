"""Many dialogues at once: each gets its own replies, look-ups come in batches, the model stays full, not overfull."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.engine.dialogue import Ask, Dialogue, LookUp, Result
from graphmill.engine.function_models import FunctionGenerator
from graphmill.engine.models import Reply, Request
from graphmill.engine.run_dialogues import BATCH, Running, _Asked, run_each
from graphmill.engine.search import Search

Plan = Sequence[int]
"""Requests of each round; 0 stands for a look-up."""


def dialogue(number: int, plan: Plan) -> Dialogue[tuple[int, list[str]]]:
    said: list[str] = []
    for step, num_requests in enumerate(plan):
        if num_requests == 0:
            assert (yield LookUp(cast(Search, (number, step)))) == []
            said.append("looked up")
            continue
        requests = [
            Request(f"query/{number}-{step}-{n}", [{"role": "user", "content": f"{number}.{step}.{n}"}])
            for n in range(num_requests)
        ]
        said += [reply.text for reply in (yield Ask(requests))]
    return number, said


def expected(number: int, plan: Plan) -> tuple[int, list[str]]:
    said: list[str] = []
    for step, num_requests in enumerate(plan):
        said += [f"re {number}.{step}.{n}" for n in range(num_requests)] or ["looked up"]
    return number, said


def run_alone(dialogue: Dialogue[Result], generator: FunctionGenerator | None) -> Result:
    (result,) = run_each([dialogue], generator, lambda steps: None)
    return result


def answering(max_in_flight: int) -> FunctionGenerator:
    return FunctionGenerator(lambda r: f"re {r.messages[0]['content']}", max_in_flight=max_in_flight)


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=12), st.integers(1, 5))
def test_every_dialogue_gets_its_own_replies_in_the_order_of_its_requests(plans: list[Plan], places: int) -> None:
    looked_up: list[Any] = []
    found = list(
        run_each(
            [dialogue(n, p) for n, p in enumerate(plans)],
            answering(places),
            lambda steps: looked_up.extend(step.search for step in steps),
        )
    )
    assert sorted(found) == [expected(n, p) for n, p in enumerate(plans)]
    assert sorted(looked_up) == [(n, s) for n, p in enumerate(plans) for s, num in enumerate(p) if num == 0]
    for number, plan in enumerate(plans):
        assert run_alone(dialogue(number, plan), answering(places)) == expected(number, plan)


def test_look_ups_of_many_questions_come_in_one_batch_and_no_model_is_needed_for_them() -> None:
    batches: list[int] = []
    dialogues = (dialogue(n, [0]) for n in range(3 * BATCH + 5))
    found = list(run_each(dialogues, None, lambda searches: batches.append(len(searches))))
    assert len(found) == 3 * BATCH + 5
    assert batches == [BATCH, BATCH, BATCH, 5]


class Counting(FunctionGenerator):
    """Gives one reply at a time, and knows the most and the fewest requests that were open when it did."""

    def __init__(self, places: int) -> None:
        super().__init__(lambda r: f"re {r.messages[0]['content']}", max_in_flight=places)
        self.num_open: list[int] = []

    def collect(self) -> Sequence[Reply]:
        self.num_open.append(len(self._open))
        return [self._reply(self._open.popleft())]


def test_the_model_is_full_until_the_end_and_never_has_more_than_it_takes() -> None:
    generator = Counting(8)
    found = list(run_each((dialogue(n, [1, 0, 3, 1]) for n in range(40)), generator, lambda searches: None))
    assert len(found) == 40
    assert max(generator.num_open) == 8
    assert min(generator.num_open[: -8 * 5]) == 8


def test_dialogues_are_pulled_as_they_are_wanted() -> None:
    pulled: list[int] = []

    def source() -> Any:
        for number in range(1000):
            pulled.append(number)
            yield dialogue(number, [0, 1])

    results = run_each(source(), answering(4), lambda searches: None)
    next(results)
    assert len(pulled) <= 16
    results.close()  # type: ignore[attr-defined]


def test_a_reply_to_a_question_that_was_interrupted_is_nobodys() -> None:
    generator = answering(4)
    generator.submit(Request("query/old", [{"role": "user", "content": "old"}]))
    assert run_alone(dialogue(0, [1]), generator) == expected(0, [1])
    generator.submit(Request("query/old", [{"role": "user", "content": "old"}]))
    assert list(run_each([dialogue(0, [2])], generator, lambda searches: None)) == [expected(0, [2])]


def test_an_error_of_the_engine_closes_every_dialogue() -> None:
    closed: list[int] = []

    def watched(number: int) -> Dialogue[int]:
        try:
            yield Ask([Request(f"query/{number}", [])])
        finally:
            closed.append(number)
        return number

    class Dead(FunctionGenerator):
        def collect(self) -> Sequence[Reply]:
            raise OSError("the engine is gone")

    with pytest.raises(OSError, match="gone"):
        list(run_each([watched(n) for n in range(3)], Dead(lambda r: ""), lambda searches: None))
    assert sorted(closed) == [0, 1, 2]


class Interrupted(FunctionGenerator):
    """Is interrupted where it would wait for the third reply, and knows what was open after that."""

    left: Sequence[str] = ()

    def __init__(self) -> None:
        super().__init__(lambda r: f"re {r.messages[0]['content']}", max_in_flight=8)
        self.num_replies = 0

    def collect(self) -> Sequence[Reply]:
        if self.num_replies == 2:
            raise KeyboardInterrupt
        self.num_replies += 1
        return [self._reply(self._open.popleft())]

    def open_ids(self) -> list[str]:
        return [request.id for request in self._open]


def test_what_a_reader_that_stops_has_open_is_taken_back_and_nothing_else() -> None:
    generator = Interrupted()
    other = Request("query/other", [{"role": "user", "content": "x"}])
    generator.submit(other)
    batch = run_each((dialogue(n, [1]) for n in range(20)), generator, lambda steps: None)
    assert next(batch) == expected(0, [1])
    assert len(generator.open_ids()) == 8
    batch.close()  # type: ignore[attr-defined]
    assert generator.open_ids() == []  # the other one was the first to be answered
    generator.submit(other)
    with pytest.raises(KeyboardInterrupt):
        list(run_each((dialogue(n, [1]) for n in range(20)), generator, lambda steps: None))
    assert generator.open_ids() == ["query/other"]


def test_an_interrupt_takes_back_what_one_question_has_open() -> None:
    generator = Interrupted()
    running = Running(dialogue(0, [20]), generator)
    with pytest.raises(KeyboardInterrupt):
        running.to_answer()
    assert generator.num_replies == 2
    assert generator.open_ids() == []


def test_two_open_requests_with_one_id_are_refused() -> None:
    def same(_: int) -> Dialogue[None]:
        yield Ask([Request("query/same", [])])

    with pytest.raises(ValueError, match="one id"):
        list(run_each([same(0), same(1)], answering(4), lambda searches: None))


def asking(name: str, *texts: str, **how: Any) -> Dialogue[list[Reply]]:
    requests = [Request(f"query/{name}-{n}", [{"role": "user", "content": t}], **how) for n, t in enumerate(texts)]
    replies = yield Ask(requests)
    assert [reply.id for reply in replies] == [request.id for request in requests]
    return replies


@pytest.mark.parametrize("places", [1, 2, 64])
def test_equal_requests_that_are_open_together_are_put_to_the_model_once_and_all_get_the_reply(places: int) -> None:
    asked: list[str] = []

    def answer(request: Request) -> str | Reply:
        asked.append(str(request.messages[0]["content"]))
        return Reply("", error="busy") if asked[-1] == "bad" else f"re {asked[-1]}"

    texts = [("a", "b"), ("b", "a", "a"), ("bad", "a"), ("bad", "c")]
    dialogues = [asking(str(n), *text) for n, text in enumerate(texts)]
    found = list(run_each(dialogues, FunctionGenerator(answer, max_in_flight=places), lambda steps: None))
    said = sorted([reply.error or reply.text for reply in replies] for replies in found)
    assert said == sorted([["re a", "re b"], ["re b", "re a", "re a"], ["busy", "re a"], ["busy", "re c"]])
    assert len(asked) <= (4 if places == 64 else 6)  # of 9: one that has been answered is asked anew
    asked.clear()
    batch = run_each((asking(str(n), "same") for n in range(40)), answering(8), lambda steps: None)
    assert [reply.text for (reply,) in batch] == ["re same"] * 40


def test_requests_of_another_sampling_or_schema_are_not_equal() -> None:
    asked: list[Request] = []
    hows: list[dict[str, Any]] = [
        {}, {"max_tokens": 5}, {"temperature": 0.5}, {"schema": {"type": "object"}}, {"options": {"seed": 1}},
    ]  # fmt: skip
    dialogues = [asking(str(n), "same", **how) for n, how in enumerate(hows)]
    generator = FunctionGenerator(lambda request: asked.append(request) or "x")  # type: ignore[func-returns-value]
    assert len(list(run_each(dialogues, generator, lambda steps: None))) == len(asked) == 5


def test_what_is_known_of_equal_requests_goes_with_their_reply() -> None:
    """A run of many questions holds what is open, not what has been."""
    seen: list[int] = []

    class Watched(FunctionGenerator):
        def collect(self) -> Sequence[Reply]:
            gc.collect()
            seen.append(sum(type(found) is _Asked for found in gc.get_objects()))
            return super().collect()

    generator = Watched(lambda request: "x", max_in_flight=4)
    list(run_each((asking(str(n), str(n // 2)) for n in range(60)), generator, lambda steps: None))
    assert len(seen) >= 8
    assert max(seen) <= 8


def test_a_dialogue_stops_before_its_answer_and_goes_on_with_the_reply() -> None:
    def one() -> Dialogue[str]:
        (first,) = yield Ask([Request("a", [{"role": "user", "content": "keywords"}])])
        (answer,) = yield Ask([Request("b", [{"role": "user", "content": first.text}])], is_answer=True)
        return answer.text

    running = Running(one(), answering(1))
    asked = running.to_answer()
    assert asked is not None
    assert asked.requests[0].messages[0]["content"] == "re keywords"
    running.send([Reply("b", "done")])
    assert running.to_answer() is None


def test_a_dialogue_that_asks_where_there_is_no_model_is_a_mistake_of_ours() -> None:
    with pytest.raises(RuntimeError, match="there is none"):
        run_alone(dialogue(0, [1]), None)
    with pytest.raises(RuntimeError, match="there is none"):
        list(run_each([dialogue(0, [1])], None, lambda searches: None))


def test_one_look_up_that_fails_is_that_questions_and_no_others() -> None:
    def careful(number: int) -> Dialogue[str]:
        try:
            yield LookUp(cast(Search, number))
        except ValueError as error:
            return f"{number}: {error}"
        (reply,) = yield Ask([Request(f"query/{number}", [{"role": "user", "content": str(number)}])])
        return reply.text

    def look_up(steps: Sequence[LookUp]) -> None:
        if cast(Any, 3) in [step.search for step in steps]:
            raise ValueError("no vector")

    found = list(run_each((careful(n) for n in range(6)), answering(2), look_up))
    assert sorted(found) == ["3: no vector", *(f"re {n}" for n in (0, 1, 2, 4, 5))]


def test_dialogues_that_end_at_once_are_handed_out_before_more_are_pulled() -> None:
    pulled: list[int] = []

    def source() -> Any:
        for number in range(100_000):
            pulled.append(number)
            yield dialogue(number, [])

    for generator in (answering(4), None):
        pulled.clear()
        results = run_each(source(), generator, lambda steps: None)
        next(results)
        assert len(pulled) <= 2 * BATCH
