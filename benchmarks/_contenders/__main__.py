"""A contender in a process of its own: python -m benchmarks._contenders MODULE:CLASS WHERE PATIENCE.

It reads what to do as a line of JSON, and prints a line when it is done. Whatever it needs is installed for the Python
that runs it, and nothing of ours but its own module is imported.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks._contenders.contender import Contender


class Process:
    """What can be asked of a contender."""

    def __init__(self, contender: Contender) -> None:
        self._contender = contender

    def enqueue(self, jobs: int, threads: int) -> None:
        """Enqueue so many jobs, one by one, from so many threads."""
        numbers = range(jobs)
        started = [
            threading.Thread(
                target=lambda share: list(map(self._contender.enqueue, share)), args=(numbers[n::threads],)
            )
            for n in range(threads)
        ]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()

    def work(self, threads: int) -> list[int]:
        """Do all that waits, and return the numbers of the jobs."""
        done: list[int] = []
        self._contender.work(threads, done.append)
        return done

    def hang(self, threads: int) -> None:
        """Begin jobs that never end, and say so of each."""

        def hang(number: int) -> None:
            # One write for a line, since threads share the output.
            os.write(1, f"{number}\n".encode())
            threading.Event().wait()

        self._contender.work(threads, hang)

    def recover(self) -> None:
        self._contender.recover()

    def tidy(self) -> None:
        self._contender.tidy()


def main() -> None:
    name, where, patience = sys.argv[1:]
    module, _, kind = name.partition(":")
    contender: Contender = getattr(import_module(f"benchmarks._contenders.{module}"), kind)(where, int(patience))
    process = Process(contender)
    for line in sys.stdin:
        verb, told = json.loads(line)
        answer: Any = getattr(process, verb)(**told)
        print(json.dumps(answer), flush=True)
    contender.close()


if __name__ == "__main__":
    main()
