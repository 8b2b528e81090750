from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from queuelog import Conflict, InvalidRequest, JobStatus, NewJob, NotFound, Reason
from tests.support import START, SteppedClock, add_jobs, claim, query, token_of

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue

EMAIL = NewJob(type="email")


@pytest.fixture
def network() -> bool:
    return False


def test_a_failed_job_begins_again_and_keeps_what_it_went_through(
    as_producer: BoundQueue, as_worker: BoundQueue, as_admin: BoundQueue, clock: SteppedClock
) -> None:
    new = NewJob(type="email", payload={"a": 1}, max_retries=1, backoff_seconds=7, idempotency_key="k")
    as_producer.enqueue(new)
    as_worker.fail(claim(as_worker).id, error="first")
    held = claim(as_worker)
    as_worker.heartbeat(held.id, lease_token=token_of(held), progress={"done": 1})
    failed = as_worker.fail(held.id, error="second")
    assert (failed.status, failed.retry_count) == (JobStatus.FAILED, 1)
    clock.advance(seconds=3_600)
    job = as_admin.retry(1)
    assert job == replace(
        failed,
        status=JobStatus.PENDING,
        retry_count=0,
        replays=1,
        run_at=clock.now(),
        updated_at=clock.now(),
        progress=None,
        claimed_at=None,
        worker_id=None,
    )
    assert (job.attempt, job.error, job.reason) == (2, "second", Reason.FAILED)
    assert as_admin.get(1) == job
    assert [attempt.error for attempt in as_admin.attempts(1)] == ["first", "second"]
    # Its key is still its own.
    assert as_producer.enqueue(new) == (job, True)


def test_it_may_fail_as_often_again(as_admin: BoundQueue, as_worker: BoundQueue) -> None:
    as_admin.enqueue(NewJob(type="email", max_retries=1, backoff_seconds=0))
    for replays in (0, 1, 2):
        statuses = [as_worker.fail(claim(as_worker).id).status for _ in range(2)]
        assert statuses == [JobStatus.PENDING, JobStatus.FAILED]
        assert as_admin.get(1).replays == replays
        as_admin.retry(1)
    assert as_admin.get(1).attempt == 6


def test_a_cancelled_job_begins_again_without_the_wish_to_cancel_it(
    as_admin: BoundQueue, as_worker: BoundQueue
) -> None:
    as_admin.enqueue(EMAIL)
    held = claim(as_worker)
    as_admin.cancel(1)
    as_worker.release(held.id)
    job = as_admin.retry(1)
    assert (job.status, job.cancel_requested, job.worker_id) == (JobStatus.PENDING, False, None)
    held = claim(as_worker)
    assert not as_worker.heartbeat(held.id, lease_token=token_of(held)).cancel_requested
    assert as_worker.fail(held.id).status is JobStatus.PENDING


def test_a_job_that_was_delayed_is_due_now(as_admin: BoundQueue, as_worker: BoundQueue) -> None:
    as_admin.enqueue(NewJob(type="email", delay_seconds=86_400))
    as_admin.cancel(1)
    assert as_admin.retry(1).run_at == START
    assert claim(as_worker).id == 1


@pytest.mark.parametrize("status", [JobStatus.PENDING, JobStatus.RUNNING, JobStatus.COMPLETED])
def test_in_any_other_status_it_is_a_conflict(as_admin: BoundQueue, path: Path, status: JobStatus) -> None:
    as_admin.enqueue(EMAIL)
    held = "NULL" if status is JobStatus.PENDING else "created_at"
    query(path, f"UPDATE jobs SET status = ?, claimed_at = {held}, worker_id = {held}", [status])
    before = as_admin.get(1)
    with pytest.raises(Conflict, match="neither failed nor been cancelled"):
        as_admin.retry(1)
    assert as_admin.get(1) == before


def test_retrying_twice_is_a_conflict_and_an_unknown_job_is_not_found(as_admin: BoundQueue) -> None:
    as_admin.enqueue(EMAIL)
    as_admin.cancel(1)
    as_admin.retry(1)
    with pytest.raises(Conflict):
        as_admin.retry(1)
    with pytest.raises(NotFound):
        as_admin.retry(2)


@pytest.fixture
def dead(as_admin: BoundQueue, path: Path) -> list[int]:
    """Jobs that ended one a minute, the later the lower their id; every third was cancelled, the others failed."""
    as_admin.list()
    add_jobs(
        path,
        30,
        status="iif(n % 3, 'failed', 'cancelled')",
        type="iif(n % 2, 'email', 'pdf')",
        error="iif(n % 5, 'boom ' || n || '%', NULL)",
        updated_at="printf('2026-01-31T11:%02d:00.000Z', 59 - n)",
        claimed_at="'2026-01-31T10:00:00.000Z'",
        worker_id="'worker'",
    )
    add_jobs(path, 5, status="'completed'")
    add_jobs(path, 5)
    return [n for n in range(30, 0, -1) if n % 3]


def minute(number: int) -> Any:
    return START - timedelta(minutes=60 - number)


def test_many_are_retried_those_that_ended_first_and_their_ids_ascend(as_admin: BoundQueue, dead: list[int]) -> None:
    ids = as_admin.retry_jobs(status=JobStatus.FAILED, limit=6)
    assert ids == tuple(sorted(dead[:6]))
    assert {as_admin.get(id).status for id in ids} == {JobStatus.PENDING}
    assert {as_admin.get(id).replays for id in ids} == {1}
    rest = as_admin.retry_jobs(status=JobStatus.FAILED)
    assert rest == tuple(sorted(dead[6:]))
    assert as_admin.retry_jobs(status=JobStatus.FAILED) == ()
    assert as_admin.retry_jobs(status=JobStatus.CANCELLED) == tuple(range(3, 31, 3))


FILTERS: list[tuple[dict[str, Any], Any]] = [
    ({}, lambda _: True),
    ({"type": "email"}, lambda n: n % 2),
    ({"type": "EMAIL"}, lambda _: False),
    ({"error_contains": "boom"}, lambda n: n % 5),
    ({"error_contains": "boom 1"}, lambda n: n % 5 and str(n).startswith("1")),
    ({"error_contains": "%"}, lambda n: n % 5),
    ({"error_contains": "_"}, lambda _: False),
    ({"error_contains": "BOOM"}, lambda _: False),
    ({"failed_after": minute(40)}, lambda n: 59 - n > 40),
    ({"failed_before": minute(40)}, lambda n: 59 - n < 40),
    ({"failed_after": minute(35), "failed_before": minute(45)}, lambda n: 35 < 59 - n < 45),
    ({"type": "pdf", "error_contains": "boom 2", "failed_after": minute(35)}, lambda n: n in {2, 22}),
]


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELLED])
@pytest.mark.parametrize(("wanted", "passes"), FILTERS, ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_filters_narrow_what_is_retried_and_a_dry_run_says_so_beforehand(
    as_admin: BoundQueue, dead: list[int], path: Path, status: JobStatus, wanted: dict[str, Any], passes: Any
) -> None:
    expected = tuple(n for n in range(1, 31) if (n % 3 > 0) == (status is JobStatus.FAILED) and passes(n))
    before = query(path, "SELECT * FROM jobs")
    assert as_admin.retry_jobs(status=status, dry_run=True, **wanted) == expected
    assert query(path, "SELECT * FROM jobs") == before
    assert as_admin.retry_jobs(status=status, **wanted) == expected
    assert [id for (id,) in query(path, "SELECT id FROM jobs WHERE replays > 0")] == list(expected)


@pytest.mark.parametrize("status", [JobStatus.PENDING, JobStatus.RUNNING, JobStatus.COMPLETED])
def test_no_other_status_is_retried(as_admin: BoundQueue, dead: list[int], path: Path, status: JobStatus) -> None:
    before = query(path, "SELECT * FROM jobs")
    assert as_admin.retry_jobs(status=status) == ()
    assert query(path, "SELECT * FROM jobs") == before


def test_100_are_retried_unless_told_and_1_000_at_most(as_admin: BoundQueue, path: Path) -> None:
    as_admin.list()
    add_jobs(path, 1_200, status="'failed'")
    assert len(as_admin.retry_jobs(status=JobStatus.FAILED, dry_run=True)) == 100
    assert as_admin.retry_jobs(status=JobStatus.FAILED, limit=1_000) == tuple(range(1, 1_001))
    assert as_admin.retry_jobs(status=JobStatus.FAILED, limit=1) == (1_001,)
    for limit in (0, 1_001):
        with pytest.raises(InvalidRequest) as refused:
            as_admin.retry_jobs(status=JobStatus.FAILED, limit=limit)
        assert [(fault.field, fault.code) for fault in refused.value.faults] == [("limit", "out_of_range")]
