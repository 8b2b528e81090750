from __future__ import annotations

import heapq
import itertools
import json
import random
import time
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queuelog.clock import parse_timestamp, timestamp
from queuelog.errors import Conflict, Fault, IdempotencyKeyReused, LeaseLost, NotYetCounted
from queuelog.job import Attempt, Enqueued, Heartbeat, Job, JobPriority, JobStatus, canonical_json, read_json
from queuelog.lease import LeaseToken
from queuelog.page import JOB_BYTES_WITHOUT_PAYLOAD, MAX_PAGE_BYTES, MAX_ROWS_READ, JobFilter, Order, Position
from queuelog.policy import Policy
from queuelog.store import statements
from queuelog.store.database import BUSY_TIMEOUT, Database
from queuelog.store.items import BeatItem, Claimed, ClaimRequest, EndItem, NewRow, RetryFilter, Stats, Swept

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Generator, Iterable, Sequence
    from datetime import datetime

    #: What reads rows as they are asked for: closed before its connection is.
    Rows = Generator[sqlite3.Row, None, None]


SQL = statements.load()
DEFAULTS = Policy()

#: Ended attempts that an answer has room for.
MOST_ATTEMPTS = 500
#: Expired leases that a claim takes back before it looks for jobs.
TAKEN_BACK_BY_A_CLAIM = 10
#: A wait between retries is made longer by up to this share, so that jobs that failed together don't come together.
JITTER = 0.2
#: Rows that one transaction of the sweep changes: it must hold the lock for well under 100 ms on a local disk.
SWEPT_AT_ONCE = 200


class Store:
    """The jobs table: what is true of a job, and each change of it as one guarded statement.

    Every verb is one transaction that raises StorageError when it could not be, and leaves no lock behind.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        policy: Policy = DEFAULTS,
        network: bool | None = None,
        busy_timeout: float = BUSY_TIMEOUT,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Take the file's path; nothing is opened yet.

        network: whether other hosts may use the file; None looks at the file system's type. busy_timeout: seconds.
        jitter: draws a number from 0 to 1 for each wait between retries.
        """
        self._database = Database(Path(path), network=network, busy_timeout=busy_timeout)
        self._jitter = jitter
        self.policy = policy

    def insert(self, rows: Sequence[NewRow], *, created_by: str, now: datetime) -> tuple[Enqueued, ...]:
        """Add jobs, or find those that the same creator's same keys made; raise IdempotencyKeyReused and add none.

        A key that comes twice makes one job, as if the two had come one after the other.
        """
        written_at = timestamp(now)
        values = {"created_by": created_by, "now": written_at}
        keys = [row.idempotency_key for row in rows if row.idempotency_key is not None]
        with self._database.write() as connection:
            by_key = _by_key(connection, {**values, "keys": json.dumps(keys)}) if keys else {}
            new = _without_known(rows, {key: row["fingerprint"] for key, row in by_key.items()})
            items = canonical_json([rows[index] for index in new], sort_keys=False)
            added = _all(connection, "insert_jobs", {**values, "items": items}) if new else []
            # Before the commit: afterwards the disk has kept the processor idle, and the same lines take twice as long.
            created_at = parse_timestamp(written_at)
            made = {
                index: _new_job(
                    id,
                    rows[index],
                    created_by=created_by,
                    created_at=created_at,
                    run_at=created_at if rows[index].due_at == written_at else parse_timestamp(rows[index].due_at),
                )
                for index, id in zip(new, sorted(row["id"] for row in added), strict=True)
            }
            known = {key: Job.from_row(row) for key, row in by_key.items()}
            known |= {key: job for index, job in made.items() if (key := rows[index].idempotency_key) is not None}
        return tuple(
            Enqueued(made[index], replayed=False)
            if index in made
            else Enqueued(known[str(row.idempotency_key)], replayed=True)
            for index, row in enumerate(rows)
        )

    def get(self, id: int) -> Job | None:
        """Return a job, or None if there is none."""
        with self._database.read() as connection:
            rows = _all(connection, "job_by_id", {"id": id})
        return Job.from_row(rows[0]) if rows else None

    def attempts(self, id: int) -> tuple[Attempt, ...]:
        """Return a job's last ended attempts, the first one first."""
        with self._database.read() as connection:
            rows = _all(connection, "attempts_of_job", {"id": id, "most": MOST_ATTEMPTS})
        return tuple(Attempt.from_row(row) for row in rows)

    def claim(self, request: ClaimRequest, *, now: datetime) -> Claimed:
        """Give due jobs to a worker, after taking back leases that have ended; raise IdempotencyKeyReused.

        While a lease that this request id gave is held, the same jobs are the answer and nothing changes. With a
        request id it may raise NotYetCounted.
        """
        values = {
            **self._time_values(now),
            "types": None if request.types is None else json.dumps(sorted(request.types)),
            "worker_id": request.worker_id,
            "lease_seconds": request.lease_seconds,
            "claim_request_id": request.request_id,
            "claim_fingerprint": request.fingerprint,
        }
        with self._database.write() as connection:
            if request.request_id is not None:
                self._require_counts(connection)
            given = _given_before(connection, request, values)
            if given:
                return Claimed(given, None)
            self._take_back(connection, self._expired(connection, values, most=TAKEN_BACK_BY_A_CLAIM), now)
            jobs = _claim(connection, request.limit, values)
            return Claimed(jobs, None if jobs else self._next_change(connection, values))

    def end(self, items: Sequence[EndItem], *, worker_id: str, now: datetime) -> tuple[Job | Conflict, ...]:
        """End attempts of jobs that this worker holds; for each the job as it is now, or why not.

        The same verb with the same token again finds the job as it is now; so does an id that comes twice.
        """
        values = {**self._time_values(now), "worker_id": worker_id}
        ended: dict[int, Job] = {}
        enders: dict[int, EndItem] = {}
        left = list(items)
        with self._database.write() as connection:
            # One round, unless a job comes with several tokens: a stale one must not stand in the right one's way.
            while left:
                first = {item.id: item for item in reversed(left)}
                ended |= self._end(connection, first.values(), values)
                enders = {each: enders.get(each) or first[each] for each in ended}
                left = [
                    item for item in left if item.id not in ended and item.token_sha256 != first[item.id].token_sha256
                ]
            others = [item for item in items if item is not enders.get(item.id)]
            verbs = _verbs_by_token(connection, others, values)
            repeated = _by_id(_jobs(connection, [item.id for item in others])) if others else {}
        return tuple(
            ended[item.id]
            if item is enders.get(item.id)
            else _repeat(item, verbs.get((item.id, item.token_sha256)), repeated)
            for item in items
        )

    def beat(self, items: Sequence[BeatItem], *, worker_id: str, now: datetime) -> tuple[Heartbeat | LeaseLost, ...]:
        """Extend leases that this worker holds, never to an earlier end; for each its new end, or LeaseLost."""
        found: dict[int, Heartbeat] = {}
        left = dict(enumerate(items))
        with self._database.write() as connection:
            # One round, unless an id comes several times: of two rows for one job an UPDATE takes either.
            while left:
                first = {left[place].id: place for place in reversed(left)}
                sent = _to_json(left.pop(place) for place in sorted(first.values()))
                values = {"now": timestamp(now), "worker_id": worker_id, "items": sent}
                for row in _all(connection, "heartbeat_jobs", values):
                    found[first[row["id"]]] = Heartbeat.from_row(row, now)
        return tuple(found.get(place) or LeaseLost() for place in range(len(items)))

    def cancel(self, id: int, *, created_by: str | None, now: datetime) -> Job | None:
        """Cancel a pending job, or ask the worker of a running one; None if it has ended or is another creator's."""
        with self._database.write() as connection:
            rows = _all(connection, "cancel_job", {"id": id, "created_by": created_by, "now": timestamp(now)})
        return Job.from_row(rows[0]) if rows else None

    def retry(self, ids: Sequence[int], *, now: datetime) -> tuple[Job, ...]:
        """Put failed and cancelled jobs back as they began, due now; return those that were, by ascending id."""
        with self._database.write() as connection:
            rows = _all(connection, "retry_jobs", {"ids": json.dumps(list(ids)), "now": timestamp(now)})
        return tuple(sorted(map(Job.from_row, rows), key=lambda job: job.id))

    def retryable(self, wanted: RetryFilter, *, most: int) -> tuple[int, ...]:
        """Return the ids of ended jobs that pass, those that ended first; it reads all of that status if few pass."""
        with self._database.read() as connection:
            self._require_counts(connection)
            return tuple(row["id"] for row in _all(connection, "retryable_jobs", {**wanted._asdict(), "most": most}))

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
            ids, last = _pick(cursors.enter_context(closing(rows)), wanted, limit)
            jobs = _by_id(_jobs(connection, ids))
        return tuple(jobs[each] for each in ids if each in jobs), None if last is None else _position(order, last)

    def stats(self, *, now: datetime) -> Stats:
        """Return how the queue is doing, from counters that triggers keep; raise NotYetCounted before there are any."""
        with self._database.read() as connection:
            self._require_counts(connection)
            counts = _all(connection, "counts", {})
            holders = _all(connection, "holders", {})
            fronts = _all(connection, "fronts", {"now": timestamp(now)})
        oldest = _earliest(row["oldest_due_at"] for row in fronts)
        return Stats(
            jobs=tuple(
                (JobStatus(row["status"]), row["type"], JobPriority(row["priority"]), row["jobs"]) for row in counts
            ),
            running={row["worker_id"]: row["jobs"] for row in holders},
            oldest_due_seconds=None if oldest is None else (now - oldest).total_seconds(),
            next_run_at=_earliest(row["next_run_at"] for row in fronts),
        )

    def jobs_in_front(self, job: Job, *, now: datetime, most: int) -> int:
        """Count the due jobs of the same type that are claimed before this one, up to `most` of each priority."""
        values = {
            "id": job.id,
            "type": job.type,
            "priority": job.priority,
            "due_at": timestamp(job.run_at),
            "now": timestamp(now),
            "most": most,
        }
        with self._database.read() as connection:
            (row,) = _all(connection, "jobs_in_front", values)
        return int(row["jobs"])

    def last_claim(self, job_type: str) -> datetime | None:
        """Return when a job of this type was last claimed; raise NotYetCounted before there are counters."""
        with self._database.read() as connection:
            self._require_counts(connection)
            return _moment(_all(connection, "last_claim", {"type": job_type})[0]["moment"])

    def sweep(self, *, now: datetime, may_go_on: Callable[[], bool]) -> Swept:
        """Take back expired leases and delete what retention gives up, in short transactions, until nothing is left.

        First it does what a migration leaves to it: what must look at every row. A read tells whether there is
        anything to do, so that an idle queue is not locked; between two writes it rests for as long as one took.
        """
        self._database.finish_migrations()
        expired = deleted = 0
        values = {**self._time_values(now), "types": None}
        while may_go_on():
            with self._database.read() as connection:
                leases = self._expired(connection, values, most=SWEPT_AT_ONCE)
                ended = [] if leases else self._given_up(connection, now)
            if not leases and not ended:
                self._database.checkpoint()
                return Swept(expired, deleted, is_done=True)
            began = time.monotonic()
            with self._database.write() as connection:
                expired += self._take_back(connection, leases, now)
                # Looked up again under the lock: an admin may have retried one of them meanwhile.
                ids = self._given_up(connection, now) if ended else []
                deleted += connection.execute(SQL["delete_jobs"], {"ids": json.dumps(ids)}).rowcount
            time.sleep(time.monotonic() - began)
        return Swept(expired, deleted, is_done=False)

    def back_up(self, copy: Path) -> None:
        """Write a consistent copy of the whole database, while others go on; raise StorageError."""
        self._database.back_up(copy)

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

    def _time_values(self, now: datetime) -> dict[str, Any]:
        return {
            "now": timestamp(now),
            "unleased_since": timestamp(now - timedelta(seconds=self.policy.lease_seconds)),
            "backoff_seconds": self.policy.backoff_seconds,
            "backoff_cap": self.policy.backoff_cap_seconds,
        }

    def _end(self, connection: sqlite3.Connection, items: Iterable[EndItem], values: dict[str, Any]) -> dict[int, Job]:
        # By ascending id: neighbours lie on neighbouring pages, which a network file system then reads ahead.
        ordered = sorted(items, key=lambda item: item.id)
        jittered = [item._replace(jitter=1 + JITTER * self._jitter()) for item in ordered]
        return _by_id(_all(connection, "end_attempts", {**values, "items": _to_json(jittered)}))

    def _expired(self, connection: sqlite3.Connection, values: dict[str, Any], *, most: int) -> list[int]:
        if not self._database.has_counts(connection):
            return []
        return [row["id"] for row in _all(connection, "expired_jobs", {**values, "most": most})]

    def _next_change(self, connection: sqlite3.Connection, values: dict[str, Any]) -> datetime | None:
        leased_types = values["types"] if self._database.has_counts(connection) else "[]"
        return _moment(_all(connection, "next_change", {**values, "leased_types": leased_types})[0]["moment"])

    def _take_back(self, connection: sqlite3.Connection, ids: list[int], now: datetime) -> int:
        if not ids:
            return 0
        items = [EndItem(id=each, verb="expire", error="lease expired") for each in ids]
        return len(self._end(connection, items, {**self._time_values(now), "worker_id": None}))

    def _given_up(self, connection: sqlite3.Connection, now: datetime) -> list[int]:
        kept = {
            JobStatus.COMPLETED: self.policy.keep_completed_seconds,
            JobStatus.FAILED: self.policy.keep_failed_seconds,
            JobStatus.CANCELLED: self.policy.keep_failed_seconds,
        }
        found: list[int] = []
        for status, seconds in kept.items():
            before = timestamp(now - timedelta(seconds=seconds))
            values = {"status": status, "before": before, "most": SWEPT_AT_ONCE - len(found)}
            found += [row["id"] for row in _all(connection, "ended_jobs", values)]
        return found

    def _require_counts(self, connection: sqlite3.Connection) -> None:
        if not self._database.has_counts(connection):
            raise NotYetCounted


def _all(connection: sqlite3.Connection, statement: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    cursor = connection.execute(SQL[statement], values)
    names = [column for column, *_ in cursor.description]
    # fetchall rather than fetchone: a cursor that still has a row to give would keep COMMIT from ending the statement.
    # Dictionaries, since sqlite3.Row goes through all names for each that is asked for, and a job has thirty.
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _jobs(connection: sqlite3.Connection, ids: Iterable[int]) -> list[dict[str, Any]]:
    return _all(connection, "jobs_by_id", {"ids": json.dumps(list(ids))})


def _by_id(rows: Iterable[dict[str, Any]]) -> dict[int, Job]:
    return {row["id"]: Job.from_row(row) for row in rows}


def _to_json(items: Iterable[EndItem | BeatItem]) -> str:
    return canonical_json(
        [{name: value for name, value in item._asdict().items() if value is not None} for item in items],
        sort_keys=False,
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else parse_timestamp(text)


def _earliest(moments: Iterable[str | None]) -> datetime | None:
    return _moment(min((moment for moment in moments if moment is not None), default=None))


def _by_key(connection: sqlite3.Connection, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["idempotency_key"]: row for row in _all(connection, "jobs_by_idempotency_key", values)}


def _new_job(id: int, row: NewRow, *, created_by: str, created_at: datetime, run_at: datetime) -> Job:
    """Return a job as it was just written; reading it back would take a third of a batch's time."""
    return Job(
        id=id,
        type=row.type,
        payload=read_json(row.payload),
        priority=row.priority,
        status=JobStatus.PENDING,
        retry_count=0,
        max_retries=row.max_retries,
        idempotency_key=row.idempotency_key,
        claimed_at=None,
        worker_id=None,
        error=None,
        created_at=created_at,
        updated_at=created_at,
        reason=None,
        created_by=created_by,
        run_at=run_at,
        backoff_seconds=row.backoff_seconds,
        attempt=0,
        lease_expires_at=None,
        lease_expiries=0,
        progress=None,
        result=None,
        cancel_requested=False,
        replays=0,
    )


def _without_known(rows: Sequence[NewRow], fingerprints: dict[str, str | None]) -> list[int]:
    """Return the places of the rows to add: those without a key, and the first with each key that is not known."""
    new, reused = [], []
    for index, row in enumerate(rows):
        if row.idempotency_key is None:
            new.append(index)
        elif row.idempotency_key not in fingerprints:
            fingerprints[row.idempotency_key] = row.fingerprint
            new.append(index)
        elif fingerprints[row.idempotency_key] != row.fingerprint:
            reused.append(index)
    if reused:
        message = "was used for a different request"
        raise IdempotencyKeyReused(
            faults=tuple(Fault(f"jobs[{index}].idempotency_key", "key_reused", message) for index in reused)
        )
    return new


def _given_before(connection: sqlite3.Connection, request: ClaimRequest, values: dict[str, Any]) -> tuple[Job, ...]:
    if request.request_id is None:
        return ()
    rows = _all(connection, "claimed_by_request", values)
    if any(row["claim_fingerprint"] != request.fingerprint for row in rows):
        raise IdempotencyKeyReused("This Claim-Request-Id was used for a different request: use a new one.")
    return tuple(Job.from_row(row, row["lease_token"]) for row in rows)


def _claim(connection: sqlite3.Connection, limit: int, values: dict[str, Any]) -> tuple[Job, ...]:
    if limit == 1:
        token = LeaseToken.new()
        rows = _all(connection, "claim_job", {**values, "token": token.token, "token_sha256": token.sha256})
        return tuple(Job.from_row(row, token.token) for row in rows)
    tokens_by_id = {each: LeaseToken.new() for each in _due(connection, limit, values)}
    items = json.dumps([(each, *token) for each, token in tokens_by_id.items()])
    rows = _all(connection, "claim_jobs", {**values, "items": items})
    jobs = {row["id"]: Job.from_row(row, tokens_by_id[row["id"]].token) for row in rows}
    # Only what was changed. A host that has lost its lock may have found others in what it remembers of an index: its
    # COMMIT will fail, but so it comes to that.
    return tuple(jobs[each] for each in tokens_by_id if each in jobs)


def _due(connection: sqlite3.Connection, limit: int, values: dict[str, Any]) -> list[int]:
    """Return the next jobs to claim, as many as an answer has room for."""
    ids: list[int] = []
    size = 0
    with ExitStack() as cursors:
        rows = cursors.enter_context(closing(_due_rows(connection, cursors, values)))
        for row in itertools.islice(rows, limit):
            size += row["encoded_size"] + JOB_BYTES_WITHOUT_PAYLOAD
            if ids and size > MAX_PAGE_BYTES:
                break
            ids.append(row["id"])
    return ids


def _due_rows(connection: sqlite3.Connection, cursors: ExitStack, values: dict[str, Any]) -> Rows:
    types = json.loads(values["types"]) if values["types"] else _present_types(connection)
    for priority in sorted(JobPriority, reverse=True):
        streams = [
            cursors.enter_context(
                closing(connection.execute(SQL["due_jobs"], {**values, "type": each, "priority": priority}))
            )
            for each in types
        ]
        yield from heapq.merge(*streams, key=lambda row: (row["due_at"], row["id"]))


def _verbs_by_token(
    connection: sqlite3.Connection, items: Sequence[EndItem], values: dict[str, Any]
) -> dict[tuple[int, str | None], str]:
    with_token = [item for item in items if item.token_sha256 is not None]
    if not with_token:
        return {}
    rows = _all(connection, "attempts_by_token", {**values, "items": _to_json(with_token)})
    return {(row["job_id"], row["token_sha256"]): row["ended_by"] for row in rows}


def _repeat(item: EndItem, ended_by: str | None, jobs: dict[int, Job]) -> Job | Conflict:
    """Return what an item gets whose attempt is not running: the job, if this verb with this token ended it."""
    if item.token_sha256 is None:
        return Conflict()
    if ended_by is None or ended_by == "expire":
        return LeaseLost()
    if ended_by != item.verb:
        return Conflict(f"This attempt was already ended by {ended_by}.")
    return jobs[item.id]


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


def _newest(connection: sqlite3.Connection, cursors: ExitStack, after: Position | None) -> Rows:
    before = 2**63 - 1 if after is None else after.id
    yield from cursors.enter_context(closing(connection.execute(SQL["newest_jobs"], {"before": before})))


def _queued(
    connection: sqlite3.Connection, cursors: ExitStack, wanted_type: str | None, after: Position | None
) -> Rows:
    """Merge the types, each of which jobs_pending holds in the order of claims."""
    after = after or Position(id=0, priority=JobPriority.CRITICAL)
    types: Collection[str] = [wanted_type] if wanted_type else _present_types(connection)
    streams = [
        cursors.enter_context(closing(connection.execute(SQL[statement], {"type": each, **after._asdict()})))
        for each in types
        for statement in ("queued_jobs_after", "queued_jobs_below")
    ]
    yield from heapq.merge(*streams, key=lambda row: (-row["priority"], row["due_at"], row["id"]))


def _present_types(connection: sqlite3.Connection) -> list[str]:
    return [row["type"] for row in _all(connection, "present_types", {})]
