from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Does the job with this number.
    Handle: TypeAlias = Callable[[int], None]


class Contender:
    """A queue as its own documents say that it should be used, with nothing lost when the machine stops."""

    def __init__(self, where: str, patience: int) -> None:
        """Take what the server, or the folder for the file, is called, and how long a worker may be silent."""

    def enqueue(self, number: int) -> None:
        """Add a job, which is on the disk then; from any thread."""
        raise NotImplementedError

    def work(self, threads: int, handle: Handle) -> None:
        """Do what waits, so many jobs at a time, until there is none and the queue knows of all that was done."""
        raise NotImplementedError

    def recover(self) -> None:
        """Call what its documents recommend for the jobs of workers that are gone, if anything has to be called."""

    def tidy(self) -> None:
        """Call what its documents recommend against files that grow, if anything has to be called."""

    def close(self) -> None:
        """Leave the server alone again, if there is one."""


def in_threads(threads: int, do_one: Callable[[], bool]) -> None:
    """Call a function in so many threads, in each until it says that there was nothing to do."""

    def do_all() -> None:
        while do_one():
            pass

    started = [threading.Thread(target=do_all) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
