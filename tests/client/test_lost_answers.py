"""What a client does when requests and answers get lost: everything happens once, and it says what it doesn't know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuelog_client import (
    Beat,
    Conflict,
    Ending,
    Heartbeat,
    Job,
    JobStatus,
    LeaseLost,
    NewJob,
    NoAnswer,
    StorageBusy,
    StorageUnavailable,
    TooManyRequests,
)
from tests.client.support import LOSE_ANSWER, LOSE_REQUEST, Told, Waits, Wire, problem
from tests.support import run_python

if TYPE_CHECKING:
    from tests.client.support import Stack

EMAIL = NewJob(type="email")
LOST = [LOSE_ANSWER, LOSE_REQUEST]


@pytest.mark.parametrize("lost", LOST)
def test_a_job_is_enqueued_once_though_nobody_gave_it_a_key(stack: Stack, wire: Wire, lost: str) -> None:
    wire.plan.extend([lost, LOSE_ANSWER])
    enqueued = wire.client(stack.api.keys["producer"]).enqueue(EMAIL)
    # The second try is the third's first.
    assert (enqueued.job.id, enqueued.replayed) == (1, True)
    assert len(wire.sent) == 3
    assert len({sent.body for sent in wire.sent}) == 1
    assert len(list(stack.admin.iterate())) == 1


def test_a_batch_is_enqueued_once(stack: Stack, wire: Wire) -> None:
    wire.plan.extend([LOSE_ANSWER])
    enqueued = wire.client(stack.api.keys["producer"]).enqueue_jobs([EMAIL] * 3)
    assert [each.job.id for each in enqueued] == [1, 2, 3]
    assert len(list(stack.admin.iterate())) == 3


@pytest.mark.parametrize("lost", LOST)
def test_a_claim_gives_the_jobs_that_its_lost_answer_held(stack: Stack, wire: Wire, lost: str) -> None:
    stack.producer.enqueue_jobs([EMAIL] * 4)
    worker = wire.client(stack.api.keys["worker"])
    wire.plan.extend([lost])
    jobs = worker.claim_jobs(limit=2).jobs
    assert [(job.id, job.attempt) for job in jobs] == [(1, 1), (2, 1)]
    wire.plan.extend([lost])
    job = worker.claim()
    assert job is not None
    assert (job.id, job.attempt) == (3, 1)
    ids = [sent.headers["Claim-Request-Id"] for sent in wire.sent]
    assert (ids[0], ids[2]) == (ids[1], ids[3])
    assert ids[0] != ids[2]
    worker.complete(job.id, lease_token=job.lease_token)


@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
@pytest.mark.parametrize("lost", LOST)
def test_an_attempt_ends_once(stack: Stack, wire: Wire, verb: str, lost: str) -> None:
    stack.producer.enqueue(EMAIL)
    (held,) = stack.worker.claim_jobs().jobs
    wire.plan.extend([lost, lost])
    worker = wire.client(stack.api.keys["worker"])
    done: Job = getattr(worker, verb)(held.id, lease_token=held.lease_token)
    assert done.attempt == 1
    (attempt,) = stack.admin.attempts(1)
    assert attempt.outcome == {"complete": "completed", "fail": "failed", "release": "released"}[verb]
    assert stack.admin.get(1).retry_count == (verb == "fail")


def test_several_attempts_end_once(stack: Stack, wire: Wire) -> None:
    stack.producer.enqueue_jobs([EMAIL] * 3)
    held = stack.worker.claim_jobs(limit=3).jobs
    verbs = ["complete", "fail", "release"]
    wire.plan.append(LOSE_ANSWER)
    answers = wire.client(stack.api.keys["worker"]).finish_jobs(
        [Ending(id=job.id, verb=verb, lease_token=job.lease_token) for job, verb in zip(held, verbs, strict=True)]
    )
    assert all(isinstance(each, Job) for each in answers)
    assert [each.outcome for job in held for each in stack.admin.attempts(job.id)] == [
        "completed",
        "failed",
        "released",
    ]


def test_a_repeat_that_comes_after_the_lease_was_taken_back_is_told_so(stack: Stack, wire: Wire) -> None:
    stack.producer.enqueue(EMAIL)
    (held,) = stack.worker.claim_jobs(lease_seconds=10).jobs
    wire.plan.extend([LOSE_REQUEST])
    stack.clock.advance(seconds=10)
    assert stack.worker.claim() is not None
    with pytest.raises(LeaseLost):
        wire.client(stack.api.keys["worker"]).complete(held.id, lease_token=held.lease_token)


def test_a_heartbeat_is_sent_again(stack: Stack, wire: Wire) -> None:
    stack.producer.enqueue(EMAIL)
    (held,) = stack.worker.claim_jobs().jobs
    wire.plan.extend([LOSE_ANSWER, LOSE_REQUEST])
    beats = wire.client(stack.api.keys["worker"]).heartbeat_jobs([Beat(id=1, lease_token=str(held.lease_token))])
    assert isinstance(beats[0], Heartbeat)


def test_a_cancel_whose_answer_was_lost_is_no_conflict(stack: Stack, wire: Wire) -> None:
    stack.producer.enqueue_jobs([EMAIL] * 2)
    producer = wire.client(stack.api.keys["producer"])
    wire.plan.extend([LOSE_ANSWER])
    assert producer.cancel(1).status is JobStatus.CANCELLED
    # One that had ended before stays one.
    with pytest.raises(Conflict):
        producer.cancel(1)
    stack.worker.complete(2, lease_token=stack.worker.claim_jobs().jobs[0].lease_token)
    wire.plan.extend([LOSE_ANSWER])
    with pytest.raises(Conflict):
        producer.cancel(2)


def test_a_retry_whose_answer_was_lost_is_no_conflict(stack: Stack, wire: Wire) -> None:
    stack.producer.enqueue(EMAIL)
    stack.producer.cancel(1)
    wire.plan.extend([LOSE_ANSWER])
    job = wire.client(stack.api.keys["admin"]).retry(1)
    assert (job.status, job.replays) == (JobStatus.PENDING, 1)


def test_a_retry_of_many_is_not_repeated_when_it_may_have_been_carried_out(stack: Stack, wire: Wire) -> None:
    stack.producer.enqueue_jobs([EMAIL] * 4)
    for id in range(1, 5):
        stack.producer.cancel(id)
    admin = wire.client(stack.api.keys["admin"])
    busy = Told(503, problem(503, "storage-busy"), {"Retry-After": "2"})
    wire.plan.extend([busy, LOSE_ANSWER])
    with pytest.raises(NoAnswer) as lost:
        admin.retry_jobs(status=JobStatus.CANCELLED, limit=2)
    assert not lost.value.nothing_done
    assert len(wire.sent) == 2
    assert len(list(stack.admin.iterate(status=JobStatus.PENDING))) == 2
    wire.plan.extend([LOSE_ANSWER])
    assert admin.retry_jobs(status=JobStatus.CANCELLED, limit=2, dry_run=True) == (3, 4)


def test_a_busy_queue_is_asked_again_after_the_pause_that_it_wants(alone: Wire) -> None:
    waits = Waits()
    client = alone.client(retries=waits.retries())
    alone.plan.extend(
        [
            Told(503, problem(503, "storage-busy"), {"Retry-After": "2"}),
            Told(429, problem(429, "too-many-requests"), {"Retry-After": "1"}),
            Told(503, problem(503, "storage-unavailable"), {"Retry-After": "10"}),
            Told(500, problem(500, "internal-error")),
            Told(502, "a load balancer's page"),
            Told(200, {"jobs": [], "next_cursor": None}),
        ]
    )
    assert client.list() == ((), None)
    # These dice always fall on nothing, so what is left is what was asked for.
    assert waits.slept == [2.0, 1.0, 10.0, 0.0, 0.0]


def test_the_random_part_of_a_pause_doubles_up_to_an_end_and_comes_on_top(alone: Wire) -> None:
    waits = Waits()
    client = alone.client(retries=waits.retries(count=9, seconds=1_000, dice=1.0))
    alone.plan.extend([Told(503, problem(503, "storage-busy"), {"Retry-After": "2"})] * 10)
    with pytest.raises(StorageBusy):
        client.stats()
    assert waits.slept == [2 + wait for wait in (0.25, 0.5, 1, 2, 4, 8, 16, 20, 20)]


def test_repeats_end_by_their_number(alone: Wire) -> None:
    waits = Waits()
    alone.plan.extend([Told(429, problem(429, "too-many-requests"), {"Retry-After": "1"})] * 9)
    with pytest.raises(TooManyRequests) as refused:
        alone.client(retries=waits.retries(count=3)).stats()
    assert len(alone.sent) == 4
    assert refused.value.retry_after == 1


def test_a_pause_that_would_take_too_long_is_not_begun(alone: Wire) -> None:
    waits = Waits()
    alone.plan.extend([Told(503, problem(503, "storage-unavailable"), {"Retry-After": "10"})] * 9)
    with pytest.raises(StorageUnavailable):
        alone.client(retries=waits.retries(seconds=29)).stats()
    assert waits.slept == [10.0, 10.0]


def test_what_is_refused_is_not_asked_again(alone: Wire) -> None:
    alone.plan.extend([Told(409, problem(409, "conflict"))])
    with pytest.raises(Conflict):
        alone.client().complete(1, lease_token="t")
    assert len(alone.sent) == 1


def test_a_host_that_nobody_listens_on_is_no_answer_and_nothing_was_done() -> None:
    with Wire(None) as gone:
        client = gone.client()
    with pytest.raises(NoAnswer) as lost:
        client.stats()
    assert lost.value.nothing_done
    assert gone.sent == []


FORK = """
import os, sys
from queuelog_client import JobStatus, QueueClient, Retries

client = QueueClient(sys.argv[1], api_key=sys.argv[2], retries=Retries(count=0))
client.get(1)
child = os.fork()
mine = 2 if child else 1
for _ in range(30):
    assert client.get(mine).id == mine
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("both")
"""


def test_a_fork_opens_connections_of_its_own(stack: Stack) -> None:
    stack.producer.enqueue_jobs([EMAIL] * 2)
    # Over one connection each would read the other's answers.
    with Wire(stack.api.url) as wire:
        assert run_python(FORK, wire.url, stack.api.keys["admin"]) == "both\n"
