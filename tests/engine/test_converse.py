from __future__ import annotations

import random
from collections.abc import Iterator, Sequence, Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.engine.converse import Conversation, converse
from graphmill.engine.models import Reply, Request, Tokenizer


class Echo:
    """Answers any number of the open requests at a time, in any order, and keeps what it was asked."""

    model = "echo"
    context_tokens = 4096
    tokenizer: Tokenizer | None = None

    def __init__(self, max_in_flight: int, seed: int = 0) -> None:
        self.max_in_flight = max_in_flight
        self.random = random.Random(seed)
        self.open: list[Request] = []
        self.asked: list[str] = []
        self.most_open = 0

    def submit(self, request: Request) -> None:
        self.open.append(request)
        self.asked.append(request.id)
        self.most_open = max(self.most_open, len(self.open))

    def collect(self) -> Sequence[Reply]:
        self.random.shuffle(self.open)
        count = self.random.randint(1, len(self.open))
        done, self.open = self.open[:count], self.open[count:]
        return [
            Reply(r.id, error="timed out") if r.messages[0]["content"] == "fail" else Reply(r.id, text=f"re {r.id}")
            for r in done
        ]

    def close(self) -> None: ...


def request(name: str, content: str = "") -> Request:
    return Request(name, [{"role": "user", "content": content}])


def talk(number: int, rounds: int) -> Conversation[tuple[int, list[str]]]:
    texts = []
    for number_of_round in range(rounds):
        reply = yield request(f"{number}-{number_of_round}")
        texts.append(reply.text)
    return number, texts


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(1, 8), st.integers(0, 5))
def test_every_conversation_gets_its_own_replies_within_the_limit(rounds: list[int], places: int, seed: int) -> None:
    echo = Echo(places, seed)
    results = dict(converse((talk(n, r) for n, r in enumerate(rounds)), echo))
    assert results == {n: [f"re {n}-{i}" for i in range(r)] for n, r in enumerate(rounds)}
    assert echo.most_open <= places
    assert not echo.open


def test_a_follow_up_goes_out_before_new_work() -> None:
    echo = Echo(1)
    list(converse((talk(n, 3) for n in range(3)), echo))
    assert echo.asked == [f"{n}-{i}" for n in range(3) for i in range(3)]


def test_new_work_is_pulled_only_as_places_come_free_and_they_are_filled_before_results_are_read() -> None:
    pulled = 0

    def source() -> Iterator[Conversation[tuple[int, list[str]]]]:
        nonlocal pulled
        for n in range(1000):
            pulled += 1
            yield talk(n, 1)

    echo = Echo(4)
    results = converse(source(), echo)
    next(results)
    assert pulled <= 9
    assert len(echo.open) == 4


def test_conversations_that_ask_nothing_are_not_piled_up() -> None:
    pulled = 0

    def source() -> Iterator[Conversation[tuple[int, list[str]]]]:
        nonlocal pulled
        for n in range(1000):
            pulled += 1
            yield talk(n, 0)

    results = converse(source(), Echo(4))
    next(results)
    assert pulled <= 9
    assert len(list(results)) == 999


def test_an_error_is_the_conversations_to_deal_with() -> None:
    def ask() -> Conversation[str | None]:
        reply = yield request("a", "fail")
        return reply.error

    assert list(converse([ask()], Echo(2))) == ["timed out"]


def test_stopping_early_closes_the_open_conversations_and_the_next_run_ignores_their_replies() -> None:
    closed = []

    def careful(n: int) -> Conversation[int]:
        try:
            yield request(f"old-{n}")
            return n
        finally:
            closed.append(n)

    echo = Echo(5)
    results = converse((careful(n) for n in range(50)), echo)
    next(results)
    assert isinstance(results, Iterator)
    results.close()  # type: ignore[attr-defined]
    assert len(closed) >= 5
    assert len(echo.open) > 0
    assert len(list(converse((talk(n, 2) for n in range(7)), echo))) == 7


def test_what_was_asked_is_taken_back_when_the_reader_stops_or_anything_raises() -> None:
    class Aborting(Echo):
        def abort(self, request_ids: Set[str]) -> None:
            self.open = [request for request in self.open if request.id not in request_ids]

    echo = Aborting(5)
    results = converse((talk(n, 1) for n in range(50)), echo)
    next(results)
    other = request("another's")
    echo.submit(other)
    results.close()  # type: ignore[attr-defined]
    assert echo.open == [other]


def telling_its_end(closed: list[str]) -> Conversation[None]:
    try:
        yield request("x")
    finally:
        closed.append("x")


def test_an_interrupt_while_waiting_closes_the_open_conversations() -> None:
    closed: list[str] = []

    class Interrupted(Echo):
        def collect(self) -> Sequence[Reply]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(converse([telling_its_end(closed)], Interrupted(1)))
    assert closed == ["x"]


def test_a_generator_that_fails_to_take_requests_back_hides_no_error_and_leaves_no_conversation_open() -> None:
    closed: list[str] = []

    class Broken(Echo):
        def collect(self) -> Sequence[Reply]:
            raise KeyboardInterrupt

        def abort(self, request_ids: Set[str]) -> None:
            raise OSError("the connection is gone")

    with pytest.raises(KeyboardInterrupt):
        list(converse([telling_its_end(closed)], Broken(1)))
    assert closed == ["x"]


def test_two_conversations_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="0-0"):
        list(converse([talk(0, 1), talk(0, 1)], Echo(2)))


def test_a_generator_that_returns_no_reply_does_not_hang_the_run() -> None:
    class Silent(Echo):
        def collect(self) -> Sequence[Reply]:
            return []

    with pytest.raises(RuntimeError, match="echo"):
        list(converse([talk(0, 1)], Silent(2)))
