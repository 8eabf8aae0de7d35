"""Runs dialogues: one to its end, or many with their look-ups in batches and the model kept full."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeAlias

from graphmill.engine.abort import abort
from graphmill.engine.dialogue import Ask, Dialogue, LookUp, Rank, Result, Step
from graphmill.engine.models import Generator, Reply, Request
from graphmill.engine.reply_key import request_key
from graphmill.engine.rerank import rank_steps

LookUpEach: TypeAlias = Callable[[Sequence[LookUp]], None]
"""Does many look-ups together; raises ValueError when one of them can't be done."""
BATCH = 256
"""Questions that are pulled, and looked up, together."""


class Running(Generic[Result]):
    """One dialogue on its way, which stops before its answer is asked for."""

    def __init__(self, dialogue: Dialogue[Result], generator: Generator | None) -> None:
        self._dialogue, self._generator = dialogue, generator
        self._sent: list[Reply] | None = None

    def to_answer(self) -> Ask | None:
        """Runs up to the request whose reply is the answer, and returns it; None when the dialogue ended."""
        try:
            while True:
                step = next(self._dialogue) if self._sent is None else self._dialogue.send(self._sent)
                if isinstance(step, LookUp):
                    self._sent = []
                elif isinstance(step, Rank):
                    rank_steps([step])
                    self._sent = []
                elif step.is_answer:
                    return step
                else:
                    self._sent = replies_to(step.requests, self._generator)
        except StopIteration:
            return None

    def send(self, replies: list[Reply]) -> None:
        """Takes the replies that the dialogue waits for; ``to_answer`` goes on with them."""
        self._sent = replies

    def close(self) -> None:
        """Ends the dialogue where it is."""
        self._dialogue.close()


def replies_to(requests: Sequence[Request], generator: Generator | None) -> list[Reply]:
    """The replies to some requests, in their order; at most ``max_in_flight`` are open at a time.

    What is open when it is interrupted is taken back.
    """
    if generator is None:
        raise RuntimeError("a dialogue asked a model, and there is none")
    wanted = {request.id for request in requests}
    backlog, found = deque(requests), dict[str, Reply]()
    num_open = 0
    try:
        while len(found) < len(wanted):
            while backlog and num_open < generator.max_in_flight:
                generator.submit(backlog.popleft())
                num_open += 1
            for reply in generator.collect():
                if reply.id in wanted:  # a reply to a question that was interrupted may still come
                    found[reply.id] = reply
                    num_open -= 1
    except BaseException:
        abort(generator, wanted - found.keys())
        raise
    return [found[request.id] for request in requests]


def run_each(
    dialogues: Iterable[Dialogue[Result]], generator: Generator | None, look_up: LookUpEach
) -> Iterator[Result]:
    """Takes every dialogue to its end, and yields the results as they come, in no set order.

    Dialogues are pulled BATCH at a time, one batch ahead of what the model can run, so that it has work while the next
    batch is looked up. Requests that are equal but for their ids are put to the model once while they are open, and all
    who asked get the reply. What is open when the reader stops, or anything raises, is taken back. A look-up that can't
    be done raises ValueError in its dialogue. What a dialogue raises ends the run: a question that fails is to return
    so.
    """
    batch = _Batch[Result](generator, look_up)
    source = iter(dialogues)
    exhausted = False
    try:
        while True:
            while not exhausted and batch.has_room:
                dialogue = next(source, None)
                if dialogue is None:
                    exhausted = True
                else:
                    batch.begin(dialogue)
            batch.look_up()
            batch.rank()
            batch.submit()
            if batch.finished:
                done, batch.finished = batch.finished, []
                yield from done
            elif batch.is_idle and exhausted:
                return
            else:
                batch.collect()
    finally:
        batch.close()


@dataclass(eq=False)
class _Open(Generic[Result]):
    """A dialogue that is under way, with the replies that it waits for."""

    dialogue: Dialogue[Result]
    replies: dict[str, Reply | None] = field(default_factory=dict)


@dataclass(eq=False)
class _Asked(Generic[Result]):
    """A request that the model has, or is to have, and everybody who waits for its reply, each with an id of theirs."""

    key: tuple[str, int]
    """What shapes the reply."""
    askers: list[tuple[_Open[Result], str]] = field(default_factory=list)


class _Batch(Generic[Result]):
    """Dialogues beside each other, each at its next step."""

    def __init__(self, generator: Generator | None, look_up: LookUpEach) -> None:
        self._generator, self._look_up = generator, look_up
        self._places = 0 if generator is None else generator.max_in_flight
        self._ahead = BATCH if generator is None else min(BATCH, max(self._places, 1))
        self._under_way: set[_Open[Result]] = set()
        self._waiting: dict[str, _Asked[Result]] = {}
        self._id_of: dict[tuple[str, int], str] = {}
        """Of each open request by what shapes its reply."""
        self._backlog: deque[Request] = deque()
        self._lookers: list[tuple[_Open[Result], LookUp]] = []
        self._rankers: list[tuple[_Open[Result], Rank]] = []
        self._num_submitted = 0
        self._num_begun = 0
        self.finished: list[Result] = []

    @property
    def has_room(self) -> bool:
        """Whether more dialogues are to begin: a whole batch of them, once there is room for one."""
        if len(self.finished) >= self._ahead:  # they came to an end without a step
            return False
        if self._num_begun % self._ahead == 0 and len(self._under_way) > self._places:
            return False
        return len(self._under_way) < self._places + self._ahead

    @property
    def is_idle(self) -> bool:
        return not self._under_way

    def begin(self, dialogue: Dialogue[Result]) -> None:
        self._num_begun += 1
        self._under_way.add(one := _Open(dialogue))
        self._advance(one, lambda: next(dialogue))

    def look_up(self) -> None:
        """Does the look-ups that are wanted, in one go, or one by one where one of them fails."""
        lookers, self._lookers = self._lookers, []
        if not lookers:
            return
        try:
            self._look_up([step for _, step in lookers])
        except ValueError:
            for one, step in lookers:
                try:
                    self._look_up([step])
                except ValueError as error:
                    self._advance(one, partial(one.dialogue.throw, error))
                else:
                    self._advance(one, partial(one.dialogue.send, []))
        else:
            for one, _ in lookers:
                self._advance(one, partial(one.dialogue.send, []))

    def rank(self) -> None:
        """Has texts ranked for the dialogues that want it, together."""
        rankers, self._rankers = self._rankers, []
        if rankers:
            rank_steps([step for _, step in rankers])
        for one, _ in rankers:
            self._advance(one, partial(one.dialogue.send, []))

    def submit(self) -> None:
        """Fills the model's free places."""
        while self._generator is not None and self._backlog and self._num_submitted < self._places:
            self._generator.submit(self._backlog.popleft())
            self._num_submitted += 1

    def collect(self) -> None:
        """Waits for replies, and takes the dialogues on that have all of theirs."""
        if self._generator is None or not self._num_submitted:
            return
        for reply in self._generator.collect():
            asked = self._waiting.pop(reply.id, None)
            if asked is None:  # a reply to a question that was interrupted may still come
                continue
            self._num_submitted -= 1
            del self._id_of[asked.key]
            for owner, own_id in asked.askers:
                owner.replies[own_id] = replace(reply, id=own_id)
                replies = [reply for reply in owner.replies.values() if reply is not None]
                if len(replies) == len(owner.replies):
                    self._advance(owner, partial(owner.dialogue.send, replies))

    def close(self) -> None:
        """Ends what is under way, here and in the model."""
        abort(self._generator, set(self._waiting))
        for one in self._under_way:
            one.dialogue.close()

    def _advance(self, one: _Open[Result], go_on: Callable[[], Step]) -> None:
        try:
            step = go_on()
            while isinstance(step, Ask) and not step.requests:
                step = one.dialogue.send([])
        except StopIteration as stop:
            self._under_way.discard(one)
            self.finished.append(stop.value)
            return
        if isinstance(step, LookUp):
            self._lookers.append((one, step))
            return
        if isinstance(step, Rank):
            self._rankers.append((one, step))
            return
        if self._generator is None:
            raise RuntimeError("a dialogue asked a model, and there is none")
        one.replies = {request.id: None for request in step.requests}
        if len(one.replies) < len(step.requests) or one.replies.keys() & self._waiting.keys():
            raise ValueError("two open requests have one id")
        for request in step.requests:
            key = request_key("", request), request.max_tokens
            request_id = self._id_of.setdefault(key, request.id)
            if request_id == request.id:
                self._waiting[request_id] = _Asked(key)
                self._backlog.append(request)
            self._waiting[request_id].askers.append((one, request.id))
