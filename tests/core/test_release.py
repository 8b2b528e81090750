from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuelog import Conflict, JobStatus, LeaseLost, NewJob, Reason
from tests.support import SteppedClock, claim, query, token_of, worker

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue, Queue

EMAIL = NewJob(type="email")


@pytest.mark.parametrize("with_token", [True, False])
def test_a_released_job_may_be_claimed_at_once_and_has_spent_no_retry(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, with_token: bool
) -> None:
    made = as_producer.enqueue(NewJob(type="email", max_retries=0)).job
    held = claim(as_worker)
    clock.advance(seconds=5)
    back = as_worker.release(held.id, lease_token=token_of(held) if with_token else None)
    assert (back.status, back.retry_count, back.attempt, back.lease_expiries) == (JobStatus.PENDING, 0, 1, 0)
    assert (back.worker_id, back.claimed_at, back.lease_expires_at) == (None, None, None)
    assert (back.error, back.reason) == (None, None)
    assert (back.run_at, back.updated_at) == (made.run_at, clock.now())
    assert back == as_producer.get(made.id)
    assert claim(queue.bound(worker("other"), clock)).attempt == 2


def test_a_released_job_keeps_its_place(as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock) -> None:
    for _ in range(3):
        as_producer.enqueue(EMAIL)
        clock.advance(seconds=1)
    as_worker.release(claim(as_worker).id)
    assert [claim(as_worker).id for _ in range(3)] == [1, 2, 3]


def test_a_release_leaves_the_error_of_the_attempt_before(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(EMAIL)
    as_worker.fail(claim(as_worker).id, error="boom")
    back = as_worker.release(claim(as_worker).id)
    assert (back.error, back.reason, back.retry_count) == ("boom", Reason.FAILED, 1)


def test_there_is_no_end_to_releases(as_admin: BoundQueue, as_worker: BoundQueue) -> None:
    as_admin.enqueue(NewJob(type="email", max_retries=0))
    for _ in range(30):
        as_worker.release(claim(as_worker).id)
    job = as_admin.get(1)
    assert (job.status, job.attempt, job.retry_count) == (JobStatus.PENDING, 30, 0)
    assert [attempt.outcome for attempt in as_admin.attempts(1)] == ["released"] * 30


@pytest.mark.parametrize("id", [1, 2, 3])
def test_only_what_is_held_is_released(as_producer: BoundQueue, as_worker: BoundQueue, id: int) -> None:
    as_producer.enqueue_jobs([EMAIL] * 2)
    as_worker.complete(claim(as_worker).id)
    with pytest.raises(Conflict):
        as_worker.release(id)
    with pytest.raises(LeaseLost):
        as_worker.release(id, lease_token="x")


def test_a_release_takes_nothing_from_the_attempt_s_result_or_history(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    as_worker.release(held.id, lease_token=held.lease_token)
    assert query(path, "SELECT attempt, worker_id, outcome, ended_by, error FROM attempts") == [
        (1, "worker", "released", "release", None)
    ]
