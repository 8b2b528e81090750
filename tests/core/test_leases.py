from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from queuelog import (
    Conflict,
    Ending,
    InvalidRequest,
    JobPriority,
    JobStatus,
    LeaseLost,
    NewJob,
    Policy,
    Queue,
    Reason,
    Store,
)
from queuelog.store.store import TAKEN_BACK_BY_A_CLAIM
from tests.support import START, SteppedClock, add_jobs, claim, query, token_of, without_token, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queuelog import BoundQueue, Job

EMAIL = NewJob(type="email")
SWEPT_BY: dict[str, Callable[[BoundQueue], object]] = {
    "claim": lambda caller: caller.claim(types=["email"]),
    "sweep": lambda caller: caller.queue._store.sweep(now=caller.clock.now(), may_go_on=lambda: True),
}
ENDINGS = ["complete", "fail", "release"]


def end(caller: BoundQueue, verb: str, id: int, lease_token: str | None = None) -> Job:
    job = caller.finish_jobs([Ending(id=id, verb=verb, lease_token=lease_token)])[0]
    if isinstance(job, Conflict):
        raise job
    return job


@pytest.fixture(params=SWEPT_BY)
def take_back(request: pytest.FixtureRequest, queue: Queue, clock: SteppedClock) -> Callable[[], object]:
    """Either way in which an expired lease is taken back, by somebody who is not the holder."""
    return lambda: SWEPT_BY[request.param](queue.bound(worker("other"), clock))


def test_a_claim_holds_a_job_for_a_minute_unless_told(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(EMAIL)
    assert claim(as_worker).lease_expires_at == START + timedelta(seconds=60)


@pytest.mark.parametrize("seconds", [1, 61, 43_200])
def test_a_claim_says_for_how_long_it_holds_a_job(as_producer: BoundQueue, as_worker: BoundQueue, seconds: int) -> None:
    as_producer.enqueue(EMAIL)
    job = claim(as_worker, lease_seconds=seconds)
    assert job.lease_expires_at == START + timedelta(seconds=seconds)
    assert as_worker.get(job.id) == without_token(job)


@pytest.mark.parametrize("seconds", [0, -1, 43_201])
def test_a_lease_lasts_between_a_second_and_half_a_day(
    as_producer: BoundQueue, as_worker: BoundQueue, seconds: int
) -> None:
    as_producer.enqueue(EMAIL)
    with pytest.raises(InvalidRequest) as refused:
        as_worker.claim(lease_seconds=seconds)
    assert [fault.field for fault in refused.value.faults] == ["lease_seconds"]
    assert as_producer.get(1).status is JobStatus.PENDING


def test_the_queue_s_policy_sets_the_default(
    as_producer: BoundQueue, path: Path, network: bool, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    store = Store(path, network=network, policy=Policy(lease_seconds=5))
    caller = Queue(store).bound(worker(), clock)
    assert claim(caller).lease_expires_at == START + timedelta(seconds=5)
    store.close()


def test_a_job_that_is_not_running_has_no_lease(as_producer: BoundQueue, as_worker: BoundQueue, path: Path) -> None:
    assert as_producer.enqueue(EMAIL).job.lease_expires_at is None
    for verb in ("release", "fail", "complete"):
        assert end(as_worker, verb, claim(as_worker).id).lease_expires_at is None
    columns = "lease_expires_at, lease_seconds, lease_token_sha256, lease_token, claim_request_id, claim_fingerprint"
    assert query(path, f"SELECT {columns} FROM jobs") == [(None,) * 6]


def test_attempts_are_counted_and_the_count_never_goes_down(
    as_admin: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_admin.enqueue(NewJob(type="email", max_retries=1, backoff_seconds=0))
    counts = []
    for verb in ("release", "fail", "fail"):
        job = claim(as_worker)
        counts.append(job.attempt)
        assert end(as_worker, verb, job.id).attempt == job.attempt
    as_admin.retry(1)
    assert as_admin.get(1).attempt == 3
    counts.append(claim(as_worker).attempt)
    assert counts == [1, 2, 3, 4]


def test_a_lease_holds_until_its_last_millisecond(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, take_back: Callable[[], object]
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker, lease_seconds=10)
    clock.advance(seconds=9.999)
    take_back()
    assert as_worker.get(1) == without_token(held)
    clock.advance(seconds=0.001)
    take_back()
    assert as_producer.get(1).lease_expiries == 1


def test_an_expired_lease_is_taken_back_and_its_job_is_a_candidate_of_the_same_claim(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    clock.advance(seconds=60)
    again = claim(queue.bound(worker("other"), clock))
    assert again.id == held.id
    assert (again.worker_id, again.claimed_at, again.attempt) == ("other", clock.now(), 2)
    assert (again.retry_count, again.lease_expiries) == (1, 1)
    assert (again.error, again.reason) == ("lease expired", Reason.LEASE_EXPIRED)
    assert (again.run_at, again.created_at) == (held.run_at, held.created_at)
    assert again.lease_token != held.lease_token


def test_the_sweep_puts_the_job_back_as_a_failure_would(
    store: Store, as_producer: BoundQueue, as_worker: BoundQueue, as_admin: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    clock.advance(seconds=100)
    assert store.sweep(now=clock.now(), may_go_on=lambda: True) == (1, 0, True)
    job = as_admin.get(held.id)
    assert (job.status, job.worker_id, job.claimed_at) == (JobStatus.PENDING, None, None)
    assert (job.retry_count, job.lease_expiries, job.attempt) == (1, 1, 1)
    assert (job.error, job.reason) == ("lease expired", Reason.LEASE_EXPIRED)
    assert (job.updated_at, job.run_at) == (clock.now(), held.run_at)


def test_a_job_whose_lease_expires_too_often_fails(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, take_back: Callable[[], object]
) -> None:
    as_producer.enqueue(NewJob(type="email", max_retries=0))
    held = claim(as_worker)
    clock.advance(seconds=60)
    take_back()
    job = as_worker.get(held.id)
    assert (job.status, job.retry_count, job.lease_expiries) == (JobStatus.FAILED, 0, 1)
    assert (job.error, job.reason) == ("lease expired", Reason.LEASE_EXPIRED)
    assert (job.worker_id, job.claimed_at, job.lease_expires_at) == ("worker", held.claimed_at, None)


def test_an_expiry_counts_as_a_failure_does_and_apart_as_well(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(NewJob(type="email", max_retries=2, backoff_seconds=0))
    seen = []
    for verb in ("expire", "fail", "expire"):
        job = claim(as_worker)
        seen.append((job.retry_count, job.lease_expiries, job.attempt))
        if verb == "fail":
            as_worker.fail(job.id)
        clock.advance(seconds=60)
    assert as_worker.claim() is None
    job = as_producer.get(1)
    assert seen == [(0, 0, 1), (1, 1, 2), (2, 1, 3)]
    assert (job.status, job.retry_count, job.lease_expiries) == (JobStatus.FAILED, 2, 2)


def test_the_wait_before_a_later_retry_starts_when_the_lease_is_taken_back(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, take_back: Callable[[], object]
) -> None:
    as_producer.enqueue(EMAIL)
    as_worker.fail(claim(as_worker).id)
    claim(as_worker)
    clock.advance(seconds=1_000)
    take_back()
    job = as_producer.get(1)
    assert (job.status, job.retry_count) == (JobStatus.PENDING, 2)
    assert job.run_at == clock.now() + timedelta(seconds=15)


def test_a_claim_takes_back_what_it_could_claim_and_nothing_else(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    for type in ("email", "pdf", "sync"):
        as_producer.enqueue(NewJob(type=type, max_retries=0))
        claim(as_worker)
    clock.advance(seconds=60)
    pdfs = queue.bound(worker("pdfs", types=frozenset({"pdf"})), clock)
    nothing = queue.bound(worker("nothing", types=frozenset()), clock)

    def statuses() -> list[JobStatus]:
        return [as_producer.get(id).status for id in (1, 2, 3)]

    running, failed = JobStatus.RUNNING, JobStatus.FAILED
    assert nothing.claim() is None
    assert as_worker.claim(types=["video"]) is None
    assert statuses() == [running, running, running]
    assert pdfs.claim() is None
    assert statuses() == [running, failed, running]
    assert as_worker.claim(types=["pdf", "sync"]) is None
    assert statuses() == [running, failed, failed]
    assert as_worker.claim() is None
    assert statuses() == [failed, failed, failed]


def test_a_job_that_is_taken_back_keeps_its_place_among_the_others(
    as_admin: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    low, high = JobPriority.LOW, JobPriority.HIGH
    as_admin.enqueue(NewJob(type="email", priority=low))
    held = [claim(as_worker).id]
    clock.advance(seconds=1)
    as_admin.enqueue(NewJob(type="pdf", priority=high))
    held.append(claim(as_worker).id)
    clock.advance(seconds=1)
    for priority in (low, high):
        as_admin.enqueue(NewJob(type="email", priority=priority))
    clock.advance(seconds=60)
    assert held == [1, 2]
    assert [claim(as_worker).id for _ in range(4)] == [2, 4, 1, 3]


def test_a_claim_takes_back_a_bounded_number(as_producer: BoundQueue, as_worker: BoundQueue, path: Path) -> None:
    as_producer.list()
    add_jobs(
        path,
        35,
        type="'type-' || (n % 3)",
        status="'running'",
        worker_id="'dead'",
        claimed_at="'2026-01-31T10:00:00.000Z'",
        lease_expires_at="printf('2026-01-31T11:%02d:00.000Z', 60 - n)",
        max_retries="0",
    )

    def expired() -> list[int]:
        return [id for (id,) in query(path, "SELECT id FROM jobs WHERE status = 'failed' ORDER BY id DESC")]

    for times in (1, 2, 3):
        assert as_worker.claim() is None
        assert len(expired()) == times * TAKEN_BACK_BY_A_CLAIM
    assert as_worker.claim(types=["type-1"]) is None
    as_worker.claim()
    assert expired() == list(range(35, 0, -1))


def test_of_one_type_the_lease_that_ended_first_is_taken_back_first(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path
) -> None:
    as_producer.list()
    add_jobs(
        path,
        15,
        status="'running'",
        worker_id="'dead'",
        claimed_at="'2026-01-31T10:00:00.000Z'",
        lease_expires_at="printf('2026-01-31T11:%02d:00.000Z', 60 - n)",
        max_retries="0",
    )
    assert as_worker.claim() is None
    taken = query(path, "SELECT id FROM jobs WHERE status = 'failed' ORDER BY id")
    assert [id for (id,) in taken] == list(range(6, 16))


@pytest.mark.parametrize("with_token", [True, False])
@pytest.mark.parametrize("verb", ENDINGS)
def test_a_late_end_counts_until_the_lease_is_taken_back(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, verb: str, with_token: bool
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    clock.advance(seconds=86_400)
    job = end(as_worker, verb, held.id, held.lease_token if with_token else None)
    assert (job.lease_expiries, job.attempt) == (0, 1)
    assert job.status is (JobStatus.COMPLETED if verb == "complete" else JobStatus.PENDING)
    assert job.retry_count == (verb == "fail")


@pytest.mark.parametrize("verb", [*ENDINGS, "heartbeat"])
def test_afterwards_the_lease_is_lost_and_the_new_attempt_untouched(
    queue: Queue,
    as_producer: BoundQueue,
    as_worker: BoundQueue,
    clock: SteppedClock,
    take_back: Callable[[], object],
    verb: str,
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    clock.advance(seconds=60)
    take_back()
    now_held = as_producer.get(held.id)
    if now_held.status is JobStatus.PENDING:
        now_held = without_token(claim(queue.bound(worker("other"), clock)))
    assert (now_held.worker_id, now_held.attempt) == ("other", 2)
    for _ in range(2):
        with pytest.raises(LeaseLost):
            if verb == "heartbeat":
                as_worker.heartbeat(held.id, lease_token=token_of(held))
            else:
                end(as_worker, verb, held.id, token_of(held))
    assert as_producer.get(held.id) == now_held


@pytest.mark.parametrize("verb", [*ENDINGS, "heartbeat"])
def test_a_lease_that_the_sweep_took_back_is_lost_while_nobody_holds_the_job(
    store: Store, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, verb: str
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    clock.advance(seconds=60)
    store.sweep(now=clock.now(), may_go_on=lambda: True)
    waiting = as_producer.get(held.id)
    with pytest.raises(LeaseLost):
        if verb == "heartbeat":
            as_worker.heartbeat(held.id, lease_token=token_of(held))
        else:
            end(as_worker, verb, held.id, token_of(held))
    assert as_producer.get(held.id) == waiting


@pytest.mark.parametrize("verb", ENDINGS)
def test_without_a_token_the_worker_s_name_decides_as_it_always_did(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, verb: str
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    clock.advance(seconds=60)
    other = queue.bound(worker("other"), clock)
    theirs = claim(other)
    with pytest.raises(Conflict) as refused:
        end(as_worker, verb, held.id)
    assert type(refused.value) is Conflict
    assert as_producer.get(held.id) == without_token(theirs)
    assert end(other, verb, held.id).attempt == 2


def test_what_is_kept_of_a_token_is_no_token(as_producer: BoundQueue, as_worker: BoundQueue, path: Path) -> None:
    as_producer.enqueue(EMAIL)
    token = token_of(claim(as_worker))
    (row,) = query(path, "SELECT * FROM jobs")
    assert not [value for value in row if value is not None and token in str(value)]
    as_worker.complete(1, lease_token=token)
    (row,) = query(path, "SELECT * FROM attempts")
    assert not [value for value in row if value is not None and token in str(value)]


def test_a_token_is_in_the_claim_s_answer_and_nowhere_else(as_admin: BoundQueue, as_worker: BoundQueue) -> None:
    as_admin.enqueue(NewJob(type="email", idempotency_key="k"))
    held = claim(as_worker)
    assert 1 <= len(token_of(held)) <= 255
    shown = [as_worker.get(1), *as_worker.list().jobs, as_admin.get(1), *as_admin.list().jobs]
    shown.append(as_admin.enqueue(NewJob(type="email", idempotency_key="k")).job)
    shown.append(as_admin.cancel(1))
    shown.append(as_worker.complete(1, lease_token=held.lease_token))
    assert {job.lease_token for job in shown} == {None}
