from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuelog import JobStatus, NewJob, Policy, Queue, Store, Swept
from queuelog.store.store import SWEPT_AT_ONCE
from tests.support import SteppedClock, add_jobs, admin, claim, held, miscounted, overtaken, query, unaccounted

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue

EMAIL = NewJob(type="email")
DAY = 86_400
DEAD = {
    "status": "'running'",
    "worker_id": "'dead'",
    "claimed_at": "'2026-01-31T10:00:00.000Z'",
    "attempt": "1",
    "lease_expires_at": "'2026-01-31T11:00:00.000Z'",
}


def sweep(store: Store, clock: SteppedClock) -> Swept:
    return store.sweep(now=clock.now(), may_go_on=lambda: True)


def end(caller: BoundQueue, status: JobStatus) -> int:
    """Make a job that ends now in some status."""
    made = caller.enqueue(EMAIL).job
    if status is JobStatus.CANCELLED:
        caller.cancel(made.id)
    else:
        claim(caller)
        caller.complete(made.id) if status is JobStatus.COMPLETED else caller.fail(made.id, permanent=True)
    return made.id


def test_an_empty_queue_needs_no_sweep(store: Store, clock: SteppedClock) -> None:
    assert sweep(store, clock) == Swept(leases_expired=0, jobs_deleted=0, is_done=True)


def test_a_sweep_that_finds_nothing_to_do_waits_for_no_lock(
    store: Store, as_admin: BoundQueue, path: Path, network: bool, clock: SteppedClock
) -> None:
    for status in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED):
        end(as_admin, status)
    as_admin.enqueue_jobs([EMAIL] * 2)
    claim(as_admin)
    clock.advance(seconds=59)
    with held(path, "read" if network else "write"):
        assert sweep(store, clock) == (0, 0, True)


def test_a_sweep_leaves_nothing_in_the_wal(store: Store, as_admin: BoundQueue, path: Path, clock: SteppedClock) -> None:
    as_admin.enqueue_jobs([EMAIL] * 2)
    assert path.with_name("queue.db-wal").stat().st_size > 0
    sweep(store, clock)
    assert path.with_name("queue.db-wal").stat().st_size == 0


@pytest.mark.parametrize(
    ("status", "days"), [(JobStatus.COMPLETED, 7), (JobStatus.FAILED, 30), (JobStatus.CANCELLED, 30)]
)
def test_an_ended_job_is_kept_for_its_time_and_no_longer(
    store: Store, as_admin: BoundQueue, path: Path, clock: SteppedClock, status: JobStatus, days: int
) -> None:
    clock.advance(seconds=5)
    id = end(as_admin, status)
    clock.advance(seconds=days * DAY)
    assert sweep(store, clock) == (0, 0, True)
    assert as_admin.get(id).status is status
    clock.advance(seconds=0.001)
    assert sweep(store, clock) == (0, 1, True)
    assert as_admin.list().jobs == ()
    assert query(path, "SELECT count(*) FROM attempts") == [(0,)]
    assert miscounted(path) == set()


def test_the_policy_says_how_long(as_admin: BoundQueue, path: Path, network: bool, clock: SteppedClock) -> None:
    ids = [end(as_admin, status) for status in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED)]
    policy = Policy(keep_completed_seconds=2 * DAY, keep_failed_seconds=DAY)
    store = Store(path, network=network, policy=policy)
    clock.advance(seconds=DAY + 1)
    assert sweep(store, clock) == (0, 2, True)
    assert [job.id for job in as_admin.list().jobs] == ids[:1]
    clock.advance(seconds=DAY)
    assert sweep(store, clock) == (0, 1, True)
    store.close()


def test_what_has_not_ended_is_kept_for_ever(store: Store, as_admin: BoundQueue, clock: SteppedClock) -> None:
    as_admin.enqueue_jobs([EMAIL] * 2)
    claim(as_admin, lease_seconds=43_200)
    clock.advance(seconds=43_199)
    assert sweep(store, clock) == (0, 0, True)
    clock.advance(seconds=400 * DAY)
    assert sweep(store, clock) == (1, 0, True)
    assert {job.status for job in as_admin.list().jobs} == {JobStatus.PENDING}


def test_a_job_s_time_counts_from_its_end_and_not_from_its_beginning(
    store: Store, as_admin: BoundQueue, clock: SteppedClock
) -> None:
    as_admin.enqueue(EMAIL)
    clock.advance(seconds=20 * DAY)
    as_admin.complete(claim(as_admin).id)
    clock.advance(seconds=7 * DAY)
    assert sweep(store, clock) == (0, 0, True)


def test_a_key_lives_as_long_as_its_job(store: Store, as_admin: BoundQueue, clock: SteppedClock) -> None:
    wanted = NewJob(type="email", idempotency_key="k")
    as_admin.enqueue(wanted)
    as_admin.complete(claim(as_admin).id)
    clock.advance(seconds=7 * DAY)
    assert as_admin.enqueue(wanted).replayed
    clock.advance(seconds=1)
    sweep(store, clock)
    job, replayed = as_admin.enqueue(wanted)
    assert (job.id, replayed) == (2, False)


def test_a_sweep_takes_back_every_expired_lease_of_every_type(
    store: Store, as_admin: BoundQueue, path: Path, clock: SteppedClock
) -> None:
    as_admin.list()
    add_jobs(path, 2 * SWEPT_AT_ONCE + 50, **DEAD, type="'type-' || (n % 7)")
    add_jobs(path, 5, **DEAD | {"lease_expires_at": "'2026-01-31T12:00:00.001Z'"})
    assert sweep(store, clock) == (2 * SWEPT_AT_ONCE + 50, 0, True)
    assert query(path, "SELECT status, lease_expiries, count(*) FROM jobs GROUP BY 1, 2 ORDER BY 1") == [
        ("pending", 1, 2 * SWEPT_AT_ONCE + 50),
        ("running", 0, 5),
    ]
    assert miscounted(path) == set()
    assert unaccounted(path) == []


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_a_sweep_does_so_much_in_a_transaction_and_stops_when_it_is_told(
    store: Store, as_admin: BoundQueue, path: Path, clock: SteppedClock, rounds: int
) -> None:
    as_admin.list()
    add_jobs(path, 300, **DEAD)
    add_jobs(path, 150, status="'failed'", updated_at="'2020-01-31T11:00:00.000Z'")
    add_jobs(path, 150, status="'completed'", updated_at="'2020-01-31T11:00:00.000Z'")
    left = iter([True] * rounds + [False])
    done = store.sweep(now=clock.now(), may_go_on=lambda: next(left))
    # Leases come first: somebody waits for those jobs.
    assert done == [(0, 0, False), (200, 0, False), (300, 0, False), (300, 200, False)][rounds]
    assert sweep(store, clock) == (300 - done.leases_expired, 300 - done.jobs_deleted, True)
    assert miscounted(path) == set()


def test_between_two_of_its_transactions_everybody_gets_a_turn(
    store: Store, as_admin: BoundQueue, path: Path, network: bool, clock: SteppedClock
) -> None:
    as_admin.list()
    add_jobs(path, 3 * SWEPT_AT_ONCE, status="'completed'", updated_at="'2020-01-31T11:00:00.000Z'")
    other = Queue(Store(path, network=network, busy_timeout=0)).bound(admin(), clock)
    claimed = []

    def may_go_on() -> bool:
        other.enqueue(EMAIL)
        claimed.append(claim(other).id)
        return True

    assert store.sweep(now=clock.now(), may_go_on=may_go_on) == (0, 600, True)
    assert claimed == [601, 602, 603, 604]
    other.queue._store.close()


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELLED])
def test_a_job_that_is_retried_after_the_sweep_has_looked_is_not_deleted(
    as_admin: BoundQueue, path: Path, network: bool, clock: SteppedClock, status: JobStatus
) -> None:
    id = end(as_admin, status)
    clock.advance(seconds=31 * DAY)
    store = Store(path, network=network)
    database = overtaken(store)
    database.meanwhile = lambda: as_admin.retry(id)
    assert sweep(store, clock) == (0, 0, True)
    assert database.meanwhile is None
    assert as_admin.get(id).status is JobStatus.PENDING
    store.close()


def test_a_job_that_its_worker_completes_after_the_sweep_has_looked_is_completed(
    as_admin: BoundQueue, path: Path, network: bool, clock: SteppedClock
) -> None:
    as_admin.enqueue(EMAIL)
    held = claim(as_admin)
    clock.advance(seconds=60)
    store = Store(path, network=network)
    database = overtaken(store)
    database.meanwhile = lambda: as_admin.complete(held.id, lease_token=held.lease_token)
    assert sweep(store, clock) == (0, 0, True)
    assert as_admin.get(held.id).status is JobStatus.COMPLETED
    store.close()


def test_ids_of_deleted_jobs_are_never_used_again(store: Store, as_admin: BoundQueue, clock: SteppedClock) -> None:
    for _ in range(3):
        end(as_admin, JobStatus.COMPLETED)
    clock.advance(seconds=8 * DAY)
    assert sweep(store, clock).jobs_deleted == 3
    assert as_admin.enqueue(EMAIL).job.id == 4


def test_those_that_ended_first_are_deleted_first(
    store: Store, as_admin: BoundQueue, path: Path, clock: SteppedClock
) -> None:
    as_admin.list()
    add_jobs(path, 500, status="'completed'", updated_at="printf('2025-12-31T12:00:00.%03dZ', 999 - n)")
    once = iter([True, False])
    store.sweep(now=clock.now(), may_go_on=lambda: next(once))
    left = query(path, "SELECT min(id), max(id), count(*) FROM jobs")
    assert left == [(1, 300, 300)]
