from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queuelog import Principal, Role

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from queuelog import BoundQueue, Job

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROOT = Path(__file__).resolve().parent.parent
#: Where Python finds the packages, as the Makefile and Lambda have it.
PYTHONPATH = os.pathsep.join(str(ROOT / each) for each in ("layers/queuelog/python", "functions", "."))


class SteppedClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start

    def now(self) -> datetime:
        """Return the time it stands at."""
        return self._now

    def advance(self, *, seconds: float) -> None:
        """Go on (or back, for a negative number) by some seconds."""
        self._now += timedelta(seconds=seconds)


def producer(name: str = "producer", **fields: object) -> Principal:
    """Return a principal that may enqueue."""
    return Principal(name=name, roles=frozenset({Role.PRODUCER}), **fields)  # type: ignore[arg-type]


def worker(name: str = "worker", **fields: object) -> Principal:
    """Return a principal that may claim."""
    return Principal(name=name, roles=frozenset({Role.WORKER}), **fields)  # type: ignore[arg-type]


def admin(name: str = "admin", **fields: object) -> Principal:
    """Return a principal that may do everything."""
    return Principal(name=name, roles=frozenset({Role.ADMIN}), **fields)  # type: ignore[arg-type]


def claim(caller: BoundQueue, types: Collection[str] | None = None) -> Job:
    """Claim a job that must be there."""
    job = caller.claim(types=types)
    assert job is not None
    return job


def directory_in_memory() -> tempfile.TemporaryDirectory[str]:
    """Return a new directory, in memory where there is one: a test of a rule need not wait for the disk's fsync."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)


def query(path: Path, statement: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
    """Run one statement on a database behind the store's back, and commit it; return its rows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement, tuple(values)).fetchall()


def add_jobs(path: Path, count: int, **columns: str) -> None:
    """Add jobs to a database in one statement, far faster than the queue's verbs would.

    columns: an SQL expression for each column that shall differ from a plain pending job; `n` counts from 1.
    """
    expressions = {
        "type": "'email'",
        "priority": "10",
        "status": "'pending'",
        "due_at": "'2026-01-31T12:00:00.000Z'",
        "max_retries": "3",
        "created_by": "'producer'",
        "created_at": "'2026-01-31T12:00:00.000Z'",
        "updated_at": "'2026-01-31T12:00:00.000Z'",
        "fingerprint": "printf('%064d', n)",
        "encoded_size": "length(json_quote('{}'))",
        "payload": "'{}'",
    } | columns
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(
            f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT {count}) "
            f"INSERT INTO jobs ({', '.join(expressions)}) SELECT {', '.join(expressions.values())} FROM numbers"
        )


def start_python(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start a fresh interpreter that finds the project's packages and treats warnings as errors."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", *arguments],
        env=os.environ | {"PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def run_python(script: str, *arguments: str) -> str:
    """Run a script in a fresh interpreter; return what it printed, and raise if it failed."""
    process = start_python("-c", script, *arguments, stderr=subprocess.PIPE)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return output
