from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time; passed in, so that a test can step it."""

    def now(self) -> datetime:
        """Return the present time in UTC."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the present time in UTC."""
        return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """Return `moment` as 2026-01-31T12:00:00.000Z: UTC, milliseconds, fixed width, so that text sorts as time."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def parse_timestamp(text: str) -> datetime:
    """Return the moment that `timestamp` wrote; raise ValueError for any text without a time zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs its zone, such as 2026-01-31T12:00:00.000Z")
    return moment.astimezone(UTC)
