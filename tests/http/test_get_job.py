"""GET /jobs/{id}: who sees a job at all, and what of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, signed, success, with_key

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
]
ADMIN_SEES = set(FIELDS)
CREATOR_SEES = ADMIN_SEES - {"error"}
HOLDER_SEES = ADMIN_SEES - {"error", "idempotency_key", "reason", "created_by"}
ONCE_HOLDER_SEES = HOLDER_SEES - {"payload"}
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

SEES = {"pending": NOT_HELD, "running": HELD, "completed": ONCE_HELD, "failed": ONCE_HELD, "put back": NOT_HELD}


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
        assert listed == ([alone.body] if alone.status == 200 else [])


@pytest.mark.parametrize("state", SEES)
def test_fields_come_in_the_documented_order(api: Api, state: str) -> None:
    bring_to(api, state)
    for caller in CALLERS.values():
        answer = api.get(1, caller)
        if answer.status == 200:
            assert list(answer.body) == [name for name in FIELDS if name in answer.body]


def bring_to(api: Api, state: str) -> None:
    api.new_job(payload={"a": 1}, idempotency_key="k", max_retries=0 if state == "failed" else 3)
    if state != "pending":
        api.claimed_job()
    if state == "completed":
        api.complete(1)
    if state in {"failed", "put back"}:
        api.fail(1, error="boom")


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
    assert set(success(api.complete(1))) == set(success(api.fail(2))) == ONCE_HOLDER_SEES
    assert set(success(api.get(3, WORKER))) == HOLDER_SEES
