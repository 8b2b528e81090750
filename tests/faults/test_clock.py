"""A clock that jumps back by an hour: what falls due later for it, and that nothing is lost or done twice.

tests/core/test_model.py lets it jump between any two calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, assert_problem, success, with_key
from tests.support import START, SteppedClock

if TYPE_CHECKING:
    from tests.faults.support import Site

HOUR = 3_600
BEFORE = "2026-01-31T12:00:00.000Z"
AFTER = "2026-01-31T11:00:00.000Z"
OTHER = with_key("other", "worker")


@pytest.fixture
def jumped(site: Site) -> Site:
    """A queue that was in use until the clock jumped back."""
    site.api.clock.advance(seconds=-HOUR)
    return site


def test_no_request_fails_for_it(jumped: Site) -> None:
    for request in (*jumped.looks().values(), *jumped.changes().values()):
        assert request().status < 500
    jumped.api.sweep()
    jumped.assert_sound()


def test_nothing_is_lost(jumped: Site) -> None:
    jumped.assert_sound()
    assert sorted(jumped.ids()) == jumped.made
    jumped.api.clock.advance(seconds=HOUR)
    jumped.assert_nothing_lost()


def test_jobs_from_before_wait_until_the_clock_has_caught_up_and_new_ones_do_not(jumped: Site) -> None:
    api = jumped.api
    answer = api.claim()
    assert (answer.status, answer.headers["Retry-After"]) == (204, "20")
    reasons = success(api.explain(jumped.made[-1]))["reasons"]
    assert [reason["code"] for reason in reasons] == ["delayed"]
    assert success(api.stats())["next_run_at"] == BEFORE
    new = api.new_job()
    assert api.claimed_job()["id"] == new["id"]
    success(api.complete(new["id"]))
    assert api.claim().status == 204
    api.clock.advance(seconds=HOUR)
    assert [api.claimed_job(OTHER)["id"] for _ in range(2)] == jumped.made[1:]


def test_a_lease_is_held_for_as_much_longer_and_its_token_counts(jumped: Site) -> None:
    api, held = jumped.api, jumped.held
    assert api.sweep()["leases_expired"] == 0
    beat = success(api.heartbeat(held["id"], lease_token=held["lease_token"]))
    # Never to an earlier end.
    assert beat["lease_expires_at"] == held["lease_expires_at"] == "2026-01-31T12:01:00.000Z"
    api.clock.advance(seconds=HOUR + 59)
    assert api.sweep()["leases_expired"] == 0
    for _ in range(2):
        done = success(api.complete(held["id"], lease_token=held["lease_token"]))
        assert (done["status"], done["attempt"]) == ("completed", 1)


def test_a_dead_worker_s_job_comes_back_as_much_later(jumped: Site) -> None:
    api, held = jumped.api, jumped.held
    api.clock.advance(seconds=HOUR + 60)
    assert api.sweep()["leases_expired"] == 1
    assert held["id"] in [api.claimed_job(OTHER)["id"] for _ in range(3)]
    assert_problem(api.complete(held["id"], lease_token=held["lease_token"]), 409, "lease-lost")


def test_what_was_claimed_meanwhile_is_taken_back_at_once_when_the_clock_is_set_right(jumped: Site) -> None:
    api = jumped.api
    api.new_job(max_retries=0)
    mine = api.claimed_job(lease_seconds=600)
    api.clock.advance(seconds=HOUR)
    # A heartbeat that comes first holds it.
    success(api.heartbeat(mine["id"], lease_token=mine["lease_token"]))
    assert api.sweep()["leases_expired"] == 0
    api.clock.advance(seconds=-HOUR)
    api.new_job()
    lost = api.claimed_job(lease_seconds=600)
    api.clock.advance(seconds=HOUR)
    assert api.sweep()["leases_expired"] == 1
    assert_problem(api.complete(lost["id"], lease_token=lost["lease_token"]), 409, "lease-lost")
    success(api.complete(mine["id"], lease_token=mine["lease_token"]))


def test_one_sandbox_with_a_clock_an_hour_behind_gives_no_job_to_two_workers(site: Site) -> None:
    api, right = site.api, site.api.clock
    behind = SteppedClock(START)
    behind.advance(seconds=-HOUR)
    api.clock = behind
    assert api.claim().status == 204
    new = api.new_job()
    mine = api.claimed_job()
    assert mine["id"] == new["id"]
    api.clock = right
    # To everybody else this lease has long ended; whoever takes it over has the only token that counts.
    api.sweep()
    other = [job for job in api.claimed_jobs(OTHER) if job["id"] == new["id"]]
    assert_problem(api.complete(mine["id"], lease_token=mine["lease_token"]), 409, "lease-lost")
    assert [job["attempt"] for job in other] == [2]
    success(api.complete(new["id"], OTHER, lease_token=other[0]["lease_token"]))
    api.clock = behind
    assert_problem(api.complete(mine["id"], lease_token=mine["lease_token"]), 409, "lease-lost")
    site.assert_sound()


def test_a_failure_waits_from_the_time_that_it_now_is(jumped: Site) -> None:
    api, held = jumped.api, jumped.held
    failed = success(api.fail(held["id"], lease_token=held["lease_token"], retry_in_seconds=30))
    api.clock.advance(seconds=30)
    assert success(api.get(held["id"]))["run_at"] == "2026-01-31T11:00:30.000Z"
    assert api.claimed_job()["id"] == failed["id"]


def test_the_sweep_deletes_nothing_before_its_time(site: Site) -> None:
    api, held = site.api, site.held
    success(api.complete(held["id"], lease_token=held["lease_token"]))
    api.clock.advance(seconds=-HOUR)
    assert api.sweep()["jobs_deleted"] == 0
    api.clock.advance(seconds=7 * 86_400 + HOUR)
    assert api.sweep()["jobs_deleted"] == 0
    api.clock.advance(seconds=1)
    assert api.sweep()["jobs_deleted"] == 1


def test_a_repeat_is_still_a_repeat(site: Site) -> None:
    api = site.api
    made = api.new_job(type="pdf", idempotency_key="key")
    claimed = api.claimed_job(request_id="request", types=["pdf"])
    api.clock.advance(seconds=-HOUR)
    replayed = api.enqueue(type="pdf", idempotency_key="key")
    assert (replayed.status, replayed.body["id"]) == (200, made["id"])
    assert api.claimed_job(request_id="request", types=["pdf"]) == claimed
    success(api.complete(made["id"], lease_token=claimed["lease_token"]))
    success(api.complete(made["id"], lease_token=claimed["lease_token"]))
    assert api.enqueue(type="pdf", idempotency_key="key").body["status"] == "completed"
    assert len(site.ids()) == 4


def test_the_history_keeps_its_order_and_each_change_the_time_at_which_it_was_made(jumped: Site) -> None:
    api, held = jumped.api, jumped.held
    id = held["id"]
    failed = success(api.fail(id, lease_token=held["lease_token"], retry_in_seconds=0))
    assert (failed["created_at"], failed["updated_at"]) == (BEFORE, AFTER)
    api.clock.advance(seconds=HOUR)
    again = api.claimed_job()
    assert again["id"] == id
    api.clock.advance(seconds=-HOUR)
    success(api.release(id, lease_token=again["lease_token"]))
    history: list[dict[str, Any]] = success(api.get(id, ADMIN))["attempts"]
    assert [(each["attempt"], each["outcome"], each["claimed_at"], each["ended_at"]) for each in history] == [
        (1, "failed", BEFORE, AFTER),
        (2, "released", BEFORE, AFTER),
    ]
    assert [job["id"] for job in success(api.list())["jobs"]] == sorted(jumped.made, reverse=True)
