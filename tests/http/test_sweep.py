"""What the schedule's function does every minute; how a claim takes back leases is in the core's tests."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import sweep
from queuelog import StorageBusy, Store
from queuelog.clock import timestamp
from tests import first_release
from tests.http.conftest import forget
from tests.http.support import ADMIN, ROOT, WORKER, assert_problem, success, with_key
from tests.support import add_jobs, query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.http.conftest import Log
    from tests.http.support import Api

DAY = 86_400
NOTHING = {"leases_expired": 0, "jobs_deleted": 0, "is_done": True}


def sweep_for(api: Api, milliseconds: Callable[[], int]) -> dict[str, Any]:
    """Sweep for as long as Lambda says that there are more milliseconds left than the sweep wants to keep."""
    context = SimpleNamespace(aws_request_id="sweep", clock=api.clock, get_remaining_time_in_millis=milliseconds)
    return sweep.handler(json.loads((ROOT / "events/sweep.json").read_text()), context)


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Keep every other writer out."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def end(api: Api, status: str) -> int:
    """Return the id of a new job that has ended so."""
    id: int = api.new_job(max_retries=0)["id"]
    if status == "cancelled":
        success(api.cancel(id))
        return id
    assert api.claimed_job()["id"] == id
    success(api.complete(id) if status == "completed" else api.fail(id, error="boom"))
    return id


def ids(api: Api) -> list[int]:
    return [id for (id,) in query(api.database, "SELECT id FROM jobs ORDER BY id")]


def test_an_expired_lease_is_taken_back(api: Api) -> None:
    api.new_job()
    token = api.claimed_job(lease_seconds=30)["lease_token"]
    api.clock.advance(seconds=29.999)
    assert api.sweep() == NOTHING
    api.clock.advance(seconds=0.001)
    assert api.sweep() == {"leases_expired": 1, "jobs_deleted": 0, "is_done": True}
    job = success(api.get(1))
    assert (job["status"], job["retry_count"], job["lease_expiries"]) == ("pending", 1, 1)
    assert (job["error"], job["reason"]) == ("lease expired", "lease_expired")
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["lease_expired"]
    assert_problem(api.complete(1, lease_token=token), 409, "lease-lost")
    assert api.sweep() == NOTHING


def test_an_expired_lease_ends_a_job_that_has_no_retry_left_or_is_to_be_cancelled(api: Api) -> None:
    api.new_job(max_retries=0)
    api.new_job()
    for _ in range(2):
        api.claimed_job()
    success(api.cancel(2))
    api.clock.advance(seconds=60)
    assert api.sweep()["leases_expired"] == 2
    assert [success(api.get(id))["status"] for id in (1, 2)] == ["failed", "cancelled"]


@pytest.mark.parametrize(("status", "days"), [("completed", 7), ("failed", 30), ("cancelled", 30)])
def test_an_ended_job_is_kept_for_its_days_and_goes_with_its_history(api: Api, status: str, days: int) -> None:
    id = end(api, status)
    api.clock.advance(seconds=days * DAY)
    assert api.sweep() == NOTHING
    success(api.get(id))
    api.clock.advance(seconds=0.001)
    assert api.sweep() == {"leases_expired": 0, "jobs_deleted": 1, "is_done": True}
    assert_problem(api.get(id), 404, "not-found")
    assert query(api.database, "SELECT count(*) FROM attempts") == [(0,)]
    assert success(api.stats())["jobs"] == []


def test_the_stack_says_for_how_many_days(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_KEEP_COMPLETED_DAYS", "2")
    monkeypatch.setenv("QUEUELOG_KEEP_FAILED_DAYS", "1")
    completed, failed = end(api, "completed"), end(api, "failed")
    api.clock.advance(seconds=1.5 * DAY)
    assert api.sweep()["jobs_deleted"] == 1
    assert_problem(api.get(failed), 404, "not-found")
    api.clock.advance(seconds=DAY)
    assert api.sweep()["jobs_deleted"] == 1
    assert_problem(api.get(completed), 404, "not-found")


def test_what_has_not_ended_is_kept_for_ever(api: Api) -> None:
    api.new_job()
    api.new_job()
    held = api.claimed_job(lease_seconds=43_200)
    for _ in range(100):
        api.clock.advance(seconds=43_000)
        success(api.heartbeat(held["id"], lease_token=held["lease_token"]))
        assert api.sweep() == NOTHING
    assert [success(api.get(id))["status"] for id in (1, 2)] == ["running", "pending"]


def test_a_job_that_was_retried_is_kept_from_its_new_end_on(api: Api) -> None:
    id = end(api, "failed")
    api.clock.advance(seconds=29 * DAY)
    success(api.retry(id))
    api.claimed_job()
    success(api.fail(id))
    api.clock.advance(seconds=29 * DAY)
    assert api.sweep() == NOTHING


def test_a_key_lives_as_long_as_its_job(api: Api) -> None:
    first = api.new_job(idempotency_key="welcome-ada")["id"]
    api.claimed_job()
    success(api.complete(first))
    api.clock.advance(seconds=7 * DAY)
    assert success(api.enqueue(idempotency_key="welcome-ada"))["id"] == first
    api.clock.advance(seconds=1)
    api.sweep()
    # An id is never used again, though the last job of the file is gone.
    assert api.new_job(idempotency_key="welcome-ada")["id"] == first + 1


def test_it_deletes_200_at_a_time_and_the_next_one_goes_on(api: Api) -> None:
    api.new_job()
    add_jobs(api.database, 450, status="'completed'")
    api.clock.advance(seconds=8 * DAY)
    found = []
    for _ in range(3):
        moments = iter([60_000, 5_000])
        found.append(sweep_for(api, lambda: next(moments)))  # noqa: B023  (called before the next round)
    assert [each["jobs_deleted"] for each in found] == [200, 200, 50]
    assert not any(each["is_done"] for each in found)
    assert ids(api) == [1]


def test_it_takes_back_200_leases_at_a_time(api: Api) -> None:
    api.new_job()
    add_jobs(
        api.database,
        450,
        status="'running'",
        worker_id="'mailer'",
        claimed_at="'2026-01-31T12:00:00.000Z'",
        lease_expires_at="'2026-01-31T12:01:00.000Z'",
        attempt="1",
    )
    api.clock.advance(seconds=60)
    moments = iter([60_000, 5_000])
    assert sweep_for(api, lambda: next(moments)) == {"leases_expired": 200, "jobs_deleted": 0, "is_done": False}
    assert api.sweep() == {"leases_expired": 250, "jobs_deleted": 0, "is_done": True}


def test_others_get_in_between_two_steps(api: Api) -> None:
    api.new_job()
    add_jobs(api.database, 450, status="'completed'")
    api.clock.advance(seconds=8 * DAY)
    deleted_by_then = []

    def remaining() -> int:
        with locked(api.database):
            deleted_by_then.append(451 - len(ids(api)))
        return 60_000

    assert sweep_for(api, remaining) == {"leases_expired": 0, "jobs_deleted": 450, "is_done": True}
    assert deleted_by_then == [0, 200, 400, 450]


def test_two_at_once_do_the_work_of_one(api: Api) -> None:
    api.new_job()
    add_jobs(api.database, 1_000, status="'completed'")
    add_jobs(api.database, 500, status="'running'", worker_id="'mailer'", claimed_at="'2026-01-31T12:00:00.000Z'")
    api.clock.advance(seconds=8 * DAY)
    found = []

    def run() -> None:
        store = Store(api.database)
        found.append(store.sweep(now=api.clock.now(), may_go_on=lambda: True))
        store.close()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each.jobs_deleted for each in found) == 1_000
    assert sum(each.leases_expired for each in found) == 500
    assert query(api.database, "SELECT count(*) FROM attempts") == [(500,)]


def test_a_quiet_queue_is_not_locked(api: Api) -> None:
    api.new_job()
    api.new_job(delay_seconds=60)
    end(api, "cancelled")
    success(api.complete(api.claimed_job()["id"]))
    api.new_job()
    api.claimed_job()
    forget()
    with locked(api.database):
        assert api.sweep() == NOTHING


def test_a_file_that_others_keep_busy_is_left_to_the_next_one(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    end(api, "completed")
    api.clock.advance(seconds=8 * DAY)
    store = cache(lambda: Store(api.database, busy_timeout=0.05))
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "store", store)
        with locked(api.database), pytest.raises(StorageBusy):
            api.sweep()
        assert api.sweep()["jobs_deleted"] == 1
        store().close()


def test_it_says_in_the_log_what_it_did(api: Api, log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    end(api, "completed")
    api.new_job()
    api.claimed_job()
    api.clock.advance(seconds=8 * DAY)
    capsys.readouterr()
    api.sweep()
    line = log.lines[-1]
    assert (line["message"], line["request_id"]) == ("sweep", "sweep")
    assert {name: line[name] for name in NOTHING} == {"leases_expired": 1, "jobs_deleted": 1, "is_done": True}
    metrics = json.loads(capsys.readouterr().out)
    assert (metrics["verb"], metrics["LeasesExpired"], metrics["JobsDeleted"]) == ("sweep", [1.0], [1.0])


def test_it_sends_no_metric_of_nothing(api: Api, log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    api.sweep()
    assert log.lines[-1]["message"] == "sweep"
    assert capsys.readouterr().out == ""


@pytest.fixture
def old(api: Api) -> Api:
    """The functions over a file that the first release made: a job of each status, and 1,000 pending ones behind."""
    first_release.make_file(api.database)
    held = {"claimed_at": f"'{timestamp(api.clock.now())}'", "worker_id": "'mailer'"}
    add_jobs(api.database, 1, status="'running'", created_by="'billing'", retry_count="1", **held)
    add_jobs(api.database, 1, status="'completed'", created_by="'billing'", **held)
    add_jobs(api.database, 1, status="'failed'", created_by="'billing'", error="'boom'", reason="'failed'", **held)
    add_jobs(api.database, 1_000, created_by="'billing'", type="'pdf'", idempotency_key="'key-' || n")
    return api


def version(api: Api) -> int:
    ((number,),) = query(api.database, "PRAGMA user_version")
    return int(number)


def test_the_routes_work_on_an_old_file_before_the_first_sweep(old: Api) -> None:
    assert success(old.get(1))["attempt"] == 0
    assert old.new_job()["id"] == 1_004
    assert_problem(old.enqueue(type="pdf", idempotency_key="key-1"), 422, "idempotency-key-reused")
    assert old.claimed_job(types=["pdf"])["id"] == 4
    success(old.fail(4, error="boom"))
    success(old.cancel(5))
    success(old.retry(3))
    success(old.complete(1))
    assert version(old) == 1_001


def test_an_old_file_has_no_stats_until_the_sweep_has_counted(old: Api) -> None:
    assert_problem(old.stats(), 503, "storage-unavailable")
    assert old.sweep() == NOTHING
    assert version(old) == 1_002
    stats = success(old.stats())
    assert stats["jobs"] == [
        {"status": "completed", "type": "email", "priority": "medium", "count": 1},
        {"status": "failed", "type": "email", "priority": "medium", "count": 1},
        {"status": "pending", "type": "pdf", "priority": "medium", "count": 1_000},
        {"status": "running", "type": "email", "priority": "medium", "count": 1},
    ]
    assert stats["running"] == {"mailer": 1}
    assert query(old.database, "PRAGMA integrity_check") == [("ok",)]


def test_nothing_of_an_old_file_is_taken_back_or_deleted_before_that(old: Api) -> None:
    old.clock.advance(seconds=100 * DAY)
    another = with_key("another", "worker")
    assert old.claim(another, types=["email"]).status == 204
    assert success(old.get(1))["status"] == "running"
    assert old.sweep() == {"leases_expired": 1, "jobs_deleted": 2, "is_done": True}
    # Its second retry, which has to wait.
    old.clock.advance(seconds=18)
    job = old.claimed_job(another, types=["email"])
    assert (job["id"], job["retry_count"], job["attempt"], job["lease_expiries"]) == (1, 2, 3, 1)


def test_a_job_that_the_first_release_claimed_counts_as_leased_for_the_default_time(old: Api) -> None:
    old.clock.advance(seconds=59.999)
    assert old.sweep() == NOTHING
    old.clock.advance(seconds=0.001)
    assert old.sweep()["leases_expired"] == 1
    (attempt,) = success(old.get(1))["attempts"]
    assert (attempt["attempt"], attempt["worker_id"], attempt["outcome"]) == (2, "mailer", "lease_expired")


def test_a_file_that_is_up_to_date_is_not_counted_again(old: Api) -> None:
    old.sweep()
    forget()
    with locked(old.database):
        assert old.sweep() == NOTHING
    assert success(old.list(ADMIN, status="pending", limit="1"))["jobs"]
    assert success(old.complete(1, WORKER))["status"] == "completed"
