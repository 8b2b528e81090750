"""Every route, over a socket, against the local API."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from queuelog_client import (
    Beat,
    Conflict,
    Count,
    Ending,
    Forbidden,
    Heartbeat,
    IdempotencyKeyReused,
    InvalidCursor,
    InvalidJob,
    InvalidRequest,
    Job,
    JobPriority,
    JobStatus,
    LeaseLost,
    NewJob,
    NotFound,
    Order,
    PayloadTooLarge,
    QueueClient,
    Retries,
    Unauthorized,
)
from tests.client.support import Told
from tests.support import ROOT, START

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.client.support import Stack, Wire

EMAIL = NewJob(type="email", payload={"to": "ada@example.com"})


def claimed(client: QueueClient, **options: object) -> tuple[Job, str]:
    job = client.claim(**options)  # type: ignore[arg-type]
    assert job is not None
    assert job.lease_token is not None
    return job, job.lease_token


def test_a_job_is_enqueued_with_all_that_was_said_of_it(stack: Stack) -> None:
    new = NewJob(
        type="pdf",
        payload={"a": ["ü", None, 1.5]},
        priority=JobPriority.LOW,
        max_retries=0,
        idempotency_key="k",
        run_at=START + timedelta(hours=1),
        backoff_seconds=7,
    )
    job, replayed = stack.producer.enqueue(new)
    assert not replayed
    assert (job.id, job.type, job.payload, job.priority) == (1, "pdf", {"a": ["ü", None, 1.5]}, JobPriority.LOW)
    assert (job.max_retries, job.idempotency_key, job.backoff_seconds) == (0, "k", 7)
    assert (job.status, job.created_at, job.run_at) == (JobStatus.PENDING, START, START + timedelta(hours=1))
    assert job.created_by == "producer"
    assert stack.producer.enqueue(new) == (job, True)
    with pytest.raises(IdempotencyKeyReused):
        stack.producer.enqueue(NewJob(type="pdf", idempotency_key="k"))


def test_jobs_are_enqueued_in_a_batch(stack: Stack) -> None:
    jobs = [NewJob(type="email", delay_seconds=60), NewJob(type="pdf", idempotency_key="k")]
    first = stack.producer.enqueue_jobs(jobs)
    assert [(each.job.id, each.job.type, each.replayed) for each in first] == [(1, "email", False), (2, "pdf", False)]
    # A key of its own makes the first one a new job.
    again = stack.producer.enqueue_jobs(jobs)
    assert [(each.job.id, each.replayed) for each in again] == [(3, False), (2, True)]


def test_jobs_are_listed_a_page_after_the_other(stack: Stack) -> None:
    kinds = [("email", JobPriority.LOW), ("pdf", JobPriority.MEDIUM), ("email", JobPriority.MEDIUM)]
    for _ in range(2):
        stack.producer.enqueue_jobs([NewJob(type=type, priority=priority) for type, priority in kinds * 20])
    page = stack.admin.list(limit=2)
    assert [job.id for job in page.jobs] == [120, 119]
    assert [job.id for job in stack.admin.list(limit=2, cursor=page.next_cursor).jobs] == [118, 117]
    wanted = {"type": "email", "priority": JobPriority.MEDIUM, "status": JobStatus.PENDING}
    assert [job.id for job in stack.admin.iterate(**wanted)] == list(range(120, 0, -3))  # type: ignore[arg-type]
    queue = [job.id for job in stack.admin.iterate(status=JobStatus.PENDING, order=Order.QUEUE)]
    assert queue == sorted(range(1, 121), key=lambda id: (id % 3 == 1, id))
    with pytest.raises(InvalidCursor):
        stack.admin.list(cursor="nowhere")
    with pytest.raises(InvalidRequest) as refused:
        stack.admin.list(order=Order.QUEUE)
    assert [(fault.field, fault.code) for fault in refused.value.faults] == [("order", "needs_pending")]


def test_a_job_is_claimed_held_and_completed(stack: Stack) -> None:
    stack.producer.enqueue(EMAIL)
    job, token = claimed(stack.worker, types=["email"], lease_seconds=30)
    assert (job.status, job.payload, job.attempt) == (JobStatus.RUNNING, EMAIL.payload, 1)
    assert job.lease_expires_at == START + timedelta(seconds=30)
    stack.clock.advance(seconds=20)
    beat = stack.worker.heartbeat(job.id, lease_token=token, lease_seconds=50, progress={"pages": 1})
    assert beat == Heartbeat(
        lease_expires_at=START + timedelta(seconds=70),
        cancel_requested=False,
        server_time=START + timedelta(seconds=20),
    )
    assert stack.producer.get(job.id).progress == {"pages": 1}
    done = stack.worker.complete(job.id, lease_token=token, result={"sent": 1})
    assert (done.status, done.worker_id) == (JobStatus.COMPLETED, "worker")
    assert stack.producer.get(job.id).result == {"sent": 1}
    assert stack.worker.claim() is None


def test_an_empty_queue_says_when_to_ask_again(stack: Stack) -> None:
    assert stack.worker.claim_jobs(limit=3) == ((), 20)
    stack.producer.enqueue(NewJob(type="email", delay_seconds=7))
    assert stack.worker.claim_jobs(limit=3) == ((), 7)


def test_a_job_is_failed_released_and_fails_for_good(stack: Stack) -> None:
    stack.producer.enqueue(NewJob(type="email", max_retries=5))
    job, token = claimed(stack.worker)
    assert stack.worker.release(job.id, lease_token=token).status is JobStatus.PENDING
    job, token = claimed(stack.worker)
    failed = stack.worker.fail(job.id, lease_token=token, error="no luck", retry_in_seconds=5)
    assert (failed.status, failed.run_at) == (JobStatus.PENDING, START + timedelta(seconds=5))
    stack.clock.advance(seconds=5)
    job, token = claimed(stack.worker)
    assert stack.worker.fail(job.id, lease_token=token, error="never", permanent=True).status is JobStatus.FAILED
    found = stack.admin.get(job.id)
    assert (found.error, found.reason, found.attempt) == ("never", "failed", 3)
    assert found.attempts == stack.admin.attempts(job.id)
    assert [(each.attempt, each.outcome, each.error) for each in found.attempts or ()] == [
        (1, "released", None),
        (2, "failed", "no luck"),
        (3, "failed", "never"),
    ]
    with pytest.raises(Forbidden):
        stack.producer.attempts(job.id)


def test_several_jobs_are_held_and_ended_at_once_each_with_its_own_answer(stack: Stack) -> None:
    stack.producer.enqueue_jobs([EMAIL] * 5)
    jobs = stack.worker.claim_jobs(limit=4).jobs
    tokens = [str(job.lease_token) for job in jobs]
    assert [job.id for job in jobs] == [1, 2, 3, 4]
    beats = stack.worker.heartbeat_jobs(
        [Beat(id=1, lease_token=tokens[0], progress={"a": 1}), Beat(id=2, lease_token="nobody's")]
    )
    assert isinstance(beats[0], Heartbeat)
    assert isinstance(beats[1], LeaseLost)
    answers = stack.worker.finish_jobs(
        [
            Ending(id=1, verb="release", lease_token=tokens[0]),
            Ending(id=2, verb="complete", lease_token=tokens[1], result=[1]),
            Ending(id=3, verb="fail", lease_token="nobody's"),
            Ending(id=4, verb="release", lease_token="nobody's"),
            Ending(id=3, verb="fail", lease_token=tokens[2], error="no", permanent=True),
        ]
    )
    assert [each.status if isinstance(each, Job) else type(each) for each in answers] == [
        JobStatus.PENDING,
        JobStatus.COMPLETED,
        LeaseLost,
        LeaseLost,
        JobStatus.FAILED,
    ]


def test_a_repeated_end_finds_the_job_and_another_verb_a_conflict(stack: Stack) -> None:
    stack.producer.enqueue(EMAIL)
    job, token = claimed(stack.worker)
    done = stack.worker.complete(job.id, lease_token=token)
    assert stack.worker.complete(job.id, lease_token=token) == done
    with pytest.raises(Conflict):
        stack.worker.fail(job.id, lease_token=token)


def test_a_lease_that_was_taken_back_is_lost(stack: Stack) -> None:
    stack.producer.enqueue(EMAIL)
    job, token = claimed(stack.worker, lease_seconds=30)
    stack.clock.advance(seconds=30)
    again, _ = claimed(stack.worker)
    assert (again.id, again.attempt, again.lease_expiries) == (job.id, 2, 1)
    with pytest.raises(LeaseLost) as lost:
        stack.worker.complete(job.id, lease_token=token)
    assert (lost.value.status, lost.value.title) == (409, "The lease has ended")
    assert lost.value.detail.startswith("This lease has ended")


def test_jobs_are_called_off_put_back_and_explained(stack: Stack) -> None:
    stack.producer.enqueue_jobs([NewJob(type="email", delay_seconds=60), EMAIL])
    state, reasons = stack.producer.explain(1)
    assert (state, [reason.code for reason in reasons]) == (JobStatus.PENDING, ["delayed"])
    assert stack.producer.cancel(1).status is JobStatus.CANCELLED
    with pytest.raises(Conflict):
        stack.producer.cancel(1)
    running, token = claimed(stack.worker)
    assert stack.producer.cancel(running.id).cancel_requested
    assert stack.worker.heartbeat(running.id, lease_token=token).cancel_requested
    assert stack.worker.release(running.id, lease_token=token).status is JobStatus.CANCELLED
    assert stack.admin.retry(1).replays == 1
    assert stack.admin.retry_jobs(status=JobStatus.CANCELLED, dry_run=True) == (2,)
    assert stack.admin.retry_jobs(status=JobStatus.CANCELLED, failed_after=START) == ()
    assert stack.admin.retry_jobs(status=JobStatus.CANCELLED, type="email", failed_before=START + timedelta(1)) == (2,)
    with pytest.raises(Conflict):
        stack.admin.retry(2)


def test_the_figures_are_counted(stack: Stack) -> None:
    stack.producer.enqueue_jobs([EMAIL, EMAIL, NewJob(type="pdf", delay_seconds=60)])
    claimed(stack.worker, types=["email"])
    stack.clock.advance(seconds=3)
    stats = stack.admin.stats()
    assert stats.jobs == (
        Count(JobStatus.PENDING, "email", JobPriority.MEDIUM, 1),
        Count(JobStatus.PENDING, "pdf", JobPriority.MEDIUM, 1),
        Count(JobStatus.RUNNING, "email", JobPriority.MEDIUM, 1),
    )
    assert (stats.running, stats.oldest_due_seconds) == ({"worker": 1}, 3.0)
    assert stats.next_run_at == START + timedelta(seconds=60)


def test_what_you_may_not_do_or_see_has_its_name(stack: Stack) -> None:
    with pytest.raises(NotFound):
        stack.admin.get(1)
    with pytest.raises(Forbidden, match="role"):
        stack.worker.enqueue(EMAIL)
    with pytest.raises(Unauthorized), QueueClient(stack.api.url, api_key="ql_wrong") as stranger:
        stranger.stats()
    job = stack.producer.enqueue(NewJob(type="email", payload={"secret": 1})).job
    held, token = claimed(stack.worker)
    assert (held.idempotency_key, held.created_by, held.error) == (None, None, None)
    stack.worker.complete(job.id, lease_token=token)
    assert stack.worker.get(job.id).payload is None


def test_what_is_wrong_is_named_with_its_place(stack: Stack) -> None:
    with pytest.raises(InvalidRequest, match="type must be one of email, pdf, sync") as refused:
        stack.producer.enqueue_jobs([EMAIL, NewJob(type="carrier-pigeon")])
    assert [fault.field for fault in refused.value.faults] == ["jobs[1].type"]
    with pytest.raises(InvalidJob) as invalid:
        NewJob(type="e mail", payload={"a": float("nan")}, max_retries=26, delay_seconds=1, run_at=START)
    assert [(fault.field, fault.code) for fault in invalid.value.faults] == [
        ("type", "string_pattern_mismatch"),
        ("delay_seconds", "not_both"),
        ("max_retries", "out_of_range"),
        ("payload", "not_json"),
    ]
    with pytest.raises(InvalidRequest, match="JSON"):
        stack.worker.heartbeat(1, lease_token="t", progress={"a": object()})
    big = NewJob(type="email", payload={"a": "x" * 60_000})
    with pytest.raises(PayloadTooLarge):
        stack.producer.enqueue_jobs([big] * 80)


def test_a_client_says_whether_the_queue_is_well(stack: Stack) -> None:
    assert QueueClient(stack.api.url, api_key="ql_none").is_healthy()


def test_threads_share_a_client_and_its_connections(stack: Stack) -> None:
    with ThreadPoolExecutor(8) as threads:
        jobs = list(
            threads.map(
                lambda number: stack.producer.enqueue(NewJob(type="email", payload={"n": number})).job, range(40)
            )
        )
    assert [job.payload for job in jobs] == [{"n": number} for number in range(40)]
    assert sorted(job.id for job in jobs) == list(range(1, 41))


def test_every_route_has_a_method(alone: Wire) -> None:
    client = alone.client(retries=Retries(count=0))
    calls: list[Callable[[], object]] = [
        lambda: client.enqueue(EMAIL),
        lambda: client.enqueue_jobs([EMAIL]),
        client.list,
        lambda: client.get(7),
        lambda: client.explain(7),
        lambda: client.cancel(7),
        lambda: client.retry(7),
        lambda: client.retry_jobs(status=JobStatus.FAILED),
        client.stats,
        client.claim,
        client.claim_jobs,
        lambda: client.complete(7),
        lambda: client.fail(7),
        lambda: client.release(7),
        lambda: client.heartbeat(7, lease_token="t"),
        lambda: client.heartbeat_jobs([Beat(id=7, lease_token="t")]),
        lambda: client.finish_jobs([Ending(id=7, verb="complete", lease_token="t")]),
    ]
    for call in calls:
        alone.plan.append(Told(404))
        with pytest.raises(NotFound):
            call()
    alone.plan.append(Told(404))
    assert not client.is_healthy()
    called = {(sent.method.lower(), sent.path.partition("?")[0].replace("/7", "/{id}")) for sent in alone.sent}
    routes = {
        (method, path)
        for path, operations in json.loads((ROOT / "docs/api/openapi.json").read_text())["paths"].items()
        for method in operations
        if method in {"get", "post"} and not path.startswith("/iam")
    }
    assert called == routes
