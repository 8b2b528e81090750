"""--watch: the same look again and again, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from queuelog_client.cli.output import console, printable, show, show_json
from queuelog_client.errors import TryAgain

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

Found = TypeVar("Found")
AnyFunction = TypeVar("AnyFunction", bound="Callable[..., Any]")

sleep = time.sleep


def watch_options(command: AnyFunction) -> AnyFunction:
    """Add --watch, as the argument watch_seconds: None without it."""
    return click.option(
        "--watch",
        "watch_seconds",
        metavar="[SECONDS]",
        type=click.FloatRange(0.1),
        is_flag=False,
        flag_value="2",
        help="Look again every 2 seconds, or as many as are said, until Ctrl-C.",
    )(command)


def watch(look: Callable[[], Found], draw: Callable[[Found], RenderableType], *, seconds: float, as_json: bool) -> None:
    """Show what is found every so many seconds: over itself on a terminal, as lines of JSON, or one after the other."""
    from rich.console import Group  # noqa: PLC0415  takes longer to import than a command takes
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    live = None if as_json or not sys.stdout.isatty() else Live(console=console(), auto_refresh=False)
    drawn: RenderableType = ""
    with live or nullcontext():
        while True:
            note = f"{datetime.now().astimezone():%X}, every {seconds:g} s until Ctrl-C"
            try:
                found = look()
            except TryAgain as error:
                # It was there, and may come back.
                note = printable(str(error))
                if live is None:
                    click.echo(note, err=True)
            else:
                drawn = "" if as_json else draw(found)
                if as_json:
                    show_json(found)
                elif live is None:
                    show(Group(note, drawn))
            if live is not None:
                live.update(Group(drawn, Text(note, style="dim")), refresh=True)
            sleep(seconds)
