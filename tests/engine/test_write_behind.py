"""WriteBehind: one piece of work beside the caller, nothing lost and no error swallowed."""

from __future__ import annotations

import threading

import pytest

from graphmill.engine.write_behind import WriteBehind


def test_work_goes_on_beside_the_caller_one_piece_at_a_time_in_order() -> None:
    begun, release, done = threading.Event(), threading.Event(), []

    def first() -> None:
        begun.set()
        release.wait(10)
        done.append(1)

    with WriteBehind() as behind:
        behind.do(first)
        assert begun.wait(10)
        assert done == []  # do() has returned though the work is not done
        release.set()
        behind.do(lambda: done.append(2))
    assert done == [1, 2]


def fails() -> None:
    raise OSError("disk full")


def test_an_error_is_raised_by_the_next_piece() -> None:
    done: list[int] = []

    def two_pieces() -> None:
        with WriteBehind() as behind:
            behind.do(fails)
            behind.do(lambda: done.append(1))

    with pytest.raises(OSError, match="disk full"):
        two_pieces()
    assert done == []


def test_an_error_of_the_last_piece_is_raised_at_the_end() -> None:
    with pytest.raises(OSError, match="disk full"), WriteBehind() as behind:
        behind.do(fails)


def test_what_was_taken_on_is_finished_when_the_block_is_left_by_an_interrupt() -> None:
    release, done = threading.Event(), []

    def slow() -> None:
        release.wait(10)
        done.append(1)

    def interrupted() -> None:
        with WriteBehind() as behind:
            behind.do(slow)
            threading.Timer(0.05, release.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [1]
