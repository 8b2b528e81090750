"""A sweep of many rows, and the longest that it kept writers out."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks._table import in_ms, show
from benchmarks.backlog import make_schema
from queuelog import Store, SystemClock
from queuelog.store.database import Transaction
from tests.support import add_jobs

if TYPE_CHECKING:
    import sqlite3
    from types import TracebackType

ROWS = 100_000
GOAL = 0.1


def run() -> None:
    rows = []
    for mode, network in (("local", False), ("network", True)):
        with TemporaryDirectory(prefix="queuelog-bench-") as directory:
            path = Path(directory, "queue.db")
            make_schema(path, network=network)
            add_jobs(path, ROWS, type="'email'", priority="n % 4 * 10", status="'completed'")
            store = Store(path, network=network)
            held = time_writes(store)
            started = time.perf_counter()
            swept = store.sweep(now=SystemClock().now() + timedelta(days=8), may_go_on=lambda: True)
            elapsed = time.perf_counter() - started
            store.close()
        assert swept.jobs_deleted == ROWS
        verdict = "met" if max(held) < GOAL else "missed"
        rows.append(
            [mode, f"{in_ms(max(held))} (< {GOAL * 1000:.0f} ms: {verdict})", str(len(held)), f"{elapsed:.1f} s"]
        )
    show(f"A sweep that deletes {ROWS:,} jobs", ["", "longest lock", "locks", "all of it"], rows)


def time_writes(store: Store) -> list[float]:
    """Return a list that gets the seconds of each write transaction of this store."""
    seconds: list[float] = []

    class Timed(Transaction):
        def __enter__(self) -> sqlite3.Connection:
            self.started = time.perf_counter()
            return super().__enter__()

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
        ) -> None:
            super().__exit__(kind, error, traceback)
            seconds.append(time.perf_counter() - self.started)

    store._database.write = lambda: Timed(store._database, "BEGIN IMMEDIATE")  # type: ignore[method-assign]
    return seconds
