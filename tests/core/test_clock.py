from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuelog import SystemClock
from queuelog.clock import parse_timestamp, timestamp

ZONES = st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
#: Not the first and last days of the calendar, which have no UTC in some zones.
MOMENTS = st.datetimes(timezones=ZONES | st.just(UTC)).filter(lambda moment: 1 < moment.year < 9999)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00.000Z"),
        (datetime(2026, 1, 31, 12, 0, 0, 1_999, tzinfo=UTC), "2026-01-31T12:00:00.001Z"),
        (datetime(2026, 1, 31, 1, tzinfo=timezone(timedelta(hours=2))), "2026-01-30T23:00:00.000Z"),
        (datetime(999, 1, 31, tzinfo=UTC), "0999-01-31T00:00:00.000Z"),
    ],
)
def test_a_time_is_written_in_utc_to_the_millisecond(moment: datetime, text: str) -> None:
    assert timestamp(moment) == text


@given(MOMENTS, MOMENTS)
def test_text_sorts_as_time(one: datetime, other: datetime) -> None:
    assert len(timestamp(one)) == 24
    if timestamp(one) < timestamp(other):
        assert one < other


@given(MOMENTS)
def test_what_was_written_is_read_back(moment: datetime) -> None:
    again = parse_timestamp(timestamp(moment))
    assert timedelta(0) <= moment - again < timedelta(milliseconds=1)
    assert timestamp(again) == timestamp(moment)


@pytest.mark.parametrize("text", ["", "soon", "2026-01-31", "2026-01-31T12:00:00.000", "2026-13-01T00:00:00.000Z"])
def test_a_text_without_a_time_zone_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_timestamp(text)


def test_the_machine_s_clock_tells_utc() -> None:
    assert SystemClock().now().utcoffset() == timedelta(0)
