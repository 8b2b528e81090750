"""GET /stats"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, success, with_key
from tests.support import query

if TYPE_CHECKING:
    from tests.http.support import Api

NOTHING: dict[str, Any] = {"jobs": [], "running": {}, "oldest_due_seconds": None, "next_run_at": None}


def test_an_empty_queue_has_nothing_to_count(api: Api) -> None:
    answer = api.stats()
    assert list(success(answer).items()) == list(NOTHING.items())


def test_jobs_are_counted_by_status_type_and_priority(api: Api) -> None:
    for kind, priority in (("email", "low"), ("email", "critical"), ("email", "low"), ("pdf", "medium")):
        api.new_job(ADMIN, type=kind, priority=priority)
    api.complete(api.claimed_job()["id"])
    api.claimed_job(types=["pdf"])
    api.cancel(3, ADMIN)
    counted = success(api.stats())["jobs"]
    assert all(list(each) == ["status", "type", "priority", "count"] for each in counted)
    assert sorted(tuple(each.values()) for each in counted) == [
        ("cancelled", "email", "low", 1),
        ("completed", "email", "critical", 1),
        ("pending", "email", "low", 1),
        ("running", "pdf", "medium", 1),
    ]


def test_running_jobs_are_counted_by_worker(api: Api) -> None:
    for _ in range(4):
        api.new_job()
    api.claimed_jobs(limit=2)
    api.claimed_job(with_key("packer", "worker"))
    assert success(api.stats())["running"] == {"mailer": 2, "packer": 1}
    for verb, id in ((api.complete, 1), (api.release, 2)):
        success(verb(id))
    assert success(api.stats())["running"] == {"packer": 1}


def test_the_oldest_due_job_counts_from_when_it_fell_due(api: Api) -> None:
    api.new_job(delay_seconds=10)
    assert success(api.stats())["oldest_due_seconds"] is None
    api.clock.advance(seconds=12.5)
    assert success(api.stats())["oldest_due_seconds"] == 2.5
    api.new_job(type="pdf")
    assert success(api.stats())["oldest_due_seconds"] == 2.5
    api.claimed_job(types=["email"])
    assert success(api.stats())["oldest_due_seconds"] == 0


def test_the_next_job_to_fall_due_is_named(api: Api) -> None:
    api.new_job(delay_seconds=60)
    api.new_job(type="pdf", delay_seconds=30)
    assert success(api.stats())["next_run_at"] == "2026-01-31T12:00:30.000Z"
    api.clock.advance(seconds=30)
    assert success(api.stats())["next_run_at"] == "2026-01-31T12:01:00.000Z"
    api.clock.advance(seconds=30)
    assert success(api.stats())["next_run_at"] is None


def test_what_retention_deletes_is_no_longer_counted(api: Api) -> None:
    api.new_job()
    api.cancel(1)
    api.clock.advance(seconds=31 * 86_400)
    api.sweep()
    assert success(api.stats()) == NOTHING


def test_after_every_verb_the_counts_add_up(api: Api) -> None:
    api.enqueue_jobs([{"type": kind, "backoff_seconds": 0} for kind in ("email", "pdf") for _ in range(10)])
    jobs = api.claimed_jobs(limit=12, lease_seconds=10)
    ends = ({"outcome": "completed"}, {"outcome": "failed"}, {"outcome": "failed", "permanent": True})
    api.finish_jobs([{"id": job["id"], "lease_token": job["lease_token"], **ends[job["id"] % 3]} for job in jobs[:9]])
    api.release(jobs[9]["id"])
    api.cancel(jobs[10]["id"])
    api.clock.advance(seconds=10)
    api.claimed_jobs(limit=3)
    success(api.retry_jobs(status="failed", limit=1))
    counted = {(each["status"], each["type"]): each["count"] for each in success(api.stats())["jobs"]}
    rows = query(api.database, "SELECT status, type, count(*) FROM jobs GROUP BY status, type")
    assert counted == {(status, kind): count for status, kind, count in rows}
    assert sum(counted.values()) == 20


def test_nobody_but_an_admin_reads_them(api: Api) -> None:
    for caller in (PRODUCER, WORKER):
        assert_problem(api.stats(caller), 403, "forbidden")
