"""A worker that stops itself at a point, and tells afterwards what it was told."""

from __future__ import annotations

import ctypes
import os
import signal
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from queuelog import NewJob, StorageBusy
from tests.nfs.guest.hosts import bound, opened
from tests.nfs.guest.points import POINTS, SPILLED

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from queuelog import BoundQueue, Store

#: Jobs of one transaction: some fifty pages.
MANY = 60
LEASE_SECONDS = 40_000
#: SQLite's pages in memory, so few that a transaction writes most of its pages before it commits.
FEW_PAGES = 5


class Pinched:
    """A store's database whose write transactions spill, and whose process stops before each COMMIT."""

    def __init__(self, database: Any) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        with self._database.write() as connection:
            connection.execute(f"PRAGMA cache_size = {FEW_PAGES}")
            yield connection
            os.kill(os.getpid(), signal.SIGSTOP)


def pinch(store: Store) -> None:
    store._database = Pinched(store._database)  # type: ignore[assignment]


def write_and_stop(line: Connection, path: Path, point: str, stock: bool) -> None:
    """Claim and enqueue in large transactions until the point is met; then say how each ended, and go on."""
    store = opened(path, stock=stock)
    queue = bound(store, "writer")
    # What a first transaction does besides, it has done.
    queue.get(1)
    is_armed = _arm(store, point)
    acknowledged: dict[str, list[int]] = {"claimed": [], "enqueued": []}
    outcome = "acknowledged"
    verbs = _verbs(queue)
    while is_armed() and outcome == "acknowledged":
        kind, verb = next(verbs)
        outcome, ids = attempt(verb)
        acknowledged[kind] += ids
    line.send({"outcome": outcome, "verb": kind, **acknowledged})
    line.recv()
    if point == SPILLED:
        store._database = store._database._database  # type: ignore[attr-defined]
    line.send(attempt(lambda: [queue.get(1).id])[0])
    store.close()


def _arm(store: Store, point: str) -> Callable[[], bool]:
    """Have this process stop at a point; return what says whether that is still to come."""
    if point == SPILLED:
        pinch(store)
        once = iter([True])
        return lambda: next(once, False)
    call, suffix, is_after, nth, _ = POINTS[point]
    shim = ctypes.CDLL(None)
    shim.shim_arm(call.encode(), suffix.encode(), is_after, nth)
    return lambda: bool(shim.shim_is_armed())


def _verbs(queue: BoundQueue) -> Iterator[tuple[str, Callable[[], list[int]]]]:
    jobs = [NewJob(type="email", payload={"text": "y" * 300})] * MANY
    while True:
        yield "claimed", lambda: claim_many(queue)
        yield "enqueued", lambda: [each.job.id for each in queue.enqueue_jobs(jobs)]


def claim_many(queue: BoundQueue) -> list[int]:
    return [job.id for job in queue.claim_jobs(limit=MANY, lease_seconds=LEASE_SECONDS).jobs]


def attempt(verb: Callable[[], list[int]]) -> tuple[str, list[int]]:
    """Return "acknowledged" and the ids that a verb gave, or the name of what it raised."""
    try:
        return "acknowledged", verb()
    except StorageBusy:
        return StorageBusy.__name__, []
    except Exception as error:  # noqa: BLE001 - whatever it is goes into the test's result
        traceback.print_exc()
        return type(error).__name__, []
