"""What people write on a command line: texts, names, times, priorities."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import click

from queuelog_client.cli.outside import outside
from queuelog_client.job import MAX_ID, JobPriority

_LENGTH = re.compile(r"(\d{1,10})(s|m|min|h|d)?")
_SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
#: More is a slip of the hand, and leads out of the calendar.
_LONGEST = 36_525 * 86_400


class Text(click.ParamType):
    """A text that isn't empty: --url=$UNSET would otherwise mean another queue."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text; raise click.BadParameter."""
        if isinstance(value, str) and not value.strip():
            self.fail("is empty: give it a value or leave it out.", param, ctx)
        return value


class Names(Text):
    """Names with commas between them."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Return the names; raise click.BadParameter if one is missing."""
        if not isinstance(value, str):
            return list(value)
        names = [each.strip() for each in super().convert(value, param, ctx).split(",")]
        if not all(names):
            self.fail(f"{value!r} has a comma too many.", param, ctx)
        return names


class Seconds(click.ParamType):
    """A time's length, in seconds: 90, 90s, 15m, 2h, 7d."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds; raise click.BadParameter."""
        if isinstance(value, int):
            return value
        found = _LENGTH.fullmatch(value)
        seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
        if found is None or seconds > _LONGEST:
            self.fail(f"{value!r} is no time such as 90, 15m, 2h or 7d.", param, ctx)
        return seconds


class Moment(click.ParamType):
    """A time, of this machine's zone if it names none; or how long ago or from now, with its unit."""

    name = "when"

    def __init__(self, *, or_how_long: Literal["ago", "from now"] | None = None) -> None:
        self._or_how_long = or_how_long

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the time; raise click.BadParameter."""
        if isinstance(value, datetime):
            return value
        try:
            if self._or_how_long and _LENGTH.fullmatch(value) and not value.isdigit():
                length = timedelta(seconds=SECONDS.convert(value, param, ctx))
                return outside().now() + (length if self._or_how_long == "from now" else -length)
            return datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            more = f", or how long {self._or_how_long}, such as 2h" if self._or_how_long else ""
            self.fail(f"{value!r} is no time such as 2026-01-31T12:00 or 2026-01-31T12:00Z{more}.", param, ctx)


class Priority(click.Choice):
    """A priority by its word."""

    def __init__(self) -> None:
        super().__init__([each.label for each in JobPriority], case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> JobPriority:
        """Return the priority; raise click.BadParameter."""
        return value if isinstance(value, JobPriority) else JobPriority.from_label(super().convert(value, param, ctx))


class JobId(click.IntRange):
    """A job's id."""

    name = "job id"

    def __init__(self) -> None:
        super().__init__(1, MAX_ID)


TEXT = Text()
NAMES = Names()
SECONDS = Seconds()
JOB_ID = JobId()
PATH = click.Path(path_type=Path)
