"""For the tests of those who use a queue: one in memory, with a clock that is stepped, and what a test asks of it.

It keeps the real queue's rules for one caller who may do everything. It does without what only time or other callers
bring: waits between retries are never made longer at random, and nothing is deleted.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from queuelog_client.errors import (
    Conflict,
    Fault,
    IdempotencyKeyReused,
    InvalidCursor,
    InvalidRequest,
    LeaseLost,
    NotFound,
    QueuelogError,
)
from queuelog_client.job import (
    DEFAULT_MAX_RETRIES,
    MAX_BATCH,
    MAX_LEASE_SECONDS,
    OUTCOMES,
    Attempt,
    Beat,
    Claimed,
    Count,
    Ending,
    Enqueued,
    Explanation,
    Heartbeat,
    Job,
    JobPriority,
    JobStatus,
    NewJob,
    Order,
    Page,
    Stats,
    Why,
    encode_json,
    timestamp,
)
from queuelog_client.shift import Tally
from queuelog_client.tasks import RunningJob, Tasks, ending_of
from queuelog_client.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from queuelog_client.tasks import Handler

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
#: Seconds that an idle worker is told to wait, at the least and at the most.
_SHORTEST_WAIT, _LONGEST_WAIT = 1, 20
_RECENT = timedelta(minutes=15)
_ENDED = {JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED}
_OUTCOMES = {**OUTCOMES, "expire": "lease_expired"}


class SteppedClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, start: datetime = NOON) -> None:
        self._now = start

    def now(self) -> datetime:
        """Return the time it stands at, in UTC and whole milliseconds, as the queue keeps times."""
        return self._now.replace(microsecond=self._now.microsecond // 1000 * 1000)

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Go on by so much."""
        self._now += timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


@dataclass(slots=True)
class _Lease:
    token: str
    seconds: int
    #: The Claim-Request-Id, and what came with it.
    request: tuple[str, object] | None


def _locked(
    verb: Callable[Concatenate[InMemoryQueue, Arguments], Found],
) -> Callable[Concatenate[InMemoryQueue, Arguments], Found]:
    """Let the threads of a worker take turns."""

    @wraps(verb)
    def alone(self: InMemoryQueue, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Found:
        with self._lock:
            return verb(self, *args, **kwargs)

    return alone


class InMemoryQueue:
    """The verbs of a QueueClient, with their answers and errors, over jobs that this object keeps."""

    def __init__(
        self,
        *,
        clock: SteppedClock | None = None,
        name: str = "test",
        lease_seconds: int = 60,
        backoff_seconds: int = 15,
        backoff_cap_seconds: int = 3_600,
    ) -> None:
        """Take what a stack's parameters set. name: who enqueues and claims."""
        self.clock = clock or SteppedClock()
        self.name = name
        self._lease_seconds = lease_seconds
        self._backoff_seconds = backoff_seconds
        self._backoff_cap_seconds = backoff_cap_seconds
        self._lock = threading.RLock()
        self._jobs: dict[int, Job] = {}
        self._last_id = 0
        #: By idempotency key, the request and its job.
        self._keys: dict[str, tuple[str, int]] = {}
        self._leases: dict[int, _Lease] = {}
        self._attempts: dict[int, list[Attempt]] = {}
        #: By token, the job and the verb that ended its attempt.
        self._ends: dict[str, tuple[int, str]] = {}
        self._last_claims: dict[str, datetime] = {}

    # What a test asks

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every job, the first one first."""
        with self._lock:
            return tuple(self._jobs.values())

    def assert_enqueued(self, type: str, *, payload: Mapping[str, Any] | None = None, **fields: Any) -> Job:
        """Return the last enqueued job of this type, with this payload and these fields of a Job; else fail, and say
        what there is.
        """
        wanted = {"type": type, **({} if payload is None else {"payload": dict(payload)}), **fields}
        for job in reversed(self.jobs):
            if all(getattr(job, name) == value for name, value in wanted.items()):
                return job
        there = "".join(f"\n  {job.id} {job.type} {job.status} {job.payload}" for job in self.jobs) or " nothing"
        raise AssertionError(f"no job was enqueued with {wanted}; there is:{there}")

    def drain(self, tasks: Worker | Tasks | Mapping[str, Handler], *, seconds: float = 0) -> Tally:
        """Do every due job with a worker's tasks, here and now, and those that become due meanwhile; return what was
        done.

        seconds: step the clock on, up to so far, to whatever falls due within.
        """
        found = tasks.tasks if isinstance(tasks, Worker) else Tasks(tasks) if isinstance(tasks, Mapping) else tasks
        tally = Tally()
        end = self.clock.now() + timedelta(seconds=seconds)
        while True:
            while (job := self.claim(types=list(found))) is not None:
                tally.claimed += 1
                tally.count(self._do(job, found))
            change = self._next_change(set(found))
            if change is None or change > end:
                return tally
            self.clock.advance(seconds=(change - self.clock.now()).total_seconds())

    def _do(self, claimed: Job, tasks: Tasks) -> str:
        job, token = RunningJob(claimed), str(claimed.lease_token)
        ending = ending_of(tasks[job.type], job, token)
        if job.latest_progress is not None:
            self.heartbeat(job.id, lease_token=token, progress=job.latest_progress)
        self._end_one(ending)
        return ending.verb

    # Producers

    def enqueue(self, job: NewJob) -> Enqueued:
        """Add a job, or return the one that the same key made; raise IdempotencyKeyReused."""
        try:
            return self.enqueue_jobs([job])[0]
        except IdempotencyKeyReused as refused:
            refused.faults = ()
            raise

    @_locked
    def enqueue_jobs(self, jobs: Sequence[NewJob]) -> tuple[Enqueued, ...]:
        """Add up to 100 jobs, as enqueue does; when one of them is refused, none is added."""
        _require_range("jobs", len(jobs), 1, MAX_BATCH)
        sent = {key: request for key, (request, _) in self._keys.items()}
        message = "was used for a different request"
        faults = tuple(
            Fault(f"jobs[{index}].idempotency_key", "key_reused", message)
            for index, job in enumerate(jobs)
            if job.idempotency_key is not None
            and sent.setdefault(job.idempotency_key, _request_of(job)) != _request_of(job)
        )
        if faults:
            raise IdempotencyKeyReused(faults=faults)
        return tuple(self._enqueue(job) for job in jobs)

    def _enqueue(self, new: NewJob) -> Enqueued:
        if new.idempotency_key in self._keys:
            return Enqueued(self._jobs[self._keys[new.idempotency_key][1]], replayed=True)
        now = self.clock.now()
        run_at = new.run_at or now + timedelta(seconds=new.delay_seconds or 0)
        self._last_id += 1
        job = Job(
            id=self._last_id,
            type=new.type,
            payload=_copy(new.payload or {}),
            priority=JobPriority.MEDIUM if new.priority is None else new.priority,
            status=JobStatus.PENDING,
            retry_count=0,
            max_retries=DEFAULT_MAX_RETRIES if new.max_retries is None else new.max_retries,
            idempotency_key=new.idempotency_key,
            claimed_at=None,
            worker_id=None,
            error=None,
            created_at=now,
            updated_at=now,
            reason=None,
            created_by=self.name,
            run_at=max(now, datetime.fromisoformat(timestamp(run_at))),
            backoff_seconds=self._backoff_seconds if new.backoff_seconds is None else new.backoff_seconds,
            attempt=0,
            lease_expires_at=None,
            lease_expiries=0,
            progress=None,
            result=None,
            cancel_requested=False,
            replays=0,
        )
        self._jobs[job.id] = job
        self._attempts[job.id] = []
        if new.idempotency_key is not None:
            self._keys[new.idempotency_key] = _request_of(new), job.id
        return Enqueued(job, replayed=False)

    @_locked
    def list(
        self,
        *,
        status: JobStatus | None = None,
        type: str | None = None,
        priority: JobPriority | None = None,
        limit: int = 50,
        cursor: str | None = None,
        order: Order = Order.NEWEST,
    ) -> Page:
        """Return up to `limit` jobs (1 to 100); raise InvalidCursor. The order queue needs status=pending."""
        _require_range("limit", limit, 1, MAX_BATCH)
        if order is Order.QUEUE and status is not JobStatus.PENDING:
            raise InvalidRequest(faults=(Fault("order", "needs_pending", "the order queue needs status=pending"),))
        wanted = {"status": status, "type": type, "priority": priority}
        passing = [
            job
            for job in sorted(self._jobs.values(), key=_place if order is Order.QUEUE else _newest)
            if all(value is None or getattr(job, name) == value for name, value in wanted.items())
        ]
        start = 0 if cursor is None else _start(cursor, order)
        jobs = passing[start : start + limit]
        more = len(passing) > start + limit
        return Page(tuple(jobs), f"{order}-{start + limit}" if more else None)

    def iterate(self, *, order: Order = Order.NEWEST, **wanted: Any) -> Iterator[Job]:
        """Yield every job of a list; the filters are those of list."""
        cursor = None
        while True:
            page = self.list(order=order, limit=MAX_BATCH, cursor=cursor, **wanted)
            yield from page.jobs
            cursor = page.next_cursor
            if cursor is None:
                return

    @_locked
    def get(self, id: int) -> Job:
        """Return one job, with its attempts; raise NotFound."""
        return replace(self._job(id), attempts=tuple(self._attempts[id]))

    @_locked
    def attempts(self, id: int) -> tuple[Attempt, ...]:
        """Return a job's ended attempts, the first one first; raise NotFound."""
        self._job(id)
        return tuple(self._attempts[id])

    @_locked
    def cancel(self, id: int) -> Job:
        """Cancel a pending job, or ask a running one's worker to stop; raise NotFound, or Conflict once it ended."""
        job = self._job(id)
        if job.status in _ENDED:
            raise Conflict("The job has ended.")
        if job.status is JobStatus.RUNNING:
            return self._put(job, cancel_requested=True)
        return self._put(job, status=JobStatus.CANCELLED, updated_at=self.clock.now())

    # Workers

    def claim(
        self,
        *,
        types: Collection[str] | None = None,
        lease_seconds: int | None = None,
        request_id: str | None = None,
    ) -> Job | None:
        """Take the due job of the highest priority, the oldest first, and hold it; None when none is due."""
        jobs = self.claim_jobs(types=types, lease_seconds=lease_seconds, request_id=request_id).jobs
        return jobs[0] if jobs else None

    @_locked
    def claim_jobs(
        self,
        *,
        limit: int = 1,
        types: Collection[str] | None = None,
        lease_seconds: int | None = None,
        request_id: str | None = None,
    ) -> Claimed:
        """Take up to `limit` jobs (1 to 100) as claim does; raise IdempotencyKeyReused."""
        _require_range("limit", limit, 1, MAX_BATCH)
        seconds = self._lease_seconds if lease_seconds is None else lease_seconds
        _require_range("lease_seconds", seconds, 1, MAX_LEASE_SECONDS)
        wanted = None if types is None else frozenset(types)
        request = None if request_id is None else (request_id, (limit, wanted, lease_seconds))
        given = self._given(request)
        if given:
            return Claimed(given, _LONGEST_WAIT)
        self._take_back(wanted)
        now = self.clock.now()
        due = [job for job in self._queued(wanted) if job.run_at <= now][:limit]
        if due:
            return Claimed(tuple(self._hold(job, seconds, request) for job in due), _LONGEST_WAIT)
        change = self._next_change(wanted)
        wait = _LONGEST_WAIT if change is None else math.ceil((change - now).total_seconds())
        return Claimed((), min(max(wait, _SHORTEST_WAIT), _LONGEST_WAIT))

    def _given(self, request: tuple[str, object] | None) -> tuple[Job, ...]:
        held = [
            job
            for job in self._running(None)
            if request is not None
            and (known := self._leases[job.id].request) is not None
            and known[0] == request[0]
            and job.lease_expires_at is not None
            and job.lease_expires_at > self.clock.now()
        ]
        if any(self._leases[job.id].request != request for job in held):
            raise IdempotencyKeyReused
        return tuple(replace(job, lease_token=self._leases[job.id].token) for job in sorted(held, key=_place))

    def _hold(self, job: Job, seconds: int, request: tuple[str, object] | None) -> Job:
        now = self.clock.now()
        self._leases[job.id] = _Lease(secrets.token_urlsafe(24), seconds, request)
        self._last_claims[job.type] = now
        held = self._put(
            job,
            status=JobStatus.RUNNING,
            claimed_at=now,
            worker_id=self.name,
            updated_at=now,
            attempt=job.attempt + 1,
            lease_expires_at=now + timedelta(seconds=seconds),
        )
        return replace(held, lease_token=self._leases[job.id].token)

    def complete(self, id: int, *, lease_token: str | None = None, result: Any = None) -> Job:
        """Finish a job; raise Conflict if it is not running, LeaseLost if the token is another claim's."""
        return self._end_one(Ending(id=id, verb="complete", lease_token=lease_token, result=result))

    def fail(
        self,
        id: int,
        *,
        lease_token: str | None = None,
        error: str | None = None,
        retry_in_seconds: int | None = None,
        permanent: bool = False,
    ) -> Job:
        """Give up on an attempt: pending again while the job has retries left, else failed; raise as complete does."""
        ending = Ending(
            id=id,
            verb="fail",
            lease_token=lease_token,
            error=error,
            retry_in_seconds=retry_in_seconds,
            permanent=permanent,
        )
        return self._end_one(ending)

    def release(self, id: int, *, lease_token: str | None = None) -> Job:
        """Give a job back unfinished, without spending a retry; raise as complete does."""
        return self._end_one(Ending(id=id, verb="release", lease_token=lease_token))

    def _end_one(self, ending: Ending) -> Job:
        (outcome,) = self.finish_jobs([ending])
        if isinstance(outcome, QueuelogError):
            raise outcome
        return outcome

    @_locked
    def finish_jobs(self, endings: Sequence[Ending]) -> tuple[Job | QueuelogError, ...]:
        """Complete, fail or release up to 100 jobs; for each, in order, the job or why not."""
        _require_range("jobs", len(endings), 1, MAX_BATCH)
        refusals = [self._finish(ending) for ending in endings]
        # A repeat finds the job as the whole batch has left it.
        return tuple(
            self._jobs[ending.id] if refusal is None else refusal
            for ending, refusal in zip(endings, refusals, strict=True)
        )

    def _finish(self, ending: Ending) -> QueuelogError | None:
        lease, token = self._leases.get(ending.id), ending.lease_token
        if lease is not None and token in {None, lease.token}:
            self._end(self._jobs[ending.id], ending)
            return None
        if token is None:
            return Conflict()
        id, verb = self._ends.get(token, (0, "expire"))
        if id != ending.id or verb == "expire":
            return LeaseLost()
        return None if verb == ending.verb else Conflict("This attempt ended by another verb.")

    def _end(self, job: Job, ending: Ending) -> None:
        now = self.clock.now()
        failed = ending.verb in {"fail", "expire"}
        status = _status_after(job, ending)
        waits = status is JobStatus.PENDING
        retried = failed and waits
        wait = self._wait(job, ending) if retried else 0
        attempt = Attempt(
            attempt=job.attempt,
            worker_id=self.name,
            claimed_at=job.claimed_at or now,
            ended_at=now,
            outcome="cancelled" if status is JobStatus.CANCELLED else _OUTCOMES[ending.verb],
            error=ending.error if failed else None,
        )
        self._attempts[job.id].append(attempt)
        self._ends[self._leases.pop(job.id).token] = job.id, ending.verb
        self._put(
            job,
            status=status,
            run_at=now + timedelta(seconds=wait) if wait else job.run_at,
            retry_count=job.retry_count + retried,
            claimed_at=None if waits else job.claimed_at,
            worker_id=None if waits else job.worker_id,
            error=ending.error if failed else job.error,
            reason={"fail": "failed", "expire": "lease_expired"}.get(ending.verb, job.reason),
            result=_copy(ending.result) if ending.verb == "complete" else job.result,
            lease_expiries=job.lease_expiries + (ending.verb == "expire"),
            lease_expires_at=None,
            updated_at=now,
        )

    def _wait(self, job: Job, ending: Ending) -> int:
        if ending.retry_in_seconds is not None:
            return ending.retry_in_seconds
        backoff = job.backoff_seconds or 0
        return min(max(self._backoff_cap_seconds, backoff), backoff * ((1 << job.retry_count) - 1))

    def heartbeat(
        self,
        id: int,
        *,
        lease_token: str,
        lease_seconds: int | None = None,
        progress: dict[str, Any] | None = None,
    ) -> Heartbeat:
        """Hold a job for longer, as many seconds as its claim said when left out; raise LeaseLost."""
        beat = Beat(id=id, lease_token=lease_token, lease_seconds=lease_seconds, progress=progress)
        (outcome,) = self.heartbeat_jobs([beat])
        if isinstance(outcome, QueuelogError):
            raise outcome
        return outcome

    @_locked
    def heartbeat_jobs(self, beats: Sequence[Beat]) -> tuple[Heartbeat | QueuelogError, ...]:
        """Hold up to 100 jobs for longer, as heartbeat does; for each, in order, what it gets."""
        _require_range("jobs", len(beats), 1, MAX_BATCH)
        return tuple(self._beat(beat) for beat in beats)

    def _beat(self, beat: Beat) -> Heartbeat | QueuelogError:
        lease = self._leases.get(beat.id)
        if lease is None or lease.token != beat.lease_token:
            return LeaseLost()
        job, now = self._jobs[beat.id], self.clock.now()
        end = now + timedelta(seconds=beat.lease_seconds or lease.seconds)
        until = max(end, job.lease_expires_at or end)
        progress = job.progress if beat.progress is None else _copy(beat.progress)
        job = self._put(job, lease_expires_at=until, progress=progress)
        return Heartbeat(lease_expires_at=until, cancel_requested=job.cancel_requested, server_time=now)

    # Admins

    @_locked
    def retry(self, id: int) -> Job:
        """Put a failed or cancelled job back as it began, due now; raise NotFound, or Conflict in any other status."""
        if self._job(id).status not in {JobStatus.FAILED, JobStatus.CANCELLED}:
            raise Conflict("The job has neither failed nor been cancelled.")
        return self._put_back(self._job(id))

    @_locked
    def retry_jobs(
        self,
        *,
        status: JobStatus,
        type: str | None = None,
        error_contains: str | None = None,
        failed_after: datetime | None = None,
        failed_before: datetime | None = None,
        limit: int = 100,
        dry_run: bool = False,
    ) -> tuple[int, ...]:
        """Retry up to `limit` (1 to 1,000) ended jobs that pass, as the client does; return their ids, ascending."""
        _require_range("limit", limit, 1, 10 * MAX_BATCH)
        passing = [
            job
            for job in self._jobs.values()
            if job.status is status
            and type in {None, job.type}
            and (error_contains is None or error_contains in (job.error or ""))
            and (failed_after is None or job.updated_at > failed_after)
            and (failed_before is None or job.updated_at < failed_before)
        ]
        chosen = sorted(passing, key=lambda job: (job.updated_at, job.id))[:limit]
        for job in () if dry_run else chosen:
            self._put_back(job)
        return tuple(sorted(job.id for job in chosen))

    def _put_back(self, job: Job) -> Job:
        now = self.clock.now()
        return self._put(
            job,
            status=JobStatus.PENDING,
            retry_count=0,
            replays=job.replays + 1,
            run_at=now,
            updated_at=now,
            cancel_requested=False,
            progress=None,
            claimed_at=None,
            worker_id=None,
        )

    @_locked
    def explain(self, id: int) -> Explanation:
        """Say why a job is where it is; raise NotFound."""
        job = self._job(id)
        return Explanation(job.status, tuple(self._reasons(job)))

    def _reasons(self, job: Job) -> Iterator[Why]:
        now = self.clock.now()
        if job.status is JobStatus.RUNNING and job.lease_expires_at is not None:
            yield Why("running", f"{job.worker_id} holds it until {timestamp(job.lease_expires_at)}.")
        elif job.status is not JobStatus.PENDING:
            yield Why("ended", f"It was {job.status} at {timestamp(job.updated_at)}.")
        elif job.run_at > now:
            if job.reason is None:
                yield Why("delayed", f"It is due at {timestamp(job.run_at)}, as was asked.")
            else:
                yield Why(
                    "backoff", f"Its last attempt failed; retry {job.retry_count} is due at {timestamp(job.run_at)}."
                )
        else:
            due = [each for each in self._queued({job.type}) if each.run_at <= now]
            if due.index(job):
                yield Why("behind", f"{due.index(job)} due jobs of its type are claimed before it.")
            last_claim = self._last_claims.get(job.type)
            if last_claim is None or now - last_claim > _RECENT:
                yield Why("no_recent_claim", f"No job of the type {job.type} was claimed in the last 15 minutes.")

    @_locked
    def stats(self) -> Stats:
        """Return how many jobs there are and how the queue is doing."""
        now = self.clock.now()
        kinds = Counter((job.status, job.type, job.priority) for job in self._jobs.values())
        due = [job.run_at for job in self._queued(None)]
        past, future = [each for each in due if each <= now], [each for each in due if each > now]
        return Stats(
            jobs=tuple(
                Count(*kind, count)
                for kind, count in sorted(kinds.items(), key=lambda each: (each[0][0], each[0][1], -each[0][2]))
            ),
            running=dict(Counter(str(job.worker_id) for job in self._running(None))),
            oldest_due_seconds=(now - min(past)).total_seconds() if past else None,
            next_run_at=min(future, default=None),
        )

    def is_healthy(self) -> bool:
        """Say that it is."""
        return True

    # What the queue itself does

    @_locked
    def sweep(self) -> int:
        """Take back the leases that have ended, as the stack does every minute; return how many."""
        return self._take_back(None)

    def _take_back(self, types: Collection[str] | None) -> int:
        now = self.clock.now()
        expired = [
            job for job in self._running(types) if job.lease_expires_at is not None and job.lease_expires_at <= now
        ]
        for job in expired:
            self._end(job, Ending(id=job.id, verb="expire", error="lease expired"))
        return len(expired)

    def _next_change(self, types: Collection[str] | None) -> datetime | None:
        now = self.clock.now()
        changes = [job.run_at for job in self._queued(types) if job.run_at > now]
        changes += [job.lease_expires_at for job in self._running(types) if job.lease_expires_at is not None]
        return min(changes, default=None)

    def _job(self, id: int) -> Job:
        if id not in self._jobs:
            raise NotFound
        return self._jobs[id]

    def _put(self, job: Job, **changes: Any) -> Job:
        self._jobs[job.id] = replace(job, **changes)
        return self._jobs[job.id]

    def _queued(self, types: Collection[str] | None) -> Iterable[Job]:
        """Return the pending jobs of some types in the order of claims."""
        return sorted(self._with_status(JobStatus.PENDING, types), key=_place)

    def _running(self, types: Collection[str] | None) -> Iterable[Job]:
        return self._with_status(JobStatus.RUNNING, types)

    def _with_status(self, status: JobStatus, types: Collection[str] | None) -> Iterable[Job]:
        return [job for job in self._jobs.values() if job.status is status and (types is None or job.type in types)]


def _status_after(job: Job, ending: Ending) -> JobStatus:
    if ending.verb == "complete":
        return JobStatus.COMPLETED
    if job.cancel_requested:
        return JobStatus.CANCELLED
    may_come_back = ending.verb == "release" or (job.retry_count < job.max_retries and not ending.permanent)
    return JobStatus.PENDING if may_come_back else JobStatus.FAILED


def _request_of(job: NewJob) -> str:
    return encode_json(sorted({**job.sent(), "idempotency_key": None}.items()))


def _copy(value: Any) -> Any:
    # As a job comes back from a real queue: tuples as lists, keys as text, and nobody's object.
    return json.loads(encode_json(value))


def _place(job: Job) -> tuple[int, datetime, int]:
    return -job.priority, job.run_at, job.id


def _newest(job: Job) -> tuple[int, datetime, int]:
    return -job.id, job.run_at, job.id


def _start(cursor: str, order: Order) -> int:
    made_for, _, start = cursor.partition("-")
    if made_for != order or not start.isdecimal():
        raise InvalidCursor(faults=(Fault("cursor", "invalid_cursor", str(InvalidCursor())),))
    return int(start)


def _require_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidRequest(faults=(Fault(name, "out_of_range", f"must be between {least} and {most}"),))
