from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from queuelog import Forbidden, IdempotencyKeyReused, JobPriority, JobStatus, NewJob, Role
from tests.support import START, SteppedClock, admin, claim, producer, query, worker

if TYPE_CHECKING:
    from pathlib import Path

    from queuelog import BoundQueue, Principal, Queue


def test_a_job_that_says_only_its_type_gets_the_defaults(as_producer: BoundQueue) -> None:
    job, replayed = as_producer.enqueue(NewJob(type="email"))
    assert not replayed
    assert job.type == "email"
    assert job.payload == {}
    assert job.priority is JobPriority.MEDIUM
    assert job.status is JobStatus.PENDING
    assert job.retry_count == 0
    assert job.max_retries == 3
    assert job.idempotency_key is None
    assert job.claimed_at is None
    assert job.worker_id is None
    assert job.error is None
    assert job.reason is None
    assert job.created_by == "producer"
    assert job.created_at == job.updated_at == START


def test_what_was_said_is_kept(as_admin: BoundQueue) -> None:
    payload: dict[str, Any] = {
        "to": "ö@example.org",
        "n": [1, 2.5, None, True, {"deep": {}}],
        "quote": '"\\',
        "nul": "\0",
        "": "🂡",
    }
    said = NewJob(type="pdf:v1.2", payload=payload, priority=JobPriority.HIGH, max_retries=7, idempotency_key="k 1")
    made = as_admin.enqueue(said).job
    assert made == as_admin.get(made.id)
    assert (made.type, made.payload, made.priority) == ("pdf:v1.2", payload, JobPriority.HIGH)
    assert (made.max_retries, made.idempotency_key, made.created_by) == (7, "k 1", "admin")


def test_ids_ascend_from_1_in_the_order_of_enqueueing(as_producer: BoundQueue) -> None:
    assert [as_producer.enqueue(NewJob(type="email")).job.id for _ in range(3)] == [1, 2, 3]


def test_a_job_is_due_when_it_is_created(as_producer: BoundQueue, path: Path) -> None:
    as_producer.enqueue(NewJob(type="email"))
    assert query(path, "SELECT due_at, created_at FROM jobs") == [("2026-01-31T12:00:00.000Z",) * 2]


def test_times_are_kept_to_the_millisecond(queue: Queue) -> None:
    clock = SteppedClock(datetime(2026, 1, 31, 12, 0, 0, 999_999, tzinfo=UTC))
    job = queue.bound(producer(), clock).enqueue(NewJob(type="email")).job
    assert job.created_at == datetime(2026, 1, 31, 12, 0, 0, 999_000, tzinfo=UTC)


@pytest.mark.parametrize("who", [producer(), admin()], ids=lambda who: str(who.name))
def test_producers_and_admins_may_enqueue(queue: Queue, who: Principal) -> None:
    assert queue.bound(who).enqueue(NewJob(type="email")).job.created_by == who.name


@pytest.mark.parametrize(
    "who",
    [worker(), producer(types=frozenset()), producer(types=frozenset({"pdf"})), replace(admin(), roles=frozenset())],
)
def test_nobody_else_and_no_type_that_was_not_granted(queue: Queue, as_admin: BoundQueue, who: Principal) -> None:
    with pytest.raises(Forbidden):
        queue.bound(who).enqueue(NewJob(type="email"))
    assert as_admin.list().jobs == ()


def test_a_principal_with_types_may_enqueue_those(queue: Queue) -> None:
    caller = queue.bound(producer(types=frozenset({"pdf", "email"})))
    assert caller.enqueue(NewJob(type="email")).job.type == "email"


@pytest.mark.parametrize(
    ("who", "highest"),
    [
        (producer(), JobPriority.MEDIUM),
        (producer(max_priority=JobPriority.LOW), JobPriority.LOW),
        (producer(max_priority=JobPriority.HIGH), JobPriority.HIGH),
        (producer(max_priority=JobPriority.CRITICAL), JobPriority.CRITICAL),
        (admin(), JobPriority.CRITICAL),
        (admin(max_priority=JobPriority.MEDIUM), JobPriority.MEDIUM),
    ],
)
@pytest.mark.parametrize("priority", list(JobPriority))
def test_no_principal_enqueues_above_its_priority(
    queue: Queue, as_admin: BoundQueue, who: Principal, highest: JobPriority, priority: JobPriority
) -> None:
    caller = queue.bound(who)
    if priority <= highest:
        assert caller.enqueue(NewJob(type="email", priority=priority)).job.priority is priority
    else:
        with pytest.raises(Forbidden, match=highest.label):
            caller.enqueue(NewJob(type="email", priority=priority))
        assert as_admin.list().jobs == ()


def test_the_default_priority_counts_against_the_ceiling(queue: Queue) -> None:
    with pytest.raises(Forbidden):
        queue.bound(producer(max_priority=JobPriority.LOW)).enqueue(NewJob(type="email"))


def test_the_same_key_and_request_replays_the_job_as_it_is_now(
    as_producer: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    wanted = NewJob(type="email", payload={"a": 1}, idempotency_key="once")
    made, replayed = as_producer.enqueue(wanted)
    assert not replayed
    clock.advance(seconds=60)
    assert as_producer.enqueue(wanted) == (made, True)
    as_worker.claim()
    assert as_producer.enqueue(wanted).job.status is JobStatus.RUNNING
    completed = as_worker.complete(made.id)
    clock.advance(seconds=60)
    assert as_producer.enqueue(wanted) == (completed, True)
    assert [job.id for job in as_producer.list().jobs] == [made.id]


def test_the_key_of_a_failed_job_stays_used(as_producer: BoundQueue, as_worker: BoundQueue) -> None:
    wanted = NewJob(type="email", max_retries=0, idempotency_key="once")
    as_producer.enqueue(wanted)
    failed = as_worker.fail(claim(as_worker).id)
    assert as_producer.enqueue(wanted) == (failed, True)


def test_without_a_key_every_request_makes_a_job(as_producer: BoundQueue) -> None:
    assert [as_producer.enqueue(NewJob(type="email")).replayed for _ in range(2)] == [False, False]


SENT: dict[str, Any] = {"type": "email", "payload": {"a": 1, "b": [1]}, "priority": JobPriority.LOW, "max_retries": 2}


@pytest.mark.parametrize(
    "other",
    [
        {"type": "pdf"},
        {"payload": {"a": 2, "b": [1]}},
        {"payload": {"a": 1.0, "b": [1]}},
        {"payload": {"a": True, "b": [1]}},
        {"payload": {}},
        {"payload": None},
        {"priority": JobPriority.MEDIUM},
        {"priority": None},
        {"max_retries": 3},
        {"max_retries": None},
    ],
    ids=str,
)
def test_the_same_key_with_another_request_is_refused(as_producer: BoundQueue, other: dict[str, Any]) -> None:
    made = as_producer.enqueue(NewJob(**SENT, idempotency_key="once")).job
    with pytest.raises(IdempotencyKeyReused):
        as_producer.enqueue(NewJob(**SENT | other, idempotency_key="once"))
    assert as_producer.list().jobs == (made,)


def test_a_default_that_was_not_sent_is_not_the_same_as_one_that_was(as_producer: BoundQueue) -> None:
    as_producer.enqueue(NewJob(type="email", idempotency_key="once"))
    with pytest.raises(IdempotencyKeyReused):
        as_producer.enqueue(NewJob(type="email", priority=JobPriority.MEDIUM, idempotency_key="once"))


def test_the_order_of_fields_does_not_make_another_request(as_producer: BoundQueue) -> None:
    as_producer.enqueue(NewJob(type="email", payload={"a": 1, "b": {"c": 1, "d": 2}}, idempotency_key="once"))
    again = NewJob(type="email", payload={"b": {"d": 2, "c": 1}, "a": 1}, idempotency_key="once")
    assert as_producer.enqueue(again).replayed


def test_a_request_that_a_release_with_other_defaults_took_is_known(as_producer: BoundQueue, path: Path) -> None:
    as_producer.enqueue(NewJob(type="email", idempotency_key="once"))
    query(path, "UPDATE jobs SET max_retries = 9, priority = 0")
    job, replayed = as_producer.enqueue(NewJob(type="email", idempotency_key="once"))
    assert replayed
    assert (job.max_retries, job.priority) == (9, JobPriority.LOW)


def test_keys_are_per_principal(queue: Queue) -> None:
    jobs = [
        queue.bound(who).enqueue(NewJob(type=type, idempotency_key="once"))
        for who, type in [(producer("a"), "email"), (producer("b"), "pdf"), (admin("c"), "sync")]
    ]
    assert [(each.job.id, each.replayed) for each in jobs] == [(1, False), (2, False), (3, False)]


def test_a_key_belongs_to_the_name_and_not_to_the_session(queue: Queue) -> None:
    first, second = (producer("1:role/Shop", worker_id=f"1:role/Shop/{session}") for session in ("monday", "tuesday"))
    assert not queue.bound(first).enqueue(NewJob(type="email", idempotency_key="once")).replayed
    assert queue.bound(second).enqueue(NewJob(type="email", idempotency_key="once")).replayed


def test_keys_differ_by_letter_case_and_by_spaces(as_producer: BoundQueue) -> None:
    keys = ["k", "K", "k ", "\u00e9", "e\u0301"]
    assert [as_producer.enqueue(NewJob(type="email", idempotency_key=key)).job.id for key in keys] == [1, 2, 3, 4, 5]


def test_a_replay_needs_the_same_rights_as_the_request(queue: Queue) -> None:
    urgent = NewJob(type="email", priority=JobPriority.HIGH, idempotency_key="once")
    queue.bound(producer(max_priority=JobPriority.HIGH)).enqueue(urgent)
    for demoted in (producer(), producer(max_priority=JobPriority.HIGH, types=frozenset({"pdf"})), worker("producer")):
        with pytest.raises(Forbidden):
            queue.bound(demoted).enqueue(urgent)


def test_a_producer_who_is_also_a_worker_may_do_both(queue: Queue) -> None:
    both = queue.bound(replace(producer("both"), roles=frozenset({Role.PRODUCER, Role.WORKER})))
    made = both.enqueue(NewJob(type="email")).job
    claimed = both.claim()
    assert claimed is not None
    assert claimed.id == made.id
    assert both.complete(made.id).status is JobStatus.COMPLETED
