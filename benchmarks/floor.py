"""Enqueue, claim and complete over the floor: the same transactions on bare sqlite3, without the queue around them."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks._table import against, in_ms, show
from benchmarks._timing import interleaved
from queuelog import NewJob, Principal, Queue, Role, Store, SystemClock
from queuelog.lease import LeaseToken
from queuelog.store.items import NewRow
from queuelog.store.store import SQL

if TYPE_CHECKING:
    from benchmarks._timing import Steps

GOAL = 0.7
ROUNDS = 1500
WARM_UP = 100
#: Pending jobs that are there from the start, so that a claim takes one from among others.
BACKLOG = 200
CALLER = Principal(name="bench", roles=frozenset(Role))
JOB: dict[str, Any] = {
    "type": "email",
    "payload": {"to": "ada@example.com", "template": "welcome", "language": "en", "order": 4711},
}
PRAGMAS = ("synchronous = FULL", "mmap_size = 0", "temp_store = MEMORY")

BARE_INSERT = """
    INSERT INTO jobs (
        type, priority, status, due_at, max_retries, backoff_seconds, created_by, created_at, updated_at,
        fingerprint, encoded_size, payload
    )
    VALUES (
        :type, :priority, 'pending', :now, :max_retries, :backoff_seconds, :created_by, :now, :now,
        :fingerprint, :encoded_size, :payload
    )
"""
BARE_CLAIM = """
    UPDATE jobs
    SET status = 'running', claimed_at = :now, worker_id = :worker_id, updated_at = :now, attempt = attempt + 1,
        ended_by = NULL, lease_seconds = 60, lease_expires_at = :now, lease_token_sha256 = :token_sha256
    WHERE id = :id
"""
BARE_COMPLETE = """
    UPDATE jobs
    SET status = 'completed', updated_at = :now, ended_by = 'complete', lease_expires_at = NULL, lease_seconds = NULL,
        lease_token_sha256 = NULL
    WHERE id = :id
"""


def run() -> None:
    with TemporaryDirectory(prefix="queuelog-bench-") as directory:
        contenders = {
            "ours": queue_steps(Path(directory, "ours.db")),
            "floor": floor_steps(Path(directory, "floor.db")),
            "writes": write_steps(Path(directory, "writes.db")),
        }
        times = interleaved(contenders, rounds=ROUNDS, warm_up=WARM_UP)
    rows = [
        [
            step,
            against(times.ratio("floor", "ours", step), GOAL, higher_is_better=True),
            f"{times.ratio('writes', 'ours', step):.2f}",
            *(in_ms(times.median(name, step)) for name in contenders),
        ]
        for step in times.steps
    ]
    show(
        "Speed of one verb over the floor's",
        ["", "ours / floor", "ours / writes", "ours", "floor", "writes"],
        rows,
        "The floor: the same statements in the same transactions on bare sqlite3, the rows fetched and thrown away.\n"
        "Writes: only what changes the file, in one transaction for a job whose id is known, with nothing read back.",
    )


def queue_steps(path: Path, *, network: bool = False) -> Steps:
    queue = Queue(Store(path, network=network)).bound(CALLER)
    held: deque[int] = deque()

    def enqueue() -> None:
        queue.enqueue(NewJob(**JOB))

    def claim() -> None:
        job = queue.claim()
        assert job is not None
        held.append(job.id)

    for _ in range(BACKLOG):
        enqueue()
    return {"enqueue": enqueue, "claim": claim, "complete": lambda: queue.complete(held.popleft())}


def floor_steps(path: Path) -> Steps:
    connection, values = bare(path)
    ids = itertools.count(1)

    def write(*statements: str) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for statement in statements:
            connection.execute(statement, values).fetchall()
        connection.execute("COMMIT")

    def enqueue() -> None:
        values["items"] = new
        write(SQL["insert_jobs"])

    def claim() -> None:
        write(SQL["expired_jobs"], SQL["claim_job"])

    def complete() -> None:
        values["items"] = json.dumps([{"id": next(ids), "verb": "complete"}])
        write(SQL["end_attempts"])

    new = json.dumps([[values[name] for name in NewRow._fields]])
    for _ in range(BACKLOG - 1):
        enqueue()
    return {"enqueue": enqueue, "claim": claim, "complete": complete}


def write_steps(path: Path) -> Steps:
    connection, values = bare(path)
    to_claim, to_complete = itertools.count(1), itertools.count(1)

    def write(statement: str, id: int | None = None) -> None:
        values["id"] = id
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(statement, values)
        connection.execute("COMMIT")

    for _ in range(BACKLOG - 1):
        write(BARE_INSERT)
    return {
        "enqueue": lambda: write(BARE_INSERT),
        "claim": lambda: write(BARE_CLAIM, next(to_claim)),
        "complete": lambda: write(BARE_COMPLETE, next(to_complete)),
    }


def bare(path: Path) -> tuple[sqlite3.Connection, dict[str, Any]]:
    """Return a connection as the store would set it up, and the values that the queue writes and looks for."""
    store = Store(path, network=False)
    Queue(store).enqueue(CALLER, SystemClock().now(), NewJob(**JOB))
    store.close()
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    cursor = connection.execute("SELECT * FROM jobs")
    job = dict(zip((column for column, *_ in cursor.description), cursor.fetchall()[0], strict=True))
    token = LeaseToken.new()
    return connection, job | {
        "backoff_cap": 3600,
        "claim_fingerprint": None,
        "claim_request_id": None,
        "lease_seconds": 60,
        "most": 10,
        "now": job["created_at"],
        "token": token.token,
        "token_sha256": token.sha256,
        "types": None,
        "unleased_since": job["created_at"],
        "worker_id": CALLER.name,
    }
