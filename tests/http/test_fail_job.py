"""POST /jobs/{id}/fail"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

ANOTHER = with_key("other mailer", "worker")


@pytest.mark.parametrize("body", [b"", b"{}", b'{"error": null}', b'{"error": "boom"}'])
def test_a_failed_job_with_retries_left_is_pending_again(api: Api, body: bytes) -> None:
    api.new_job()
    api.clock.advance(seconds=1)
    api.claimed_job()
    api.clock.advance(seconds=1)
    assert success(api.ask("fail_job", WORKER, id=1, body=body)) == {
        "id": 1,
        "type": "email",
        "priority": "medium",
        "status": "pending",
        "retry_count": 1,
        "max_retries": 3,
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


def test_a_job_without_retries_left_is_failed_and_keeps_its_count_and_its_worker(api: Api) -> None:
    api.new_job(max_retries=1)
    api.claimed_job()
    api.fail(1)
    job = api.claimed_job(ANOTHER)
    assert job["retry_count"] == 1
    failed = success(api.fail(1, ANOTHER))
    assert [failed[name] for name in ("status", "retry_count", "worker_id")] == ["failed", 1, "other mailer"]
    assert failed["claimed_at"] == job["claimed_at"]
    assert api.claim().status == 204


@pytest.mark.parametrize("max_retries", [0, 1, 3, 25])
def test_a_job_runs_once_more_than_it_has_retries(api: Api, max_retries: int) -> None:
    api.new_job(max_retries=max_retries, backoff_seconds=0)
    runs = 0
    while api.claim().status == 200:
        runs += 1
        api.fail(1)
    assert runs == max_retries + 1
    assert success(api.get(1))["status"] == "failed"


def test_a_retry_keeps_its_place(api: Api) -> None:
    for _ in range(3):
        api.new_job()
        api.clock.advance(seconds=1)
    api.claimed_job()
    api.fail(1)
    assert [api.claimed_job()["id"] for _ in range(3)] == [1, 2, 3]


def test_an_admin_reads_the_error_and_the_creator_a_reason(api: Api) -> None:
    api.new_job()
    assert success(api.get(1, PRODUCER))["reason"] is None
    api.claimed_job()
    api.fail(1, error="the mail server refused the connection")
    seen = {name: success(api.get(1, caller)) for name, caller in (("admin", ADMIN), ("creator", PRODUCER))}
    assert seen["admin"]["error"] == "the mail server refused the connection"
    assert seen["admin"]["reason"] == seen["creator"]["reason"] == "failed"
    assert "error" not in seen["creator"]


def test_an_error_is_kept_while_the_job_runs_again_and_after_it_completed(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    api.fail(1, error="boom")
    api.claimed_job()
    assert success(api.get(1))["error"] == "boom"
    api.complete(1)
    assert success(api.get(1))["error"] == "boom"


def test_an_error_is_cleaned_and_cut_before_it_is_stored(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    api.fail(1, error="postgres://ada:hunter2@db/orders is down: " + "x" * 900_000)
    error = success(api.get(1))["error"]
    assert "hunter2" not in error
    assert len(error) <= 1_000


@pytest.mark.parametrize("error", ["\x00", "a\x00b", "é😀\u2028", "'; DROP TABLE jobs; --", "\\", '"'])
def test_any_text_is_an_error(api: Api, error: str) -> None:
    api.new_job()
    api.claimed_job()
    success(api.fail(1, error=error))
    assert success(api.get(1))["error"]


def test_a_job_that_is_not_running_cannot_fail(api: Api) -> None:
    api.new_job()
    assert_problem(api.fail(1), 409, "conflict")
    api.claimed_job()
    api.complete(1)
    assert_problem(api.fail(1), 409, "conflict")


def test_a_job_that_another_holds_cannot_fail(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    before = success(api.get(1))
    for caller in (ANOTHER, ADMIN):
        assert_problem(api.fail(1, caller, error="mine now"), 409, "conflict")
    assert success(api.get(1)) == before
