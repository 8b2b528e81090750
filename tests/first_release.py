"""The first release as it was: its schema, and the statements with which its functions go on beside a later one."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from queuelog.clock import timestamp
from queuelog.store import migrations
from tests.support import START, look_into

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

# Copied, and never to be changed with the statements of today: what was deployed stays as it is.
PRESENT_TYPES = """
WITH RECURSIVE present (type) AS (
    SELECT (SELECT type FROM jobs WHERE status = 'pending' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT (
        SELECT type FROM jobs WHERE status = 'pending' AND type > present.type ORDER BY type LIMIT 1
    )
    FROM present WHERE present.type IS NOT NULL
)
SELECT type FROM present WHERE type IS NOT NULL
"""
NEXT_JOB = f"""
SELECT CAST(substr(place, 25) AS INTEGER) AS id
FROM (
    SELECT
        level.value AS priority,
        (
            SELECT due_at || printf('%016d', id) FROM jobs
            WHERE status = 'pending' AND type = wanted.type AND priority = level.value AND due_at <= :now
            ORDER BY due_at, id LIMIT 1
        ) AS place
    FROM json_each('[30, 20, 10, 0]') AS level
    CROSS JOIN (
        SELECT value AS type FROM json_each(:types)
        UNION ALL
        SELECT type FROM ({PRESENT_TYPES}) WHERE :types IS NULL
    ) AS wanted
)
WHERE place IS NOT NULL
ORDER BY priority DESC, place
LIMIT 1
"""
CLAIM_JOB = f"""
UPDATE jobs
SET status = 'running', claimed_at = :now, worker_id = :worker_id, updated_at = :now
WHERE id = ({NEXT_JOB}) AND status = 'pending'
RETURNING *
"""
COMPLETE_JOB = """
UPDATE jobs
SET status = 'completed', updated_at = :now
WHERE id = :id AND status = 'running' AND worker_id = :worker_id
RETURNING *
"""
FAIL_JOB = """
UPDATE jobs
SET
    status = iif(retry_count < max_retries, 'pending', 'failed'),
    retry_count = retry_count + (retry_count < max_retries),
    claimed_at = iif(retry_count < max_retries, NULL, claimed_at),
    worker_id = iif(retry_count < max_retries, NULL, worker_id),
    error = :error,
    reason = 'failed',
    updated_at = :now
WHERE id = :id AND status = 'running' AND worker_id = :worker_id
RETURNING *
"""
INSERT_JOB = """
INSERT INTO jobs (
    type, priority, status, due_at, max_retries, created_by, created_at, updated_at,
    idempotency_key, fingerprint, encoded_size, payload
)
VALUES (
    :type, :priority, 'pending', :now, :max_retries, :created_by, :now, :now,
    :idempotency_key, :fingerprint, :encoded_size, :payload
)
RETURNING *
"""


class FirstRelease:
    """A function of the first release, that has opened the file."""

    def __init__(self, path: Path, worker_id: str = "worker") -> None:
        self.path = path
        self.worker_id = worker_id
        self._numbers = itertools.count(1)

    def enqueue(
        self,
        *,
        type: str = "email",
        priority: int = 10,
        max_retries: int = 3,
        created_by: str = "producer",
        idempotency_key: str | None = None,
        now: datetime = START,
    ) -> int:
        values = {
            "type": type,
            "priority": priority,
            "max_retries": max_retries,
            "created_by": created_by,
            "idempotency_key": idempotency_key,
            "fingerprint": "0" * 64,
            "encoded_size": 4,
            "payload": "{}",
        }
        row = self._run(INSERT_JOB, now, values)
        assert row is not None
        return int(row["id"])

    def claim(self, *, now: datetime = START) -> int | None:
        row = self._run(CLAIM_JOB, now, {"types": None})
        return None if row is None else int(row["id"])

    def complete(self, id: int, *, now: datetime = START) -> bool:
        return self._run(COMPLETE_JOB, now, {"id": id}) is not None

    def fail(self, id: int, *, error: str | None = "boom", now: datetime = START) -> bool:
        return self._run(FAIL_JOB, now, {"id": id, "error": error}) is not None

    def _run(self, statement: str, now: datetime, values: dict[str, Any]) -> sqlite3.Row | None:
        with closing(look_into(self.path)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN IMMEDIATE")
            found = {"now": timestamp(now), "worker_id": self.worker_id, **values}
            rows: list[sqlite3.Row] = connection.execute(statement, found).fetchall()
            connection.execute("COMMIT")
        assert len(rows) <= 1
        return rows[0] if rows else None


def make_file(path: Path) -> FirstRelease:
    """Make an empty file as the first release made it, and return one of its functions."""
    first = [each for each in migrations.load() if each.version == (1, 0)]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        migrations.apply(connection, first)
        connection.execute("COMMIT")
    return FirstRelease(path)
