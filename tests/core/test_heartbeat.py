from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from queuelog import Beat, InvalidJob, InvalidRequest, JobStatus, LeaseLost, NewJob, Store
from tests.support import SteppedClock, claim, overtaken, query, token_of, worker

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue, Job, Queue

EMAIL = NewJob(type="email")


@pytest.fixture
def held(as_producer: BoundQueue, as_worker: BoundQueue) -> Job:
    """A job that the worker holds for ten seconds."""
    as_producer.enqueue(EMAIL)
    return claim(as_worker, lease_seconds=10)


def in_seconds(clock: SteppedClock, seconds: float) -> Any:
    return clock.now() + timedelta(seconds=seconds)


def test_a_heartbeat_holds_the_job_for_as_long_again_as_the_claim_did(
    held: Job, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    clock.advance(seconds=7.5)
    beat = as_worker.heartbeat(held.id, lease_token=token_of(held))
    assert (beat.lease_expires_at, beat.cancel_requested, beat.server_time) == (
        in_seconds(clock, 10),
        False,
        clock.now(),
    )
    assert as_worker.get(held.id).lease_expires_at == beat.lease_expires_at
    clock.advance(seconds=9.999)
    assert as_worker.claim() is None
    clock.advance(seconds=0.001)
    assert claim(as_worker).attempt == 2


def test_a_heartbeat_may_ask_for_another_length_which_counts_from_now_and_for_this_once(
    held: Job, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    clock.advance(seconds=5)
    beat = as_worker.heartbeat(held.id, lease_token=token_of(held), lease_seconds=100)
    assert beat.lease_expires_at == in_seconds(clock, 100)
    clock.advance(seconds=99)
    beat = as_worker.heartbeat(held.id, lease_token=token_of(held))
    assert beat.lease_expires_at == in_seconds(clock, 10)


@pytest.mark.parametrize("seconds", [1, 4, None])
def test_a_heartbeat_never_shortens_a_lease(
    held: Job, as_worker: BoundQueue, clock: SteppedClock, seconds: int | None
) -> None:
    end = as_worker.heartbeat(held.id, lease_token=token_of(held), lease_seconds=1_000).lease_expires_at
    clock.advance(seconds=1)
    beat = as_worker.heartbeat(held.id, lease_token=token_of(held), lease_seconds=seconds)
    assert beat.lease_expires_at == end
    assert as_worker.get(held.id).lease_expires_at == end


def test_a_clock_that_goes_back_does_not_shorten_a_lease(held: Job, as_worker: BoundQueue, clock: SteppedClock) -> None:
    clock.advance(seconds=-30)
    beat = as_worker.heartbeat(held.id, lease_token=token_of(held))
    assert beat.lease_expires_at == held.lease_expires_at


@pytest.mark.parametrize("seconds", [1, 43_200])
def test_the_longest_lease_and_the_shortest(
    held: Job, as_worker: BoundQueue, clock: SteppedClock, seconds: int
) -> None:
    clock.advance(seconds=10)
    beat = as_worker.heartbeat(held.id, lease_token=token_of(held), lease_seconds=seconds)
    assert beat.lease_expires_at == in_seconds(clock, seconds)


@pytest.mark.parametrize("seconds", [0, -1, 43_201, 1.5, True, "60"])
def test_no_other_length_is_taken(held: Job, as_worker: BoundQueue, seconds: Any) -> None:
    with pytest.raises(InvalidJob) as refused:
        as_worker.heartbeat(held.id, lease_token=token_of(held), lease_seconds=seconds)
    assert [(fault.field, fault.code) for fault in refused.value.faults] == [("lease_seconds", "out_of_range")]


def test_a_lease_that_has_ended_is_revived_unless_it_was_taken_back(
    held: Job, queue: Queue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    clock.advance(seconds=3_600)
    beat = as_worker.heartbeat(held.id, lease_token=token_of(held))
    assert beat.lease_expires_at == in_seconds(clock, 10)
    other = queue.bound(worker("other"), clock)
    assert other.claim() is None
    job = as_worker.get(held.id)
    assert (job.attempt, job.lease_expiries, job.worker_id) == (1, 0, "worker")
    clock.advance(seconds=10)
    claim(other)
    with pytest.raises(LeaseLost):
        as_worker.heartbeat(held.id, lease_token=token_of(held))


def test_a_sweep_leaves_a_lease_that_was_revived_after_it_had_looked(
    held: Job, as_worker: BoundQueue, path: Path, network: bool, clock: SteppedClock
) -> None:
    clock.advance(seconds=60)
    store = Store(path, network=network)
    database = overtaken(store)
    database.meanwhile = lambda: as_worker.heartbeat(held.id, lease_token=token_of(held))
    assert store.sweep(now=clock.now(), may_go_on=lambda: True) == (0, 0, True)
    assert database.meanwhile is None
    job = as_worker.get(held.id)
    assert (job.status, job.lease_expires_at) == (JobStatus.RUNNING, in_seconds(clock, 10))
    store.close()


def test_a_heartbeat_learns_that_the_job_is_to_be_cancelled(
    held: Job, as_producer: BoundQueue, as_worker: BoundQueue
) -> None:
    assert not as_worker.heartbeat(held.id, lease_token=token_of(held)).cancel_requested
    as_producer.cancel(held.id)
    for _ in range(2):
        assert as_worker.heartbeat(held.id, lease_token=token_of(held)).cancel_requested


def test_the_last_word_on_progress_is_kept(held: Job, as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    assert held.progress is None
    said: list[dict[str, Any]] = [{"done": 1, "of": 3}, {"text": 'é\0"\\🂡', "deep": [{"a": [None, 1.5]}]}, {}]
    for progress in said:
        as_worker.heartbeat(held.id, lease_token=token_of(held), progress=progress)
        assert as_producer.get(held.id).progress == progress
        as_worker.heartbeat(held.id, lease_token=token_of(held))
        assert as_producer.get(held.id).progress == progress


def test_progress_may_take_4_096_bytes_of_json(held: Job, as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    room = 4_096 - len('{"a":""}')
    for letter, size in (("x", 1), ("é", 2)):
        fits = {"a": letter * (room // size)}
        as_worker.heartbeat(held.id, lease_token=token_of(held), progress=fits)
        with pytest.raises(InvalidJob) as refused:
            as_worker.heartbeat(held.id, lease_token=token_of(held), progress={"a": letter * (room // size + 1)})
        assert [(fault.field, fault.code) for fault in refused.value.faults] == [("progress", "too_large")]
        assert as_producer.get(held.id).progress == fits


def test_progress_stays_when_the_attempt_ends(held: Job, as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_worker.heartbeat(held.id, lease_token=token_of(held), progress={"done": 1})
    assert as_worker.fail(held.id).progress == {"done": 1}
    assert as_worker.complete(claim(as_worker).id).progress == {"done": 1}


def test_a_heartbeat_changes_nothing_else(held: Job, as_worker: BoundQueue, path: Path, clock: SteppedClock) -> None:
    def others() -> list[Any]:
        changing = {"lease_expires_at", "progress"}
        names = [name for (name,) in query(path, "SELECT name FROM pragma_table_info('jobs')") if name not in changing]
        return query(path, f"SELECT {', '.join(names)} FROM jobs")

    before = others()
    clock.advance(seconds=5)
    as_worker.heartbeat(held.id, lease_token=token_of(held), progress={"done": 1}, lease_seconds=77)
    assert others() == before


def test_many_leases_are_held_at_once_and_each_gets_its_own_answer(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 4)
    jobs = as_worker.claim_jobs(limit=4, lease_seconds=10).jobs
    as_producer.cancel(jobs[2].id)
    as_worker.complete(jobs[1].id)
    clock.advance(seconds=9)
    answers = as_worker.heartbeat_jobs(
        [
            Beat(id=jobs[3].id, lease_token=token_of(jobs[3]), lease_seconds=100),
            Beat(id=jobs[1].id, lease_token=token_of(jobs[1])),
            Beat(id=jobs[0].id, lease_token=token_of(jobs[3])),
            Beat(id=jobs[2].id, lease_token=token_of(jobs[2]), progress={"a": 1}),
            Beat(id=99, lease_token="x"),
            Beat(id=jobs[3].id, lease_token="x"),
        ]
    )
    seen = [None if isinstance(each, LeaseLost) else (each.lease_expires_at, each.cancel_requested) for each in answers]
    lost = None
    assert seen == [(in_seconds(clock, 100), False), lost, lost, (in_seconds(clock, 10), True), lost, lost]
    assert as_producer.get(jobs[0].id).lease_expires_at == jobs[0].lease_expires_at
    assert as_producer.get(jobs[2].id).progress == {"a": 1}


@pytest.mark.parametrize("count", [0, 101])
def test_a_batch_has_1_to_100_heartbeats(as_worker: BoundQueue, count: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        as_worker.heartbeat_jobs([Beat(id=1, lease_token="x")] * count)
    assert [(fault.field, fault.code) for fault in refused.value.faults] == [("jobs", "out_of_range")]
    assert len(as_worker.heartbeat_jobs([Beat(id=1, lease_token="x")] * 100)) == 100
