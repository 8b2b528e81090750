"""A queue that the first release left behind, as callers of this one find it: before the first sweep, and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.first_release import FirstRelease, make_file
from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, codes, success

if TYPE_CHECKING:
    from tests.http.support import Api

FAILED, COMPLETED, HELD, PENDING = range(1, 5)


@pytest.fixture
def first(api: Api) -> FirstRelease:
    """A function of the first release, which has left a job in every status."""
    first = make_file(api.database)
    first.worker_id = "mailer"
    for priority in (30, 20, 10, 0):
        first.enqueue(created_by="billing", priority=priority, max_retries=0)
    assert [first.claim() for _ in range(3)] == [FAILED, COMPLETED, HELD]
    assert first.fail(FAILED)
    assert first.complete(COMPLETED)
    return first


def test_every_job_is_shown_with_the_new_fields(api: Api, first: FirstRelease) -> None:
    jobs = {job["id"]: job for job in success(api.list())["jobs"]}
    assert [jobs[id]["status"] for id in (FAILED, COMPLETED, HELD, PENDING)] == [
        "failed",
        "completed",
        "running",
        "pending",
    ]
    for job in jobs.values():
        new = list(job.items())[15:]
        assert [name for name, _ in new] == [
            "run_at",
            "backoff_seconds",
            "attempt",
            "lease_expires_at",
            "lease_expiries",
            "progress",
            "result",
            "cancel_requested",
            "replays",
        ]
        assert (job["backoff_seconds"], job["lease_expires_at"], job["replays"]) == (None, None, 0)


def test_before_the_first_sweep_callers_go_on_as_before(api: Api, first: FirstRelease) -> None:
    success(api.complete(HELD))
    job = api.claimed_job()
    assert (job["id"], job["lease_expires_at"]) == (PENDING, "2026-01-31T12:01:00.000Z")
    success(api.heartbeat(PENDING, lease_token=job["lease_token"]))
    success(api.release(PENDING, lease_token=job["lease_token"]))
    assert codes(api.enqueue_jobs([{"type": "email"}])) == [201]
    success(api.cancel(5))
    success(api.retry(FAILED))
    success(api.get(FAILED))


def test_before_the_first_sweep_what_has_to_be_counted_is_503_with_a_pause(api: Api, first: FirstRelease) -> None:
    for answer in (
        api.stats(),
        api.retry_jobs(status="failed"),
        api.claim(request_id="r"),
        api.claim_jobs(limit=1, request_id="r"),
    ):
        assert_problem(answer, 503, "storage-unavailable")
        assert answer.headers["Retry-After"] == "10"
        assert "try again in a minute" in answer.body["detail"]


def test_before_the_first_sweep_no_lease_is_taken_back(api: Api, first: FirstRelease) -> None:
    api.clock.advance(seconds=3_600)
    assert api.claimed_job()["id"] == PENDING
    assert api.claim().status == 204
    assert success(api.get(HELD))["status"] == "running"


def test_the_first_sweep_turns_everything_on(api: Api, first: FirstRelease) -> None:
    assert api.sweep()["leases_expired"] == 0
    assert sum(each["count"] for each in success(api.stats())["jobs"]) == 4
    assert success(api.stats())["running"] == {"mailer": 1}
    assert success(api.retry_jobs(status="failed"))["ids"] == [FAILED]
    assert api.claimed_job(request_id="r")["id"] == api.claimed_job(request_id="r")["id"]
    # What the first release claimed counts as leased for the default length.
    api.clock.advance(seconds=60)
    assert api.sweep()["leases_expired"] == 2
    job = success(api.get(HELD))
    assert (job["status"], job["reason"], job["attempt"]) == ("failed", "lease_expired", 1)
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["lease_expired"]


def test_a_function_of_the_first_release_beside_this_one_fits_in(api: Api, first: FirstRelease) -> None:
    api.sweep()
    success(api.complete(HELD))
    token = api.claimed_job()["lease_token"]
    # It knows nothing of tokens, and so ends what the worker of its name holds.
    assert first.complete(PENDING)
    assert success(api.complete(PENDING, lease_token=token))["status"] == "completed"
    assert_problem(api.fail(PENDING, lease_token=token), 409, "conflict")
    id = api.new_job(PRODUCER)["id"]
    assert first.claim() == id
    assert success(api.get(id, WORKER))["attempt"] == 1
    assert_problem(api.complete(id, lease_token=token), 409, "lease-lost")
    success(api.complete(id))
    assert success(api.stats(ADMIN))["running"] == {}
