from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuelog import Beat, Conflict, Ending, Heartbeat, Job, JobStatus, LeaseLost, NewJob
from tests.support import SteppedClock, claim, producer, query, token_of, without_token, worker

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue, Queue

EMAIL = NewJob(type="email")
ENDINGS = ["complete", "fail", "release"]
#: The status that each verb leaves, of a job with retries left.
STATUS_AFTER = {"complete": JobStatus.COMPLETED, "fail": JobStatus.PENDING, "release": JobStatus.PENDING}


def end(caller: BoundQueue, verb: str, id: int, lease_token: str | None = None, error: str | None = None) -> Job:
    job = caller.finish_jobs([Ending(id=id, verb=verb, lease_token=lease_token, error=error)])[0]
    if isinstance(job, Conflict):
        raise job
    return job


def lost(caller: BoundQueue, id: int, lease_token: str) -> bool:
    """Say whether every verb that takes a token finds the lease lost, singly and in a batch."""
    endings = [Ending(id=id, verb=verb, lease_token=lease_token) for verb in ENDINGS]
    outcomes: list[Job | Conflict | Heartbeat] = [*caller.finish_jobs(endings)]
    outcomes += caller.heartbeat_jobs([Beat(id=id, lease_token=lease_token)])
    return {type(outcome) for outcome in outcomes} == {LeaseLost}


def test_every_claim_has_a_token_of_its_own(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue_jobs([EMAIL] * 30)
    tokens = {token_of(claim(as_worker)) for _ in range(10)}
    tokens |= {token_of(job) for job in as_worker.claim_jobs(limit=20).jobs}
    as_worker.release(1)
    tokens.add(token_of(claim(as_worker)))
    assert len(tokens) == 31


def test_a_token_tells_two_processes_on_one_key_apart(
    queue: Queue, as_producer: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    one, two = queue.bound(worker("key"), clock), queue.bound(worker("key"), clock)
    first = claim(one)
    clock.advance(seconds=60)
    second = claim(two)
    assert (second.id, second.worker_id) == (first.id, first.worker_id)
    assert lost(one, first.id, token_of(first))
    assert as_producer.get(first.id) == without_token(second)
    assert two.complete(second.id, lease_token=second.lease_token).status is JobStatus.COMPLETED
    with pytest.raises(LeaseLost):
        one.fail(first.id, lease_token=first.lease_token)


NOBODYS = ["x", " ", "null", "0", "\0", "é🂡", "\ud800", "'; DROP TABLE jobs --", "x" * 255, "0" * 64]


@pytest.mark.parametrize("token", NOBODYS, ids=ascii)
def test_a_token_that_is_nobody_s_is_a_lost_lease_whatever_its_text(
    as_producer: BoundQueue, as_worker: BoundQueue, token: str
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 4)
    as_worker.complete(claim(as_worker).id)
    as_worker.fail(claim(as_worker).id, permanent=True)
    held = without_token(claim(as_worker))
    for id in (1, 2, held.id, 4, 5, 2**53 - 1):
        assert lost(as_worker, id, token)
    assert as_producer.get(held.id) == held
    assert as_producer.get(4).status is JobStatus.PENDING


def test_another_job_s_token_or_its_hash_does_not_open_this_one(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 2)
    one, two = claim(as_worker), claim(as_worker)
    assert lost(as_worker, two.id, token_of(one))
    ((sha256,),) = query(path, "SELECT lease_token_sha256 FROM jobs WHERE id = 1")
    assert lost(as_worker, one.id, sha256)
    assert lost(as_worker, one.id, token_of(one) + "\n")
    assert [as_producer.get(id).status for id in (1, 2)] == [JobStatus.RUNNING] * 2


def test_an_earlier_attempt_s_token_does_not_open_the_running_one(
    as_producer: BoundQueue, as_worker: BoundQueue
) -> None:
    as_producer.enqueue(EMAIL)
    earlier = claim(as_worker)
    as_worker.release(earlier.id)
    held = claim(as_worker)
    for verb in ("complete", "fail"):
        with pytest.raises(Conflict):
            end(as_worker, verb, held.id, earlier.lease_token)
    with pytest.raises(LeaseLost):
        as_worker.heartbeat(held.id, lease_token=token_of(earlier))
    assert as_producer.get(held.id) == without_token(held)


def test_a_token_is_of_use_to_the_worker_that_it_was_given_to(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    thief = queue.bound(worker("thief"), clock)
    assert lost(thief, held.id, token_of(held))
    assert as_producer.get(held.id) == without_token(held)
    as_worker.complete(held.id, lease_token=held.lease_token)
    assert lost(thief, held.id, token_of(held))


def test_a_token_counts_for_nothing_with_a_role_that_does_not_work(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    with pytest.raises(Exception, match="This needs the role admin or worker"):
        queue.bound(producer("worker")).complete(held.id, lease_token=held.lease_token)


@pytest.mark.parametrize("verb", ENDINGS)
def test_the_same_verb_again_finds_the_job_as_it_is_now(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, verb: str
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    ended = end(as_worker, verb, held.id, held.lease_token, error="first")
    assert ended.status is STATUS_AFTER[verb]
    clock.advance(seconds=3_600)
    for _ in range(3):
        assert end(as_worker, verb, held.id, held.lease_token, error="second") == ended
    assert as_producer.get(held.id) == ended


@pytest.mark.parametrize("verb", ["fail", "release"])
def test_the_same_verb_again_finds_the_job_that_was_claimed_again_and_changes_nothing(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock, verb: str
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    end(as_worker, verb, held.id, held.lease_token)
    other = queue.bound(worker("other"), clock)
    theirs = claim(other)
    assert end(as_worker, verb, held.id, held.lease_token) == without_token(theirs)
    assert other.complete(held.id, lease_token=theirs.lease_token).status is JobStatus.COMPLETED
    assert end(as_worker, verb, held.id, held.lease_token).status is JobStatus.COMPLETED


@pytest.mark.parametrize("second", ENDINGS)
@pytest.mark.parametrize("first", ENDINGS)
def test_another_verb_for_an_attempt_that_ended_is_a_conflict(
    as_producer: BoundQueue, as_worker: BoundQueue, first: str, second: str
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    ended = end(as_worker, first, held.id, held.lease_token)
    if second == first:
        assert end(as_worker, second, held.id, held.lease_token) == ended
    else:
        with pytest.raises(Conflict, match=f"already ended by {first}") as refused:
            end(as_worker, second, held.id, held.lease_token)
        assert type(refused.value) is Conflict
    assert as_producer.get(held.id) == ended


@pytest.mark.parametrize("verb", ENDINGS)
def test_a_heartbeat_for_an_attempt_that_ended_is_a_lost_lease(
    as_producer: BoundQueue, as_worker: BoundQueue, verb: str
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    end(as_worker, verb, held.id, held.lease_token)
    with pytest.raises(LeaseLost):
        as_worker.heartbeat(held.id, lease_token=token_of(held))


@pytest.mark.parametrize("verb", ENDINGS)
def test_a_repeat_without_a_token_is_a_conflict_as_before(
    as_producer: BoundQueue, as_worker: BoundQueue, verb: str
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    end(as_worker, verb, held.id)
    with pytest.raises(Conflict) as refused:
        end(as_worker, verb, held.id)
    assert type(refused.value) is Conflict
    # The attempt keeps its token, so that a worker that learns it from a repeated claim may still use it.
    assert end(as_worker, verb, held.id, held.lease_token).id == held.id


def test_a_repeat_after_the_last_retry_finds_the_failed_job(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue(NewJob(type="email", max_retries=0))
    held = claim(as_worker)
    failed = as_worker.fail(held.id, lease_token=held.lease_token, error="boom")
    assert failed.status is JobStatus.FAILED
    assert as_worker.fail(held.id, lease_token=held.lease_token, error="boom") == failed


def test_a_repeat_after_an_admin_s_retry_finds_the_waiting_job(as_admin: BoundQueue, as_worker: BoundQueue) -> None:
    as_admin.enqueue(EMAIL)
    held = claim(as_worker)
    as_worker.fail(held.id, lease_token=held.lease_token, permanent=True)
    waiting = as_admin.retry(held.id)
    assert as_worker.fail(held.id, lease_token=held.lease_token, permanent=True) == waiting
    # What fences is the token: the counter that the retry set back has no part in it.
    again = claim(as_worker)
    assert again.retry_count == held.retry_count
    with pytest.raises(Conflict):
        as_worker.complete(held.id, lease_token=held.lease_token)
    assert as_admin.get(held.id) == without_token(again)


def test_a_repeat_after_a_cancelled_attempt_finds_the_cancelled_job(
    as_producer: BoundQueue, as_worker: BoundQueue
) -> None:
    for verb in ("fail", "release"):
        made = as_producer.enqueue(EMAIL).job
        held = claim(as_worker)
        as_producer.cancel(made.id)
        cancelled = end(as_worker, verb, made.id, held.lease_token)
        assert cancelled.status is JobStatus.CANCELLED
        assert end(as_worker, verb, made.id, held.lease_token) == cancelled


def test_tokens_of_a_job_that_retention_has_deleted_are_nobody_s(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue(EMAIL)
    held = claim(as_worker)
    as_worker.complete(held.id, lease_token=held.lease_token)
    clock.advance(seconds=8 * 86_400)
    as_worker.queue._store.sweep(now=clock.now(), may_go_on=lambda: True)
    assert lost(as_worker, held.id, token_of(held))
