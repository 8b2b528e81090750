"""When a job is due: as was asked, after a failure, and what an idle worker is told to wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queuelog import (
    Ending,
    IdempotencyKeyReused,
    InvalidJob,
    Job,
    JobPriority,
    JobStatus,
    NewJob,
    Policy,
    Queue,
    Store,
)
from tests.support import START, SteppedClock, admin, claim, query, worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queuelog import BoundQueue

EMAIL = NewJob(type="email")
DAY = 86_400


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize("fields", [{"run_at": later(60)}, {"delay_seconds": 60}], ids=["run_at", "delay_seconds"])
def test_a_job_is_not_claimed_before_its_time(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, fields: dict[str, Any]
) -> None:
    made = as_producer.enqueue(NewJob(type="email", **fields)).job
    assert (made.status, made.run_at, made.created_at) == (JobStatus.PENDING, later(60), START)
    clock.advance(seconds=59.999)
    assert as_worker.claim() is None
    clock.advance(seconds=0.001)
    assert claim(as_worker).run_at == later(60)


@pytest.mark.parametrize("seconds", [0, 1, 30 * DAY])
def test_a_delay_may_be_up_to_30_days(as_producer: BoundQueue, seconds: int) -> None:
    assert as_producer.enqueue(NewJob(type="email", delay_seconds=seconds)).job.run_at == later(seconds)


def test_a_time_in_the_past_does_not_jump_the_queue(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    clock.advance(seconds=1)
    late = as_producer.enqueue(NewJob(type="email", run_at=later(-DAY))).job
    assert late.run_at == clock.now()
    clock.advance(seconds=1)
    as_producer.enqueue(EMAIL)
    assert [claim(as_worker).id for _ in range(3)] == [1, 2, 3]


def test_jobs_are_claimed_in_the_order_in_which_they_fall_due(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    for seconds in (30, 0, 10, 20, 10):
        as_producer.enqueue(NewJob(type="email", delay_seconds=seconds))
    clock.advance(seconds=15)
    as_producer.enqueue(EMAIL)
    clock.advance(seconds=15)
    assert [claim(as_worker).id for _ in range(6)] == [2, 3, 5, 6, 4, 1]


def test_a_time_of_another_zone_is_kept_in_utc_to_the_millisecond(as_producer: BoundQueue) -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    run_at = datetime(2027, 1, 1, 5, 30, 0, 123_456, tzinfo=zone)
    job = as_producer.enqueue(NewJob(type="email", run_at=run_at)).job
    assert job.run_at == datetime(2027, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "faults"),
    [
        ({"run_at": later(1), "delay_seconds": 1}, [("delay_seconds", "not_both")]),
        ({"delay_seconds": -1}, [("delay_seconds", "out_of_range")]),
        ({"delay_seconds": 30 * DAY + 1}, [("delay_seconds", "out_of_range")]),
        ({"delay_seconds": 1.5}, [("delay_seconds", "out_of_range")]),
        ({"delay_seconds": True}, [("delay_seconds", "out_of_range")]),
        ({"backoff_seconds": -1}, [("backoff_seconds", "out_of_range")]),
        ({"backoff_seconds": 86_401}, [("backoff_seconds", "out_of_range")]),
    ],
    ids=str,
)
def test_a_schedule_out_of_its_range_is_refused(fields: dict[str, Any], faults: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidJob) as refused:
        NewJob(type="email", **fields)
    assert [(fault.field, fault.code) for fault in refused.value.faults] == faults


@pytest.mark.parametrize("other", [{}, {"delay_seconds": 61}, {"run_at": later(60)}, {"backoff_seconds": 15}], ids=str)
def test_a_schedule_is_part_of_the_request(as_producer: BoundQueue, clock: SteppedClock, other: dict[str, Any]) -> None:
    wanted = NewJob(type="email", delay_seconds=60, idempotency_key="k")
    made = as_producer.enqueue(wanted).job
    clock.advance(seconds=30)
    assert as_producer.enqueue(wanted) == (made, True)
    with pytest.raises(IdempotencyKeyReused):
        as_producer.enqueue(NewJob(type="email", idempotency_key="k", **other))


def test_the_same_moment_in_another_zone_is_the_same_request(as_producer: BoundQueue) -> None:
    elsewhere = later(60).astimezone(timezone(timedelta(hours=-3)))
    as_producer.enqueue(NewJob(type="email", run_at=later(60), idempotency_key="k"))
    assert as_producer.enqueue(NewJob(type="email", run_at=elsewhere, idempotency_key="k")).replayed


def test_the_first_retry_is_immediate_and_then_it_doubles_away(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(NewJob(type="email", max_retries=12))
    waits = []
    for _ in range(12):
        job = as_worker.fail(claim(as_worker).id)
        waits.append((max(job.run_at, clock.now()) - clock.now()).total_seconds())
        clock.advance(seconds=waits[-1])
    assert waits == [0, 15, 45, 105, 225, 465, 945, 1_905, 3_600, 3_600, 3_600, 3_600]


def test_a_retry_that_waits_is_not_claimed_before_it_is_over(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    as_worker.fail(claim(as_worker).id)
    as_worker.fail(claim(as_worker).id)
    clock.advance(seconds=14.999)
    assert as_worker.claim() is None
    clock.advance(seconds=0.001)
    assert claim(as_worker).retry_count == 2


def wait(n: int, backoff: int, cap: int, jitter: float) -> timedelta:
    """The wait before the n-th retry, as the README has it."""
    return timedelta(seconds=min(max(cap, backoff), backoff * (2 ** (n - 1) - 1)) * (1 + jitter))


class Failing:
    """A queue whose jobs fail by one of the ways there are, with any policy and jitter, one file for all of them."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path, network=False, jitter=lambda: self.jitter)
        self.clock = SteppedClock()
        self.jitter = 0.0

    def fail(self, way: str, n: int, policy: Policy, backoff: int | None, jitter: float) -> tuple[Job, datetime]:
        """Fail a job for the n-th time."""
        self.store.policy, self.jitter = policy, jitter
        queue = Queue(self.store)
        made = queue.bound(admin(), self.clock).enqueue(
            NewJob(type="email", max_retries=25, backoff_seconds=backoff, priority=JobPriority.CRITICAL)
        )
        query(self.store._database.path, "UPDATE jobs SET retry_count = ? WHERE id = ?", [n - 1, made.job.id])
        caller = queue.bound(worker(), self.clock)
        job = claim(caller)
        assert job.id == made.job.id
        if way == "fail":
            job = caller.fail(job.id, lease_token=job.lease_token)
        else:
            self.clock.advance(seconds=policy.lease_seconds)
            self.store.sweep(now=self.clock.now(), may_go_on=lambda: True)
            job = caller.queue.get(admin(), job.id)
        failed_at = self.clock.now()
        query(self.store._database.path, "DELETE FROM jobs")
        return job, failed_at


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failing]:
    failing = Failing(tmp_path_factory.mktemp("backoff") / "queue.db")
    yield failing
    failing.store.close()


@pytest.mark.parametrize("way", ["fail", "expire"])
@given(
    n=st.integers(1, 25),
    base=st.none() | st.integers(0, DAY),
    default=st.integers(0, DAY),
    cap=st.integers(0, 10 * DAY),
    jitter=st.floats(0, 1),
)
@example(n=25, base=DAY, default=15, cap=0, jitter=1.0)
@example(n=25, base=None, default=15, cap=10 * DAY, jitter=0.0)
@example(n=2, base=1, default=15, cap=3_600, jitter=0.5)
def test_the_wait_is_the_formula_s_and_the_jitter_comes_after_the_cap(
    failing: Failing, way: str, n: int, base: int | None, default: int, cap: int, jitter: float
) -> None:
    policy = Policy(backoff_seconds=default, backoff_cap_seconds=cap)
    job, failed_at = failing.fail(way, n, policy, base, jitter)
    expected = wait(n, default if base is None else base, cap, 0.2 * jitter)
    assert (job.status, job.retry_count) == (JobStatus.PENDING, n)
    if expected:
        assert abs(job.run_at - (failed_at + expected)) <= timedelta(milliseconds=1)
    else:
        assert job.run_at == job.created_at


def test_jitter_is_drawn_for_each_job_and_makes_a_wait_up_to_a_fifth_longer(path: Path) -> None:
    store = Store(path, network=False)
    clock = SteppedClock()
    everybody = Queue(store).bound(admin(), clock)
    everybody.enqueue_jobs([NewJob(type="email", backoff_seconds=1_000)] * 100)
    for _ in range(2):
        jobs = everybody.claim_jobs(limit=100).jobs
        ended = everybody.finish_jobs([Ending(id=job.id, verb="fail", lease_token=job.lease_token) for job in jobs])
    waits = [(job.run_at - clock.now()).total_seconds() for job in ended if isinstance(job, Job)]
    assert len(waits) == 100
    assert 1_000 <= min(waits) < 1_050
    assert 1_150 < max(waits) <= 1_200
    assert len(set(waits)) > 90
    clock.advance(seconds=1_200)
    everybody.claim_jobs(limit=100, lease_seconds=1)
    clock.advance(seconds=1)
    store.sweep(now=clock.now(), may_go_on=lambda: True)
    waits = [(job.run_at - clock.now()).total_seconds() for job in everybody.list(limit=100).jobs]
    assert 3_000 <= min(waits) < max(waits) <= 3_600
    assert len(set(waits)) > 90
    store.close()


def test_a_job_made_without_a_backoff_keeps_the_default_of_its_time(
    as_producer: BoundQueue, as_worker: BoundQueue
) -> None:
    job = as_producer.enqueue(EMAIL).job
    assert job.backoff_seconds == 15
    assert as_producer.enqueue(NewJob(type="email", backoff_seconds=0)).job.backoff_seconds == 0


@pytest.mark.parametrize("seconds", [0, 1, 30 * DAY])
def test_a_failure_may_say_when_to_retry_and_then_there_is_no_jitter(
    path: Path, clock: SteppedClock, seconds: int
) -> None:
    store = Store(path, network=False, jitter=lambda: 1.0)
    everybody = Queue(store).bound(admin(), clock)
    everybody.enqueue(EMAIL)
    for attempt in (1, 2, 3):
        clock.advance(seconds=100)
        job = everybody.fail(claim(everybody).id, retry_in_seconds=seconds)
        assert job.retry_count == attempt
        assert job.run_at == (clock.now() + timedelta(seconds=seconds) if seconds else job.created_at)
        clock.advance(seconds=seconds)
    assert everybody.fail(claim(everybody).id, retry_in_seconds=seconds).status is JobStatus.FAILED
    store.close()


def test_a_permanent_failure_is_not_retried(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(EMAIL)
    job = as_worker.fail(claim(as_worker).id, error="no such address", permanent=True)
    assert (job.status, job.retry_count, job.max_retries) == (JobStatus.FAILED, 0, 3)
    assert as_worker.claim() is None


@pytest.mark.parametrize(
    ("fields", "faults"),
    [
        ({"retry_in_seconds": -1}, [("retry_in_seconds", "out_of_range")]),
        ({"retry_in_seconds": 2_592_001}, [("retry_in_seconds", "out_of_range")]),
        ({"retry_in_seconds": 0.5}, [("retry_in_seconds", "out_of_range")]),
        ({"retry_in_seconds": 0, "permanent": True}, [("permanent", "not_both")]),
    ],
    ids=str,
)
def test_a_retry_out_of_its_range_is_refused(
    as_producer: BoundQueue, as_worker: BoundQueue, fields: dict[str, Any], faults: list[tuple[str, str]]
) -> None:
    as_producer.enqueue(EMAIL)
    claim(as_worker)
    with pytest.raises(InvalidJob) as refused:
        as_worker.fail(1, **fields)
    assert [(fault.field, fault.code) for fault in refused.value.faults] == faults
    assert as_producer.get(1).status is JobStatus.RUNNING


def test_an_idle_worker_is_told_when_the_next_job_falls_due(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    def told(**options: Any) -> int:
        claimed = as_worker.claim_jobs(**options)
        assert claimed.jobs == ()
        return claimed.retry_after

    assert told() == 20
    as_producer.enqueue(NewJob(type="email", delay_seconds=300))
    assert told() == 20
    as_producer.enqueue(NewJob(type="pdf", delay_seconds=8))
    assert told() == 8
    assert told(types=["email"]) == 20
    clock.advance(seconds=0.001)
    assert told() == 8
    clock.advance(seconds=1)
    assert told(types=["pdf", "email"]) == 7
    clock.advance(seconds=6.9)
    assert told() == 1
    clock.advance(seconds=0.098)
    assert told() == 1
    clock.advance(seconds=0.001)
    assert claim(as_worker).type == "pdf"


def test_an_idle_worker_is_told_when_the_next_lease_ends(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    as_producer.enqueue(NewJob(type="pdf"))
    as_worker.claim(types=["email"], lease_seconds=10)
    as_worker.claim(types=["pdf"], lease_seconds=5)
    assert as_worker.claim_jobs().retry_after == 5
    assert as_worker.claim_jobs(types=["email"]).retry_after == 10
    assert as_worker.claim_jobs(types=["sync"]).retry_after == 20
    clock.advance(seconds=4.5)
    assert as_worker.claim_jobs().retry_after == 1


def test_a_worker_is_told_what_concerns_its_types_alone(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(NewJob(type="email", delay_seconds=3))
    as_producer.enqueue(NewJob(type="pdf"))
    as_worker.claim(types=["pdf"], lease_seconds=4)
    assert queue.bound(worker(types=frozenset({"pdf"})), clock).claim_jobs().retry_after == 4
    assert queue.bound(worker(types=frozenset({"sync"})), clock).claim_jobs().retry_after == 20
    assert queue.bound(worker(types=frozenset()), clock).claim_jobs().retry_after == 20


def test_a_worker_is_told_when_what_it_took_back_is_due_again(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    as_worker.fail(claim(as_worker).id)
    claim(as_worker)
    clock.advance(seconds=60)
    claimed = as_worker.claim_jobs()
    assert (claimed.jobs, claimed.retry_after) == ((), 15)


@pytest.mark.parametrize("count", [1, 50])
def test_delayed_jobs_of_a_higher_priority_do_not_stand_in_the_way(
    as_admin: BoundQueue, as_worker: BoundQueue, count: int
) -> None:
    urgent = NewJob(type="email", priority=JobPriority.CRITICAL, delay_seconds=60)
    as_admin.enqueue_jobs([urgent] * count)
    as_admin.enqueue(NewJob(type="email", priority=JobPriority.LOW))
    assert claim(as_worker).id == count + 1
