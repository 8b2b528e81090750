from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuelog import Forbidden, JobPriority, JobStatus, NewJob
from tests.support import START, SteppedClock, add_jobs, admin, claim, producer, query, without_token, worker

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue, Principal, Queue

LOW, MEDIUM, HIGH, CRITICAL = JobPriority


def claimed_ids(caller: BoundQueue) -> list[int]:
    ids = []
    while job := caller.claim():
        ids.append(job.id)
    return ids


def test_a_claim_takes_the_highest_priority_then_the_oldest_then_the_lowest_id(
    as_admin: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    # (priority, second at which it is created); the clock goes back once, so that age and id disagree.
    jobs = [(LOW, 0), (MEDIUM, 10), (CRITICAL, 20), (MEDIUM, 5), (HIGH, 30), (CRITICAL, 20), (LOW, 30), (CRITICAL, 19)]
    for priority, second in jobs:
        clock.advance(seconds=second)
        as_admin.enqueue(NewJob(type="email", priority=priority))
        clock.advance(seconds=-second)
    clock.advance(seconds=60)
    assert claimed_ids(as_worker) == [8, 3, 6, 5, 4, 2, 1, 7]


def test_the_type_has_no_part_in_the_order(as_admin: BoundQueue, as_worker: BoundQueue) -> None:
    jobs = [("b", LOW), ("z", MEDIUM), ("a", MEDIUM), ("m", HIGH), ("c", MEDIUM), ("a", LOW)]
    for type, priority in jobs:
        as_admin.enqueue(NewJob(type=type, priority=priority))
    assert claimed_ids(as_worker) == [4, 2, 3, 5, 1, 6]


def test_a_claimed_job_is_held_by_its_worker(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    made = as_producer.enqueue(NewJob(type="email", payload={"to": "x"})).job
    clock.advance(seconds=5)
    job = as_worker.claim()
    assert job is not None
    assert (job.status, job.worker_id, job.claimed_at, job.updated_at) == (
        JobStatus.RUNNING,
        "worker",
        clock.now(),
        clock.now(),
    )
    assert (job.id, job.payload, job.created_at, job.retry_count) == (made.id, {"to": "x"}, START, 0)
    assert without_token(job) == as_worker.get(job.id)


def test_a_job_is_claimed_once(as_producer: BoundQueue, as_worker: BoundQueue, as_admin: BoundQueue) -> None:
    as_producer.enqueue(NewJob(type="email"))
    assert as_worker.claim() is not None
    assert as_worker.claim() is None
    assert as_admin.claim() is None


@pytest.mark.parametrize("status", [each for each in JobStatus if each is not JobStatus.PENDING])
def test_only_pending_jobs_are_claimed(as_producer: BoundQueue, as_worker: BoundQueue, path: Path, status: str) -> None:
    as_producer.enqueue(NewJob(type="email"))
    query(path, "UPDATE jobs SET status = ?, worker_id = 'other', claimed_at = created_at", [status])
    assert as_worker.claim() is None


def test_an_empty_queue_gives_none(as_worker: BoundQueue) -> None:
    assert as_worker.claim() is None


def test_an_empty_claim_writes_nothing(as_producer: BoundQueue, as_worker: BoundQueue, path: Path) -> None:
    as_producer.enqueue(NewJob(type="email"))
    as_worker.claim()
    written = path.with_name("queue.db-wal").read_bytes()
    assert as_worker.claim() is None
    assert as_worker.claim_jobs(types=["pdf"], limit=5).jobs == ()
    assert path.with_name("queue.db-wal").read_bytes() == written


def test_a_job_is_not_claimed_before_it_is_due(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path, clock: SteppedClock
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    query(path, "UPDATE jobs SET due_at = '2026-01-31T12:00:01.000Z'")
    clock.advance(seconds=0.999)
    assert as_worker.claim() is None
    clock.advance(seconds=0.001)
    assert as_worker.claim() is not None


def test_a_clock_that_is_behind_its_producers_claims_nothing_early(queue: Queue, as_producer: BoundQueue) -> None:
    as_producer.enqueue(NewJob(type="email"))
    behind = SteppedClock()
    behind.advance(seconds=-1)
    assert queue.bound(worker(), behind).claim() is None


def test_jobs_that_are_due_later_do_not_stand_in_the_way(
    as_admin: BoundQueue, as_worker: BoundQueue, path: Path
) -> None:
    for priority in (CRITICAL, HIGH, LOW, LOW):
        as_admin.enqueue(NewJob(type="email", priority=priority))
    query(path, "UPDATE jobs SET due_at = '2026-02-28T12:00:00.000Z' WHERE id <= 3")
    assert claimed_ids(as_worker) == [4]


def test_the_oldest_due_time_wins_over_the_lowest_id(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path
) -> None:
    for _ in range(3):
        as_producer.enqueue(NewJob(type="email"))
    query(path, "UPDATE jobs SET due_at = '2026-01-31T11:59:59.999Z' WHERE id = 3")
    assert claimed_ids(as_worker) == [3, 1, 2]


def test_a_job_that_is_put_back_keeps_its_place(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    for _ in range(3):
        as_producer.enqueue(NewJob(type="email"))
        clock.advance(seconds=1)
    assert as_worker.fail(claim(as_worker).id).status is JobStatus.PENDING
    assert claimed_ids(as_worker) == [1, 2, 3]


def test_a_claim_can_ask_for_types(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    for type in ("email", "pdf", "sync", "pdf"):
        as_producer.enqueue(NewJob(type=type))
    assert claim(as_worker, types=["pdf"]).id == 2
    assert claim(as_worker, types=("sync", "pdf", "sync")).id == 3
    assert as_worker.claim(types={"sync"}) is None
    assert claimed_ids(as_worker) == [1, 4]


@pytest.mark.parametrize("types", [[], ["nothing-like-it"], ["EMAIL"], ["email "], ["'email'"], ["%"], [""], ["\0"]])
def test_types_are_names_and_not_patterns(as_producer: BoundQueue, as_worker: BoundQueue, types: list[str]) -> None:
    as_producer.enqueue(NewJob(type="email"))
    assert as_worker.claim(types=types) is None


def test_a_worker_with_types_gets_those_alone(queue: Queue, as_producer: BoundQueue, clock: SteppedClock) -> None:
    for type in ("email", "pdf", "sync"):
        as_producer.enqueue(NewJob(type=type))
    assert claimed_ids(queue.bound(worker(types=frozenset({"sync", "pdf"})), clock)) == [2, 3]


@pytest.mark.parametrize("who", [worker(types=frozenset()), admin(types=frozenset())], ids=lambda who: str(who.name))
def test_an_empty_list_of_types_is_none_of_them(
    queue: Queue, as_producer: BoundQueue, who: Principal, clock: SteppedClock
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    caller = queue.bound(who, clock)
    assert caller.claim() is None
    assert caller.claim(types=[]) is None
    with pytest.raises(Forbidden):
        caller.claim(types=["email"])


def test_asking_for_a_type_that_was_not_granted_is_refused_whole(
    queue: Queue, as_producer: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    caller = queue.bound(worker(types=frozenset({"email"})), clock)
    with pytest.raises(Forbidden, match="pdf, sync"):
        caller.claim(types=["email", "sync", "pdf"])
    assert claim(caller, types=["email"]).id == 1


def test_a_type_that_is_no_longer_offered_still_drains(
    as_worker: BoundQueue, as_producer: BoundQueue, path: Path
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    add_jobs(path, 2, type="'fax'", priority="30")
    add_jobs(path, 1, type="'~last of the alphabet'", priority="0")
    assert claimed_ids(as_worker) == [2, 3, 1, 4]


def test_a_claim_may_name_its_own_worker_id_and_no_other(
    queue: Queue, as_producer: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(NewJob(type="email"))
    signed = queue.bound(worker("1:role/Mail", worker_id="1:role/Mail/i-1"), clock)
    for other in ("worker", "1:role/Mail", "1:role/Mail/i-2", ""):
        with pytest.raises(Forbidden, match=r"1:role/Mail/i-1"):
            signed.claim(worker_id=other)
    job = signed.claim(worker_id="1:role/Mail/i-1")
    assert job is not None
    assert job.worker_id == "1:role/Mail/i-1"


def test_workers_and_admins_may_claim_and_producers_may_not(
    as_producer: BoundQueue, as_admin: BoundQueue, as_worker: BoundQueue
) -> None:
    for _ in range(2):
        as_producer.enqueue(NewJob(type="email"))
    with pytest.raises(Forbidden):
        as_producer.claim()
    assert claim(as_admin).worker_id == "admin"
    assert claim(as_worker).worker_id == "worker"


def test_many_types_are_claimed_in_one_order(as_worker: BoundQueue, as_producer: BoundQueue, path: Path) -> None:
    as_producer.enqueue(NewJob(type="email"))
    query(path, "DELETE FROM jobs")
    add_jobs(path, 200, type="'type-' || (n * 7919 % 50)", priority="(n * 31 % 4) * 10")
    expected = query(path, "SELECT id FROM jobs ORDER BY priority DESC, due_at, id")
    assert claimed_ids(as_worker) == [id for (id,) in expected]


def test_the_priority_ceiling_does_not_bind_claims(queue: Queue, as_admin: BoundQueue, clock: SteppedClock) -> None:
    as_admin.enqueue(NewJob(type="email", priority=CRITICAL))
    assert queue.bound(worker(max_priority=LOW), clock).claim() is not None


def test_a_creator_may_not_claim_its_own_job(queue: Queue, clock: SteppedClock) -> None:
    caller = queue.bound(producer("both"), clock)
    caller.enqueue(NewJob(type="email"))
    with pytest.raises(Forbidden):
        caller.claim()
