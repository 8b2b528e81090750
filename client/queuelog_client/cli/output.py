"""How a command answers: JSON on one line for programs, tables and sentences for people.

What a job holds is somebody else's text: nothing of it that a terminal would obey is printed as it is.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from queuelog_client.job import Count, JobPriority, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console, RenderableType
    from rich.table import Table

#: In a pipe no line is cut or folded.
_ENDLESS = 1_000_000
#: A column that is cut keeps so many characters, and the others are folded.
_LEAST_CUT = 12
_UNITS = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)]


def printable(text: str) -> str:
    """Return a text with escapes in the place of what is no character to be seen: controls, and what turns a line."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def as_line(value: Any) -> str:
    """Return what the client returned as one line of JSON, with the names that the API has for it."""
    text = json.dumps(plain(value), ensure_ascii=False)
    if text.isprintable():
        return text
    # Only inside of strings can there be any.
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def show_json(value: Any) -> None:
    """Print what the client returned as one line of JSON."""
    click.echo(as_line(value))


def plain(value: Any) -> Any:
    """Return what JSON can hold for what the client returns."""
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, Count):
        value = {"status": value.status, "type": value.type, "priority": value.priority, "count": value.jobs}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    match value:
        case JobPriority():
            return value.label
        case datetime():
            return timestamp(value)
        case dict():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return value


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, cut: str | None = None, numbers: bool = False
) -> Table:
    """Return a table to show, all of whose columns but the first may be numbers.

    Where a terminal is too narrow, columns are folded; the one whose heading is `cut` is cut.
    """
    from rich.cells import cell_len  # noqa: PLC0415  takes longer to import than a command takes
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    found = Table(box=None, pad_edge=False, header_style="bold")
    cells = [[printable(cell) for cell in row] for row in rows]
    for place, heading in enumerate(headings):
        found.add_column(heading, overflow="fold", justify="right" if numbers and place else "left")
        if heading == cut:
            # Rich alone would narrow it no further than the next widest.
            others = [max(map(cell_len, each)) for each in zip(headings, *cells, strict=True) if each[0] != cut]
            found.columns[place].max_width = max(console().width - sum(others) - 2 * len(others), _LEAST_CUT)
    for row in cells:
        found.add_row(
            *(
                Text(cell, no_wrap=heading == cut, overflow="ellipsis" if heading == cut else "fold")
                for heading, cell in zip(headings, row, strict=True)
            )
        )
    return found


def show_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; in a pipe it is neither cut nor coloured."""
    show(table(headings, rows))


def show(drawn: RenderableType) -> None:
    """Print what rich can draw."""
    there = console()
    with there.capture() as captured:
        there.print(drawn)
    # Not by rich itself, which has its own way with a pipe that was closed.
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def console() -> Console:
    """Return the terminal, or what takes its place."""
    from rich.console import Console  # noqa: PLC0415

    width = None if sys.stdout.isatty() else _ENDLESS
    return Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def local_time(moment: datetime) -> str:
    """Return a time in this machine's zone, to the second."""
    return moment.astimezone().isoformat(" ", "seconds")


def when(moment: datetime, now: datetime | None = None) -> str:
    """Return how far a time is from now, in one unit: 5 min ago, in 2 h."""
    seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"in {length(seconds)}" if seconds > 0 else f"{length(-seconds)} ago"


def length(seconds: float) -> str:
    """Return a time's length in one unit: 0.25 s, 5 min."""
    if seconds < 1:
        return f"{seconds:.2g} s"
    unit, size = next((unit, size) for unit, size in _UNITS if seconds >= size)
    return f"{int(seconds // size)} {unit}"


def counted(number: int, noun: str) -> str:
    """Return a number of things: 1 job, 2,000 jobs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
