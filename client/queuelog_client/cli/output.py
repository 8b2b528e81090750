"""How a command answers: JSON on one line for programs, tables and sentences for people."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from queuelog_client.job import JobPriority, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def show_json(value: Any) -> None:
    """Print what the client returned as one line of JSON, with the names that the API has for it."""
    click.echo(json.dumps(plain(value), ensure_ascii=False))


def plain(value: Any) -> Any:
    """Return what JSON can hold for what the client returns."""
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
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


def show_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; in a pipe it is neither cut nor coloured."""
    from rich.console import Console  # noqa: PLC0415  takes longer to import than a command takes
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)
