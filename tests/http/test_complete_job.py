"""POST /jobs/{id}/complete"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.support import ADMIN, WORKER, assert_problem, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

ANOTHER = with_key("other mailer", "worker")


@pytest.mark.parametrize("body", [b"", b"{}", b" { } "])
def test_a_job_is_completed_with_an_empty_body_or_an_empty_object(api: Api, body: bytes) -> None:
    api.new_job()
    job = api.claimed_job()
    api.clock.advance(seconds=2)
    completed = success(api.ask("complete_job", WORKER, id=job["id"], body=body))
    del job["payload"]
    assert completed == job | {"status": "completed", "updated_at": "2026-01-31T12:00:02.000Z"}


def test_a_job_that_is_not_running_cannot_be_completed(api: Api) -> None:
    api.new_job(max_retries=0)
    assert_problem(api.complete(1), 409, "conflict")
    api.claimed_job()
    success(api.complete(1))
    assert_problem(api.complete(1), 409, "conflict")
    api.new_job(max_retries=0)
    api.claimed_job()
    success(api.fail(2))
    assert_problem(api.complete(2), 409, "conflict")


def test_a_job_that_another_holds_cannot_be_completed(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    before = success(api.get(1))
    for caller in (ANOTHER, ADMIN):
        assert_problem(api.complete(1, caller), 409, "conflict")
    assert success(api.get(1)) == before


def test_a_conflict_tells_nothing_of_the_job(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    held, unknown = api.complete(1, ANOTHER), api.complete(2, ANOTHER)
    assert held.raw["body"].replace("/jobs/1/", "/jobs/2/") == unknown.raw["body"]


def test_a_job_that_was_put_back_is_no_longer_its_workers(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    api.fail(1)
    assert_problem(api.complete(1), 409, "conflict")
    api.claimed_job(ANOTHER)
    assert_problem(api.complete(1), 409, "conflict")
    success(api.complete(1, ANOTHER))
