from __future__ import annotations

import heapq
import json
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queuelog.clock import timestamp
from queuelog.job import Enqueued, Job, JobPriority, NewJob, canonical_json
from queuelog.page import JOB_BYTES_WITHOUT_PAYLOAD, MAX_PAGE_BYTES, MAX_ROWS_READ, JobFilter, Order, Position
from queuelog.store import statements
from queuelog.store.database import BUSY_TIMEOUT, Database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

SQL = statements.load()


class Store:
    """The jobs table: what is true of a job, and each change of it as one guarded statement.

    Every verb is one transaction that raises StorageError when it could not be, and leaves no lock behind.
    """

    def __init__(self, path: str | Path, *, network: bool | None = None, busy_timeout: float = BUSY_TIMEOUT) -> None:
        """Take the file's path; nothing is opened yet.

        network: whether other hosts may use the file; None looks at the file system's type. busy_timeout: seconds.
        """
        self._database = Database(Path(path), network=network, busy_timeout=busy_timeout)

    def insert(
        self,
        job: NewJob,
        *,
        priority: JobPriority,
        max_retries: int,
        fingerprint: str | None,
        created_by: str,
        now: datetime,
    ) -> tuple[Enqueued, str | None]:
        """Add a job, or find the one that the same creator's same key made; return it with its fingerprint."""
        values = {
            "type": job.type,
            "priority": priority,
            "now": timestamp(now),
            "max_retries": max_retries,
            "created_by": created_by,
            "idempotency_key": job.idempotency_key,
            "fingerprint": fingerprint,
            "encoded_size": len(canonical_json(job.encoded_payload).encode()),
            "payload": job.encoded_payload,
        }
        with self._database.write() as connection:
            known = None if job.idempotency_key is None else _one(connection, "job_by_idempotency_key", values)
            row: sqlite3.Row = known or connection.execute(SQL["insert_job"], values).fetchall()[0]
        return Enqueued(Job.from_row(row), replayed=known is not None), row["fingerprint"]

    def get(self, id: int) -> Job | None:
        """Return a job, or None if there is none."""
        with self._database.read() as connection:
            row = _one(connection, "job_by_id", {"id": id})
        return None if row is None else Job.from_row(row)

    def claim(self, *, types: Collection[str] | None, worker_id: str, now: datetime) -> Job | None:
        """Give the next due job of these types (None: any) to a worker; None when there is none.

        An empty queue costs a read alone: idle workers must not take turns at the write lock.
        """
        values = {
            "types": None if types is None else json.dumps(sorted(types)),
            "worker_id": worker_id,
            "now": timestamp(now),
        }
        with self._database.read() as connection:
            if _one(connection, "next_job", values) is None:
                return None
        return self._change("claim_job", values)

    def complete(self, id: int, *, worker_id: str, now: datetime) -> Job | None:
        """Complete a job that this worker holds; None if it is not running or another's."""
        return self._change("complete_job", {"id": id, "worker_id": worker_id, "now": timestamp(now)})

    def fail(self, id: int, *, worker_id: str, error: str | None, now: datetime) -> Job | None:
        """Put a job that this worker holds back, or fail it when no retry is left; None as for complete."""
        return self._change("fail_job", {"id": id, "worker_id": worker_id, "error": error, "now": timestamp(now)})

    def page(
        self, wanted: JobFilter, *, order: Order, limit: int, after: Position | None
    ) -> tuple[tuple[Job, ...], Position | None]:
        """Return up to `limit` jobs after a position, and the position where the next page starts, if there is one.

        A page ends early before it would pass MAX_PAGE_BYTES in a Lambda answer or has read MAX_ROWS_READ rows.
        """
        with self._database.read() as connection, ExitStack() as cursors:
            rows = (
                _newest(connection, cursors, after)
                if order is Order.NEWEST
                else _queued(connection, cursors, wanted.type, after)
            )
            ids, last = _pick(rows, wanted, limit)
            found = connection.execute(SQL["jobs_by_id"], {"ids": json.dumps(ids)}).fetchall()
        jobs = {row["id"]: Job.from_row(row) for row in found}
        return tuple(jobs[each] for each in ids), None if last is None else _position(order, last)

    def is_reachable(self) -> bool:
        """Say whether the file's directory is there, and the file if it exists is one; looks by stat alone."""
        path = self._database.path
        try:
            return path.parent.is_dir() and (path.is_file() or not path.exists())
        except OSError:
            return False

    def close(self) -> None:
        """Close the file; the next verb opens it again."""
        self._database.close()

    def _change(self, statement: str, values: dict[str, Any]) -> Job | None:
        with self._database.write() as connection:
            row = _one(connection, statement, values)
        return None if row is None else Job.from_row(row)


def _one(connection: sqlite3.Connection, statement: str, values: dict[str, Any]) -> sqlite3.Row | None:
    # fetchall rather than fetchone: a cursor that still has a row to give would keep COMMIT from ending the statement.
    rows: list[sqlite3.Row] = connection.execute(SQL[statement], values).fetchall()
    return rows[0] if rows else None


def _pick(rows: Iterable[sqlite3.Row], wanted: JobFilter, limit: int) -> tuple[list[int], sqlite3.Row | None]:
    ids: list[int] = []
    size, last, shown = 0, None, None
    for count, row in enumerate(rows):
        if count == MAX_ROWS_READ:
            return ids, last
        if wanted.passes(row):
            size += row["encoded_size"] + JOB_BYTES_WITHOUT_PAYLOAD
            if len(ids) == limit or (ids and size > MAX_PAGE_BYTES):
                # Not the last row read: the cursor would tell of a job that may not be seen.
                return ids, shown
            ids.append(row["id"])
            shown = row
        last = row
    return ids, None


def _position(order: Order, row: sqlite3.Row) -> Position:
    return Position(row["id"]) if order is Order.NEWEST else Position(row["id"], row["priority"], row["due_at"])


def _newest(connection: sqlite3.Connection, cursors: ExitStack, after: Position | None) -> Iterator[sqlite3.Row]:
    before = 2**63 - 1 if after is None else after.id
    return cursors.enter_context(closing(connection.execute(SQL["newest_jobs"], {"before": before})))


def _queued(
    connection: sqlite3.Connection, cursors: ExitStack, wanted_type: str | None, after: Position | None
) -> Iterator[sqlite3.Row]:
    """Merge the types, each of which jobs_pending holds in the order of claims."""
    after = after or Position(id=0, priority=JobPriority.CRITICAL)
    types = [wanted_type] if wanted_type else [row["type"] for row in connection.execute(SQL["present_types"])]
    streams = [
        cursors.enter_context(closing(connection.execute(SQL[statement], {"type": each, **after._asdict()})))
        for each in types
        for statement in ("queued_jobs_after", "queued_jobs_below")
    ]
    return heapq.merge(*streams, key=lambda row: (-row["priority"], row["due_at"], row["id"]))
