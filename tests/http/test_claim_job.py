"""POST /jobs/claim"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.conftest import forget
from tests.http.support import ACCOUNT, ADMIN, PRODUCER, WORKER, assert_problem, signed, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api


def test_nothing_due_is_204_without_a_body_and_with_a_pause(api: Api) -> None:
    answer = api.claim()
    assert (answer.status, answer.raw["body"]) == (204, None)
    assert answer.headers == {"Retry-After": "20"}


def test_a_claimed_job_is_running_and_held_by_the_caller(api: Api) -> None:
    job = api.new_job(payload={"to": "ada"})
    api.clock.advance(seconds=1.5)
    claimed = api.claimed_job()
    assert 32 <= len(claimed["lease_token"]) <= 255
    assert list(claimed.items()) == list(
        {
            "id": job["id"],
            "type": "email",
            "payload": {"to": "ada"},
            "priority": "medium",
            "status": "running",
            "retry_count": 0,
            "max_retries": 3,
            "claimed_at": "2026-01-31T12:00:01.500Z",
            "worker_id": "mailer",
            "created_at": "2026-01-31T12:00:00.000Z",
            "updated_at": "2026-01-31T12:00:01.500Z",
            "run_at": "2026-01-31T12:00:00.000Z",
            "backoff_seconds": 15,
            "attempt": 1,
            "lease_expires_at": "2026-01-31T12:01:01.500Z",
            "lease_expiries": 0,
            "progress": None,
            "result": None,
            "cancel_requested": False,
            "replays": 0,
            "lease_token": claimed["lease_token"],
        }.items()
    )


def test_the_highest_priority_is_claimed_first_and_then_the_oldest(api: Api) -> None:
    for label in ("low", "medium", "critical", "high", "critical", "low"):
        api.new_job(ADMIN, priority=label)
        api.clock.advance(seconds=1)
    claimed = [api.claimed_job() for _ in range(6)]
    assert [(job["priority"], job["id"]) for job in claimed] == [
        ("critical", 3),
        ("critical", 5),
        ("high", 4),
        ("medium", 2),
        ("low", 1),
        ("low", 6),
    ]


def test_a_job_is_claimed_once(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    assert api.claim().status == api.claim(ADMIN).status == 204


def test_a_claim_may_name_the_types_that_it_is_for(api: Api) -> None:
    for kind in ("email", "pdf", "sync"):
        api.new_job(type=kind)
    assert api.claimed_job(types=["sync", "pdf"])["type"] == "pdf"
    assert api.claimed_job(types=["sync", "pdf"])["type"] == "sync"
    assert api.claim(types=["sync", "pdf"]).status == 204
    assert api.claimed_job()["type"] == "email"


def test_a_worker_may_not_name_types_that_are_not_its_own(api: Api) -> None:
    api.new_job(type="pdf")
    worker = with_key("mailer", "worker", types=["email"])
    assert_problem(api.claim(worker, types=["email", "pdf"]), 403, "forbidden")
    assert api.claim(worker).status == api.claim(worker, types=["email"]).status == 204


def test_a_type_that_the_stack_no_longer_has_still_drains(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        api.new_job(type="pdf")
    monkeypatch.setenv("QUEUELOG_JOB_TYPES", "email")
    forget()
    assert api.claimed_job()["type"] == "pdf"
    assert api.claimed_job(types=["pdf"])["type"] == "pdf"


def test_a_claim_may_carry_the_callers_own_worker_id(api: Api) -> None:
    for caller, own in ((WORKER, "mailer"), (signed("Worker", "s1"), f"{ACCOUNT}:role/Worker/s1")):
        api.new_job()
        assert api.claimed_job(caller, worker_id=own)["worker_id"] == own


@pytest.mark.parametrize("worker_id", ["", "other", "Mailer", "mailer ", f"{ACCOUNT}:role/Worker/s2"])
def test_a_claim_with_another_worker_id_is_403_and_claims_nothing(api: Api, worker_id: str) -> None:
    api.new_job()
    for caller in (WORKER, ADMIN, signed("Worker", "s1")):
        assert_problem(api.claim(caller, worker_id=worker_id), 403, "forbidden")
    assert api.claim().status == 200


def test_an_admin_works_as_a_worker_does(api: Api) -> None:
    api.new_job()
    job = api.claimed_job(ADMIN)
    assert (job["worker_id"], job["created_by"]) == ("operator", "billing")
    assert_problem(api.complete(job["id"], WORKER), 409, "conflict")
    success(api.complete(job["id"], ADMIN))


def test_a_producer_claims_nothing(api: Api) -> None:
    api.new_job()
    assert_problem(api.claim(PRODUCER), 403, "forbidden")
