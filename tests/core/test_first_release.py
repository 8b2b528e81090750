"""The first release's functions beside ours, as in every deploy and after a rollback, on one upgraded file."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from queuelog import Conflict, Ending, JobStatus, LeaseLost, NewJob, QueuelogError, Reason, Store
from tests.first_release import FirstRelease
from tests.support import SteppedClock, claim, miscounted, query, token_of, unaccounted, without_token, worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from queuelog import BoundQueue, Job, Queue

EMAIL = NewJob(type="email")
LEASE = "lease_expires_at, lease_seconds, lease_token_sha256, lease_token, claim_request_id, claim_fingerprint"


@pytest.fixture
def first(as_admin: BoundQueue, path: Path) -> FirstRelease:
    """A function of the first release that works for the same worker."""
    as_admin.list()
    return FirstRelease(path)


@pytest.fixture(autouse=True)
def counted(first: FirstRelease, path: Path) -> Iterator[None]:
    """Whatever a test does, counters, history and leases are right at its end."""
    yield
    assert miscounted(path) == set()
    assert unaccounted(path) == []
    assert query(path, f"SELECT id FROM jobs WHERE status <> 'running' AND coalesce({LEASE}) IS NOT NULL") == []


def history(caller: BoundQueue, id: int = 1) -> list[tuple[int, str, str, str | None]]:
    return [(each.attempt, each.worker_id, each.outcome, each.error) for each in caller.attempts(id)]


def test_its_jobs_are_ours(first: FirstRelease, as_worker: BoundQueue, as_admin: BoundQueue) -> None:
    id = first.enqueue()
    assert as_admin.get(id).backoff_seconds is None
    held = claim(as_worker)
    assert (held.id, held.attempt) == (id, 1)
    assert as_worker.complete(id, lease_token=held.lease_token).status is JobStatus.COMPLETED


def test_it_claims_nothing_before_its_time(first: FirstRelease, as_admin: BoundQueue, clock: SteppedClock) -> None:
    as_admin.enqueue(NewJob(type="email", delay_seconds=10))
    assert first.claim(now=clock.now()) is None
    assert first.claim(now=clock.now() + timedelta(seconds=10)) == 1


def test_its_claims_are_counted_as_attempts_without_a_lease(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue
) -> None:
    as_admin.enqueue(EMAIL)
    as_worker.fail(claim(as_worker).id, error="ours")
    assert first.claim() == 1
    job = as_admin.get(1)
    assert (job.status, job.attempt, job.worker_id, job.lease_expires_at) == (JobStatus.RUNNING, 2, "worker", None)
    assert as_admin.explain(1).reasons[0].detail == "worker holds it."
    assert as_admin.stats().running == {"worker": 1}
    assert first.complete(1)
    assert history(as_admin) == [(1, "worker", "failed", "ours"), (2, "worker", "completed", None)]


@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
def test_what_it_claimed_is_ended_by_us_without_a_token_and_with_any_the_lease_is_lost(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue, verb: str
) -> None:
    as_admin.enqueue(EMAIL)
    first.claim()
    (lost,) = as_worker.finish_jobs([Ending(id=1, verb=verb, lease_token="x")])
    assert type(lost) is LeaseLost
    with pytest.raises(LeaseLost):
        as_worker.heartbeat(1, lease_token="x")
    (job,) = as_worker.finish_jobs([Ending(id=1, verb=verb)])
    assert job == as_admin.get(1)
    assert as_admin.get(1).attempt == 1
    (repeat,) = as_worker.finish_jobs([Ending(id=1, verb=verb)])
    assert type(repeat) is Conflict


@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_what_we_claimed_is_ended_by_it_and_our_repeat_finds_the_job(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, verb: str
) -> None:
    as_admin.enqueue(EMAIL)
    held = claim(as_worker, request_id="r")
    clock.advance(seconds=5)
    assert first.complete(1, now=clock.now()) if verb == "complete" else first.fail(1, error="theirs", now=clock.now())
    job = as_admin.get(1)
    assert job.status is (JobStatus.COMPLETED if verb == "complete" else JobStatus.PENDING)
    assert (job.attempt, job.lease_expires_at, job.updated_at) == (1, None, clock.now())
    outcome, error = ("completed", None) if verb == "complete" else ("failed", "theirs")
    assert history(as_admin) == [(1, "worker", outcome, error)]
    for again in ("complete", "fail", "release"):
        (outcome_of_ours,) = as_worker.finish_jobs([Ending(id=1, verb=again, lease_token=held.lease_token)])
        assert outcome_of_ours == job if again == verb else type(outcome_of_ours) is Conflict
    with pytest.raises(LeaseLost):
        as_worker.heartbeat(1, lease_token=token_of(held))


def test_what_it_failed_we_claim_again(first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue) -> None:
    as_admin.enqueue(NewJob(type="email", max_retries=1))
    held = claim(as_worker)
    first.fail(1, error="theirs")
    again = claim(as_worker, request_id="r")
    assert (again.attempt, again.retry_count, again.reason) == (2, 1, Reason.FAILED)
    assert again.lease_token != held.lease_token
    with pytest.raises(Conflict):
        as_worker.complete(1, lease_token=held.lease_token)
    assert as_admin.get(1) == without_token(again)
    first.fail(1, error="theirs again")
    assert as_admin.get(1).status is JobStatus.FAILED
    assert history(as_admin) == [(1, "worker", "failed", "theirs"), (2, "worker", "failed", "theirs again")]


@pytest.mark.parametrize("verb", ["release", "fail"])
def test_how_our_attempt_ended_says_nothing_of_its_next_one(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, verb: str
) -> None:
    as_admin.enqueue(EMAIL)
    as_worker.finish_jobs([Ending(id=claim(as_worker).id, verb=verb)])
    first.claim()
    first.fail(1, error="theirs")
    first.claim()
    first.complete(1)
    assert history(as_admin)[1:] == [(2, "worker", "failed", "theirs"), (3, "worker", "completed", None)]


def test_what_expired_with_us_and_was_claimed_by_it_has_its_own_end(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue, store: Store, clock: SteppedClock
) -> None:
    as_admin.enqueue(EMAIL)
    claim(as_worker)
    clock.advance(seconds=60)
    store.sweep(now=clock.now(), may_go_on=lambda: True)
    first.claim(now=clock.now())
    first.complete(1, now=clock.now())
    assert history(as_admin) == [(1, "worker", "lease_expired", "lease expired"), (2, "worker", "completed", None)]


def test_its_claims_expire_after_the_default_length_and_its_late_end_is_refused(
    first: FirstRelease, queue: Queue, as_admin: BoundQueue, clock: SteppedClock
) -> None:
    as_admin.enqueue(EMAIL)
    first.claim(now=clock.now())
    other = queue.bound(worker("other"), clock)
    clock.advance(seconds=59.999)
    assert other.claim() is None
    clock.advance(seconds=0.001)
    held = claim(other)
    assert (held.attempt, held.lease_expiries, held.retry_count) == (2, 1, 1)
    assert not first.complete(1, now=clock.now())
    assert not first.fail(1, now=clock.now())
    assert as_admin.get(1) == without_token(held)
    other.complete(1, lease_token=held.lease_token)
    assert history(as_admin) == [(1, "worker", "lease_expired", "lease expired"), (2, "other", "completed", None)]


@pytest.mark.parametrize("claimed_by", ["us", "it"])
@pytest.mark.parametrize("max_retries", [0, 3])
def test_its_failure_of_a_job_that_is_to_be_cancelled_cancels_it(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue, claimed_by: str, max_retries: int
) -> None:
    as_admin.enqueue(NewJob(type="email", max_retries=max_retries))
    held = claim(as_worker).lease_token if claimed_by == "us" else first.claim()
    assert as_admin.cancel(1).cancel_requested
    assert first.fail(1, error="theirs")
    job = as_admin.get(1)
    assert (job.status, job.cancel_requested) == (JobStatus.CANCELLED, True)
    assert history(as_admin) == [(1, "worker", "cancelled", "theirs")]
    assert first.claim() is None
    assert as_worker.claim() is None
    if claimed_by == "us":
        assert as_worker.fail(1, lease_token=str(held)) == job
    assert as_admin.retry(1).status is JobStatus.PENDING


def test_it_may_still_complete_a_job_that_is_to_be_cancelled(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue
) -> None:
    as_admin.enqueue(EMAIL)
    claim(as_worker)
    as_admin.cancel(1)
    assert first.complete(1)
    assert as_admin.get(1).status is JobStatus.COMPLETED
    assert history(as_admin) == [(1, "worker", "completed", None)]


def test_what_we_cancelled_or_retried_it_leaves_alone_or_claims(first: FirstRelease, as_admin: BoundQueue) -> None:
    as_admin.enqueue_jobs([EMAIL] * 2)
    as_admin.cancel(1)
    assert first.claim() == 2
    assert first.claim() is None
    assert not first.complete(1)
    as_admin.retry(1)
    assert first.claim() == 1


def test_progress_and_result_are_not_in_its_way(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue
) -> None:
    as_admin.enqueue(EMAIL)
    held = claim(as_worker)
    as_worker.heartbeat(1, lease_token=token_of(held), progress={"done": 1})
    first.complete(1)
    assert (as_admin.get(1).progress, as_admin.get(1).result) == ({"done": 1}, None)


@pytest.mark.parametrize("seed", range(3))
def test_counters_and_history_are_right_whatever_the_two_do(
    first: FirstRelease, queue: Queue, as_admin: BoundQueue, path: Path, clock: SteppedClock, seed: int
) -> None:
    dice = random.Random(seed)
    workers = [queue.bound(worker(name), clock) for name in ("worker", "other")]
    theirs = [first, FirstRelease(path, "other")]
    held: list[tuple[BoundQueue, Job]] = []

    def enqueue() -> None:
        type, max_retries = dice.choice(["email", "pdf"]), dice.randrange(3)
        as_admin.enqueue(NewJob(type=type, max_retries=max_retries, backoff_seconds=0))

    def hold() -> None:
        request_id, seconds = dice.choice([None, "r"]), dice.choice([5, 600])
        caller = dice.choice(workers)
        held.extend((caller, job) for job in caller.claim_jobs(request_id=request_id, lease_seconds=seconds).jobs)

    def end() -> None:
        (caller, job), verb = dice.choice(held), dice.choice(["complete", "fail", "release"])
        caller.finish_jobs([Ending(id=job.id, verb=verb, lease_token=job.lease_token)])

    def any_id() -> int:
        return dice.randint(1, as_admin.list(limit=1).jobs[0].id)

    ours: list[Callable[[], object]] = [
        enqueue,
        hold,
        hold,
        end,
        end,
        lambda: as_admin.cancel(any_id()),
        lambda: as_admin.retry(any_id()),
        lambda: clock.advance(seconds=dice.choice([1, 10, 70])),
        lambda: queue._store.sweep(now=clock.now(), may_go_on=lambda: True),
    ]
    its: list[Callable[[], object]] = [
        lambda: first.enqueue(type="sync", max_retries=dice.randrange(3), now=clock.now()),
        lambda: dice.choice(theirs).claim(now=clock.now()),
        lambda: dice.choice(theirs).complete(any_id(), now=clock.now()),
        lambda: dice.choice(theirs).fail(any_id(), now=clock.now()),
    ]
    enqueue()
    for _ in range(250):
        # A cancel or a retry of a job in another state, or an end before the first claim.
        with suppress(QueuelogError, IndexError):
            dice.choice(dice.choice([ours, its]))()
        assert miscounted(path) == set()
        assert unaccounted(path) == []
    outcomes = {outcome for (outcome,) in query(path, "SELECT DISTINCT outcome FROM attempts")}
    assert outcomes == {"cancelled", "completed", "failed", "lease_expired", "released"}
