"""V-03: a caller marks every job critical and so jumps the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, PRODUCER, assert_problem, codes, signed, success, with_key

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


def test_one_job_above_the_ceiling_refuses_its_whole_batch(api: Api) -> None:
    answer = api.enqueue_jobs([{"type": "email"}, {"type": "email", "priority": "high"}])
    assert assert_problem(answer, 403, "forbidden") == {("jobs[1].priority", "forbidden")}
    assert success(api.list())["jobs"] == []
    assert codes(api.enqueue_jobs([{"type": "email", "priority": "critical"}], ADMIN)) == [201]


@pytest.mark.parametrize("run_at", ["2000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "2026-01-31T11:59:59.999Z"])
def test_a_time_in_the_past_is_no_way_to_the_front(api: Api, run_at: str) -> None:
    waiting = api.new_job(with_key("shop", "producer"))
    api.new_job(run_at=run_at)
    api.enqueue_jobs([{"type": "email", "run_at": run_at}])
    assert api.claimed_job()["id"] == waiting["id"]


def test_failing_and_retrying_are_no_ways_to_the_front(api: Api) -> None:
    both = with_key("billing", "producer", "worker")
    api.new_job(both)
    api.claimed_job(both)
    api.clock.advance(seconds=1)
    waiting = api.new_job(with_key("shop", "producer"))
    success(api.fail(1, both, retry_in_seconds=1))
    assert_problem(api.retry(1, both), 403, "forbidden")
    api.clock.advance(seconds=10)
    assert api.claimed_job()["id"] == waiting["id"]
