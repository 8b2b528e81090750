"""POST /batch/heartbeat"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import PRODUCER, assert_problem, assert_refused, codes, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api


def held(api: Api, count: int, **fields: Any) -> list[dict[str, Any]]:
    """Bring jobs into the worker's hands; return an item for each."""
    success(api.enqueue_jobs([{"type": "email"}] * count))
    return [{"id": job["id"], "lease_token": job["lease_token"]} for job in api.claimed_jobs(limit=count, **fields)]


def test_each_lease_is_extended_and_answered_in_order(api: Api) -> None:
    items = held(api, 3, lease_seconds=10)
    api.cancel(2)
    api.clock.advance(seconds=5)
    answer = api.heartbeat_jobs([items[2] | {"lease_seconds": 100}, items[0], items[1] | {"progress": {"sent": 3}}])
    assert [list(item.items()) for item in success(answer)["jobs"]] == [
        [
            ("code", 200),
            ("lease_expires_at", f"2026-01-31T12:{until}.000Z"),
            ("cancel_requested", to_be_cancelled),
            ("server_time", "2026-01-31T12:00:05.000Z"),
        ]
        for until, to_be_cancelled in (("01:45", False), ("00:15", False), ("00:15", True))
    ]
    assert answer.headers == {"Content-Type": "application/json"}
    jobs = [success(api.get(id)) for id in (1, 2, 3)]
    assert [job["progress"] for job in jobs] == [None, {"sent": 3}, None]
    assert [job["lease_expires_at"][14:19] for job in jobs] == ["00:15", "00:15", "01:45"]


@pytest.mark.parametrize("count", [1, 2, 100])
def test_a_batch_has_1_to_100_leases(api: Api, count: int) -> None:
    items = held(api, count)
    assert codes(api.heartbeat_jobs([item | {"progress": {"a": "x" * 4_000}} for item in items])) == [200] * count


@pytest.mark.parametrize(
    ("jobs", "fault"),
    [
        ([], ("jobs", "too_short")),
        ([{"id": 1, "lease_token": "t"}] * 101, ("jobs", "too_long")),
        ({}, ("jobs", "list_type")),
        (None, ("jobs", "list_type")),
    ],
    ids=["none", "101", "an object", "null"],
)
def test_any_other_number_of_leases_is_a_fault(api: Api, jobs: Any, fault: tuple[str, str]) -> None:
    assert assert_problem(api.heartbeat_jobs(jobs), 422, "validation-failed") == {fault}


RIGHT: dict[str, Any] = {"id": 1, "lease_token": "t"}


@pytest.mark.parametrize(
    ("item", "faults"),
    [
        ({}, {("id", "missing"), ("lease_token", "missing")}),
        (RIGHT | {"id": "1"}, {("id", "int_type")}),
        (RIGHT | {"id": 2**53}, {("id", "less_than_equal")}),
        (RIGHT | {"lease_token": ""}, {("lease_token", "string_too_short")}),
        (RIGHT | {"lease_seconds": 0}, {("lease_seconds", "greater_than_equal")}),
        (RIGHT | {"lease_seconds": 43_201}, {("lease_seconds", "less_than_equal")}),
        (RIGHT | {"progress": [1]}, {("progress", "dict_type")}),
        (RIGHT | {"progress": {"a": "x" * 4_089}}, {("progress", "too_large")}),
        (RIGHT | {"outcome": "completed"}, {("outcome", "extra_forbidden")}),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_a_fault_is_named_with_its_place_and_then_no_lease_is_extended(
    api: Api, item: dict[str, Any], faults: set[tuple[str, str]]
) -> None:
    (right,) = held(api, 1)
    before = success(api.get(1))
    api.clock.advance(seconds=1)
    answer = api.heartbeat_jobs([right, item])
    assert assert_problem(answer, 422, "validation-failed") == {(f"jobs[1].{name}", code) for name, code in faults}
    assert success(api.get(1)) == before


def test_lost_leases_answer_409_in_their_place_and_the_others_are_extended(api: Api) -> None:
    items = held(api, 4, lease_seconds=10)
    api.release(1)
    api.complete(2)
    items[2] |= {"lease_token": "another"}
    items.append({"id": 77, "lease_token": "t"})
    api.clock.advance(seconds=5)
    answer = api.heartbeat_jobs(items)
    assert codes(answer) == [409, 409, 409, 200, 409]
    for index in (0, 1, 2, 4):
        assert_refused(answer, index, "lease-lost")
    assert success(answer)["jobs"][3]["lease_expires_at"] == "2026-01-31T12:00:15.000Z"


def test_expired_leases_are_revived_until_they_are_taken_back(api: Api) -> None:
    items = held(api, 2, lease_seconds=10)
    api.clock.advance(seconds=100)
    assert codes(api.heartbeat_jobs(items)) == [200, 200]
    api.clock.advance(seconds=10)
    api.claimed_job(with_key("packer", "worker"))
    assert codes(api.heartbeat_jobs(items)) == [409, 409]


def test_an_id_may_come_with_a_stale_token_too(api: Api) -> None:
    (item,) = held(api, 1)
    assert codes(api.heartbeat_jobs([item | {"lease_token": "stale"}, item, item])) == [409, 200, 200]


@pytest.mark.parametrize("order", [1, -1])
def test_an_id_that_comes_several_times_is_heard_as_if_one_came_after_the_other(api: Api, order: int) -> None:
    (item,) = held(api, 1)
    items = [
        item | {"lease_seconds": 3_600, "progress": {"sent": 1}},
        item,
        item | {"progress": {"sent": 2}},
        item | {"lease_seconds": 1},
    ][::order]
    found = success(api.heartbeat_jobs(items))["jobs"]
    ends = [each["lease_expires_at"][11:19] for each in found]
    assert ends == (["13:00:00"] * 4 if order == 1 else ["12:01:00", "12:01:00", "12:01:00", "13:00:00"])
    assert success(api.get(1))["progress"] == {"sent": 2 if order == 1 else 1}


def test_leases_of_another_worker_are_lost_to_the_caller(api: Api) -> None:
    items = held(api, 2)
    assert codes(api.heartbeat_jobs(items, with_key("packer", "worker"))) == [409, 409]
    assert_problem(api.heartbeat_jobs(items, PRODUCER), 403, "forbidden")
