from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from queuelog import Attempt, Forbidden, NewJob
from queuelog.store.store import MOST_ATTEMPTS
from tests.support import START, SteppedClock, claim, query, unaccounted, worker

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue, Queue

EMAIL = NewJob(type="email", backoff_seconds=0)


def at(seconds: float) -> object:
    return START + timedelta(seconds=seconds)


def test_every_attempt_that_ended_is_in_the_history_the_first_one_first(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, as_admin: BoundQueue, clock: SteppedClock, path: Path
) -> None:
    as_producer.enqueue(EMAIL)
    assert as_admin.attempts(1) == ()
    claim(as_worker)
    assert as_admin.attempts(1) == ()
    clock.advance(seconds=1)
    as_worker.fail(1, error="boom at /home/me/x.py")
    clock.advance(seconds=1)
    claim(queue.bound(worker("other"), clock))
    clock.advance(seconds=60)
    claim(as_worker)
    clock.advance(seconds=1)
    as_worker.release(1)
    claim(as_worker)
    clock.advance(seconds=1)
    as_worker.complete(1)
    found = [
        (each.attempt, each.worker_id, each.claimed_at, each.ended_at, each.outcome, each.error)
        for each in as_admin.attempts(1)
    ]
    assert found == [
        (1, "worker", at(0), at(1), "failed", "boom at [path]"),
        (2, "other", at(2), at(62), "lease_expired", "lease expired"),
        (3, "worker", at(62), at(63), "released", None),
        (4, "worker", at(63), at(64), "completed", None),
    ]
    assert unaccounted(path) == []


def test_the_last_attempt_of_a_failed_job_and_of_a_cancelled_one(
    as_admin: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_admin.enqueue_jobs([NewJob(type="email", max_retries=0)] * 4)
    as_worker.fail(claim(as_worker).id, error="boom")
    for id, end in ((2, as_worker.fail), (3, as_worker.release), (4, as_worker.complete)):
        claim(as_worker)
        as_admin.cancel(id)
        end(id)
    assert [[each.outcome for each in as_admin.attempts(id)] for id in (1, 2, 3, 4)] == [
        ["failed"],
        ["cancelled"],
        ["cancelled"],
        ["completed"],
    ]
    assert [as_admin.attempts(id)[0].error for id in (1, 2, 3, 4)] == ["boom", None, None, None]


def test_a_job_that_was_cancelled_while_it_waited_has_no_attempt(as_admin: BoundQueue) -> None:
    as_admin.enqueue(EMAIL)
    as_admin.cancel(1)
    assert as_admin.attempts(1) == ()
    assert as_admin.attempts(2) == ()


def test_the_history_goes_on_after_a_retry(as_admin: BoundQueue, as_worker: BoundQueue, path: Path) -> None:
    as_admin.enqueue(EMAIL)
    for _ in range(2):
        as_worker.fail(claim(as_worker).id, permanent=True)
        as_admin.retry(1)
    as_worker.complete(claim(as_worker).id)
    assert [(each.attempt, each.outcome) for each in as_admin.attempts(1)] == [
        (1, "failed"),
        (2, "failed"),
        (3, "completed"),
    ]
    assert unaccounted(path) == []


def test_the_history_is_for_admins(as_producer: BoundQueue, as_worker: BoundQueue, as_admin: BoundQueue) -> None:
    as_producer.enqueue(EMAIL)
    as_worker.complete(claim(as_worker).id)
    for caller in (as_producer, as_worker):
        with pytest.raises(Forbidden):
            caller.attempts(1)
    (attempt,) = as_admin.attempts(1)
    assert isinstance(attempt, Attempt)


def test_of_a_long_history_the_last_500_attempts_are_shown(
    as_admin: BoundQueue, as_worker: BoundQueue, path: Path
) -> None:
    as_admin.enqueue(EMAIL)
    as_worker.release(claim(as_worker).id)
    query(
        path,
        "WITH RECURSIVE more (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM more WHERE n < 700) INSERT INTO attempts "
        "SELECT 1, n, worker_id, claimed_at, ended_at, outcome, ended_by, NULL, NULL "
        "FROM more, attempts WHERE attempt = 1",
    )
    assert [each.attempt for each in as_admin.attempts(1)] == list(range(201, 701))
    assert MOST_ATTEMPTS == 500


def test_attempts_of_several_jobs_do_not_mix(as_admin: BoundQueue, as_worker: BoundQueue, path: Path) -> None:
    as_admin.enqueue_jobs([EMAIL] * 3)
    for _ in range(2):
        for job in as_worker.claim_jobs(limit=3).jobs:
            as_worker.fail(job.id, error=f"of {job.id}")
    for id in (1, 2, 3):
        assert [each.error for each in as_admin.attempts(id)] == [f"of {id}"] * 2
    assert unaccounted(path) == []
