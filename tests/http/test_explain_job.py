"""GET /jobs/{id}/explain"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, signed, success, with_key
from tests.support import add_jobs

if TYPE_CHECKING:
    from tests.http.support import Api, Caller


def reasons(api: Api, id: int = 1, caller: Caller = ADMIN) -> dict[str, str]:
    """Return the detail of each reason, by its code."""
    explained = success(api.explain(id, caller))
    assert list(explained) == ["state", "reasons"]
    assert explained["state"] == success(api.get(id))["status"]
    assert all(list(reason)[:2] == ["code", "detail"] for reason in explained["reasons"])
    return {reason["code"]: reason["detail"] for reason in explained["reasons"]}


def recently_claimed(api: Api, **fields: Any) -> None:
    """Let a job of the type email be claimed and completed."""
    api.new_job(ADMIN, priority="critical", **fields)
    api.complete(api.claimed_job(ADMIN)["id"], ADMIN)


def test_a_job_that_is_next_has_no_reason_to_wait(api: Api) -> None:
    recently_claimed(api)
    api.new_job()
    for caller in (ADMIN, PRODUCER):
        assert success(api.explain(2, caller)) == {"state": "pending", "reasons": []}


def test_a_delayed_job_says_until_when(api: Api) -> None:
    api.new_job(delay_seconds=60)
    for caller in (ADMIN, PRODUCER):
        found = reasons(api, caller=caller)
        assert set(found) == {"delayed"}
        assert "2026-01-31T12:01:00.000Z" in found["delayed"]
    api.clock.advance(seconds=60)
    assert set(reasons(api)) == {"no_recent_claim"}


def test_a_job_that_waits_for_its_retry_says_so(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    api.fail(1, retry_in_seconds=60)
    for caller in (ADMIN, PRODUCER):
        found = reasons(api, caller=caller)
        assert set(found) == {"backoff"}
        assert "2026-01-31T12:01:00.000Z" in found["backoff"]


def test_an_admin_hears_how_many_jobs_are_in_front(api: Api) -> None:
    recently_claimed(api)
    for priority in ("low", "high", "medium", "low", "critical"):
        api.new_job(ADMIN, priority=priority)
    api.new_job(ADMIN, type="pdf", priority="critical")
    api.new_job(ADMIN, priority="critical", delay_seconds=60)
    counted = {id: reasons(api, id).get("behind", "0").partition(" ")[0] for id in range(2, 7)}
    assert counted == {2: "3", 3: "1", 4: "2", 5: "4", 6: "0"}


def test_the_creator_hears_nothing_of_other_jobs(api: Api) -> None:
    recently_claimed(api)
    for _ in range(2):
        api.new_job()
    assert set(reasons(api, 3, ADMIN)) == {"behind"}
    assert reasons(api, 3, PRODUCER) == {}


@pytest.mark.parametrize(("in_front", "shown"), [(999, "999"), (1_001, "1000+"), (3_000, "1000+")])
def test_jobs_in_front_are_counted_to_1_000(api: Api, in_front: int, shown: str) -> None:
    recently_claimed(api)
    add_jobs(api.database, in_front)
    id = api.new_job()["id"]
    assert reasons(api, id)["behind"].startswith(f"{shown} ")


def test_a_type_that_nobody_has_claimed_for_15_minutes_is_named(api: Api) -> None:
    recently_claimed(api)
    api.new_job()
    api.new_job(type="pdf")
    assert "no_recent_claim" not in reasons(api, 2)
    assert set(reasons(api, 3, PRODUCER)) == {"no_recent_claim"}
    api.clock.advance(seconds=900)
    assert "no_recent_claim" not in reasons(api, 2)
    api.clock.advance(seconds=0.001)
    found = reasons(api, 2, PRODUCER)
    assert set(found) == {"no_recent_claim"}
    assert "email" in found["no_recent_claim"]


def test_a_claim_of_any_worker_by_any_route_is_a_recent_one(api: Api) -> None:
    api.new_job()
    api.new_job(PRODUCER, priority="low")
    api.claimed_jobs(with_key("packer", "worker"), limit=1)
    assert reasons(api, 2) == {}


def test_a_running_job_says_who_holds_it_and_until_when(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    found = reasons(api)
    assert set(found) == {"running"}
    assert "mailer" in found["running"]
    assert "2026-01-31T12:01:00.000Z" in found["running"]
    assert reasons(api, caller=PRODUCER) == found


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_job_that_has_ended_says_when(api: Api, status: str) -> None:
    api.new_job()
    api.clock.advance(seconds=5)
    if status == "cancelled":
        api.cancel(1)
    else:
        api.claimed_job()
        success(api.complete(1) if status == "completed" else api.fail(1, permanent=True, error="secret boom"))
    found = reasons(api, caller=PRODUCER)
    assert set(found) == {"ended"}
    assert "2026-01-31T12:00:05.000Z" in found["ended"]
    assert "boom" not in found["ended"]


@pytest.mark.parametrize(
    "other",
    [with_key("shop", "producer"), with_key("mailer", "producer", "worker"), signed("Producer")],
    ids=["another producer", "the holder, which produces too", "a signed producer"],
)
def test_a_job_of_another_is_not_there(api: Api, other: Caller) -> None:
    api.new_job()
    api.claimed_job()
    hidden, unknown = api.explain(1, other), api.explain(2, other)
    assert_problem(hidden, 404, "not-found")
    assert hidden.raw["body"].replace("/jobs/1/", "/jobs/2/") == unknown.raw["body"]


def test_a_worker_gets_no_explanation_even_of_what_it_holds(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    for id in (1, 2):
        assert_problem(api.explain(id, WORKER), 403, "forbidden")


def test_an_id_of_no_job_is_404(api: Api) -> None:
    for caller in (PRODUCER, ADMIN):
        assert_problem(api.explain(1, caller), 404, "not-found")
