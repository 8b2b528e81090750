from __future__ import annotations

from typing import TYPE_CHECKING

from persistqueue import Empty, SQLiteAckQueue

from benchmarks._contenders.contender import Contender, in_threads

if TYPE_CHECKING:
    from benchmarks._contenders.contender import Handle


class PersistQueue(Contender):
    """SQLiteAckQueue, the one of its queues that remembers what is being done; it has no worker."""

    def __init__(self, where: str, patience: int) -> None:
        super().__init__(where, patience)
        self._queue = SQLiteAckQueue(where, multithreading=True)
        # Its connections have SQLite's own default, which is this one unless SQLite was built otherwise.
        self._queue._putter.execute("PRAGMA synchronous = FULL")

    def enqueue(self, number: int) -> None:
        self._queue.put({"number": number})

    def work(self, threads: int, handle: Handle) -> None:
        def do_one() -> bool:
            try:
                item = self._queue.get(block=False, raw=True)
            except Empty:
                return False
            handle(item["data"]["number"])
            self._queue.ack(item)
            return True

        in_threads(threads, do_one)

    def tidy(self) -> None:
        self._queue.clear_acked_data(max_delete=10_000, keep_latest=0)
