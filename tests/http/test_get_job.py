"""GET /jobs/{id}: who sees a job at all, and what of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuelog.clock import timestamp
from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, signed, success, with_key
from tests.support import query

if TYPE_CHECKING:
    from tests.http.support import Api, Caller

FIELDS = [
    "id",
    "type",
    "payload",
    "priority",
    "status",
    "retry_count",
    "max_retries",
    "idempotency_key",
    "claimed_at",
    "worker_id",
    "error",
    "created_at",
    "updated_at",
    "reason",
    "created_by",
    "run_at",
    "backoff_seconds",
    "attempt",
    "lease_expires_at",
    "lease_expiries",
    "progress",
    "result",
    "cancel_requested",
    "replays",
    "lease_token",
    "attempts",
]
#: The token is in the answer of a claim and nowhere else.
ADMIN_SEES = set(FIELDS) - {"lease_token"}
CREATOR_SEES = ADMIN_SEES - {"error", "attempts"}
HOLDER_SEES = CREATOR_SEES - {"idempotency_key", "reason", "created_by"}
ONCE_HOLDER_SEES = HOLDER_SEES - {"payload", "progress", "result"}
NOTHING: set[str] = set()

CALLERS = {
    "creator": PRODUCER,
    "creator that works too": with_key("billing", "producer", "worker"),
    "key of the creator's name that only works": with_key("billing", "worker"),
    "worker": WORKER,
    "worker that produces too": with_key("mailer", "producer", "worker"),
    "key of the worker's name that only produces": with_key("mailer", "producer"),
    "admin": ADMIN,
    "admin of the worker's name": with_key("mailer", "admin"),
    "other producer": with_key("shop", "producer"),
    "other worker": with_key("packer", "worker"),
    "signed producer": signed("Producer"),
    "signed worker": signed("Worker"),
    "signed admin": signed("Admin"),
}
NO_ONE_ELSE = {
    "key of the creator's name that only works": NOTHING,
    "key of the worker's name that only produces": NOTHING,
    "other producer": NOTHING,
    "other worker": NOTHING,
    "signed producer": NOTHING,
    "signed worker": NOTHING,
    "creator": CREATOR_SEES,
    "creator that works too": CREATOR_SEES,
    "admin": ADMIN_SEES,
    "admin of the worker's name": ADMIN_SEES,
    "signed admin": ADMIN_SEES,
}
NOT_HELD = NO_ONE_ELSE | {"worker": NOTHING, "worker that produces too": NOTHING}
HELD = NO_ONE_ELSE | {"worker": HOLDER_SEES, "worker that produces too": HOLDER_SEES}
ONCE_HELD = NO_ONE_ELSE | {"worker": ONCE_HOLDER_SEES, "worker that produces too": ONCE_HOLDER_SEES}

SEES = {
    "pending": NOT_HELD,
    "running": HELD,
    "running, to be cancelled": HELD,
    "completed": ONCE_HELD,
    "failed": ONCE_HELD,
    "cancelled while it waited": NOT_HELD,
    "cancelled while it ran": ONCE_HELD,
    "put back": NOT_HELD,
    "released": NOT_HELD,
    "retried": NOT_HELD,
}


@pytest.mark.parametrize("state", SEES)
def test_each_caller_sees_of_a_job_what_it_may(api: Api, state: str) -> None:
    bring_to(api, state)
    assert {name: seen_by(api, caller) for name, caller in CALLERS.items()} == SEES[state]


@pytest.mark.parametrize("state", SEES)
def test_a_list_shows_the_same_as_the_job_itself(api: Api, state: str) -> None:
    bring_to(api, state)
    for caller in CALLERS.values():
        listed = success(api.list(caller))["jobs"]
        alone = api.get(1, caller)
        shown = [{name: value for name, value in alone.body.items() if name != "attempts"}]
        assert listed == (shown if alone.status == 200 else [])


@pytest.mark.parametrize("state", SEES)
def test_fields_come_in_the_documented_order(api: Api, state: str) -> None:
    bring_to(api, state)
    for caller in CALLERS.values():
        answer = api.get(1, caller)
        if answer.status == 200:
            assert list(answer.body) == [name for name in FIELDS if name in answer.body]


def bring_to(api: Api, state: str) -> None:
    api.new_job(payload={"a": 1}, idempotency_key="k")
    if state not in {"pending", "cancelled while it waited"}:
        job = api.claimed_job()
        success(api.heartbeat(1, lease_token=job["lease_token"], progress={"sent": 3}))
    if "cancelled" in state:
        success(api.cancel(1))
    if state == "completed":
        success(api.complete(1, result=[1, 2]))
    if state in {"failed", "put back", "retried", "cancelled while it ran"}:
        success(api.fail(1, error="boom", permanent=state in {"failed", "retried"}))
    if state == "released":
        success(api.release(1))
    if state == "retried":
        success(api.retry(1))


def seen_by(api: Api, caller: Caller) -> set[str]:
    answer = api.get(1, caller)
    if answer.status == 200:
        return set(answer.body)
    assert_problem(answer, 404, "not-found")
    return NOTHING


def test_a_job_that_may_not_be_seen_looks_like_one_that_is_not_there(api: Api) -> None:
    api.new_job()
    stranger = with_key("shop", "producer")
    hidden, unknown = api.get(1, stranger), api.get(2, stranger)
    assert hidden.raw["body"].replace("/jobs/1", "/jobs/2") == unknown.raw["body"]
    assert hidden.headers == unknown.headers


def test_a_worker_that_lost_a_job_to_another_no_longer_sees_it(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    api.fail(1)
    api.claimed_job(with_key("packer", "worker"))
    assert_problem(api.get(1, WORKER), 404, "not-found")


def test_what_a_worker_hears_of_a_job_that_it_ended_has_no_payload(api: Api) -> None:
    for _ in range(3):
        api.new_job(payload={"a": 1}, max_retries=1)
        api.claimed_job()
        api.new_job(payload={"a": 1})
        api.claimed_job()
    assert set(success(api.complete(1, result=1))) == set(success(api.fail(2))) == ONCE_HOLDER_SEES
    assert set(success(api.release(3))) == ONCE_HOLDER_SEES
    assert set(success(api.get(4, WORKER))) == HOLDER_SEES


def test_who_may_see_progress_and_result_sees_their_values(api: Api) -> None:
    api.new_job()
    token = api.claimed_job()["lease_token"]
    api.heartbeat(1, lease_token=token, progress={"sent": 3})
    assert [success(api.get(1, caller))["progress"] for caller in (ADMIN, PRODUCER, WORKER)] == [{"sent": 3}] * 3
    api.complete(1, lease_token=token, result=["done"])
    for caller in (ADMIN, PRODUCER):
        job = success(api.get(1, caller))
        assert (job["progress"], job["result"]) == ({"sent": 3}, ["done"])


def test_a_claim_and_nothing_else_shows_its_token(api: Api) -> None:
    api.new_job()
    token = api.claimed_job(ADMIN, request_id="r")["lease_token"]
    everything = with_key("operator", "producer", "worker", "admin")
    for caller in (ADMIN, PRODUCER, everything):
        assert token not in api.get(1, caller).raw["body"] + api.list(caller).raw["body"]
    assert token not in api.heartbeat(1, ADMIN, lease_token=token).raw["body"]
    assert token not in api.release(1, ADMIN, lease_token=token).raw["body"]


# The history.


def test_an_admin_reads_what_became_of_each_attempt(api: Api) -> None:
    api.new_job(backoff_seconds=0)
    packer = with_key("packer", "worker")

    def attempt() -> None:
        api.clock.advance(seconds=1)
        api.claimed_job(packer if api.clock.now().second % 2 else WORKER, lease_seconds=5)
        api.clock.advance(seconds=1)

    attempt()
    api.fail(1, packer, error="boom")
    attempt()
    api.release(1, packer)
    attempt()
    api.clock.advance(seconds=5)
    attempt()
    api.cancel(1)
    api.fail(1, error="stopped")
    api.retry(1)
    attempt()
    api.complete(1)
    assert success(api.get(1))["attempts"] == [
        {
            "attempt": 1,
            "worker_id": "packer",
            "claimed_at": "2026-01-31T12:00:01.000Z",
            "ended_at": "2026-01-31T12:00:02.000Z",
            "outcome": "failed",
            "error": "boom",
        },
        {
            "attempt": 2,
            "worker_id": "packer",
            "claimed_at": "2026-01-31T12:00:03.000Z",
            "ended_at": "2026-01-31T12:00:04.000Z",
            "outcome": "released",
            "error": None,
        },
        {
            "attempt": 3,
            "worker_id": "packer",
            "claimed_at": "2026-01-31T12:00:05.000Z",
            "ended_at": "2026-01-31T12:00:12.000Z",
            "outcome": "lease_expired",
            "error": "lease expired",
        },
        {
            "attempt": 4,
            "worker_id": "mailer",
            "claimed_at": "2026-01-31T12:00:12.000Z",
            "ended_at": "2026-01-31T12:00:13.000Z",
            "outcome": "cancelled",
            "error": "stopped",
        },
        {
            "attempt": 5,
            "worker_id": "mailer",
            "claimed_at": "2026-01-31T12:00:14.000Z",
            "ended_at": "2026-01-31T12:00:15.000Z",
            "outcome": "completed",
            "error": None,
        },
    ]


def test_the_history_has_no_attempt_that_is_still_running(api: Api) -> None:
    api.new_job()
    assert success(api.get(1))["attempts"] == []
    api.claimed_job()
    assert success(api.get(1))["attempts"] == []


def test_only_the_last_500_attempts_are_shown(api: Api) -> None:
    api.new_job()
    query(
        api.database,
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 502) "
        "INSERT INTO attempts SELECT 1, n, 'mailer', ?, ?, 'released', 'release', NULL, NULL FROM numbers",
        [timestamp(api.clock.now())] * 2,
    )
    shown = [each["attempt"] for each in success(api.get(1))["attempts"]]
    assert shown == list(range(3, 503))
