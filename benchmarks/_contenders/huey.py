from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from huey import SqliteHuey
from huey.consumer import Consumer

from benchmarks._contenders.contender import Contender

if TYPE_CHECKING:
    from benchmarks._contenders.contender import Handle


class Huey(Contender):
    """SqliteHuey and its Consumer with threads; fsync=True is its name for synchronous=FULL."""

    def __init__(self, where: str, patience: int) -> None:
        super().__init__(where, patience)
        self._huey = SqliteHuey("bench", filename=str(Path(where, "huey.db")), fsync=True)
        self._handle: Handle = print
        self._job = self._huey.task()(self._do)

    def _do(self, number: int) -> None:
        self._handle(number)

    def enqueue(self, number: int) -> None:
        self._job(number)

    def work(self, threads: int, handle: Handle) -> None:
        self._handle = handle
        consumer = Consumer(self._huey, workers=threads)
        consumer.start()
        # It would wait for more; what is in its threads when the queue is empty, the graceful stop lets them finish.
        while len(self._huey):
            time.sleep(0.005)
        consumer.stop(graceful=True)
