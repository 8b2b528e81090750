from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuelog import Explanation, Forbidden, JobPriority, JobStatus, NewJob, NotFound, Why
from tests.support import SteppedClock, add_jobs, claim, producer, query, worker

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue, Queue

LOW, MEDIUM, HIGH, CRITICAL = JobPriority
EMAIL = NewJob(type="email")
NO_CLAIM = Why("no_recent_claim", "No job of the type email was claimed in the last 15 minutes.")


@pytest.fixture
def network() -> bool:
    return False


def codes(explanation: Explanation) -> list[str]:
    return [reason.code for reason in explanation.reasons]


def test_a_delayed_job_waits_for_the_time_that_was_asked_for(as_producer: BoundQueue, clock: SteppedClock) -> None:
    as_producer.enqueue(NewJob(type="email", delay_seconds=90))
    clock.advance(seconds=30)
    assert as_producer.explain(1) == Explanation(
        JobStatus.PENDING, (Why("delayed", "It is due at 2026-01-31T12:01:30.000Z, as was asked."),)
    )
    clock.advance(seconds=60)
    assert codes(as_producer.explain(1)) == ["no_recent_claim"]


def test_a_job_that_failed_waits_for_its_retry(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(NewJob(type="email", delay_seconds=0))
    for _ in range(2):
        as_worker.fail(claim(as_worker).id)
    assert as_producer.explain(1) == Explanation(
        JobStatus.PENDING, (Why("backoff", "Its last attempt failed; retry 2 is due at 2026-01-31T12:00:15.000Z."),)
    )


def test_a_job_whose_lease_expired_waits_for_its_retry(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    for _ in range(2):
        claim(as_worker)
        clock.advance(seconds=60)
    assert as_worker.claim() is None
    assert codes(as_producer.explain(1)) == ["backoff"]


def test_a_running_job_is_held_by_its_worker(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(EMAIL)
    claim(as_worker)
    assert as_producer.explain(1) == Explanation(
        JobStatus.RUNNING, (Why("running", "worker holds it until 2026-01-31T12:01:00.000Z."),)
    )


@pytest.mark.parametrize("status", [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED])
def test_an_ended_job_has_ended(as_producer: BoundQueue, path: Path, status: JobStatus) -> None:
    as_producer.enqueue(EMAIL)
    query(path, "UPDATE jobs SET status = ?", [status])
    assert as_producer.explain(1) == Explanation(
        status, (Why("ended", f"It was {status} at 2026-01-31T12:00:00.000Z."),)
    )


def test_a_due_job_waits_for_those_in_front_of_it_which_admins_may_know(
    as_admin: BoundQueue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    def behind(id: int) -> str | None:
        return {why.code: why.detail for why in as_admin.explain(id).reasons}.get("behind")

    for priority, type, delay in [
        (MEDIUM, "email", 0),
        (MEDIUM, "email", 0),
        (LOW, "email", 0),
        (CRITICAL, "email", 0),
        (CRITICAL, "pdf", 0),
        (HIGH, "email", 3_600),
        (MEDIUM, "email", 1),
    ]:
        as_admin.enqueue(NewJob(type=type, priority=priority, delay_seconds=delay))
    clock.advance(seconds=2)
    assert [behind(id) for id in (4, 1, 2, 7, 3, 5)] == [
        None,
        *(f"{count} due jobs of its type are claimed before it." for count in (1, 2, 3, 4)),
        None,
    ]
    assert [claim(as_worker, ["email"]).id for _ in range(5)] == [4, 1, 2, 7, 3]


def test_a_creator_is_not_told_of_other_jobs(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue_jobs([EMAIL] * 3)
    claim(as_worker)
    assert as_producer.explain(3) == Explanation(JobStatus.PENDING, ())


@pytest.mark.parametrize(("count", "shown"), [(999, "999"), (1_000, "1000+"), (1_500, "1000+")])
def test_those_in_front_are_counted_to_1_000(as_admin: BoundQueue, path: Path, count: int, shown: str) -> None:
    as_admin.list()
    add_jobs(path, count, priority="(n % 3) * 10 + 10")
    add_jobs(path, 1, priority="0")
    assert as_admin.explain(count + 1).reasons[0] == Why(
        "behind", f"{shown} due jobs of its type are claimed before it."
    )


def test_no_recent_claim_says_that_no_job_of_the_type_was_claimed_in_15_minutes_and_no_more(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue_jobs([EMAIL, EMAIL, NewJob(type="pdf")])
    assert as_producer.explain(2).reasons == (NO_CLAIM,)
    claim(as_worker, ["pdf"])
    assert as_producer.explain(2).reasons == (NO_CLAIM,)
    as_worker.complete(claim(as_worker, ["email"]).id)
    clock.advance(seconds=900)
    assert as_producer.explain(2).reasons == ()
    clock.advance(seconds=0.001)
    assert as_producer.explain(2).reasons == (NO_CLAIM,)


def test_a_job_is_explained_to_its_creator_and_to_admins(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, as_admin: BoundQueue
) -> None:
    as_producer.enqueue(EMAIL)
    claim(as_worker)
    assert as_admin.explain(1).state is JobStatus.RUNNING
    with pytest.raises(NotFound):
        queue.bound(producer("stranger")).explain(1)
    for who in (worker(), worker("producer")):
        with pytest.raises(Forbidden):
            queue.bound(who).explain(1)
    for caller in (as_producer, as_admin):
        with pytest.raises(NotFound):
            caller.explain(2)


def test_a_job_that_an_admin_retried_waits_for_its_turn_and_not_for_a_backoff(
    as_admin: BoundQueue, as_worker: BoundQueue
) -> None:
    as_admin.enqueue(NewJob(type="email", max_retries=0))
    as_worker.fail(claim(as_worker).id)
    assert codes(as_admin.explain(1)) == ["ended"]
    as_admin.retry(1)
    assert codes(as_admin.explain(1)) == []
