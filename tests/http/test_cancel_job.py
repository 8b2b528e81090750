"""POST /jobs/{id}/cancel"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, signed, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api, Caller


@pytest.mark.parametrize("caller", [PRODUCER, ADMIN], ids=["creator", "admin"])
@pytest.mark.parametrize("body", [b"", b"{}", b" { } "])
def test_a_pending_job_is_cancelled_at_once(api: Api, caller: Caller, body: bytes) -> None:
    job = api.new_job()
    api.clock.advance(seconds=1)
    cancelled = success(api.ask("cancel_job", caller, id=1, body=body))
    expected = job | {"status": "cancelled", "updated_at": "2026-01-31T12:00:01.000Z"}
    assert cancelled == expected | ({"error": None} if caller is ADMIN else {})
    assert api.claim().status == 204


def test_a_delayed_job_is_cancelled_at_once(api: Api) -> None:
    api.new_job(delay_seconds=60)
    success(api.cancel(1))
    api.clock.advance(seconds=60)
    assert api.claim().status == 204


def test_a_job_that_waits_for_its_retry_is_cancelled_at_once(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    api.fail(1, retry_in_seconds=60)
    assert success(api.cancel(1))["status"] == "cancelled"
    api.clock.advance(seconds=60)
    assert api.claim().status == 204


def test_a_running_job_runs_on_and_its_worker_is_asked_to_stop(api: Api) -> None:
    api.new_job()
    job = api.claimed_job()
    for _ in range(2):
        asked = success(api.cancel(1))
        assert (asked["status"], asked["cancel_requested"]) == ("running", True)
    assert asked["lease_expires_at"] == job["lease_expires_at"]
    assert success(api.heartbeat(1, lease_token=job["lease_token"]))["cancel_requested"] is True


def test_a_worker_may_complete_a_job_that_is_to_be_cancelled(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    api.cancel(1)
    job = success(api.complete(1, result="done after all"))
    assert (job["status"], job["cancel_requested"]) == ("completed", True)


@pytest.mark.parametrize("max_retries", [0, 3])
@pytest.mark.parametrize("fields", [{}, {"retry_in_seconds": 5}, {"permanent": True}])
def test_a_job_that_is_to_be_cancelled_and_fails_is_cancelled(
    api: Api, max_retries: int, fields: dict[str, Any]
) -> None:
    api.new_job(max_retries=max_retries)
    api.claimed_job()
    api.cancel(1)
    job = success(api.fail(1, error="stopped", **fields))
    assert (job["status"], job["retry_count"]) == ("cancelled", 0)
    assert success(api.get(1))["error"] == "stopped"
    api.clock.advance(seconds=100)
    assert api.claim().status == 204


@pytest.mark.parametrize("max_retries", [0, 3])
@pytest.mark.parametrize("by", ["claim", "sweep"])
def test_a_job_that_is_to_be_cancelled_and_whose_lease_ends_is_cancelled(api: Api, max_retries: int, by: str) -> None:
    api.new_job(max_retries=max_retries)
    api.claimed_job()
    api.cancel(1)
    api.clock.advance(seconds=60)
    if by == "sweep":
        api.sweep()
    assert api.claim().status == 204
    job = success(api.get(1))
    assert (job["status"], job["retry_count"], job["lease_expiries"]) == ("cancelled", 0, 1)


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_job_that_has_ended_cannot_be_cancelled(api: Api, status: str) -> None:
    api.new_job()
    if status == "cancelled":
        api.cancel(1)
    else:
        api.claimed_job()
        success(api.complete(1) if status == "completed" else api.fail(1, permanent=True))
    before = success(api.get(1))
    assert before["status"] == status
    for caller in (PRODUCER, ADMIN):
        assert_problem(api.cancel(1, caller), 409, "conflict")
    assert success(api.get(1)) == before


OTHERS = {
    "another producer": with_key("shop", "producer"),
    "another admin's namesake": with_key("operator", "producer"),
    "the worker that holds it, which produces too": with_key("mailer", "producer", "worker"),
    "a signed producer": signed("Producer"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("status", ["pending", "running", "completed"])
def test_a_job_of_another_is_not_there(api: Api, other: Caller, status: str) -> None:
    api.new_job()
    if status != "pending":
        api.claimed_job()
    if status == "completed":
        api.complete(1)
    before = success(api.get(1))
    hidden, unknown = api.cancel(1, other), api.cancel(2, other)
    assert_problem(hidden, 404, "not-found")
    assert hidden.raw["body"].replace("/jobs/1/", "/jobs/2/") == unknown.raw["body"]
    assert success(api.get(1)) == before


def test_a_worker_cancels_nothing(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    for id in (1, 2):
        assert_problem(api.cancel(id, WORKER), 403, "forbidden")


def test_every_session_of_a_signed_role_may_cancel_what_one_of_them_enqueued(api: Api) -> None:
    api.new_job(signed("Producer", "monday"))
    assert success(api.cancel(1, signed("Producer", "tuesday")))["status"] == "cancelled"


def test_an_id_of_no_job_is_404(api: Api) -> None:
    for caller in (PRODUCER, ADMIN):
        for id in (1, 2**53 - 1):
            assert_problem(api.cancel(id, caller), 404, "not-found")


def test_a_cancelled_job_still_answers_for_its_key(api: Api) -> None:
    api.new_job(idempotency_key="k")
    api.cancel(1)
    assert success(api.enqueue(idempotency_key="k"), 200)["status"] == "cancelled"
