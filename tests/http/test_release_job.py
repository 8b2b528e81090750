"""POST /jobs/{id}/release"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import PRODUCER, WORKER, assert_problem, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

PACKER = with_key("packer", "worker")


@pytest.mark.parametrize("body", [b"", b"{}", b'{"lease_token": null}'])
def test_a_released_job_is_pending_again_and_has_spent_no_retry(api: Api, body: bytes) -> None:
    api.new_job(max_retries=0)
    api.claimed_job()
    api.clock.advance(seconds=2)
    assert success(api.ask("release_job", WORKER, id=1, body=body)) == {
        "id": 1,
        "type": "email",
        "priority": "medium",
        "status": "pending",
        "retry_count": 0,
        "max_retries": 0,
        "claimed_at": None,
        "worker_id": None,
        "created_at": "2026-01-31T12:00:00.000Z",
        "updated_at": "2026-01-31T12:00:02.000Z",
        "run_at": "2026-01-31T12:00:00.000Z",
        "backoff_seconds": 15,
        "attempt": 1,
        "lease_expires_at": None,
        "lease_expiries": 0,
        "cancel_requested": False,
        "replays": 0,
    }


def test_a_released_job_is_there_at_once_and_keeps_its_place(api: Api) -> None:
    for _ in range(3):
        api.new_job()
        api.clock.advance(seconds=1)
    api.claimed_job()
    success(api.release(1))
    assert [api.claimed_job(PACKER)["id"] for _ in range(3)] == [1, 2, 3]


def test_a_job_may_be_released_for_ever(api: Api) -> None:
    api.new_job(max_retries=0)
    for attempt in range(1, 30):
        assert api.claimed_job()["attempt"] == attempt
        assert success(api.release(1))["status"] == "pending"


def test_a_release_says_nothing_of_a_failure(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    api.release(1)
    job = success(api.get(1))
    assert (job["error"], job["reason"]) == (None, None)
    api.claimed_job()
    api.fail(1, error="boom")
    api.claimed_job()
    api.release(1)
    job = success(api.get(1))
    assert (job["error"], job["reason"], job["retry_count"]) == ("boom", "failed", 1)


def test_a_job_that_is_to_be_cancelled_is_cancelled_by_its_release(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    api.cancel(1)
    assert success(api.release(1))["status"] == "cancelled"
    assert api.claim().status == 204
    assert success(api.get(1, PRODUCER))["reason"] is None


def test_a_job_that_is_not_running_or_anothers_cannot_be_released(api: Api) -> None:
    api.new_job()
    assert_problem(api.release(1), 409, "conflict")
    api.claimed_job()
    before = success(api.get(1))
    assert_problem(api.release(1, PACKER), 409, "conflict")
    assert success(api.get(1)) == before
    api.complete(1)
    assert_problem(api.release(1), 409, "conflict")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"lease_token": ""}, ("lease_token", "string_too_short")),
        ({"lease_token": "x" * 256}, ("lease_token", "string_too_long")),
        ({"lease_token": 7}, ("lease_token", "string_type")),
        ({"error": "boom"}, ("error", "extra_forbidden")),
        ({"retry_in_seconds": 5}, ("retry_in_seconds", "extra_forbidden")),
    ],
)
def test_a_wrong_field_is_a_fault_and_releases_nothing(
    api: Api, fields: dict[str, Any], fault: tuple[str, str]
) -> None:
    api.new_job()
    api.claimed_job()
    assert assert_problem(api.release(1, **fields), 422, "validation-failed") == {fault}
    assert success(api.get(1))["status"] == "running"
