from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queuelog.clock import Clock, SystemClock
from queuelog.errors import Conflict, Fault, Forbidden, IdempotencyKeyReused, InvalidRequest, NotFound
from queuelog.job import DEFAULT_MAX_RETRIES, Enqueued, Job, JobPriority, JobStatus, NewJob
from queuelog.page import JobFilter, Order, Page, decode_cursor, encode_cursor

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from queuelog.principal import Principal
    from queuelog.store import Store


class Queue:
    """The verbs of the queue, each for a principal: may it do this, and if so, do it.

    Every verb may raise Forbidden and StorageError. Every verb is safe to repeat after a StorageError.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def bound(self, principal: Principal, clock: Clock | None = None) -> BoundQueue:
        """Return the same verbs for one principal and clock, as an HTTP client has them."""
        return BoundQueue(self, principal, clock or SystemClock())

    def enqueue(self, principal: Principal, job: NewJob, *, now: datetime) -> Enqueued:
        """Add a job, or return the one that the same principal's same key made; raise IdempotencyKeyReused."""
        principal.require("enqueue")
        if not principal.may_use(job.type):
            raise Forbidden(f"You may not enqueue jobs of the type {job.type}.")
        priority = JobPriority.MEDIUM if job.priority is None else job.priority
        if principal.max_priority is not None and priority > principal.max_priority:
            raise Forbidden(f"You may not enqueue above the priority {principal.max_priority.label}.")
        max_retries = DEFAULT_MAX_RETRIES if job.max_retries is None else job.max_retries
        fingerprint = None if job.idempotency_key is None else job.fingerprint()
        enqueued, known_fingerprint = self._store.insert(
            job, priority=priority, max_retries=max_retries, fingerprint=fingerprint, created_by=principal.name, now=now
        )
        if known_fingerprint != fingerprint:
            raise IdempotencyKeyReused
        return enqueued

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

    def claim(
        self,
        principal: Principal,
        *,
        now: datetime,
        types: Collection[str] | None = None,
        worker_id: str | None = None,
    ) -> Job | None:
        """Take the due job of the highest priority, the oldest first, and hold it; None when none is due.

        types: only these; None is every type that the principal may use. worker_id: no choice, only a check that the
        caller and the queue agree on who is calling.
        """
        principal.require("claim")
        if worker_id is not None and worker_id != principal.worker_id:
            raise Forbidden(f"You are {principal.worker_id}: leave worker_id out, it follows from who is calling.")
        wanted = principal.types if types is None else frozenset(types)
        if types is not None:
            refused = sorted(each for each in frozenset(types) if not principal.may_use(each))
            if refused:
                raise Forbidden(f"You may not claim jobs of the type {', '.join(refused)}.")
        return self._store.claim(types=wanted, worker_id=principal.worker_id, now=now)

    def complete(self, principal: Principal, id: int, *, now: datetime) -> Job:
        """Finish a job that the principal holds; raise Conflict if it is not running or another's."""
        principal.require("complete")
        job = self._store.complete(id, worker_id=principal.worker_id, now=now)
        if job is None:
            raise Conflict
        return job

    def fail(self, principal: Principal, id: int, *, now: datetime, error: str | None = None) -> Job:
        """Give a job back: pending again while it has retries left, else failed; raise Conflict as complete does.

        The error's text is cleaned of secrets, paths and stack traces before it is stored.
        """
        principal.require("fail")
        # Only this verb needs the patterns, which take every cold start several milliseconds to compile.
        from queuelog.redaction import clean  # noqa: PLC0415

        cleaned = None if error is None else clean(error)
        job = self._store.fail(id, worker_id=principal.worker_id, error=cleaned, now=now)
        if job is None:
            raise Conflict
        return job


@dataclass(frozen=True, slots=True)
class BoundQueue:
    """The queue's verbs as one principal has them, at the time that its clock tells."""

    queue: Queue
    principal: Principal
    clock: Clock = field(default_factory=SystemClock)

    def enqueue(self, job: NewJob) -> Enqueued:
        """As Queue.enqueue."""
        return self.queue.enqueue(self.principal, job, now=self.clock.now())

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
        """As Queue.list."""
        return self.queue.list(
            self.principal, status=status, type=type, priority=priority, limit=limit, cursor=cursor, order=order
        )

    def get(self, id: int) -> Job:
        """As Queue.get."""
        return self.queue.get(self.principal, id)

    def claim(self, *, types: Collection[str] | None = None, worker_id: str | None = None) -> Job | None:
        """As Queue.claim."""
        return self.queue.claim(self.principal, now=self.clock.now(), types=types, worker_id=worker_id)

    def complete(self, id: int) -> Job:
        """As Queue.complete."""
        return self.queue.complete(self.principal, id, now=self.clock.now())

    def fail(self, id: int, *, error: str | None = None) -> Job:
        """As Queue.fail."""
        return self.queue.fail(self.principal, id, now=self.clock.now(), error=error)
