"""What the demo needs around it: a local API, a directory, keys, workers and a screen, and the end of them all."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from local.demo.crew import Crew, WorkersFailedError
from local.demo.plan import planned
from local.demo.show import Show, StoppedError
from local.demo.view import View, report
from local.errors import CannotStartError
from queuelog import Role
from queuelog_client import QueueClient, QueuelogError

if TYPE_CHECKING:
    import threading

    from local.demo.view import Result

WORKERS = (1, 2)
STOPPED = 130


def run(stop: threading.Event) -> int:
    """Show the demo, and return its exit code."""
    view = View(sys.stdout)
    try:
        count = _count(os.environ.get("JOBS") or "200")
        with tempfile.TemporaryDirectory(prefix="queuelog-demo-") as folder, view:
            result = _play(count, Path(folder), view, stop)
    except StoppedError:
        view.console.print("Stopped. Nothing is left behind.")
        return STOPPED
    except (CannotStartError, QueuelogError, WorkersFailedError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if report(view.console, result) else 1


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and 20 <= int(text) <= 1_000):
        raise CannotStartError(f"JOBS must be a number from 20 to 1000, and is {text!r}.")
    return int(text)


def _play(count: int, folder: Path, view: View, stop: threading.Event) -> Result:
    view.say("starting the local API")
    # After the first word, for SAM CLI takes most of a second.
    from local.api import LocalApi  # noqa: PLC0415
    from queuelog_client.cli.registries import create  # noqa: PLC0415

    api = LocalApi(folder)
    with api.data.open_log() as log, contextlib.redirect_stdout(log), api:
        view.say(f"it listens on {api.url}")
        keys = {number: create(api.data.principals, f"worker-{number}", [Role.WORKER]) for number in WORKERS}
        with QueueClient(api.url, api_key=api.keys["admin"]) as queue:
            return Show(planned(count), queue, Crew(api.url, keys, folder), view, stop).run()
