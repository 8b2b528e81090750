from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuelog import Conflict, Forbidden, JobStatus, LeaseLost, NewJob, NotFound, Reason
from tests.support import SteppedClock, claim, producer, query, token_of, without_token, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queuelog import BoundQueue, Job, Queue

EMAIL = NewJob(type="email")


@pytest.mark.parametrize("delay", [None, 60])
def test_a_waiting_job_is_cancelled_at_once(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, delay: int | None
) -> None:
    made = as_producer.enqueue(NewJob(type="email", delay_seconds=delay)).job
    clock.advance(seconds=1)
    job = as_producer.cancel(made.id)
    assert (job.status, job.updated_at, job.cancel_requested) == (JobStatus.CANCELLED, clock.now(), False)
    assert (job.worker_id, job.error, job.reason, job.attempt) == (None, None, None, 0)
    assert as_producer.get(made.id) == job
    clock.advance(seconds=60)
    assert as_worker.claim() is None


def test_a_running_job_s_worker_is_asked_to_stop(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    for _ in range(2):
        job = as_producer.cancel(held.id)
        assert (job.status, job.cancel_requested) == (JobStatus.RUNNING, True)
        assert (job.updated_at, job.lease_expires_at) == (held.updated_at, held.lease_expires_at)
    assert as_worker.heartbeat(held.id, lease_token=token_of(held)).cancel_requested


def test_the_worker_may_still_complete_it(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    as_producer.cancel(held.id)
    done = as_worker.complete(held.id, lease_token=held.lease_token, result=1)
    assert (done.status, done.result, done.cancel_requested) == (JobStatus.COMPLETED, 1, True)


ENDS: dict[str, Callable[[BoundQueue, Job], object]] = {
    "fail": lambda caller, job: caller.fail(job.id, lease_token=job.lease_token, error="stopped"),
    "fail for good": lambda caller, job: caller.fail(job.id, error="stopped", permanent=True),
    "fail for later": lambda caller, job: caller.fail(job.id, error="stopped", retry_in_seconds=60),
    "release": lambda caller, job: caller.release(job.id, lease_token=job.lease_token),
    "sweep": lambda caller, _: caller.queue._store.sweep(now=caller.clock.now(), may_go_on=lambda: True),
    "claim": lambda caller, _: caller.claim(),
}


@pytest.mark.parametrize("max_retries", [0, 3])
@pytest.mark.parametrize("end", ENDS)
def test_every_other_end_of_the_attempt_cancels_it(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, end: str, max_retries: int
) -> None:
    made = as_producer.enqueue(NewJob(type="email", max_retries=max_retries)).job
    held = claim(as_worker)
    as_producer.cancel(held.id)
    clock.advance(seconds=60)
    ENDS[end](as_worker, held)
    job = as_producer.get(made.id)
    assert (job.status, job.retry_count, job.run_at) == (JobStatus.CANCELLED, 0, made.run_at)
    assert (job.lease_expires_at, job.updated_at) == (None, clock.now())
    assert (job.worker_id, job.claimed_at) == (held.worker_id, held.claimed_at)
    expired = end in {"claim", "sweep"}
    error = None if end == "release" else "lease expired" if expired else "stopped"
    reason = None if end == "release" else Reason.LEASE_EXPIRED if expired else Reason.FAILED
    assert (job.error, job.reason, job.lease_expiries) == (error, reason, int(expired))
    assert as_worker.claim() is None


def test_a_lease_that_expired_under_a_cancel_is_lost(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    as_producer.cancel(held.id)
    clock.advance(seconds=60)
    as_worker.claim()
    with pytest.raises(LeaseLost):
        as_worker.complete(held.id, lease_token=held.lease_token)


@pytest.mark.parametrize("status", [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED])
def test_a_job_that_has_ended_is_a_conflict(
    as_producer: BoundQueue, as_admin: BoundQueue, path: Path, status: JobStatus
) -> None:
    as_producer.enqueue(EMAIL)
    query(path, "UPDATE jobs SET status = ?, claimed_at = created_at, worker_id = 'worker'", [status])
    before = as_admin.get(1)
    for caller in (as_producer, as_admin):
        with pytest.raises(Conflict, match="has ended"):
            caller.cancel(1)
    assert as_admin.get(1) == before


def test_others_jobs_do_not_exist_for_a_creator_and_an_admin_cancels_any(
    queue: Queue, as_producer: BoundQueue, as_admin: BoundQueue, as_worker: BoundQueue
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 2)
    held = claim(as_worker)
    stranger = queue.bound(producer("stranger"))
    for id in (1, 2, 3):
        with pytest.raises(NotFound):
            stranger.cancel(id)
        with pytest.raises(Forbidden):
            as_worker.cancel(id)
    assert as_admin.get(1) == without_token(held)
    assert as_admin.cancel(1).cancel_requested
    assert as_admin.cancel(2).status is JobStatus.CANCELLED
    for caller in (as_producer, as_admin):
        with pytest.raises(NotFound):
            caller.cancel(3)
    # What it may not see is as if it weren't there, whatever became of it.
    with pytest.raises(NotFound):
        stranger.cancel(2)


def test_a_worker_of_the_creator_s_name_is_not_the_creator(queue: Queue, as_producer: BoundQueue) -> None:
    as_producer.enqueue(EMAIL)
    with pytest.raises(Forbidden):
        queue.bound(worker("producer")).cancel(1)


def test_a_cancelled_job_s_key_stays_used(as_producer: BoundQueue) -> None:
    wanted = NewJob(type="email", idempotency_key="k")
    as_producer.enqueue(wanted)
    job = as_producer.cancel(1)
    assert as_producer.enqueue(wanted) == (job, True)
