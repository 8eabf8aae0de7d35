"""Runs dialogues: one to its end, or many with their look-ups in batches and the model kept full."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias

from graphmill.engine.dialogue import Ask, Dialogue, LookUp, Result
from graphmill.engine.models import Generator, Reply, Request
from graphmill.engine.modes import Search

LookUpEach: TypeAlias = Callable[[Sequence[Search]], None]
BATCH = 256
"""Questions that are pulled, and looked up, together."""


class Running(Generic[Result]):
    """One dialogue on its way, which stops before its answer is asked for."""

    def __init__(
        self, dialogue: Dialogue[Result], generator: Generator | None, look_up: LookUpEach | None = None
    ) -> None:
        self._dialogue, self._generator, self._look_up = dialogue, generator, look_up
        self._sent: list[Reply] | None = None

    def to_answer(self) -> Ask | None:
        """Runs up to the request whose reply is the answer, and returns it; None when the dialogue ended."""
        try:
            while True:
                step = next(self._dialogue) if self._sent is None else self._dialogue.send(self._sent)
                if isinstance(step, LookUp):
                    if self._look_up is not None:
                        self._look_up([step.search])
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


def run_alone(dialogue: Dialogue[Result], generator: Generator | None) -> Result:
    """Takes one dialogue to its end, and hands on what it raises."""
    sent: list[Reply] | None = None
    try:
        while True:
            step = next(dialogue) if sent is None else dialogue.send(sent)
            sent = [] if isinstance(step, LookUp) else replies_to(step.requests, generator)
    except StopIteration as stop:
        result: Result = stop.value
        return result


def replies_to(requests: Sequence[Request], generator: Generator | None) -> list[Reply]:
    """The replies to some requests, in their order; at most ``max_in_flight`` are open at a time."""
    if generator is None:
        raise RuntimeError("a dialogue asked a model, and there is none")
    wanted = {request.id for request in requests}
    backlog, found = deque(requests), dict[str, Reply]()
    num_open = 0
    while len(found) < len(wanted):
        while backlog and num_open < generator.max_in_flight:
            generator.submit(backlog.popleft())
            num_open += 1
        for reply in generator.collect():
            if reply.id in wanted:  # a reply to a question that was interrupted may still come
                found[reply.id] = reply
                num_open -= 1
    return [found[request.id] for request in requests]


@dataclass(eq=False)
class _Open(Generic[Result]):
    """A dialogue that is under way, with the replies that it waits for."""

    dialogue: Dialogue[Result]
    replies: dict[str, Reply | None] = field(default_factory=dict)


def run_each(
    dialogues: Iterable[Dialogue[Result]], generator: Generator | None, look_up: LookUpEach
) -> Iterator[Result]:
    """Takes every dialogue to its end, and yields the results as they come, in no set order.

    Dialogues are pulled BATCH at a time, one batch ahead of what the model can run, so that it has work while the next
    batch is looked up. What a dialogue raises ends the run: a question that fails is to return so.
    """
    places = 0 if generator is None else generator.max_in_flight
    batch = BATCH if generator is None else min(BATCH, max(places, 1))
    source = iter(dialogues)
    waiting: dict[str, _Open[Result]] = {}
    backlog: deque[Request] = deque()
    lookers: list[tuple[_Open[Result], Search]] = []
    finished: list[Result] = []
    under_way: set[_Open[Result]] = set()
    num_submitted = 0
    exhausted = False

    def advance(one: _Open[Result], sent: list[Reply] | None) -> None:
        try:
            step = next(one.dialogue) if sent is None else one.dialogue.send(sent)
            while isinstance(step, Ask) and not step.requests:
                step = one.dialogue.send([])
        except StopIteration as stop:
            under_way.discard(one)
            finished.append(stop.value)
            return
        if isinstance(step, LookUp):
            lookers.append((one, step.search))
            return
        if generator is None:
            raise RuntimeError("a dialogue asked a model, and there is none")
        one.replies = {request.id: None for request in step.requests}
        if len(one.replies) < len(step.requests) or one.replies.keys() & waiting.keys():
            raise ValueError("two open requests have one id")
        waiting.update(dict.fromkeys(one.replies, one))
        backlog.extend(step.requests)

    try:
        while True:
            while not exhausted and len(under_way) <= places:
                for _ in range(batch):
                    dialogue = next(source, None)
                    if dialogue is None:
                        exhausted = True
                        break
                    under_way.add(one := _Open(dialogue))
                    advance(one, None)
                if generator is None:
                    break
            if lookers:
                found, lookers = lookers, []
                look_up([search for _, search in found])
                for one, _ in found:
                    advance(one, [])
            while generator is not None and backlog and num_submitted < places:
                generator.submit(backlog.popleft())
                num_submitted += 1
            if finished:
                done, finished = finished, []
                yield from done
            elif not lookers and waiting and generator is not None:
                for reply in generator.collect():
                    owner = waiting.pop(reply.id, None)
                    if owner is None:
                        continue
                    num_submitted -= 1
                    owner.replies[reply.id] = reply
                    if None not in owner.replies.values():
                        advance(owner, [reply for reply in owner.replies.values() if reply is not None])
            elif not lookers and not waiting and exhausted:
                return
    finally:
        for one in under_way:
            one.dialogue.close()
