from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.engine.retry import MAX_BACK_OFF_S, MAX_SHOWN_CHARS, back_off_s, error_text, is_retried, retry_after_s

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_answers_that_may_get_better_are_asked_for_again(status: int) -> None:
    assert is_retried(status)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422])
def test_answers_that_stay_the_same_are_not(status: int) -> None:
    assert not is_retried(status)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("7", 7.0),
        (" 0.5 ", 0.5),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Sunday, 01-Mar-26 12:01:00 GMT", 60.0),
        ("soon", None),
        ("-3", None),
        ("", None),
    ],
)
def test_retry_after_is_read_as_seconds_and_as_a_date(value: str | None, expected: float | None) -> None:
    assert retry_after_s(value, NOW) == expected


@given(st.integers(0, 5000), st.floats(0, 1, exclude_max=True), st.floats(0.01, 10))
def test_waits_double_up_to_a_bound_and_never_vanish(attempt: int, draw: float, first_s: float) -> None:
    wait = back_off_s(attempt, draw, first_s)
    assert 0 < wait <= MAX_BACK_OFF_S
    assert wait >= min(MAX_BACK_OFF_S, first_s * 2 ** min(attempt, 16)) / 2


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"error": {"message": "too long", "code": 400}}', "too long"),
        ('{"object": "error", "message": "no such model"}', "no such model"),
        ('{"error": "plain"}', "plain"),
        (
            '{"detail": [{"loc": ["body"], "msg": "field required"}, {"msg": "not a number"}]}',
            "field required; not a number",
        ),
        ("<html><head><style>p {}</style></head><body><h1>502</h1>\n Bad gateway</body></html>", "502 Bad gateway"),
        ("upstream\nis down", "upstream is down"),
        ("", ""),
        ("{}", "{}"),
    ],
)
def test_the_message_is_found_in_error_bodies_of_every_kind(body: str, expected: str) -> None:
    assert error_text(body) == expected


def test_a_long_error_body_is_shortened() -> None:
    assert len(error_text("word " * 1000)) == MAX_SHOWN_CHARS
