"""POST /jobs/{id}/retry"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, success

if TYPE_CHECKING:
    from tests.http.support import Api


@pytest.mark.parametrize("body", [b"", b"{}", b" { } "])
def test_a_failed_job_is_put_back_as_it_began_and_due_now(api: Api, body: bytes) -> None:
    api.new_job(payload={"a": 1}, priority="low", max_retries=1, backoff_seconds=0, idempotency_key="k")
    for _ in range(2):
        token = api.claimed_job()["lease_token"]
        api.heartbeat(1, lease_token=token, progress={"sent": 3})
        success(api.fail(1, error="boom"))
    before = success(api.get(1))
    assert (before["status"], before["retry_count"]) == ("failed", 1)
    api.clock.advance(seconds=100)
    after = success(api.ask("retry_job", ADMIN, id=1, body=body))
    history = before.pop("attempts")
    assert after == before | {
        "status": "pending",
        "retry_count": 0,
        "claimed_at": None,
        "worker_id": None,
        "updated_at": "2026-01-31T12:01:40.000Z",
        "run_at": "2026-01-31T12:01:40.000Z",
        "progress": None,
        "replays": 1,
    }
    assert (after["payload"], after["error"], after["attempt"]) == ({"a": 1}, "boom", 2)
    assert success(api.get(1))["attempts"] == history
    assert api.claimed_job()["attempt"] == 3


def test_a_job_that_was_cancelled_is_put_back_and_no_longer_to_be_cancelled(api: Api) -> None:
    api.new_job(delay_seconds=1_000)
    api.cancel(1)
    assert success(api.retry(1))["run_at"] == "2026-01-31T12:00:00.000Z"
    api.claimed_job()
    api.cancel(1)
    api.release(1)
    job = success(api.retry(1))
    assert (job["status"], job["cancel_requested"], job["replays"]) == ("pending", False, 2)
    api.claimed_job()
    assert success(api.fail(1))["status"] == "pending"


def test_a_retried_job_has_all_its_retries_again_and_they_wait_as_the_first_did(api: Api) -> None:
    api.new_job(max_retries=1)
    for _ in range(3):
        api.claimed_job()
        assert success(api.fail(1))["retry_count"] == 1
        api.claimed_job()
        assert success(api.fail(1))["status"] == "failed"
        success(api.retry(1))
    assert success(api.get(1))["replays"] == 3


def test_a_retried_job_comes_after_those_that_are_due_already(api: Api) -> None:
    for _ in range(3):
        api.new_job()
        api.clock.advance(seconds=1)
    api.claimed_job()
    api.fail(1, permanent=True)
    api.retry(1)
    assert [api.claimed_job()["id"] for _ in range(3)] == [2, 3, 1]


@pytest.mark.parametrize("status", ["pending", "running", "completed"])
def test_a_job_in_any_other_status_is_not_retried(api: Api, status: str) -> None:
    api.new_job()
    if status != "pending":
        api.claimed_job()
    if status == "completed":
        api.complete(1)
    before = success(api.get(1))
    assert before["status"] == status
    assert_problem(api.retry(1), 409, "conflict")
    assert success(api.get(1)) == before


def test_a_second_retry_is_a_conflict(api: Api) -> None:
    api.new_job()
    api.cancel(1)
    success(api.retry(1))
    assert_problem(api.retry(1), 409, "conflict")
    assert success(api.get(1))["replays"] == 1


def test_an_id_of_no_job_is_404(api: Api) -> None:
    for id in (1, 2**53 - 1):
        assert_problem(api.retry(id), 404, "not-found")


def test_nobody_but_an_admin_retries(api: Api) -> None:
    api.new_job()
    api.cancel(1)
    for caller in (PRODUCER, WORKER):
        for id in (1, 2):
            assert_problem(api.retry(id, caller), 403, "forbidden")
    assert success(api.get(1))["status"] == "cancelled"
