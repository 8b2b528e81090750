"""A reader's host is cut off in the middle of a read transaction; others change every row, and it comes back."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from tests.nfs.guest.hosts import LEASE, Player, bound, make_queue, opened, perform, seen_by, set_link, wait_until
from tests.nfs.guest.writer import LEASE_SECONDS, attempt

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from queuelog import BoundQueue

JOBS = 1_000
BATCH = 100


def run(folder: str) -> dict[str, Any]:
    make_queue(folder, JOBS)
    reader = Player(1, read_and_stop, seen_by(1, folder))
    wait_until(reader.is_stopped, "the reader is in the middle of a transaction")
    set_link(1, "down")
    writer = Player(2, claim_all, seen_by(2, folder))
    claimed = writer.hear(240)
    set_link(1, "up")
    reader.go_on()
    outcome, statuses = reader.hear(LEASE + 120)
    reader.tell()
    return {"claimed": claimed, "outcome": outcome, "statuses": statuses, "next": reader.hear(LEASE + 120)}


def read_and_stop(line: Connection, path: Path) -> None:
    store = opened(path)
    statuses: list[str | None] = []

    def read() -> list[int]:
        with store._database.read() as connection:
            for id in range(1, JOBS + 1):
                found = connection.execute("SELECT status FROM jobs WHERE id = ?", (id,)).fetchone()
                statuses.append(None if found is None else found["status"])
                if id == 1:
                    os.kill(os.getpid(), signal.SIGSTOP)
        return []

    outcome, _ = attempt(read)
    line.send((outcome, statuses))
    line.recv()
    line.send(attempt(lambda: [bound(store).get(1).id])[0])


def claim_all(line: Connection, path: Path) -> None:
    store = opened(path, busy_timeout=1.0)
    queue = bound(store)
    claimed = 0
    while claimed < JOBS:
        claimed += len(attempt(lambda: claim(queue))[1])
    # Moves it into the file, which is where the reader looks.
    store.sweep(now=queue.clock.now(), may_go_on=lambda: True)
    line.send(claimed)
    store.close()


def claim(queue: BoundQueue) -> list[int]:
    return [job.id for job in queue.claim_jobs(limit=BATCH, lease_seconds=LEASE_SECONDS).jobs]


if __name__ == "__main__":
    perform(run)
