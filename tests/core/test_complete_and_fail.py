from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuelog import Conflict, Forbidden, Job, JobStatus, NewJob, Reason
from tests.support import SteppedClock, claim, producer, query, without_token, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queuelog import BoundQueue, Queue


@pytest.fixture(params=["complete", "fail"])
def verb(request: pytest.FixtureRequest) -> Callable[[BoundQueue, int], Job]:
    """Either way to finish a job: what holds of one must hold of the other."""

    def finish(caller: BoundQueue, id: int) -> Job:
        return caller.complete(id) if request.param == "complete" else caller.fail(id)

    return finish


def test_a_completed_job_keeps_its_worker(as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock) -> None:
    as_producer.enqueue(NewJob(type="email", payload={"a": 1}))
    claimed = claim(as_worker)
    clock.advance(seconds=9)
    done = as_worker.complete(claimed.id)
    assert done.status is JobStatus.COMPLETED
    assert (done.worker_id, done.claimed_at, done.updated_at) == ("worker", claimed.claimed_at, clock.now())
    assert (done.payload, done.retry_count, done.error, done.reason) == ({"a": 1}, 0, None, None)
    assert done == as_worker.get(claimed.id)


@pytest.mark.parametrize("status", [each for each in JobStatus if each is not JobStatus.RUNNING])
def test_only_a_running_job_is_finished(
    verb: Callable[[BoundQueue, int], Job], as_admin: BoundQueue, as_worker: BoundQueue, path: Path, status: JobStatus
) -> None:
    as_admin.enqueue(NewJob(type="email"))
    held = status is not JobStatus.PENDING
    query(
        path,
        "UPDATE jobs SET status = ?, worker_id = ?, claimed_at = ?",
        [status, "worker" if held else None, "2026-01-31T12:00:00.000Z" if held else None],
    )
    before = as_admin.get(1)
    with pytest.raises(Conflict):
        verb(as_worker, 1)
    assert as_admin.get(1) == before


@pytest.mark.parametrize("id", [2, 0, -1, 2**53 - 1, 2**53, 2**63 - 1])
def test_an_unknown_job_is_a_conflict(
    verb: Callable[[BoundQueue, int], Job], as_producer: BoundQueue, as_worker: BoundQueue, id: int
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    claim(as_worker)
    with pytest.raises(Conflict):
        verb(as_worker, id)


@pytest.mark.parametrize("holder", ["other", "worker/session", "WORKER", "worker "])
def test_a_job_that_another_worker_holds_is_a_conflict(
    verb: Callable[[BoundQueue, int], Job],
    queue: Queue,
    as_producer: BoundQueue,
    as_worker: BoundQueue,
    clock: SteppedClock,
    holder: str,
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    theirs = queue.bound(worker(holder), clock)
    held = claim(theirs)
    with pytest.raises(Conflict):
        verb(as_worker, held.id)
    assert theirs.get(held.id) == without_token(held)


def test_another_session_of_the_same_role_holds_its_own_jobs(
    verb: Callable[[BoundQueue, int], Job], queue: Queue, as_producer: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    one, two = (
        queue.bound(worker("1:role/Mail", worker_id=f"1:role/Mail/{session}"), clock) for session in ("one", "two")
    )
    held = claim(one)
    with pytest.raises(Conflict):
        verb(two, held.id)
    assert verb(one, held.id).id == held.id


def test_an_admin_finishes_only_what_it_holds(
    verb: Callable[[BoundQueue, int], Job], as_admin: BoundQueue, as_worker: BoundQueue
) -> None:
    as_admin.enqueue(NewJob(type="email"))
    as_admin.enqueue(NewJob(type="email"))
    theirs, own = claim(as_worker), claim(as_admin)
    with pytest.raises(Conflict):
        verb(as_admin, theirs.id)
    assert verb(as_admin, own.id).id == own.id


def test_a_worker_that_lost_its_job_to_a_retry_can_not_finish_it(
    verb: Callable[[BoundQueue, int], Job],
    queue: Queue,
    as_producer: BoundQueue,
    as_worker: BoundQueue,
    clock: SteppedClock,
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    as_worker.fail(claim(as_worker).id)
    theirs = queue.bound(worker("other"), clock)
    held = claim(theirs)
    with pytest.raises(Conflict):
        verb(as_worker, held.id)
    assert theirs.complete(held.id).worker_id == "other"


def test_finishing_twice_is_a_conflict(
    verb: Callable[[BoundQueue, int], Job], as_producer: BoundQueue, as_worker: BoundQueue
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    held = claim(as_worker)
    done = verb(as_worker, held.id)
    with pytest.raises(Conflict):
        verb(as_worker, held.id)
    assert as_producer.get(held.id) == done


def test_producers_may_not_finish_even_their_own(
    verb: Callable[[BoundQueue, int], Job], as_producer: BoundQueue, as_worker: BoundQueue
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    held = claim(as_worker)
    with pytest.raises(Forbidden):
        verb(as_producer, held.id)
    with pytest.raises(Forbidden):
        verb(as_producer, 12345)
    assert as_worker.get(held.id) == without_token(held)


def test_a_worker_finishes_what_it_holds_after_its_types_were_taken_away(
    verb: Callable[[BoundQueue, int], Job],
    queue: Queue,
    as_producer: BoundQueue,
    as_worker: BoundQueue,
    clock: SteppedClock,
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    held = claim(as_worker)
    assert verb(queue.bound(worker(types=frozenset()), clock), held.id).id == held.id


def test_a_failed_attempt_with_retries_left_puts_the_job_back(
    as_producer: BoundQueue, as_worker: BoundQueue, as_admin: BoundQueue, clock: SteppedClock
) -> None:
    made = as_producer.enqueue(NewJob(type="email", payload={"a": 1}, idempotency_key="k")).job
    claim(as_worker)
    clock.advance(seconds=9)
    back = as_worker.fail(made.id, error="mailbox full")
    assert back.status is JobStatus.PENDING
    assert (back.retry_count, back.max_retries) == (1, 3)
    assert (back.claimed_at, back.worker_id) == (None, None)
    assert (back.error, back.reason) == ("mailbox full", Reason.FAILED)
    assert (back.created_at, back.updated_at) == (made.created_at, clock.now())
    assert (back.payload, back.priority, back.idempotency_key) == (made.payload, made.priority, "k")
    assert back == as_admin.get(made.id)


def test_another_worker_may_claim_it_at_once_and_it_keeps_its_error(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    as_worker.fail(claim(as_worker).id, error="mailbox full")
    theirs = queue.bound(worker("other"), clock)
    again = claim(theirs)
    assert (again.worker_id, again.retry_count) == ("other", 1)
    assert (again.error, again.reason) == ("mailbox full", Reason.FAILED)
    done = theirs.complete(again.id)
    assert (done.retry_count, done.error, done.reason) == (1, "mailbox full", Reason.FAILED)


@pytest.mark.parametrize("max_retries", [0, 1, 3, 25])
def test_a_job_runs_at_most_once_more_than_max_retries(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, max_retries: int
) -> None:
    as_producer.enqueue(NewJob(type="email", max_retries=max_retries))
    attempts = []
    while job := as_worker.claim():
        attempts.append((job.retry_count, as_worker.fail(job.id).status))
        clock.advance(seconds=3_600)
    retried = [(count, JobStatus.PENDING) for count in range(max_retries)]
    assert attempts == [*retried, (max_retries, JobStatus.FAILED)]


def test_exhaustion_leaves_the_count_the_worker_and_the_error(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(NewJob(type="email", max_retries=1))
    as_worker.fail(claim(as_worker).id, error="first")
    clock.advance(seconds=1)
    claimed = claim(as_worker)
    clock.advance(seconds=1)
    failed = as_worker.fail(claimed.id, error="second")
    assert failed.status is JobStatus.FAILED
    assert (failed.retry_count, failed.max_retries) == (1, 1)
    assert (failed.worker_id, failed.claimed_at, failed.updated_at) == ("worker", claimed.claimed_at, clock.now())
    assert (failed.error, failed.reason) == ("second", Reason.FAILED)


def test_a_failure_may_say_nothing(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(NewJob(type="email"))
    as_worker.fail(claim(as_worker).id, error="first")
    silent = as_worker.fail(claim(as_worker).id)
    assert (silent.error, silent.reason, silent.retry_count) == (None, Reason.FAILED, 2)


def test_an_error_is_cleaned_and_cut_before_it_is_stored(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    said = "https://bob:hunter2@example.org refused " + "x " * 5_000
    error = as_worker.fail(claim(as_worker).id, error=said).error
    assert error is not None
    assert "hunter2" not in error
    assert len(error) <= 1_000
    assert query(path, "SELECT error FROM jobs") == [(error,)]


def test_a_producer_of_the_worker_s_name_is_not_the_worker(
    verb: Callable[[BoundQueue, int], Job], queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    held = claim(as_worker)
    with pytest.raises(Forbidden):
        verb(queue.bound(producer("worker")), held.id)
