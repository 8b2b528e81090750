"""A file that the first release made, from its first opening by this release to the sweep that ends the upgrade."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from queuelog import (
    Beat,
    Ending,
    IdempotencyKeyReused,
    Job,
    JobPriority,
    JobStatus,
    LeaseLost,
    NewJob,
    NotYetCounted,
    Policy,
    Queue,
    Reason,
    Store,
)
from tests.first_release import FirstRelease, make_file
from tests.support import START, SteppedClock, admin, claim, held, miscounted, query, token_of, unaccounted, worker

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue

EMAIL = NewJob(type="email")
#: The jobs of the fixture, by what became of them in the first release.
NEW, RETRIED, HELD, HELD_AGAIN, COMPLETED, FAILED, CANCELLED = range(1, 8)


@pytest.fixture
def first(path: Path) -> FirstRelease:
    """A function of the first release, which has left a job in every status, some with failures behind them."""
    first = make_file(path)
    for _ in range(7):
        first.enqueue(max_retries=1)

    def claim(id: int) -> None:
        query(path, "UPDATE jobs SET due_at = '2027-01-31T12:00:00.000Z'")
        query(path, "UPDATE jobs SET due_at = created_at WHERE id = ?", [id])
        assert first.claim() == id

    for id in (RETRIED, HELD_AGAIN, FAILED):
        claim(id)
        first.fail(id, error="first")
    for id in (HELD, HELD_AGAIN, COMPLETED, FAILED):
        claim(id)
    first.complete(COMPLETED)
    first.fail(FAILED, error="second")
    query(path, "UPDATE jobs SET status = 'cancelled' WHERE id = ?", [CANCELLED])
    query(path, "UPDATE jobs SET due_at = created_at")
    return first


def version(path: Path) -> int:
    ((number,),) = query(path, "PRAGMA user_version")
    return int(number)


def finish(store: Store, clock: SteppedClock) -> None:
    assert store.sweep(now=clock.now(), may_go_on=lambda: False) == (0, 0, False)


def test_its_first_opening_adds_what_takes_no_time(first: FirstRelease, as_admin: BoundQueue, path: Path) -> None:
    assert version(path) == 1_000
    jobs = {job.id: job for job in as_admin.list().jobs}
    assert version(path) == 1_001
    expected = {
        NEW: (JobStatus.PENDING, 0, None),
        RETRIED: (JobStatus.PENDING, 1, "first"),
        HELD: (JobStatus.RUNNING, 0, None),
        HELD_AGAIN: (JobStatus.RUNNING, 1, "first"),
        COMPLETED: (JobStatus.COMPLETED, 0, None),
        FAILED: (JobStatus.FAILED, 1, "second"),
        CANCELLED: (JobStatus.CANCELLED, 0, None),
    }
    assert {id: (job.status, job.retry_count, job.error) for id, job in jobs.items()} == expected
    for job in jobs.values():
        assert (job.backoff_seconds, job.lease_expires_at, job.progress, job.result) == (None, None, None, None)
        assert (job.attempt, job.lease_expiries, job.replays, job.cancel_requested) == (0, 0, 0, False)
        assert job.run_at == START


def test_until_the_sweep_every_route_works(
    first: FirstRelease, as_producer: BoundQueue, as_worker: BoundQueue, as_admin: BoundQueue, path: Path
) -> None:
    made = as_producer.enqueue(NewJob(type="pdf", idempotency_key="k")).job
    assert as_producer.enqueue(NewJob(type="pdf", idempotency_key="k")) == (made, True)
    with pytest.raises(IdempotencyKeyReused):
        as_producer.enqueue(NewJob(type="email", idempotency_key="k"))
    assert [each.job.id for each in as_producer.enqueue_jobs([NewJob(type="pdf")] * 2)] == [9, 10]
    held = claim(as_worker, ["pdf"], lease_seconds=30)
    beat = as_worker.heartbeat(held.id, lease_token=token_of(held), progress={"done": 1}, lease_seconds=40)
    assert beat.lease_expires_at == START + timedelta(seconds=40)
    assert as_worker.release(held.id, lease_token=held.lease_token).status is JobStatus.PENDING
    held = claim(as_worker, ["pdf"])
    assert as_worker.fail(held.id, lease_token=held.lease_token).retry_count == 1
    assert as_worker.fail(held.id, lease_token=held.lease_token).retry_count == 1
    jobs = as_worker.claim_jobs(limit=2, types=["pdf"]).jobs
    outcomes = as_worker.finish_jobs([Ending(id=job.id, verb="complete", lease_token=job.lease_token) for job in jobs])
    assert [type(each) for each in outcomes] == [Job, Job]
    assert [type(each) for each in as_worker.heartbeat_jobs([Beat(id=HELD, lease_token="x")])] == [LeaseLost]
    assert as_admin.cancel(10).status is JobStatus.CANCELLED
    assert as_admin.retry(10).replays == 1
    assert [each.outcome for each in as_admin.attempts(8)] == ["released", "failed", "completed"]
    assert as_admin.explain(COMPLETED).reasons[0].code == "ended"
    assert as_admin.list(status=JobStatus.RUNNING).jobs
    assert version(path) == 1_001


def test_until_the_sweep_nothing_is_counted(first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue) -> None:
    with pytest.raises(NotYetCounted):
        as_admin.stats()
    with pytest.raises(NotYetCounted):
        as_admin.explain(NEW)
    for dry_run in (True, False):
        with pytest.raises(NotYetCounted):
            as_admin.retry_jobs(status=JobStatus.FAILED, dry_run=dry_run)
    assert as_admin.get(FAILED).status is JobStatus.FAILED


def test_until_the_sweep_a_claim_that_may_be_repeated_is_refused_rather_than_slow(
    first: FirstRelease, as_worker: BoundQueue, store: Store, clock: SteppedClock
) -> None:
    with pytest.raises(NotYetCounted):
        as_worker.claim(request_id="r")
    assert claim(as_worker).id == NEW
    finish(store, clock)
    held = claim(as_worker, request_id="r")
    assert held.id == RETRIED
    assert claim(as_worker, request_id="r") == held


def test_until_the_sweep_no_lease_is_taken_back(
    first: FirstRelease, as_producer: BoundQueue, as_worker: BoundQueue, path: Path, clock: SteppedClock
) -> None:
    as_producer.enqueue(NewJob(type="pdf"))
    held = claim(as_worker, ["pdf"])
    clock.advance(seconds=86_400)
    assert as_worker.claim_jobs(types=["pdf"]) == ((), 20)
    assert [claim(as_worker).id for _ in range(2)] == [NEW, RETRIED]
    assert as_worker.claim() is None
    assert as_worker.complete(held.id, lease_token=held.lease_token).lease_expiries == 0


def test_the_sweep_ends_the_upgrade_and_everything_is_on(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue, path: Path, store: Store, clock: SteppedClock
) -> None:
    as_admin.list()
    finish(store, clock)
    assert version(path) == 1_002
    assert miscounted(path) == set()
    medium = JobPriority.MEDIUM
    stats = as_admin.stats()
    assert stats.jobs == (
        (JobStatus.CANCELLED, "email", medium, 1),
        (JobStatus.COMPLETED, "email", medium, 1),
        (JobStatus.FAILED, "email", medium, 1),
        (JobStatus.PENDING, "email", medium, 2),
        (JobStatus.RUNNING, "email", medium, 2),
    )
    assert (stats.running, stats.oldest_due_seconds, stats.next_run_at) == ({"worker": 2}, 0, None)
    assert as_admin.retry_jobs(status=JobStatus.FAILED) == (FAILED,)
    assert as_admin.explain(NEW).state is JobStatus.PENDING
    clock.advance(seconds=60)
    assert sorted(job.id for job in as_worker.claim_jobs(limit=100).jobs) == [NEW, RETRIED, HELD, FAILED]


def test_a_store_that_was_open_before_the_sweep_notices_it(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue, path: Path, network: bool, clock: SteppedClock
) -> None:
    with pytest.raises(NotYetCounted):
        as_admin.stats()
    sweeper = Store(path, network=network)
    finish(sweeper, clock)
    sweeper.close()
    assert as_admin.stats().running == {"worker": 2}
    clock.advance(seconds=60)
    assert claim(as_worker).id == NEW
    assert as_admin.get(HELD).lease_expiries == 1


def test_a_job_that_the_first_release_claimed_is_held_for_the_default_length(
    first: FirstRelease, as_admin: BoundQueue, path: Path, network: bool, clock: SteppedClock
) -> None:
    store = Store(path, network=network, policy=Policy(lease_seconds=100), jitter=lambda: 0.0)
    finish(store, clock)
    clock.advance(seconds=99.999)
    assert store.sweep(now=clock.now(), may_go_on=lambda: True) == (0, 0, True)
    clock.advance(seconds=0.001)
    assert store.sweep(now=clock.now(), may_go_on=lambda: True) == (2, 0, True)
    once, twice = as_admin.get(HELD), as_admin.get(HELD_AGAIN)
    assert (once.status, once.retry_count, once.attempt, once.lease_expiries) == (JobStatus.PENDING, 1, 1, 1)
    assert (once.error, once.reason, once.worker_id) == ("lease expired", Reason.LEASE_EXPIRED, None)
    # It had failed before, and may be put back but once.
    assert (twice.status, twice.retry_count, twice.attempt, twice.lease_expiries) == (JobStatus.FAILED, 1, 2, 1)
    assert [(each.attempt, each.outcome) for each in as_admin.attempts(HELD_AGAIN)] == [(2, "lease_expired")]
    assert miscounted(path) == set()
    store.close()


def test_a_job_that_runs_through_the_upgrade_is_finished_by_its_worker(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue, store: Store, clock: SteppedClock
) -> None:
    assert as_worker.complete(HELD, result={"a": 1}).result == {"a": 1}
    finish(store, clock)
    assert as_worker.fail(HELD_AGAIN, error="third").status is JobStatus.FAILED
    assert [(each.attempt, each.outcome, each.error) for each in as_admin.attempts(HELD)] == [(1, "completed", None)]
    assert [(each.attempt, each.outcome, each.error) for each in as_admin.attempts(HELD_AGAIN)] == [
        (2, "failed", "third")
    ]
    assert (as_admin.get(HELD).attempt, as_admin.get(HELD_AGAIN).attempt) == (1, 2)


@pytest.mark.parametrize("by_first_release", [True, False])
def test_an_attempt_that_ends_before_the_sweep_keeps_its_place_in_the_history(
    first: FirstRelease,
    as_admin: BoundQueue,
    as_worker: BoundQueue,
    store: Store,
    path: Path,
    clock: SteppedClock,
    by_first_release: bool,
) -> None:
    as_admin.cancel(NEW)
    as_admin.cancel(RETRIED)
    if by_first_release:
        assert first.fail(HELD, error="through the upgrade")
    else:
        as_worker.fail(HELD, error="through the upgrade")
    assert as_admin.get(HELD).attempt == 1
    assert claim(as_worker).attempt == 2
    finish(store, clock)
    as_worker.complete(HELD)
    assert [(each.attempt, each.error) for each in as_admin.attempts(HELD)] == [(1, "through the upgrade"), (2, None)]
    assert query(path, "SELECT count(*) FROM attempts WHERE job_id = ?", [HELD]) == [(2,)]


def test_a_job_of_the_first_release_has_the_queue_s_backoff(
    first: FirstRelease, path: Path, network: bool, clock: SteppedClock
) -> None:
    store = Store(path, network=network, policy=Policy(backoff_seconds=40), jitter=lambda: 0.0)
    caller = Queue(store).bound(worker(), clock)
    query(path, "UPDATE jobs SET max_retries = 3")
    caller.fail(HELD)
    assert caller.fail(HELD_AGAIN).run_at == START + timedelta(seconds=40)
    assert Queue(store).get(admin(), HELD).run_at == START
    store.close()


def test_an_upgraded_file_is_what_a_new_one_is(
    first: FirstRelease, path: Path, store: Store, network: bool, clock: SteppedClock
) -> None:
    finish(store, clock)
    new = Store(path.with_name("new.db"), network=network)
    Queue(new).bound(admin()).list()
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
    assert query(path, schema) == query(path.with_name("new.db"), schema)
    for pragma in ("user_version", "application_id"):
        assert query(path, f"PRAGMA {pragma}") == query(path.with_name("new.db"), f"PRAGMA {pragma}")
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    new.close()


def test_the_upgrade_is_done_once_however_many_sweeps_there_are(
    first: FirstRelease, path: Path, store: Store, network: bool, clock: SteppedClock
) -> None:
    others = [Store(path, network=network) for _ in range(2)]
    finish(store, clock)
    finish(others[0], clock)
    with held(path, "read" if network else "write"):
        finish(others[0], clock)
    finish(others[1], clock)
    assert miscounted(path) == set()
    for each in others:
        each.close()


def test_an_upgrade_that_breaks_off_is_begun_again(
    first: FirstRelease, as_admin: BoundQueue, path: Path, store: Store, clock: SteppedClock
) -> None:
    as_admin.list()
    # In the way of a table that the migration makes after its indexes.
    query(path, "CREATE TABLE holders (mine TEXT)")
    with pytest.raises(sqlite3.OperationalError, match="holders"):
        finish(store, clock)
    assert version(path) == 1_001
    assert query(path, "SELECT name FROM sqlite_schema WHERE name IN ('jobs_leased', 'counts')") == []
    assert claim(as_admin).id == NEW
    query(path, "DROP TABLE holders")
    finish(store, clock)
    assert miscounted(path) == set()


def test_what_happened_between_the_two_steps_is_counted(
    first: FirstRelease, as_admin: BoundQueue, as_worker: BoundQueue, path: Path, store: Store, clock: SteppedClock
) -> None:
    as_admin.enqueue_jobs([NewJob(type=type) for type in ("pdf", "sync", "pdf")])
    jobs = as_worker.claim_jobs(limit=4).jobs
    as_worker.fail(jobs[0].id, lease_token=jobs[0].lease_token)
    as_worker.complete(jobs[1].id, lease_token=jobs[1].lease_token)
    first.fail(HELD)
    finish(store, clock)
    assert miscounted(path) == set()
    as_worker.complete(jobs[2].id, lease_token=jobs[2].lease_token)
    assert miscounted(path) == set()
    assert [id for id, *_ in unaccounted(path)] == [HELD_AGAIN]
