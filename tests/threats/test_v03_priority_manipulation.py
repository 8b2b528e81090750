"""V-03: a caller marks every job critical and so jumps the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, PRODUCER, assert_problem, signed, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

ATTEMPTS: list[tuple[dict[str, Any], int]] = [
    ({"priority": "critical"}, 403),
    ({"priority": "CRITICAL"}, 403),
    ({"priority": "High"}, 403),
    ({"priority": 30}, 422),
    ({"priority": "30"}, 422),
    ({"priority": ["critical"]}, 422),
    ({"priority": "medium", "due_at": "2000-01-01T00:00:00.000Z"}, 422),
    ({"priority": "medium", "max_priority": "critical"}, 422),
    ({"priority": "medium", "created_at": "2000-01-01T00:00:00.000Z"}, 422),
]


@pytest.mark.parametrize("caller", [PRODUCER, signed("Producer")], ids=["key", "signature"])
@pytest.mark.parametrize(("fields", "status"), ATTEMPTS)
def test_a_job_gets_no_further_forward_than_its_callers_ceiling(
    api: Api, caller: Any, fields: dict[str, Any], status: int
) -> None:
    waiting = api.new_job(with_key("shop", "producer"))
    answer = api.enqueue(caller, **fields)
    assert_problem(answer, status, {403: "forbidden", 422: "validation-failed"}[status])
    api.new_job(caller)
    assert api.claimed_job()["id"] == waiting["id"]


def test_a_priority_cannot_be_raised_by_sending_the_job_again(api: Api) -> None:
    job = api.new_job(idempotency_key="k", priority="low")
    assert_problem(api.enqueue(idempotency_key="k", priority="critical"), 403, "forbidden")
    assert_problem(api.enqueue(idempotency_key="k", priority="medium"), 422, "idempotency-key-reused")
    assert success(api.get(job["id"]))["priority"] == "low"


def test_whoever_may_be_urgent_is_served_first(api: Api) -> None:
    api.new_job()
    urgent = api.new_job(ADMIN, priority="critical")
    assert api.claimed_job()["id"] == urgent["id"]
