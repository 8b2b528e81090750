"""V-05: any caller may complete or fail a job that another is running."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, Caller, assert_problem, signed, success, with_key
from tests.support import query

if TYPE_CHECKING:
    from tests.http.support import Api

HOLDER = signed("Worker", "holder")
OTHERS = {
    "another worker": (WORKER, 409, "conflict"),
    "another session of the same role": (signed("Worker", "other"), 409, "conflict"),
    "a key named as the role": (with_key("123456789012:role/Worker", "worker"), 409, "conflict"),
    "the job's creator": (PRODUCER, 403, "forbidden"),
    "the job's creator as a worker": (with_key("billing", "producer", "worker"), 409, "conflict"),
    "an admin": (ADMIN, 409, "conflict"),
}


@pytest.mark.parametrize(("caller", "status", "slug"), OTHERS.values(), ids=OTHERS.keys())
def test_a_running_job_is_finished_by_the_worker_that_holds_it_alone(
    api: Api, caller: Caller, status: int, slug: str
) -> None:
    job = api.new_job()
    api.claimed_job(HOLDER)
    before = success(api.get(job["id"]))
    assert_problem(api.complete(job["id"], caller), status, slug)
    assert_problem(api.fail(job["id"], caller, error="taken over"), status, slug)
    assert_problem(api.release(job["id"], caller), status, slug)
    assert success(api.get(job["id"])) == before
    assert success(api.complete(job["id"], HOLDER))["status"] == "completed"


def test_a_worker_whose_job_was_given_to_another_cannot_finish_it_late(api: Api) -> None:
    job = api.new_job()
    api.claimed_job(WORKER)
    api.fail(job["id"], WORKER)
    api.claimed_job(HOLDER)
    assert_problem(api.complete(job["id"], WORKER), 409, "conflict")
    assert success(api.get(job["id"]))["status"] == "running"


@pytest.mark.parametrize(("caller", "status", "slug"), OTHERS.values(), ids=OTHERS.keys())
def test_a_stolen_token_is_of_no_use_to_anyone_else(api: Api, caller: Caller, status: int, slug: str) -> None:
    api.new_job()
    token = api.claimed_job(HOLDER)["lease_token"]
    before = success(api.get(1))
    for verb in (api.complete, api.fail, api.release, api.heartbeat):
        answer = verb(1, caller, lease_token=token)
        assert_problem(answer, status, "lease-lost" if status == 409 else slug)
    assert success(api.get(1)) == before


@pytest.mark.parametrize("guess", ["1", "attempt-1", "mailer", "1:1", "0" * 32, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"])
def test_a_token_is_not_to_be_guessed_from_what_others_may_see(api: Api, guess: str) -> None:
    api.new_job()
    api.claimed_job(WORKER)
    assert_problem(api.complete(1, WORKER, lease_token=guess), 409, "lease-lost")
    hashed = query(api.database, "SELECT lease_token_sha256 FROM jobs")[0][0]
    assert_problem(api.complete(1, WORKER, lease_token=hashed), 409, "lease-lost")


def test_a_token_is_of_no_use_for_another_job(api: Api) -> None:
    for _ in range(2):
        api.new_job()
    tokens = [api.claimed_job(WORKER)["lease_token"] for _ in range(2)]
    assert_problem(api.complete(1, WORKER, lease_token=tokens[1]), 409, "lease-lost")
    assert_problem(api.complete(2, WORKER, lease_token=tokens[0]), 409, "lease-lost")
    assert success(api.complete(1, WORKER, lease_token=tokens[0]))["id"] == 1


def test_a_worker_that_comes_back_after_its_lease_leaves_the_new_attempt_alone(api: Api) -> None:
    job = api.new_job()
    late = api.claimed_job(WORKER, lease_seconds=10)["lease_token"]
    api.clock.advance(seconds=10)
    api.claimed_job(HOLDER)
    before = success(api.get(job["id"]))
    for verb in (api.complete, api.fail, api.release, api.heartbeat):
        assert_problem(verb(job["id"], WORKER, lease_token=late), 409, "lease-lost")
    assert success(api.get(job["id"])) == before


def test_nobody_but_its_creator_and_admins_cancels_a_job(api: Api) -> None:
    api.new_job()
    for caller, status, slug in (
        (with_key("mallory", "producer"), 404, "not-found"),
        (with_key("mallory", "producer", "worker"), 404, "not-found"),
        (WORKER, 403, "forbidden"),
    ):
        assert_problem(api.cancel(1, caller), status, slug)
    assert success(api.get(1))["status"] == "pending"
