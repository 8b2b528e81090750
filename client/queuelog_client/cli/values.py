"""What people write on a command line for times, priorities and the like."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from queuelog_client.job import JobPriority

_LENGTH = re.compile(r"(\d{1,9})(s|m|min|h|d)?")
_SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


class Seconds(click.ParamType):
    """A time's length, in seconds: 90, 90s, 15m, 2h, 7d."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds; raise click.BadParameter."""
        if isinstance(value, int):
            return value
        found = _LENGTH.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no time such as 90, 15m, 2h or 7d.", param, ctx)
        return int(found[1]) * _SECONDS[found[2]]


class Moment(click.ParamType):
    """A time, here if it names no zone; or, for the past, how long ago."""

    name = "when"

    def __init__(self, *, past: bool = False) -> None:
        self._past = past

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the time; raise click.BadParameter."""
        if isinstance(value, datetime):
            return value
        if self._past and _LENGTH.fullmatch(value):
            return datetime.now(UTC) - timedelta(seconds=SECONDS.convert(value, param, ctx))
        try:
            return datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            ago = ", or how long ago, such as 2h" if self._past else ""
            self.fail(f"{value!r} is no time such as 2026-01-31T12:00 or 2026-01-31T12:00Z{ago}.", param, ctx)


class Priority(click.Choice):
    """A priority by its word."""

    def __init__(self) -> None:
        super().__init__([each.label for each in JobPriority], case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> JobPriority:
        """Return the priority; raise click.BadParameter."""
        return value if isinstance(value, JobPriority) else JobPriority.from_label(super().convert(value, param, ctx))


class Names(click.ParamType):
    """Names with commas between them."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Return the names; raise click.BadParameter if there are none."""
        names = [name for each in value.split(",") if (name := each.strip())] if isinstance(value, str) else value
        if not names:
            self.fail("it names nothing.", param, ctx)
        return list(names)


SECONDS = Seconds()
JOB_ID = click.IntRange(1, 2**53 - 1)
