from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queuelog import IdempotencyKeyReused, JobStatus, NewJob, Queue, Store
from tests.support import SteppedClock, claim, overtaken, query, token_of, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queuelog import BoundQueue, Job

EMAIL = NewJob(type="email")


def test_the_same_request_id_answers_the_same_job_with_the_same_token_and_counts_no_attempt(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 2)
    held = claim(as_worker, request_id="r")
    clock.advance(seconds=59.999)
    for _ in range(3):
        assert claim(as_worker, request_id="r") == held
    assert (held.attempt, as_producer.get(2).status) == (1, JobStatus.PENDING)
    assert as_worker.complete(held.id, lease_token=held.lease_token).attempt == 1


def test_the_same_request_id_answers_the_same_batch_in_the_same_order(
    as_admin: BoundQueue, as_worker: BoundQueue
) -> None:
    as_admin.enqueue_jobs([NewJob(type=type) for type in ("email", "pdf", "sync", "email")])
    claimed = as_worker.claim_jobs(limit=3, request_id="r")
    assert len(claimed.jobs) == 3
    assert as_worker.claim_jobs(limit=3, request_id="r").jobs == claimed.jobs
    assert as_admin.get(4).status is JobStatus.PENDING


def test_of_a_batch_the_jobs_that_still_run_are_answered(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 4)
    one, two, three = as_worker.claim_jobs(limit=3, request_id="r", lease_seconds=60).jobs
    as_worker.complete(one.id, lease_token=one.lease_token)
    beat = as_worker.heartbeat(two.id, lease_token=token_of(two), lease_seconds=100)
    assert [job.id for job in as_worker.claim_jobs(limit=3, request_id="r", lease_seconds=60).jobs] == [2, 3]
    clock.advance(seconds=60)
    (again,) = as_worker.claim_jobs(limit=3, request_id="r", lease_seconds=60).jobs
    assert (again.id, again.lease_token, again.lease_expires_at) == (2, two.lease_token, beat.lease_expires_at)
    assert as_producer.get(three.id).status is JobStatus.RUNNING
    clock.advance(seconds=40)
    assert [job.id for job in as_worker.claim_jobs(limit=3, request_id="r", lease_seconds=60).jobs] == [2, 3, 4]


@pytest.mark.parametrize(
    "other",
    [
        {"lease_seconds": 61},
        {"lease_seconds": None},
        {"types": ["email", "pdf"]},
        {"types": None},
        {"limit": 2},
    ],
    ids=str,
)
def test_the_same_request_id_with_other_arguments_is_refused(
    as_producer: BoundQueue, as_worker: BoundQueue, other: dict[str, Any]
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 3)
    sent: dict[str, Any] = {"types": ["email"], "lease_seconds": 60, "limit": 1, "request_id": "r"}
    held = as_worker.claim_jobs(**sent).jobs
    with pytest.raises(IdempotencyKeyReused, match="Claim-Request-Id"):
        as_worker.claim_jobs(**sent | other)
    assert as_producer.get(2).status is JobStatus.PENDING
    assert as_worker.claim_jobs(**sent).jobs == held


def test_the_order_of_types_does_not_make_another_request(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker, ["email", "pdf"], request_id="r")
    assert claim(as_worker, {"pdf", "email"}, request_id="r") == held


ENDS: dict[str, Callable[[BoundQueue, str | None], object]] = {
    "complete": lambda caller, token: caller.complete(1, lease_token=token),
    "fail": lambda caller, token: caller.fail(1, lease_token=token),
    "release": lambda caller, token: caller.release(1, lease_token=token),
}


@pytest.mark.parametrize("verb", ENDS)
def test_after_the_attempt_has_ended_it_is_a_new_claim(
    as_producer: BoundQueue, as_worker: BoundQueue, verb: str
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 2)
    held = claim(as_worker, request_id="r")
    ENDS[verb](as_worker, held.lease_token)
    # It may ask for something else, too.
    again = claim(as_worker, request_id="r", lease_seconds=7)
    assert again.id == (2 if verb == "complete" else 1)
    assert again.lease_token != held.lease_token
    assert claim(as_worker, request_id="r", lease_seconds=7) == again


def test_after_the_lease_has_ended_it_is_a_new_claim(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker, request_id="r")
    clock.advance(seconds=60)
    again = claim(as_worker, request_id="r")
    assert (again.id, again.attempt, again.lease_expiries) == (held.id, 2, 1)
    assert again.lease_token != held.lease_token
    assert claim(as_worker, request_id="r") == again


def test_after_an_empty_claim_it_is_a_new_claim(as_producer: BoundQueue, as_worker: BoundQueue, path: Path) -> None:
    assert as_worker.claim(request_id="r") is None
    as_producer.enqueue(EMAIL)
    assert claim(as_worker, request_id="r", lease_seconds=5).id == 1


def test_a_request_id_belongs_to_its_worker(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 3)
    sessions = [queue.bound(worker("1:role/Mail", worker_id=f"1:role/Mail/{each}"), clock) for each in "ab"]
    held = [claim(caller, request_id="r") for caller in (as_worker, *sessions)]
    assert [job.id for job in held] == [1, 2, 3]
    assert [claim(caller, request_id="r") for caller in (as_worker, *sessions)] == held


def test_request_ids_are_texts_and_not_patterns(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue_jobs([EMAIL] * 5)
    assert [claim(as_worker, request_id=each).id for each in ("r", "R", "r ", "%", "é")] == [1, 2, 3, 4, 5]


def test_without_a_request_id_every_claim_is_a_new_one(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue_jobs([EMAIL] * 2)
    assert [claim(as_worker).id for _ in range(2)] == [1, 2]


def test_a_repeated_claim_of_a_held_job_takes_back_nothing_and_writes_nothing(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path, clock: SteppedClock
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 2)
    claim(as_worker)
    clock.advance(seconds=30)
    held = claim(as_worker, request_id="r")
    clock.advance(seconds=40)
    before = query(path, "SELECT * FROM jobs")
    assert claim(as_worker, request_id="r") == held
    assert query(path, "SELECT * FROM jobs") == before


def test_the_token_is_kept_as_long_as_it_may_be_asked_for_again(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker, request_id="r")
    assert query(path, "SELECT lease_token, claim_request_id FROM jobs") == [(held.lease_token, "r")]
    as_worker.complete(held.id, lease_token=held.lease_token)
    assert query(path, "SELECT lease_token, claim_request_id, claim_fingerprint FROM jobs") == [(None, None, None)]


def test_two_that_ask_at_the_same_moment_get_the_same_job(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path, network: bool, clock: SteppedClock
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 2)
    store = Store(path, network=network)
    first: list[Job] = []
    overtaken(store).meanwhile = lambda: first.append(claim(as_worker, request_id="r"))
    second = claim(Queue(store).bound(worker(), clock), request_id="r")
    assert [second] == first
    assert as_producer.get(2).status is JobStatus.PENDING
    store.close()


def test_a_claim_that_finds_its_job_taken_when_it_has_the_lock_takes_the_next_or_none(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path, network: bool, clock: SteppedClock
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 3)
    store = Store(path, network=network)
    database, other = overtaken(store), Queue(store).bound(worker("other"), clock)
    database.meanwhile = lambda: claim(as_worker)
    assert claim(other).id == 2
    database.meanwhile = lambda: claim(as_worker, lease_seconds=7)
    assert other.claim_jobs(limit=5) == ((), 7)
    store.close()
