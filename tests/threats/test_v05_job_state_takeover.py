"""V-05: any caller may complete or fail a job that another is running."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, Caller, assert_problem, signed, success, with_key

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
    assert success(api.get(job["id"])) == before
    assert success(api.complete(job["id"], HOLDER))["status"] == "completed"


def test_a_worker_whose_job_was_given_to_another_cannot_finish_it_late(api: Api) -> None:
    job = api.new_job()
    api.claimed_job(WORKER)
    api.fail(job["id"], WORKER)
    api.claimed_job(HOLDER)
    assert_problem(api.complete(job["id"], WORKER), 409, "conflict")
    assert success(api.get(job["id"]))["status"] == "running"
