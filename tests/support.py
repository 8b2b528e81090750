from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queuelog import Principal, Role
from queuelog.store.database import Database, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from types import FrameType

    from queuelog import BoundQueue, Job, Store

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROOT = Path(__file__).resolve().parent.parent
#: Where Python finds the packages, as the Makefile and Lambda have it.
PYTHONPATH = os.pathsep.join(str(ROOT / each) for each in ("layers/queuelog/python", "functions", "client", "."))


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


def claim(caller: BoundQueue, types: Collection[str] | None = None, **options: Any) -> Job:
    """Claim a job that must be there."""
    job = caller.claim(types=types, **options)
    assert job is not None
    return job


def token_of(job: Job) -> str:
    """Return the lease token that a claim gave."""
    assert job.lease_token is not None
    return job.lease_token


def without_token(job: Job) -> Job:
    """Return a claimed job as every other verb shows it."""
    return replace(job, lease_token=None)


def directory_in_memory() -> tempfile.TemporaryDirectory[str]:
    """Return a new directory, in memory where there is one: a test of a rule need not wait for the disk's fsync."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Let the block run as a user whom permissions bind: root may write everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(user)


class Overtaken(Database):
    """A file of which somebody else gets the lock first, once."""

    meanwhile: Callable[[], object] | None = None

    def write(self) -> Transaction:
        """Let somebody else do something, then begin."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            meanwhile()
        return super().write()


def overtaken(store: Store) -> Overtaken:
    """Put a file that can be overtaken in the place of a store's own, and return it."""
    database = Overtaken(store._database.path, network=store._database._network)
    store._database = database
    return database


def is_shared(path: Path) -> bool:
    """Say whether a file is one that hosts share, which an ordinary SQLite can't open."""
    return path.with_name(f"{path.name}-shm").is_symlink()


HOLD = """
import fcntl, os, sqlite3, sys
path, kind = sys.argv[1:]
if os.path.islink(path + "-shm"):
    held = os.open(path + "-wal", os.O_RDWR)
    fcntl.lockf(held, (fcntl.LOCK_SH if kind == "read" else fcntl.LOCK_EX) | fcntl.LOCK_NB, 512, 0x40000000)
else:
    held = sqlite3.connect(path, isolation_level=None, timeout=0)
    held.execute({"read": "BEGIN", "write": "BEGIN IMMEDIATE", "exclude": "BEGIN EXCLUSIVE"}[kind])
    held.execute("SELECT count(*) FROM sqlite_master").fetchall()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path, kind: str) -> Iterator[None]:
    """Let another process be in the middle of a transaction: "read", "write", or "exclude" with an ordinary SQLite."""
    process = start_python("-c", HOLD, str(path), kind, stdin=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.communicate()


def assert_unlocked(path: Path) -> None:
    """Take every lock there is, at once, in another process."""
    with held(path, "write" if is_shared(path) else "exclude"):
        pass
    if not is_shared(path):
        assert query(path, "PRAGMA wal_checkpoint(TRUNCATE)")[0][0] == 0


def look_into(path: Path) -> sqlite3.Connection:
    """Open a database behind the store's back, which must not be in the middle of anything if hosts share the file."""
    if not is_shared(path):
        return sqlite3.connect(path, isolation_level=None)
    connection = sqlite3.connect(f"{path.as_uri()}?vfs=unix-none", uri=True, isolation_level=None)
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def query(path: Path, statement: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
    """Run one statement on a database behind the store's back, and commit it; return its rows."""
    with closing(look_into(path)) as connection:
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
    with closing(look_into(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(
            f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT {count}) "
            f"INSERT INTO jobs ({', '.join(expressions)}) SELECT {', '.join(expressions.values())} FROM numbers"
        )
        if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'holders'").fetchone():
            # A job is born pending, so no trigger counts who holds one that is born running.
            connection.execute("DELETE FROM holders")
            connection.execute(
                "INSERT INTO holders SELECT worker_id, count(*) FROM jobs WHERE status = 'running' GROUP BY worker_id"
            )


def miscounted(path: Path) -> set[tuple[Any, ...]]:
    """Return where the counters that triggers keep differ from a full count."""
    counts = query(path, "SELECT status, type, priority, jobs FROM counts WHERE jobs > 0")
    jobs = query(path, "SELECT status, type, priority, count(*) FROM jobs GROUP BY status, type, priority")
    holders = query(path, "SELECT worker_id, jobs FROM holders")
    held = query(path, "SELECT worker_id, count(*) FROM jobs WHERE status = 'running' GROUP BY worker_id")
    return {*counts} ^ {*jobs} | {*holders} ^ {*held}


def unaccounted(path: Path) -> list[tuple[Any, ...]]:
    """Return the jobs whose attempts, and their history, don't add up."""
    return query(
        path,
        "SELECT * FROM (SELECT id, status, jobs.attempt - (status = 'running') AS ended, count(job_id) AS kept, "
        "ifnull(max(attempts.attempt), 0) AS last FROM jobs LEFT JOIN attempts ON job_id = id GROUP BY id) "
        "WHERE ended <> kept OR ended <> last",
    )


def steps_of(act: Callable[[], object]) -> int:
    """Count the lines that Python runs for it: a slow way to deal with some input runs more of them."""
    steps = 0

    def count(_frame: FrameType, _event: str, _value: object) -> Any:
        nonlocal steps
        steps += 1
        return count

    def trace() -> None:
        sys.settrace(count)
        try:
            act()
        finally:
            sys.settrace(None)

    # In a thread of its own, since the coverage of this one is measured by a trace function as well.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(trace).result()
    return steps


def start_python(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start a fresh interpreter that finds the project's packages and treats warnings as errors."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", *arguments],
        env=os.environ | {"PYTHONPATH": PYTHONPATH},
        text=True,
        **{"stdout": subprocess.PIPE, **options},
    )


def run_python(script: str, *arguments: str) -> str:
    """Run a script in a fresh interpreter; return what it printed, and raise if it failed."""
    process = start_python("-c", script, *arguments, stderr=subprocess.PIPE)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return output
