"""What somebody relies on who has followed the how-to: read from top to bottom, it is a tour of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

ANOTHER_WORKER = with_key("packer", "worker")


def test_a_job_needs_only_a_type_and_the_rest_has_defaults(api: Api) -> None:
    job = success(api.ask("enqueue_job", PRODUCER, body={"type": "email"}), 201)
    assert job["priority"] == "medium"
    assert job["status"] == "pending"
    assert job["retry_count"] == 0
    assert job["max_retries"] == 3
    assert job["payload"] == {}


def test_a_job_keeps_its_priority_and_its_payload(api: Api) -> None:
    payload = {"to": "ada@example.com", "attachments": [1, 2, 3]}
    job = api.new_job(ADMIN, priority="high", payload=payload)
    assert job["priority"] == "high"
    assert success(api.get(job["id"]))["payload"] == payload
    assert api.claimed_job()["payload"] == payload


def test_a_job_without_a_type_is_422(api: Api) -> None:
    answer = api.ask("enqueue_job", PRODUCER, body={"payload": {}})
    assert assert_problem(answer, 422, "validation-failed") == {("type", "missing")}


def test_a_priority_that_there_is_not_is_422(api: Api) -> None:
    assert_problem(api.enqueue(priority="urgent"), 422, "validation-failed")


def test_a_status_that_there_is_not_is_422_as_a_filter(api: Api) -> None:
    assert_problem(api.list(status="sleeping"), 422, "validation-failed")


def test_a_list_can_be_filtered_by_status(api: Api) -> None:
    for _ in range(2):
        api.new_job()
    api.claimed_job()
    assert [job["id"] for job in success(api.list(status="pending"))["jobs"]] == [2]
    assert [job["id"] for job in success(api.list(status="running"))["jobs"]] == [1]


def test_a_job_that_there_is_not_is_404(api: Api) -> None:
    assert_problem(api.get(1), 404, "not-found")


def test_a_claim_takes_the_highest_priority_and_then_the_oldest(api: Api) -> None:
    for priority in ("low", "high", "medium", "high"):
        api.new_job(ADMIN, priority=priority)
    assert [api.claimed_job()["id"] for _ in range(4)] == [2, 4, 3, 1]


def test_a_claim_says_when_and_by_whom(api: Api) -> None:
    api.new_job()
    api.clock.advance(seconds=60)
    job = api.claimed_job()
    assert job["status"] == "running"
    assert job["claimed_at"] == "2026-01-31T12:01:00.000Z"
    assert job["worker_id"] == "mailer"


def test_a_claim_on_an_empty_queue_is_204(api: Api) -> None:
    assert api.claim().status == 204


def test_a_completed_job_is_completed(api: Api) -> None:
    api.new_job()
    job = api.claimed_job()
    assert success(api.complete(job["id"]))["status"] == "completed"
    assert success(api.get(job["id"], PRODUCER))["status"] == "completed"


@pytest.mark.parametrize("verb", ["complete_job", "fail_job"])
def test_a_job_that_is_not_running_can_be_neither_completed_nor_failed(api: Api, verb: str) -> None:
    job = api.new_job()
    assert_problem(api.ask(verb, WORKER, id=job["id"]), 409, "conflict")
    api.claimed_job()
    api.complete(job["id"])
    assert_problem(api.ask(verb, WORKER, id=job["id"]), 409, "conflict")


def test_a_job_that_failed_is_put_back(api: Api) -> None:
    job = api.new_job()
    api.claimed_job()
    assert success(api.fail(job["id"], error="connection refused"))["status"] == "pending"
    job = success(api.get(job["id"]))
    assert job["retry_count"] == 1
    assert job["error"] == "connection refused"
    assert job["worker_id"] is None
    assert job["claimed_at"] is None


def test_a_job_that_was_put_back_can_be_claimed_by_another_worker_at_once(api: Api) -> None:
    job = api.new_job()
    api.claimed_job(WORKER)
    api.fail(job["id"], WORKER)
    again = api.claimed_job(ANOTHER_WORKER)
    assert (again["id"], again["worker_id"]) == (job["id"], "packer")


def test_a_job_whose_retries_are_used_up_is_failed(api: Api) -> None:
    job = api.new_job(max_retries=2)
    statuses = []
    for _ in range(3):
        api.claimed_job()
        statuses.append(success(api.fail(job["id"]))["status"])
        # From the second retry on there is a wait, which grows.
        api.clock.advance(seconds=60)
    assert statuses == ["pending", "pending", "failed"]
    assert success(api.get(job["id"]))["retry_count"] == 2
    assert api.claim().status == 204


def test_a_job_without_retries_fails_at_once(api: Api) -> None:
    job = api.new_job(max_retries=0)
    api.claimed_job()
    assert success(api.fail(job["id"]))["status"] == "failed"


def test_the_same_idempotency_key_twice_is_one_job(api: Api) -> None:
    first = api.enqueue(idempotency_key="invoice-7")
    second = api.enqueue(idempotency_key="invoice-7")
    assert (first.status, second.status) == (201, 200)
    assert first.body["id"] == second.body["id"]
