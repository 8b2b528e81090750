"""V-04: a worker says in its request who it is, and so acts as any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.support import ACCOUNT, WORKER, Caller, assert_problem, assert_refused, signed, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

MALLORY = {"key": with_key("mallory", "worker"), "signature": signed("Worker", "mallory")}


@pytest.mark.parametrize("mallory", MALLORY.values(), ids=MALLORY.keys())
@pytest.mark.parametrize("victim", ["mailer", f"{ACCOUNT}:role/Worker/victim"])
def test_a_worker_is_who_its_credentials_say_whatever_it_says_itself(api: Api, mallory: Caller, victim: str) -> None:
    api.new_job()
    assert_problem(api.claim(mallory, worker_id=victim), 403, "forbidden")
    headers = {"X-Worker-Id": victim, "Worker-Id": victim}
    job = success(api.ask("claim_job", mallory, headers=headers))
    assert job["worker_id"].endswith("mallory")


@pytest.mark.parametrize("function", ["complete_job", "fail_job", "release_job"])
def test_a_worker_finishes_no_job_in_anothers_name(api: Api, function: str) -> None:
    api.new_job()
    api.claimed_job(WORKER)
    mallory = MALLORY["key"]
    assert_problem(api.ask(function, mallory, body={"worker_id": "mailer"}), 422, "validation-failed")
    assert_problem(api.ask(function, mallory, query={"worker_id": "mailer"}), 422, "validation-failed")
    assert_problem(api.ask(function, mallory, headers={"X-Worker-Id": "mailer"}), 409, "conflict")
    assert success(api.get(1))["worker_id"] == "mailer"


def test_a_key_of_the_same_name_without_the_role_is_not_the_worker(api: Api) -> None:
    api.new_job()
    api.claimed_job(WORKER)
    namesake = with_key("mailer", "producer")
    assert_problem(api.complete(1, namesake), 403, "forbidden")
    assert_problem(api.get(1, namesake), 404, "not-found")


@pytest.mark.parametrize("mallory", MALLORY.values(), ids=MALLORY.keys())
@pytest.mark.parametrize("victim", ["mailer", f"{ACCOUNT}:role/Worker/victim"])
def test_many_jobs_are_claimed_in_nobody_elses_name_either(api: Api, mallory: Caller, victim: str) -> None:
    api.new_job()
    assert_problem(api.claim_jobs(mallory, limit=5, worker_id=victim), 403, "forbidden")
    (job,) = api.claimed_jobs(mallory)
    assert job["worker_id"].endswith("mallory")


def test_no_end_and_no_heartbeat_of_a_batch_names_its_worker(api: Api) -> None:
    api.new_job()
    item = {"id": 1, "lease_token": api.claimed_job(WORKER)["lease_token"]}
    mallory = MALLORY["key"]
    spoofed = item | {"worker_id": "mailer"}
    assert_problem(api.heartbeat_jobs([spoofed], mallory), 422, "validation-failed")
    assert_problem(api.finish_jobs([spoofed | {"outcome": "completed"}], mallory), 422, "validation-failed")
    # Not even with the token, should it have leaked.
    assert_refused(api.heartbeat_jobs([item], mallory), 0, "lease-lost")
    assert_refused(api.finish_jobs([item | {"outcome": "completed"}], mallory), 0, "lease-lost")
    assert success(api.get(1))["status"] == "running"
