"""Keeps a generator full: many conversations run at once, each written as a straight-line function.

A conversation is a Python generator: it yields a Request, is sent the Reply, and returns its result::

    def read(chunk):
        reply = yield Request(chunk.id, messages)
        if not reply.text.endswith(MARK):
            reply = yield Request(chunk.id, [*messages, more])
        return parse(reply)
"""

from __future__ import annotations

from collections.abc import Generator as Coroutine
from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar

from graphmill.engine.abort import abort
from graphmill.engine.models import Generator, Message, Reply, Request

Result = TypeVar("Result")
Conversation: TypeAlias = Coroutine[Request, Reply, Result]


def turn(reply: Reply, prompt: str) -> list[Message]:
    """A reply and the next question, as the conversation goes on with them."""
    return [{"role": "assistant", "content": reply.text}, {"role": "user", "content": prompt}]


def says_yes(text: str) -> bool:
    """Whether the answer to a yes/no question is yes; anything else is no."""
    return text.strip().strip("\"'*.。").casefold().startswith(("yes", "是"))


def batches(
    results: Iterable[Result], size: int, but_not_after: tuple[type[Exception], ...] = ()
) -> Iterator[list[Result]]:
    """Results in lists of ``size``. When something raises, those that came before are handed out first.

    They are read and paid for, whatever has become of the model; ``but_not_after`` names errors that make them
    worthless.
    """
    batch: list[Result] = []
    try:
        for result in results:
            batch.append(result)
            if len(batch) >= size:
                yield batch
                batch = []
    except but_not_after:
        raise
    except (KeyboardInterrupt, Exception):
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def converse(conversations: Iterable[Conversation[Result]], generator: Generator) -> Iterator[Result]:
    """Runs every conversation to its end and yields the results as they come, in no set order.

    At most ``generator.max_in_flight`` conversations are open; the next is pulled only when one has ended. A
    conversation's next request goes out before any new work, while its prefix is still cached, and free places are
    filled before results are handed out, so that a slow reader leaves the model busy. An id may be used again by the
    same conversation; two open conversations with one id raise ValueError. When the reader stops early, or anything
    raises, the open conversations are closed and what they asked is taken back; replies that come all the same are
    thrown away by the next ``converse``.
    """
    waiting: dict[str, Conversation[Result]] = {}
    finished: list[Result] = []

    def advance(conversation: Conversation[Result], reply: Reply | None) -> None:
        try:
            request = next(conversation) if reply is None else conversation.send(reply)
        except StopIteration as stop:
            finished.append(stop.value)
            return
        if request.id in waiting:
            conversation.close()
            raise ValueError(f"two conversations are waiting for a reply to one request id, {request.id!r}")
        waiting[request.id] = conversation
        generator.submit(request)

    source = iter(conversations)
    exhausted = False
    try:
        while True:
            places = generator.max_in_flight
            # The second bound holds memory down where many conversations end without asking anything.
            while not exhausted and len(waiting) < places and len(finished) < 2 * places:
                conversation = next(source, None)
                if conversation is None:
                    exhausted = True
                else:
                    advance(conversation, None)
            if finished:
                done, finished = finished, []
                yield from done
                continue
            if not waiting:
                return
            replies = generator.collect()
            if not replies:
                raise RuntimeError(f"{generator.model}: collect() gave no reply with {len(waiting)} requests open")
            for reply in replies:
                owner = waiting.pop(reply.id, None)
                if owner is not None:
                    advance(owner, reply)
    finally:
        try:
            abort(generator, waiting.keys())
        finally:
            for conversation in waiting.values():
                conversation.close()
