from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from litequeue import LiteQueue

from benchmarks._contenders.contender import Contender, in_threads

if TYPE_CHECKING:
    from benchmarks._contenders.contender import Handle


class Litequeue(Contender):
    """One LiteQueue for all threads; it has no worker."""

    def __init__(self, where: str, patience: int) -> None:
        super().__init__(where, patience)
        self._queue = LiteQueue(Path(where, "litequeue.db"))
        # It asks for NORMAL, with which the last jobs before a power cut are gone.
        self._queue.conn.execute("PRAGMA synchronous = FULL")
        self._patience = patience

    def enqueue(self, number: int) -> None:
        self._queue.put(json.dumps({"number": number}))

    def work(self, threads: int, handle: Handle) -> None:
        def do_one() -> bool:
            message = self._queue.pop()
            if message is None:
                return False
            handle(json.loads(message.data)["number"])
            assert self._queue.done(message.message_id, claim_id=message.claim_id)
            return True

        in_threads(threads, do_one)

    def recover(self) -> None:
        self._queue.retry_expired(self._patience)

    def tidy(self) -> None:
        self._queue.prune()
