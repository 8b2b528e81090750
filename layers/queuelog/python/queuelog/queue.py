from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from queuelog.clock import Clock, SystemClock, timestamp
from queuelog.errors import (
    Conflict,
    Fault,
    Forbidden,
    IdempotencyKeyReused,
    InvalidRequest,
    LeaseLost,
    NotFound,
    QueuelogError,
)
from queuelog.explanation import Explanation, explain
from queuelog.job import (
    DEFAULT_MAX_RETRIES,
    MAX_BATCH,
    MAX_LEASE_SECONDS,
    MAX_RETRY_BATCH,
    Attempt,
    Beat,
    Ending,
    Enqueued,
    Heartbeat,
    Job,
    JobPriority,
    JobStatus,
    NewJob,
    canonical_json,
    fingerprint,
)
from queuelog.lease import LeaseToken
from queuelog.page import (
    JOB_BYTES_WITHOUT_PAYLOAD,
    MAX_PAGE,
    MAX_PAGE_BYTES,
    JobFilter,
    Order,
    Page,
    decode_cursor,
    encode_cursor,
)
from queuelog.store.items import BeatItem, ClaimRequest, EndItem, NewRow, RetryFilter, Stats

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from queuelog.principal import Principal
    from queuelog.store import Store

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

#: Seconds that an idle worker is told to wait, at the least and at the most.
SHORTEST_WAIT = 1
LONGEST_WAIT = 20


class Claimed(NamedTuple):
    """The jobs that a claim gave; when there are none, the seconds after which to ask again."""

    jobs: tuple[Job, ...]
    retry_after: int


class Queue:
    """The verbs of the queue, each for a principal: may it do this, and if so, do it.

    Every verb may raise Forbidden and StorageError, and InvalidRequest for an argument out of its range. Every verb is
    safe to repeat after a StorageError: with an idempotency key, a Claim-Request-Id or a lease token it happens once.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._policy = store.policy

    def bound(self, principal: Principal, clock: Clock | None = None) -> BoundQueue:
        """Return the same verbs for one principal and clock, as an HTTP client has them."""
        return BoundQueue(self, principal, clock or SystemClock())

    def enqueue(self, principal: Principal, now: datetime, job: NewJob) -> Enqueued:
        """Add a job, or return the one that the same principal's same key made; raise IdempotencyKeyReused."""
        try:
            return self.enqueue_jobs(principal, now, [job])[0]
        except (Forbidden, IdempotencyKeyReused) as refused:
            # Its faults name a place in a batch, and this is none.
            refused.faults = ()
            raise

    def enqueue_jobs(self, principal: Principal, now: datetime, jobs: Sequence[NewJob]) -> tuple[Enqueued, ...]:
        """Add up to 100 jobs in one transaction, as enqueue does; when one of them is refused, none is added."""
        principal.require("enqueue")
        _require_batch(jobs)
        refusals = [
            Fault(f"jobs[{index}].{name}", "forbidden", message)
            for index, job in enumerate(jobs)
            for name, message in _refusals(principal, job)
        ]
        if refusals:
            raise Forbidden(refusals[0].message, tuple(refusals))
        at_once = timestamp(now)
        rows = [self._row(job, now, at_once) for job in jobs]
        if len(rows) > 1 and sum(row.encoded_size + JOB_BYTES_WITHOUT_PAYLOAD for row in rows) > MAX_PAGE_BYTES:
            message = "are too large together for one answer: send fewer at once"
            raise InvalidRequest(faults=(Fault("jobs", "too_large", message),))
        return self._store.insert(rows, created_by=principal.name, now=now)

    def list(
        self,
        principal: Principal,
        *,
        status: JobStatus | None = None,
        type: str | None = None,
        priority: JobPriority | None = None,
        limit: int = 50,
        cursor: str | None = None,
        order: Order = Order.NEWEST,
    ) -> Page:
        """Return up to `limit` jobs that the principal may see; a page can be short and still have a next one.

        Raises InvalidCursor, and InvalidRequest when the order is queue and the status is not pending.
        """
        principal.require("list")
        _require_range("limit", limit, 1, MAX_PAGE)
        if order is Order.QUEUE and status is not JobStatus.PENDING:
            message = "the order queue needs status=pending"
            raise InvalidRequest(faults=(Fault("order", "needs_pending", message),))
        after = None if cursor is None else decode_cursor(order, cursor)
        wanted = JobFilter(status=status, type=type, priority=priority, visible_to=principal)
        jobs, last = self._store.page(wanted, order=order, limit=limit, after=after)
        return Page(jobs, None if last is None else encode_cursor(order, last))

    def get(self, principal: Principal, id: int) -> Job:
        """Return one job; raise NotFound if there is none or the principal may not see it."""
        principal.require("get")
        job = self._store.get(id)
        if job is None or not principal.may_see(created_by=job.created_by, worker_id=job.worker_id):
            raise NotFound
        return job

    def attempts(self, principal: Principal, id: int) -> tuple[Attempt, ...]:
        """Return a job's ended attempts, the first one first."""
        principal.require("attempts")
        return self._store.attempts(id)

    def claim(
        self,
        principal: Principal,
        now: datetime,
        *,
        types: Collection[str] | None = None,
        lease_seconds: int | None = None,
        request_id: str | None = None,
        worker_id: str | None = None,
    ) -> Job | None:
        """Take the due job of the highest priority, the oldest first, and hold it; None when none is due.

        types: only these; None is every type that the principal may use. lease_seconds: 1 to 43,200; default the
        queue's. request_id: while its lease is held, the same id gets the same job and token again; with other
        arguments it raises IdempotencyKeyReused. worker_id: no choice, only a check that the caller and the queue agree
        on who is calling.
        """
        claimed = self.claim_jobs(
            principal, now, types=types, lease_seconds=lease_seconds, request_id=request_id, worker_id=worker_id
        )
        return claimed.jobs[0] if claimed.jobs else None

    def claim_jobs(
        self,
        principal: Principal,
        now: datetime,
        *,
        limit: int = 1,
        types: Collection[str] | None = None,
        lease_seconds: int | None = None,
        request_id: str | None = None,
        worker_id: str | None = None,
    ) -> Claimed:
        """Take up to `limit` jobs (1 to 100) as claim does, as many as one answer has room for."""
        principal.require("claim")
        if worker_id is not None and worker_id != principal.worker_id:
            raise Forbidden(f"You are {principal.worker_id}: leave worker_id out, it follows from who is calling.")
        refused = sorted(each for each in types or () if not principal.may_use(each))
        if refused:
            raise Forbidden(f"You may not claim jobs of the type {', '.join(refused)}.")
        _require_range("limit", limit, 1, MAX_BATCH)
        lease = self._policy.lease_seconds if lease_seconds is None else lease_seconds
        _require_range("lease_seconds", lease, 1, MAX_LEASE_SECONDS)
        sent = {"limit": limit, "types": None if types is None else sorted(types), "lease_seconds": lease_seconds}
        request = ClaimRequest(
            worker_id=principal.worker_id,
            types=principal.types if types is None else frozenset(types),
            lease_seconds=lease,
            limit=limit,
            request_id=request_id,
            fingerprint=None if request_id is None else fingerprint(sent),
        )
        claimed = self._store.claim(request, now=now)
        return Claimed(claimed.jobs, _wait(claimed.next_change, now))

    def complete(
        self, principal: Principal, now: datetime, id: int, *, lease_token: str | None = None, result: Any = None
    ) -> Job:
        """Finish a job that the principal holds; raise Conflict if it is not running or another's.

        lease_token: the claim's; with it a repeat finds the job as it is now, and LeaseLost is raised when the lease
        was taken back. result: up to 64 KB of JSON for the creator.
        """
        return self._end(principal, now, Ending(id=id, verb="complete", lease_token=lease_token, result=result))

    def fail(
        self,
        principal: Principal,
        now: datetime,
        id: int,
        *,
        lease_token: str | None = None,
        error: str | None = None,
        retry_in_seconds: int | None = None,
        permanent: bool = False,
    ) -> Job:
        """Give up on an attempt: pending again while the job has retries left, else failed; raise as complete does.

        The error's text is cleaned of secrets, paths and stack traces before it is stored. The first retry is at once,
        then the waits double; retry_in_seconds sets this one, and permanent says that no retry will help.
        """
        ending = Ending(
            id=id,
            verb="fail",
            lease_token=lease_token,
            error=error,
            retry_in_seconds=retry_in_seconds,
            permanent=permanent,
        )
        return self._end(principal, now, ending)

    def release(self, principal: Principal, now: datetime, id: int, *, lease_token: str | None = None) -> Job:
        """Give a job back unfinished, without spending a retry; raise as complete does."""
        return self._end(principal, now, Ending(id=id, verb="release", lease_token=lease_token))

    def finish_jobs(self, principal: Principal, now: datetime, endings: Sequence[Ending]) -> tuple[Job | Conflict, ...]:
        """Complete, fail or release up to 100 jobs in one transaction; for each, in order, the job or why not."""
        for verb in {ending.verb for ending in endings}:
            principal.require(verb)
        _require_batch(endings)
        items = [
            EndItem(
                id=ending.id,
                verb=ending.verb,
                token_sha256=None if ending.lease_token is None else LeaseToken.of(ending.lease_token).sha256,
                result=ending.result,
                error=None if ending.error is None else _clean(ending.error),
                retry_in_seconds=ending.retry_in_seconds,
                permanent=ending.permanent,
            )
            for ending in endings
        ]
        return self._store.end(items, worker_id=principal.worker_id, now=now)

    def heartbeat(
        self,
        principal: Principal,
        now: datetime,
        id: int,
        *,
        lease_token: str,
        lease_seconds: int | None = None,
        progress: dict[str, Any] | None = None,
    ) -> Heartbeat:
        """Hold a job for longer: lease_seconds from now, as many as the claim said when left out, and never shorter.

        It learns whether the job is to be cancelled. progress: up to 4 KB of JSON. Raises LeaseLost when the lease was
        taken back; one that has only ended is revived.
        """
        beat = Beat(id=id, lease_token=lease_token, lease_seconds=lease_seconds, progress=progress)
        return _value(self.heartbeat_jobs(principal, now, [beat])[0])

    def heartbeat_jobs(
        self, principal: Principal, now: datetime, beats: Sequence[Beat]
    ) -> tuple[Heartbeat | LeaseLost, ...]:
        """Hold up to 100 jobs for longer, in one transaction, as heartbeat does; for each, in order, what it gets."""
        principal.require("heartbeat")
        _require_batch(beats)
        items = [
            BeatItem(
                id=beat.id,
                token_sha256=LeaseToken.of(beat.lease_token).sha256,
                lease_seconds=beat.lease_seconds,
                progress=beat.progress,
            )
            for beat in beats
        ]
        return self._store.beat(items, worker_id=principal.worker_id, now=now)

    def cancel(self, principal: Principal, now: datetime, id: int) -> Job:
        """Cancel a pending job, or ask a running one's worker to stop; raise NotFound, or Conflict once it ended."""
        principal.require("cancel")
        created_by = None if principal.is_admin else principal.name
        job = self._store.cancel(id, created_by=created_by, now=now)
        if job is None:
            known = self._store.get(id)
            if known is None or (created_by is not None and known.created_by != created_by):
                raise NotFound
            raise Conflict("The job has ended.")
        return job

    def retry(self, principal: Principal, now: datetime, id: int) -> Job:
        """Put a failed or cancelled job back as it began, due now; raise NotFound, or Conflict in any other status."""
        principal.require("retry")
        jobs = self._store.retry([id], now=now)
        if not jobs:
            if self._store.get(id) is None:
                raise NotFound
            raise Conflict("The job has neither failed nor been cancelled.")
        return jobs[0]

    def retry_jobs(
        self,
        principal: Principal,
        now: datetime,
        *,
        status: JobStatus,
        type: str | None = None,
        error_contains: str | None = None,
        failed_after: datetime | None = None,
        failed_before: datetime | None = None,
        limit: int = 100,
        dry_run: bool = False,
    ) -> tuple[int, ...]:
        """Retry up to `limit` (1 to 1,000) ended jobs that pass, those that ended first; return their ids, ascending.

        dry_run: only say which they would be.
        """
        principal.require("retry")
        _require_range("limit", limit, 1, MAX_RETRY_BATCH)
        wanted = RetryFilter(
            status=status,
            type=type,
            error_contains=error_contains,
            after=None if failed_after is None else timestamp(failed_after),
            before=None if failed_before is None else timestamp(failed_before),
        )
        ids = self._store.retryable(wanted, most=limit)
        if not dry_run and ids:
            ids = tuple(job.id for job in self._store.retry(ids, now=now))
        return tuple(sorted(ids))

    def explain(self, principal: Principal, now: datetime, id: int) -> Explanation:
        """Say why a job is where it is; raise NotFound."""
        principal.require("explain")
        job = self._store.get(id)
        if job is None or not (principal.is_admin or principal.created(job.created_by)):
            raise NotFound
        return explain(job, self._store, now=now, with_others=principal.is_admin)

    def stats(self, principal: Principal, now: datetime) -> Stats:
        """Return how many jobs there are and how the queue is doing; raise NotYetCounted right after an upgrade."""
        principal.require("stats")
        return self._store.stats(now=now)

    def _end(self, principal: Principal, now: datetime, ending: Ending) -> Job:
        return _value(self.finish_jobs(principal, now, [ending])[0])

    def _row(self, job: NewJob, now: datetime, at_once: str) -> NewRow:
        run_at = job.run_at if job.delay_seconds is None else now + timedelta(seconds=job.delay_seconds)
        return NewRow(
            type=job.type,
            payload=job.encoded_payload,
            encoded_size=len(canonical_json(job.encoded_payload).encode()),
            priority=_priority(job),
            max_retries=DEFAULT_MAX_RETRIES if job.max_retries is None else job.max_retries,
            backoff_seconds=self._policy.backoff_seconds if job.backoff_seconds is None else job.backoff_seconds,
            # A time in the past does not jump the queue.
            due_at=at_once if run_at is None else max(at_once, timestamp(run_at)),
            idempotency_key=job.idempotency_key,
            fingerprint=None if job.idempotency_key is None else job.fingerprint(),
        )


def _clean(error: str) -> str:
    # Only failures need the patterns, which take a cold start several milliseconds to compile.
    from queuelog.redaction import clean  # noqa: PLC0415

    return clean(error)


def _priority(job: NewJob) -> JobPriority:
    return JobPriority.MEDIUM if job.priority is None else job.priority


def _refusals(principal: Principal, job: NewJob) -> list[tuple[str, str]]:
    found = []
    if not principal.may_use(job.type):
        found.append(("type", f"You may not enqueue jobs of the type {job.type}."))
    if principal.max_priority is not None and _priority(job) > principal.max_priority:
        found.append(("priority", f"You may not enqueue above the priority {principal.max_priority.label}."))
    return found


def _bound(
    verb: Callable[Concatenate[Queue, Principal, datetime, Arguments], Answer],
) -> Callable[Concatenate[BoundQueue, Arguments], Answer]:
    """Return a verb without its principal and time: they come from what it is bound to."""

    def bound(self: BoundQueue, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        return verb(self.queue, self.principal, self.clock.now(), *args, **kwargs)

    return update_wrapper(bound, verb)


def _bound_without_time(
    verb: Callable[Concatenate[Queue, Principal, Arguments], Answer],
) -> Callable[Concatenate[BoundQueue, Arguments], Answer]:
    """Return a verb without its principal, for one that asks for no time."""

    def bound(self: BoundQueue, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        return verb(self.queue, self.principal, *args, **kwargs)

    return update_wrapper(bound, verb)


def _value(outcome: Answer | QueuelogError) -> Answer:
    if isinstance(outcome, QueuelogError):
        raise outcome
    return outcome


def _wait(next_change: datetime | None, now: datetime) -> int:
    if next_change is None:
        return LONGEST_WAIT
    return min(max(math.ceil((next_change - now).total_seconds()), SHORTEST_WAIT), LONGEST_WAIT)


def _require_batch(items: Sequence[object]) -> None:
    _require_range("jobs", len(items), 1, MAX_BATCH)


def _require_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidRequest(faults=(Fault(name, "out_of_range", f"must be between {least} and {most}"),))


@dataclass(frozen=True, slots=True)
class BoundQueue:
    """The queue's verbs as one principal has them, at the time that its clock tells."""

    queue: Queue
    principal: Principal
    clock: Clock

    attempts = _bound_without_time(Queue.attempts)
    cancel = _bound(Queue.cancel)
    claim = _bound(Queue.claim)
    claim_jobs = _bound(Queue.claim_jobs)
    complete = _bound(Queue.complete)
    enqueue = _bound(Queue.enqueue)
    enqueue_jobs = _bound(Queue.enqueue_jobs)
    explain = _bound(Queue.explain)
    fail = _bound(Queue.fail)
    finish_jobs = _bound(Queue.finish_jobs)
    get = _bound_without_time(Queue.get)
    heartbeat = _bound(Queue.heartbeat)
    heartbeat_jobs = _bound(Queue.heartbeat_jobs)
    list = _bound_without_time(Queue.list)
    release = _bound(Queue.release)
    retry = _bound(Queue.retry)
    retry_jobs = _bound(Queue.retry_jobs)
    stats = _bound(Queue.stats)
