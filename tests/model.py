"""The rules of the queue in plain Python, without SQL, transactions and indexes: what the real one is compared with."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from queuelog import (
    Attempt,
    Beat,
    Claimed,
    Conflict,
    Ending,
    Enqueued,
    Fault,
    Forbidden,
    Heartbeat,
    IdempotencyKeyReused,
    Job,
    JobPriority,
    JobStatus,
    LeaseLost,
    NewJob,
    NotFound,
    Policy,
    Principal,
    QueuelogError,
    Reason,
    Role,
    Stats,
    Swept,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PRODUCERS, WORKERS = {Role.PRODUCER, Role.ADMIN}, {Role.WORKER, Role.ADMIN}
ENDED = {JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED}


@dataclass
class Lease:
    """What a claim gave, for as long as it is held."""

    token: str
    seconds: int
    request: tuple[str, object] | None


@dataclass
class Model:
    """Jobs by their ids, and what else the queue has to remember; without jitter, and with tokens from outside."""

    policy: Policy = field(default_factory=Policy)
    last_id: int = 0
    jobs: dict[int, Job] = field(default_factory=dict)
    keys: dict[tuple[str, str], tuple[NewJob, int]] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    history: dict[int, list[Attempt]] = field(default_factory=dict)
    #: How the attempt with this token ended: the job, the verb and the worker.
    ended: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    last_claims: dict[tuple[str, JobPriority], datetime] = field(default_factory=dict)

    def enqueue(self, who: Principal, now: datetime, new: NewJob) -> Enqueued:
        try:
            return self.enqueue_jobs(who, now, [new])[0]
        except (Forbidden, IdempotencyKeyReused) as refused:
            refused.faults = ()
            raise

    def enqueue_jobs(self, who: Principal, now: datetime, jobs: Sequence[NewJob]) -> tuple[Enqueued, ...]:
        _require(who, PRODUCERS)
        refused = []
        for index, new in enumerate(jobs):
            if who.types is not None and new.type not in who.types:
                refused.append(Fault(f"jobs[{index}].type", "forbidden", ""))
            if _priority(new) > (who.max_priority or 0):
                refused.append(Fault(f"jobs[{index}].priority", "forbidden", ""))
        if refused:
            raise Forbidden(faults=tuple(refused))
        known = dict(self.keys)
        for index, new in enumerate(jobs):
            if new.idempotency_key and known.setdefault((who.name, new.idempotency_key), (new, 0))[0] != new:
                refused.append(Fault(f"jobs[{index}].idempotency_key", "key_reused", ""))
        if refused:
            raise IdempotencyKeyReused(faults=tuple(refused))
        return tuple(self._enqueue(who, now, new) for new in jobs)

    def _enqueue(self, who: Principal, now: datetime, new: NewJob) -> Enqueued:
        key = (who.name, new.idempotency_key) if new.idempotency_key else None
        if key in self.keys:
            return Enqueued(self.jobs[self.keys[key][1]], replayed=True)
        self.last_id += 1
        job = Job(
            id=self.last_id,
            type=new.type,
            payload=new.payload or {},
            priority=_priority(new),
            status=JobStatus.PENDING,
            retry_count=0,
            max_retries=3 if new.max_retries is None else new.max_retries,
            idempotency_key=new.idempotency_key,
            claimed_at=None,
            worker_id=None,
            error=None,
            created_at=now,
            updated_at=now,
            reason=None,
            created_by=who.name,
            run_at=max(now, new.run_at or now + timedelta(seconds=new.delay_seconds or 0)),
            backoff_seconds=self.policy.backoff_seconds if new.backoff_seconds is None else new.backoff_seconds,
            attempt=0,
            lease_expires_at=None,
            lease_expiries=0,
            progress=None,
            result=None,
            cancel_requested=False,
            replays=0,
        )
        self.jobs[job.id] = job
        self.history[job.id] = []
        if key:
            self.keys[key] = (new, job.id)
        return Enqueued(job, replayed=False)

    def claim_jobs(
        self,
        who: Principal,
        now: datetime,
        *,
        limit: int = 1,
        types: Sequence[str] | None = None,
        lease_seconds: int | None = None,
        request_id: str | None = None,
    ) -> Claimed:
        """Claim as the queue does; new leases come without a token, which `learn` adds."""
        _require(who, WORKERS)
        if types is not None and who.types is not None and set(types) - who.types:
            raise Forbidden
        wanted = who.types if types is None else frozenset(types)
        request = (
            None if request_id is None else (request_id, (limit, None if types is None else set(types), lease_seconds))
        )
        given = self._given(who, now, request)
        if given:
            return Claimed(given, 20)
        for job in self._running(wanted):
            if job.lease_expires_at is not None and job.lease_expires_at <= now:
                self._end(job, now, "expire", error="lease expired")
        due = [job for job in self.queued(wanted) if job.run_at <= now]
        seconds = self.policy.lease_seconds if lease_seconds is None else lease_seconds
        jobs = tuple(self._hold(job, who, now, Lease("", seconds, request)) for job in due[:limit])
        return Claimed(jobs, 20 if jobs else self._wait(wanted, now))

    def _given(self, who: Principal, now: datetime, request: tuple[str, object] | None) -> tuple[Job, ...]:
        held = [
            job
            for job in self._running(None)
            if request is not None
            and job.worker_id == who.worker_id
            and (job.lease_expires_at or now) > now
            and (self.leases[job.id].request or (None,))[0] == request[0]
        ]
        if any(self.leases[job.id].request != request for job in held):
            raise IdempotencyKeyReused
        return tuple(replace(job, lease_token=self.leases[job.id].token) for job in sorted(held, key=_place))

    def _hold(self, job: Job, who: Principal, now: datetime, lease: Lease) -> Job:
        self.leases[job.id] = lease
        self.last_claims[job.type, job.priority] = now
        return self._put(
            job,
            status=JobStatus.RUNNING,
            claimed_at=now,
            worker_id=who.worker_id,
            updated_at=now,
            attempt=job.attempt + 1,
            lease_expires_at=now + timedelta(seconds=lease.seconds),
        )

    def _wait(self, types: Iterable[str] | None, now: datetime) -> int:
        changes = [job.run_at for job in self.queued(types) if job.run_at > now]
        changes += [job.lease_expires_at for job in self._running(types) if job.lease_expires_at]
        wait = math.ceil((min(changes) - now).total_seconds()) if changes else 20
        return min(max(wait, 1), 20)

    def learn(self, id: int, token: str) -> None:
        """Take note of a new lease's token, which only chance knows."""
        assert token not in self.ended
        assert token not in {lease.token for lease in self.leases.values()}
        self.leases[id].token = token

    def finish_jobs(self, who: Principal, now: datetime, endings: Sequence[Ending]) -> tuple[Job | type[Conflict], ...]:
        """End attempts one after the other; what is refused is the class of the error."""
        _require(who, WORKERS)
        outcomes = [self._finish(who, now, ending) for ending in endings]
        # A repeat finds the job as the whole batch has left it.
        return tuple(self.jobs[each] if isinstance(each, int) else each for each in outcomes)

    def _finish(self, who: Principal, now: datetime, ending: Ending) -> Job | int | type[Conflict]:
        job = self.jobs.get(ending.id)
        token = ending.lease_token
        lease = self.leases.get(ending.id)
        if job and lease and job.worker_id == who.worker_id and token in {None, lease.token}:
            return self._end(
                job,
                now,
                ending.verb,
                error=ending.error,
                result=ending.result,
                retry_in_seconds=ending.retry_in_seconds,
                permanent=ending.permanent,
            )
        if token is None:
            return Conflict
        id, verb, worker_id = self.ended.get(token, (0, "", ""))
        if id != ending.id or worker_id != who.worker_id or verb == "expire":
            return LeaseLost
        return ending.id if verb == ending.verb else Conflict

    def _end(
        self,
        job: Job,
        now: datetime,
        verb: str,
        *,
        error: str | None = None,
        result: Any = None,
        retry_in_seconds: int | None = None,
        permanent: bool = False,
    ) -> Job:
        failed = verb in {"fail", "expire"}
        can_retry = job.retry_count < job.max_retries and not permanent
        if verb == "complete":
            status, outcome = JobStatus.COMPLETED, "completed"
        elif job.cancel_requested:
            status, outcome = JobStatus.CANCELLED, "cancelled"
        else:
            status = JobStatus.PENDING if not failed or can_retry else JobStatus.FAILED
            outcome = {"fail": "failed", "expire": "lease_expired", "release": "released"}[verb]
        retried = failed and status is JobStatus.PENDING
        waiting = status is JobStatus.PENDING
        wait = self.wait(job, retry_in_seconds) if retried else 0
        self.history[job.id].append(
            Attempt(
                attempt=job.attempt,
                worker_id=str(job.worker_id),
                claimed_at=job.claimed_at or now,
                ended_at=now,
                outcome=outcome,
                error=error if failed else None,
            )
        )
        self.ended[self.leases.pop(job.id).token] = (job.id, verb, str(job.worker_id))
        return self._put(
            job,
            status=status,
            run_at=now + timedelta(seconds=wait) if wait else job.run_at,
            retry_count=job.retry_count + retried,
            claimed_at=None if waiting else job.claimed_at,
            worker_id=None if waiting else job.worker_id,
            error=error if failed else job.error,
            reason={"fail": Reason.FAILED, "expire": Reason.LEASE_EXPIRED}.get(verb, job.reason),
            result=result if verb == "complete" else job.result,
            lease_expiries=job.lease_expiries + (verb == "expire"),
            lease_expires_at=None,
            updated_at=now,
        )

    def wait(self, job: Job, retry_in_seconds: int | None) -> int:
        """Return the seconds before the next retry of a job that fails."""
        if retry_in_seconds is not None:
            return retry_in_seconds
        backoff = job.backoff_seconds or 0
        return min(max(self.policy.backoff_cap_seconds, backoff), backoff * ((1 << job.retry_count) - 1))

    def heartbeat_jobs(
        self, who: Principal, now: datetime, beats: Sequence[Beat]
    ) -> tuple[Heartbeat | type[LeaseLost], ...]:
        _require(who, WORKERS)
        return tuple(self._beat(who, now, beat) for beat in beats)

    def _beat(self, who: Principal, now: datetime, beat: Beat) -> Heartbeat | type[LeaseLost]:
        job, lease = self.jobs.get(beat.id), self.leases.get(beat.id)
        if job is None or lease is None or lease.token != beat.lease_token or job.worker_id != who.worker_id:
            return LeaseLost
        end = now + timedelta(seconds=beat.lease_seconds or lease.seconds)
        job = self._put(
            job,
            lease_expires_at=max(end, job.lease_expires_at or end),
            progress=job.progress if beat.progress is None else beat.progress,
        )
        return Heartbeat(
            lease_expires_at=job.lease_expires_at or end, cancel_requested=job.cancel_requested, server_time=now
        )

    def cancel(self, who: Principal, now: datetime, id: int) -> Job:
        _require(who, PRODUCERS)
        job = self.jobs.get(id)
        if job is None or not (who.is_admin or job.created_by == who.name):
            raise NotFound
        if job.status in ENDED:
            raise Conflict
        if job.status is JobStatus.RUNNING:
            return self._put(job, cancel_requested=True)
        return self._put(job, status=JobStatus.CANCELLED, updated_at=now)

    def retry(self, who: Principal, now: datetime, id: int) -> Job:
        _require(who, {Role.ADMIN})
        if id not in self.jobs:
            raise NotFound
        if self.jobs[id].status not in {JobStatus.FAILED, JobStatus.CANCELLED}:
            raise Conflict
        return self._retry(self.jobs[id], now)

    def retry_jobs(
        self,
        who: Principal,
        now: datetime,
        *,
        status: JobStatus,
        type: str | None,
        error_contains: str | None,
        failed_after: datetime | None,
        limit: int,
        dry_run: bool,
    ) -> tuple[int, ...]:
        _require(who, {Role.ADMIN})
        passing = [
            job
            for job in self.jobs.values()
            if job.status is status
            and type in {None, job.type}
            and (error_contains is None or error_contains in (job.error or ""))
            and (failed_after is None or job.updated_at > failed_after)
        ]
        passing.sort(key=lambda job: (job.updated_at, job.id))
        for job in passing[:limit]:
            if not dry_run:
                self._retry(job, now)
        return tuple(sorted(job.id for job in passing[:limit]))

    def _retry(self, job: Job, now: datetime) -> Job:
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

    def get(self, who: Principal, id: int) -> Job:
        if id not in self.jobs or not self.visible(who, self.jobs[id]):
            raise NotFound
        return self.jobs[id]

    def attempts(self, who: Principal, id: int) -> tuple[Attempt, ...]:
        _require(who, {Role.ADMIN})
        return tuple(self.history.get(id, ()))

    def explain(self, who: Principal, now: datetime, id: int) -> tuple[JobStatus, list[str]]:
        """Return the state and the codes of the reasons."""
        _require(who, PRODUCERS)
        job = self.jobs.get(id)
        if job is None or not (who.is_admin or (Role.PRODUCER in who.roles and job.created_by == who.name)):
            raise NotFound
        if job.status in ENDED:
            return job.status, ["ended"]
        if job.status is JobStatus.RUNNING:
            return job.status, ["running"]
        if job.run_at > now:
            is_delayed = job.reason is None or job.run_at == job.created_at
            return job.status, ["delayed" if is_delayed else "backoff"]
        queue = [each for each in self.queued([job.type]) if each.run_at <= now]
        claims = [moment for (type, _), moment in self.last_claims.items() if type == job.type]
        codes = ["behind"] if who.is_admin and queue[0] != job else []
        if not claims or now - max(claims) > timedelta(minutes=15):
            codes.append("no_recent_claim")
        return job.status, codes

    def stats(self, who: Principal, now: datetime) -> Stats:
        _require(who, {Role.ADMIN})
        kinds = Counter((job.status, job.type, job.priority) for job in self.jobs.values())
        due = [job.run_at for job in self.queued(None)]
        past, future = [each for each in due if each <= now], [each for each in due if each > now]
        return Stats(
            jobs=tuple(sorted(((*kind, count) for kind, count in kinds.items()), key=lambda row: (row[:2], -row[2]))),
            running=dict(Counter(str(job.worker_id) for job in self._running(None))),
            oldest_due_seconds=(now - min(past)).total_seconds() if past else None,
            next_run_at=min(future, default=None),
        )

    def sweep(self, now: datetime) -> Swept:
        expired = [job for job in self._running(None) if (job.lease_expires_at or now) <= now]
        for job in expired:
            self._end(job, now, "expire", error="lease expired")
        kept = timedelta(seconds=self.policy.keep_completed_seconds), timedelta(seconds=self.policy.keep_failed_seconds)
        old = [
            job
            for job in self.jobs.values()
            if job.status in ENDED and job.updated_at < now - kept[job.status is not JobStatus.COMPLETED]
        ]
        for job in old:
            del self.jobs[job.id], self.history[job.id]
        self.keys = {key: known for key, known in self.keys.items() if known[1] in self.jobs}
        self.ended = {token: known for token, known in self.ended.items() if known[0] in self.jobs}
        return Swept(len(expired), len(old), is_done=True)

    def visible(self, who: Principal, job: Job) -> bool:
        created = Role.PRODUCER in who.roles and job.created_by == who.name
        holds = Role.WORKER in who.roles and job.worker_id == who.worker_id
        return Role.ADMIN in who.roles or created or holds

    def queued(self, types: Iterable[str] | None) -> list[Job]:
        """Return the pending jobs of some types in the order of claims."""
        wanted = None if types is None else set(types)
        pending = [job for job in self.jobs.values() if job.status is JobStatus.PENDING]
        return sorted((job for job in pending if wanted is None or job.type in wanted), key=_place)

    def _running(self, types: Iterable[str] | None) -> list[Job]:
        wanted = None if types is None else set(types)
        running = [job for job in self.jobs.values() if job.status is JobStatus.RUNNING]
        return [job for job in running if wanted is None or job.type in wanted]

    def _put(self, job: Job, **changes: Any) -> Job:
        self.jobs[job.id] = replace(job, **changes)
        return self.jobs[job.id]


def _place(job: Job) -> tuple[int, datetime, int]:
    return -job.priority, job.run_at, job.id


def _priority(new: NewJob) -> JobPriority:
    return JobPriority.MEDIUM if new.priority is None else new.priority


def _require(who: Principal, roles: set[Role]) -> None:
    if not who.roles & roles:
        raise Forbidden


def refusal(error: QueuelogError) -> object:
    """Return what two refusals have in common when they are the same: the class, and the places of the faults."""
    faults = getattr(error, "faults", ())
    return type(error), tuple((fault.field, fault.code) for fault in faults)
