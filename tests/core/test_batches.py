from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from queuelog import (
    Beat,
    Conflict,
    Ending,
    Forbidden,
    IdempotencyKeyReused,
    InvalidRequest,
    Job,
    JobPriority,
    JobStatus,
    LeaseLost,
    NewJob,
    Role,
)
from queuelog.page import MAX_PAGE_BYTES
from tests.support import SteppedClock, add_jobs, admin, claim, producer, query, token_of, without_token, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queuelog import BoundQueue, Queue, Store

LOW, MEDIUM, HIGH, CRITICAL = JobPriority
EMAIL = NewJob(type="email")


def faults_of(refused: pytest.ExceptionInfo[Any]) -> list[tuple[str, str]]:
    return [(fault.field, fault.code) for fault in refused.value.faults]


def test_a_batch_is_enqueued_in_its_order(as_admin: BoundQueue) -> None:
    wanted = [
        NewJob(type=f"type-{n}", payload={"n": n, "text": "é\0"}, priority=list(JobPriority)[n % 4], delay_seconds=n)
        for n in range(100)
    ]
    made = as_admin.enqueue_jobs(wanted)
    assert [each.job.id for each in made] == list(range(1, 101))
    assert [(each.job.type, each.job.payload, each.job.priority) for each in made] == [
        (new.type, new.payload, new.priority) for new in wanted
    ]
    assert not any(each.replayed for each in made)
    assert [as_admin.get(each.job.id) for each in made] == [each.job for each in made]


@pytest.mark.parametrize("count", [0, 101])
def test_a_batch_has_1_to_100_jobs(as_producer: BoundQueue, as_worker: BoundQueue, count: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        as_producer.enqueue_jobs([EMAIL] * count)
    assert faults_of(refused) == [("jobs", "out_of_range")]
    with pytest.raises(InvalidRequest) as refused:
        as_worker.finish_jobs([Ending(id=1, verb="complete")] * count)
    assert faults_of(refused) == [("jobs", "out_of_range")]
    with pytest.raises(InvalidRequest) as refused:
        as_worker.claim_jobs(limit=count)
    assert faults_of(refused) == [("limit", "out_of_range")]
    assert as_producer.list().jobs == ()


def test_a_key_that_comes_twice_makes_one_job_and_the_second_is_its_replay(as_producer: BoundQueue) -> None:
    keyed = NewJob(type="email", idempotency_key="k")
    other = NewJob(type="pdf", idempotency_key="l")
    answers = as_producer.enqueue_jobs([keyed, EMAIL, keyed, other, EMAIL, keyed])
    assert [(each.job.id, each.replayed) for each in answers] == [
        (1, False),
        (2, False),
        (1, True),
        (3, False),
        (4, False),
        (1, True),
    ]
    assert answers[2].job == answers[0].job


def test_a_batch_that_comes_again_is_replayed_as_the_jobs_are_now(
    as_producer: BoundQueue, as_worker: BoundQueue
) -> None:
    batch = [NewJob(type="email", idempotency_key=str(n)) for n in range(5)]
    as_producer.enqueue_jobs(batch[:3])
    done = as_worker.complete(claim(as_worker).id)
    answers = as_producer.enqueue_jobs(batch)
    assert [(each.job.id, each.replayed) for each in answers] == [
        (1, True),
        (2, True),
        (3, True),
        (4, False),
        (5, False),
    ]
    assert answers[0].job == done
    assert all(each.replayed for each in as_producer.enqueue_jobs(batch))
    assert len(as_producer.list().jobs) == 5


def test_a_key_that_was_used_for_another_request_refuses_the_whole_batch_and_says_where(
    as_producer: BoundQueue,
) -> None:
    as_producer.enqueue(NewJob(type="email", idempotency_key="known"))
    new = [
        EMAIL,
        NewJob(type="pdf", idempotency_key="known"),
        NewJob(type="email", idempotency_key="twice"),
        NewJob(type="pdf", idempotency_key="twice"),
        NewJob(type="email", idempotency_key="known"),
    ]
    with pytest.raises(IdempotencyKeyReused) as refused:
        as_producer.enqueue_jobs(new)
    assert faults_of(refused) == [("jobs[1].idempotency_key", "key_reused"), ("jobs[3].idempotency_key", "key_reused")]
    assert len(as_producer.list().jobs) == 1
    # A refused batch has used up no key.
    assert not as_producer.enqueue(new[3]).replayed


def test_a_job_above_the_caller_s_rights_refuses_the_whole_batch_and_every_such_job_is_named(
    queue: Queue, as_admin: BoundQueue
) -> None:
    caller = queue.bound(producer(types=frozenset({"email", "pdf"})))
    batch = [
        EMAIL,
        NewJob(type="sync"),
        NewJob(type="pdf", priority=HIGH),
        NewJob(type="sync", priority=CRITICAL),
        EMAIL,
    ]
    with pytest.raises(Forbidden) as refused:
        caller.enqueue_jobs(batch)
    assert faults_of(refused) == [
        ("jobs[1].type", "forbidden"),
        ("jobs[2].priority", "forbidden"),
        ("jobs[3].type", "forbidden"),
        ("jobs[3].priority", "forbidden"),
    ]
    assert as_admin.list().jobs == ()


def test_a_batch_of_one_names_its_job_as_well_and_a_job_alone_has_no_index(queue: Queue) -> None:
    caller = queue.bound(producer(types=frozenset({"email"})))
    caller.enqueue(NewJob(type="email", idempotency_key="k"))
    refusals = {
        "jobs[0].type": NewJob(type="pdf"),
        "jobs[0].idempotency_key": NewJob(type="email", max_retries=1, idempotency_key="k"),
    }
    for field, job in refusals.items():
        with pytest.raises((Forbidden, IdempotencyKeyReused)) as refused:
            caller.enqueue_jobs([job])
        assert [each for each, _ in faults_of(refused)] == [field]
        with pytest.raises((Forbidden, IdempotencyKeyReused)) as refused:
            caller.enqueue(job)
        assert faults_of(refused) == []


def test_a_batch_whose_answer_would_not_fit_is_refused_before_anything_is_stored(as_producer: BoundQueue) -> None:
    large = NewJob(type="email", payload={"a": "\\" * 32_000})
    with pytest.raises(InvalidRequest) as refused:
        as_producer.enqueue_jobs([large] * 50)
    assert faults_of(refused) == [("jobs", "too_large")]
    assert as_producer.list().jobs == ()
    assert len(as_producer.enqueue_jobs([large] * 20)) == 20
    assert as_producer.enqueue(large).job.id == 21


def test_a_batch_is_claimed_in_the_order_of_claims(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path, clock: SteppedClock
) -> None:
    as_producer.list()
    add_jobs(
        path,
        300,
        type="'type-' || (n % 7)",
        priority="(n * 31 % 4) * 10",
        due_at="'2026-01-31T11:00:' || printf('%02d', n * 17 % 60) || '.000Z'",
    )
    expected = [id for (id,) in query(path, "SELECT id FROM jobs ORDER BY priority DESC, due_at, id")]
    claimed = [as_worker.claim_jobs(limit=limit).jobs for limit in (100, 1, 99, 50, 100)]
    assert [len(jobs) for jobs in claimed] == [100, 1, 99, 50, 50]
    assert [job.id for jobs in claimed for job in jobs] == expected
    assert as_worker.claim_jobs(limit=100).jobs == ()


def test_a_batch_of_one_type_is_claimed_as_single_jobs_are(as_admin: BoundQueue, as_worker: BoundQueue) -> None:
    as_admin.enqueue_jobs([NewJob(type=type) for type in ("email", "pdf", "sync", "pdf", "email")])
    jobs = as_worker.claim_jobs(limit=10, types=["pdf", "sync"], lease_seconds=77).jobs
    assert [job.id for job in jobs] == [2, 3, 4]
    for job in jobs:
        assert (job.status, job.attempt, job.worker_id) == (JobStatus.RUNNING, 1, "worker")
        assert without_token(job) == as_worker.get(job.id)
    assert {(job.lease_expires_at, job.claimed_at) for job in jobs} == {(jobs[0].lease_expires_at, jobs[0].claimed_at)}
    assert len({job.lease_token for job in jobs}) == 3


def test_a_batch_claim_takes_expired_leases_back_first(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 4)
    as_worker.claim_jobs(limit=2)
    clock.advance(seconds=60)
    jobs = queue.bound(worker("other"), clock).claim_jobs(limit=3).jobs
    assert [(job.id, job.attempt, job.lease_expiries) for job in jobs] == [(1, 2, 1), (2, 2, 1), (3, 1, 0)]


def test_jobs_that_are_due_later_are_no_part_of_a_batch(as_admin: BoundQueue, as_worker: BoundQueue) -> None:
    as_admin.enqueue_jobs([NewJob(type="email", priority=HIGH, delay_seconds=1), EMAIL, NewJob(type="pdf")])
    assert [job.id for job in as_worker.claim_jobs(limit=10).jobs] == [2, 3]


def answered(job: Job) -> int:
    """The bytes of a job in a Lambda answer: JSON, quoted once more as the body."""
    text = json.dumps(asdict(job), default=str, ensure_ascii=False, separators=(",", ":"))
    return len(json.dumps(text, ensure_ascii=False).encode())


@pytest.mark.parametrize("letter", ["a", '"', "\x01", "é"], ids=ascii)
def test_a_batch_is_cut_before_it_is_claimed_so_that_its_answer_fits(
    as_producer: BoundQueue, as_worker: BoundQueue, path: Path, letter: str
) -> None:
    size = len(json.dumps(letter, ensure_ascii=False).encode()) - 2
    as_producer.enqueue(NewJob(type="email", payload={"a": letter * ((65_536 - 8) // size)}))
    copied = (
        "type, priority, status, due_at, max_retries, created_by, created_at, updated_at, fingerprint, encoded_size"
    )
    for _ in range(7):
        query(path, f"INSERT INTO jobs ({copied}, payload) SELECT {copied}, payload FROM jobs")
    claimed: list[int] = []
    while jobs := as_worker.claim_jobs(limit=100).jobs:
        assert sum(map(answered, jobs)) <= MAX_PAGE_BYTES
        claimed += [job.id for job in jobs]
        # What did not fit is left to the next claim.
        assert query(path, "SELECT count(*) FROM jobs WHERE status = 'running'") == [(len(claimed),)]
    assert claimed == list(range(1, 129))


def test_one_job_is_claimed_however_large_it_is(as_producer: BoundQueue, as_worker: BoundQueue, path: Path) -> None:
    as_producer.enqueue_jobs([EMAIL] * 2)
    query(path, "UPDATE jobs SET encoded_size = 1000000")
    as_worker.queue._store._database.close()
    assert len(as_worker.claim_jobs(limit=2).jobs) == 2


def test_a_batch_is_finished_and_each_job_gets_its_own_outcome(
    as_admin: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_admin.enqueue_jobs([EMAIL] * 6)
    jobs = as_worker.claim_jobs(limit=5).jobs
    tokens = [job.lease_token for job in jobs]
    clock.advance(seconds=3)
    outcomes = as_worker.finish_jobs(
        [
            Ending(id=5, verb="fail", lease_token=tokens[4], error="boom", retry_in_seconds=7),
            Ending(id=1, verb="complete", lease_token=tokens[0], result={"a": 1}),
            Ending(id=2, verb="complete", lease_token="stale"),
            Ending(id=3, verb="fail", lease_token=tokens[2], error="never", permanent=True),
            Ending(id=6, verb="complete"),
            Ending(id=99, verb="fail", lease_token="x"),
            Ending(id=4, verb="release"),
        ]
    )
    assert [each.id if isinstance(each, Job) else type(each) for each in outcomes] == [
        5,
        1,
        LeaseLost,
        3,
        Conflict,
        LeaseLost,
        4,
    ]
    statuses = [as_admin.get(id).status for id in range(1, 7)]
    pending, running = JobStatus.PENDING, JobStatus.RUNNING
    assert statuses == [JobStatus.COMPLETED, running, JobStatus.FAILED, pending, pending, pending]
    assert [each for each in outcomes if isinstance(each, Job)] == [as_admin.get(id) for id in (5, 1, 3, 4)]
    assert (as_admin.get(5).error, as_admin.get(5).reason, as_admin.get(5).retry_count) == ("boom", "failed", 1)
    assert (as_admin.get(5).run_at - clock.now()).total_seconds() == 7
    assert as_admin.get(1).result == {"a": 1}
    assert (as_admin.get(4).error, as_admin.get(4).reason) == (None, None)


def test_of_an_id_that_comes_twice_the_second_is_a_repeat(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue_jobs([EMAIL] * 2)
    one, two = as_worker.claim_jobs(limit=2).jobs
    outcomes = as_worker.finish_jobs(
        [
            Ending(id=1, verb="complete", lease_token=one.lease_token, result=1),
            Ending(id=1, verb="complete", lease_token=one.lease_token, result=2),
            Ending(id=1, verb="fail", lease_token=one.lease_token),
            Ending(id=1, verb="complete"),
            Ending(id=2, verb="complete"),
            Ending(id=2, verb="complete"),
            Ending(id=2, verb="complete", lease_token=two.lease_token),
        ]
    )
    assert outcomes[0] == outcomes[1] == as_producer.get(1)
    assert as_producer.get(1).result == 1
    assert [type(each) for each in outcomes[2:]] == [Conflict, Conflict, Job, Conflict, Job]


@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_a_stale_token_does_not_stand_in_the_way_of_the_right_one(
    as_producer: BoundQueue, as_worker: BoundQueue, verb: str
) -> None:
    as_producer.enqueue(EMAIL)
    stale = claim(as_worker)
    as_worker.release(stale.id, lease_token=stale.lease_token)
    held = claim(as_worker)
    outcomes = as_worker.finish_jobs(
        [
            Ending(id=1, verb=verb, lease_token="nobody's"),
            Ending(id=1, verb="release", lease_token=stale.lease_token),
            Ending(id=1, verb=verb, lease_token=stale.lease_token),
            Ending(id=1, verb=verb, lease_token=held.lease_token),
            Ending(id=1, verb=verb, lease_token=held.lease_token),
            Ending(id=1, verb=verb, lease_token="nobody's"),
        ]
    )
    ended = as_producer.get(1)
    assert ended.status is (JobStatus.COMPLETED if verb == "complete" else JobStatus.PENDING)
    assert [type(each) for each in outcomes] == [LeaseLost, Job, Conflict, Job, Job, LeaseLost]
    assert outcomes[1] == outcomes[3] == outcomes[4] == ended


def test_a_batch_repeated_after_a_lost_answer_answers_the_same(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue_jobs([EMAIL] * 100)
    jobs = as_worker.claim_jobs(limit=100).jobs
    verbs = ["complete", "fail", "release"]
    endings = [Ending(id=job.id, verb=verbs[job.id % 3], lease_token=job.lease_token) for job in jobs]
    outcomes = as_worker.finish_jobs(endings)
    assert as_worker.finish_jobs(endings) == outcomes
    assert as_worker.finish_jobs([replace(each) for each in reversed(endings)]) == outcomes[::-1]


def test_another_worker_s_jobs_in_a_batch_are_left_alone(
    queue: Queue, as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_producer.enqueue_jobs([EMAIL] * 2)
    theirs = claim(queue.bound(worker("other"), clock))
    own = claim(as_worker)
    outcomes = as_worker.finish_jobs(
        [
            Ending(id=theirs.id, verb="complete", lease_token=theirs.lease_token),
            Ending(id=theirs.id, verb="complete"),
            Ending(id=own.id, verb="complete", lease_token=token_of(own)),
        ]
    )
    assert [type(each) for each in outcomes] == [LeaseLost, Conflict, Job]
    assert as_producer.get(theirs.id) == without_token(theirs)


def test_the_order_of_a_batch_is_the_order_of_its_answer(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    as_producer.enqueue_jobs([EMAIL] * 100)
    jobs = {job.id: job for job in as_worker.claim_jobs(limit=100).jobs}
    ids = [(n * 37) % 101 for n in range(1, 101)]
    ended = as_worker.finish_jobs(
        [Ending(id=id, verb="complete", lease_token=jobs[id].lease_token, result=id) for id in ids]
    )
    assert [(each.id, each.result) for each in ended if isinstance(each, Job)] == [(id, id) for id in ids]


def test_an_admin_s_batches_need_no_more_than_a_worker_s(queue: Queue, clock: SteppedClock) -> None:
    everybody = queue.bound(replace(admin(), roles=frozenset(Role)), clock)
    everybody.enqueue_jobs([EMAIL] * 3)
    jobs = everybody.claim_jobs(limit=3).jobs
    ended = everybody.finish_jobs([Ending(id=job.id, verb="complete", lease_token=job.lease_token) for job in jobs])
    assert [each.status for each in ended if isinstance(each, Job)] == [JobStatus.COMPLETED] * 3


def statements(store: Store, call: Callable[[], object]) -> int:
    """Count the statements of a call; those of triggers come as comments."""
    seen: list[str] = []
    with store._database.read() as connection:
        connection.set_trace_callback(seen.append)
    call()
    with store._database.read() as connection:
        connection.set_trace_callback(None)
    return len([each for each in seen if not each.startswith("--")])


def test_a_batch_of_100_takes_as_many_statements_as_one_of_10(
    store: Store, as_producer: BoundQueue, as_worker: BoundQueue
) -> None:
    # The first claim also looks at the file's version.
    assert as_worker.claim() is None
    taken = []
    for count in (10, 100):
        jobs: list[Job] = []

        def claim_all(count: int = count, jobs: list[Job] = jobs) -> None:
            jobs += as_worker.claim_jobs(limit=count).jobs

        new = [NewJob(type="email", idempotency_key=f"{count}-{n}") for n in range(count)]
        enqueued = statements(store, partial(as_producer.enqueue_jobs, new))
        claimed = statements(store, claim_all)
        assert len(jobs) == count
        beats = [Beat(id=job.id, lease_token=token_of(job)) for job in jobs]
        extended = statements(store, partial(as_worker.heartbeat_jobs, beats))
        endings = [Ending(id=job.id, verb="complete", lease_token=job.lease_token) for job in jobs]
        finished = statements(store, partial(as_worker.finish_jobs, endings))
        repeated = statements(store, partial(as_worker.finish_jobs, endings))
        taken.append((enqueued, claimed, extended, finished, repeated))
    assert taken[0] == taken[1]
