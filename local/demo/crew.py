"""The demo's workers, and what a supervisor does: start them, and start them again when they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from local.demo.worker import CRASHED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Self

#: Deaths that nobody has planned, after which there is no use in starting again.
_MOST_SURPRISES = 3


class Death(StrEnum):
    """How a worker's process ended."""

    KILLED = "killed (-9)"
    CRASHED = "crashed"
    STOPPED = "stopped (SIGTERM)"
    SURPRISE = "died unexpectedly"


_BY_EXIT_CODE = {-signal.SIGKILL: Death.KILLED, CRASHED: Death.CRASHED, 0: Death.STOPPED}


class WorkersFailedError(Exception):
    """Workers die that shouldn't; the message says what they wrote last."""


class Ended(NamedTuple):
    """A process that has ended, and the number of its worker."""

    number: int
    pid: int
    death: Death


class Crew:
    """Some workers, a process each, as a context manager: none is left afterwards."""

    def __init__(self, url: str, keys: Mapping[int, str], folder: Path) -> None:
        """Take the API's address and a key for each worker, by its number."""
        self.notes = folder / "notes.txt"
        self.notes.touch(mode=0o600)
        self.deaths: Counter[Death] = Counter()
        self._url = url
        self._keys = keys
        self._log = folder / "workers.log"
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for number in self._keys:
            self._start(number)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> dict[int, int]:
        """The process of each worker, by its number."""
        return {number: process.pid for number, process in self._processes.items()}

    def kill(self, number: int) -> None:
        """End a worker without a word."""
        self._processes[number].kill()

    def stop(self, number: int) -> None:
        """Ask a worker to end, as a deploy does."""
        self._processes[number].terminate()

    def tend(self) -> list[Ended]:
        """Return the processes that have ended, in whose places there are new ones; raise WorkersFailedError."""
        found = []
        for number, process in list(self._processes.items()):
            code = process.poll()
            if code is None:
                continue
            death = _BY_EXIT_CODE.get(code, Death.SURPRISE)
            self.deaths[death] += 1
            found.append(Ended(number, process.pid, death))
            _bury(process)
            if self.deaths[Death.SURPRISE] >= _MOST_SURPRISES:
                last = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
                raise WorkersFailedError(" ".join([f"Workers end with the exit code {code}.", *last]))
            self._start(number)
        return found

    def close(self) -> None:
        """End every worker, and return when they have ended."""
        with ExitStack() as all_of_them:
            while self._processes:
                _, process = self._processes.popitem()
                process.kill()
                all_of_them.callback(_bury, process)

    def _start(self, number: int) -> None:
        with self._log.open("ab") as log:
            self._processes[number] = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "local.demo.worker", str(self.notes)],
                env=os.environ | {"QUEUELOG_URL": self._url, "QUEUELOG_API_KEY": self._keys[number]},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # A Ctrl-C of the terminal is for the demo alone, which then ends its workers.
                start_new_session=True,
            )


def _bury(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
