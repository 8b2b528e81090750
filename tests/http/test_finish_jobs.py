"""POST /batch/finish"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import (
    ADMIN,
    PRODUCER,
    WORKER,
    assert_problem,
    assert_refused,
    codes,
    success,
    with_key,
)

if TYPE_CHECKING:
    from tests.http.support import Api

PACKER = with_key("packer", "worker")


def held(api: Api, count: int, **fields: Any) -> list[dict[str, Any]]:
    """Bring jobs into the worker's hands; return an item for each, which says that it is completed."""
    success(api.enqueue_jobs([{"type": "email", **fields}] * count))
    return [
        {"id": job["id"], "lease_token": job["lease_token"], "outcome": "completed"}
        for job in api.claimed_jobs(limit=count)
    ]


def statuses(api: Api) -> list[str]:
    return [job["status"] for job in success(api.list(limit="100"))["jobs"]][::-1]


def test_each_job_ends_as_its_item_says_and_is_answered_in_order(api: Api) -> None:
    done, again, later, never, back = held(api, 5)
    items = [
        never | {"outcome": "failed", "error": "no such address", "permanent": True},
        done | {"result": {"sent": 1}},
        later | {"outcome": "failed", "error": "busy", "retry_in_seconds": 300},
        again | {"outcome": "failed"},
        back | {"outcome": "released"},
    ]
    answer = api.finish_jobs(items)
    assert codes(answer) == [200] * 5
    assert answer.headers == {"Content-Type": "application/json"}
    jobs = [item["job"] for item in success(answer)["jobs"]]
    assert [job["id"] for job in jobs] == [4, 1, 3, 2, 5]
    assert [job["status"] for job in jobs] == ["failed", "completed", "pending", "pending", "pending"]
    assert [job["retry_count"] for job in jobs] == [0, 0, 1, 1, 0]
    assert jobs[2]["run_at"] == "2026-01-31T12:05:00.000Z"
    assert success(api.get(1, PRODUCER))["result"] == {"sent": 1}
    assert [success(api.get(id))["error"] for id in (2, 3, 4)] == [None, "busy", "no such address"]


@pytest.mark.parametrize("caller", [WORKER, ADMIN, with_key("billing", "producer", "worker")])
def test_an_answer_shows_what_a_single_one_would_but_for_what_is_large(api: Api, caller: Any) -> None:
    success(api.enqueue_jobs([{"type": "email", "payload": {"a": 1}}] * 2))
    first, second = api.claimed_jobs(caller)
    (item,) = success(
        api.finish_jobs([{"id": 1, "lease_token": first["lease_token"], "outcome": "completed", "result": 1}], caller)
    )["jobs"]
    assert list(item) == ["code", "job"]
    single = success(api.complete(2, caller, lease_token=second["lease_token"], result=1))
    shown = [name for name in single if name not in {"payload", "progress", "result"}]
    assert list(item["job"]) == shown
    assert item["job"] | {"id": 2} == {name: single[name] for name in shown}


@pytest.mark.parametrize("count", [1, 2, 100])
def test_a_batch_has_1_to_100_jobs(api: Api, count: int) -> None:
    assert codes(api.finish_jobs(held(api, count))) == [200] * count
    assert statuses(api) == ["completed"] * count


@pytest.mark.parametrize(
    ("jobs", "fault"),
    [
        ([], ("jobs", "too_short")),
        ([{"id": 1, "lease_token": "t", "outcome": "completed"}] * 101, ("jobs", "too_long")),
        ({}, ("jobs", "list_type")),
        (None, ("jobs", "list_type")),
    ],
    ids=["none", "101", "an object", "null"],
)
def test_any_other_number_of_jobs_is_a_fault(api: Api, jobs: Any, fault: tuple[str, str]) -> None:
    assert assert_problem(api.finish_jobs(jobs), 422, "validation-failed") == {fault}


RIGHT: dict[str, Any] = {"id": 1, "lease_token": "t", "outcome": "completed"}
FAILED = RIGHT | {"outcome": "failed"}
RELEASED = RIGHT | {"outcome": "released"}


@pytest.mark.parametrize(
    ("item", "faults"),
    [
        ({}, {("id", "missing"), ("lease_token", "missing"), ("outcome", "missing")}),
        (RIGHT | {"id": 0}, {("id", "greater_than_equal")}),
        (RIGHT | {"id": 2**53}, {("id", "less_than_equal")}),
        (RIGHT | {"id": "1"}, {("id", "int_type")}),
        (RIGHT | {"id": 1.0}, {("id", "int_type")}),
        (RIGHT | {"id": True}, {("id", "int_type")}),
        (RIGHT | {"id": None}, {("id", "int_type")}),
        (RIGHT | {"lease_token": None}, {("lease_token", "string_type")}),
        (RIGHT | {"lease_token": ""}, {("lease_token", "string_too_short")}),
        (RIGHT | {"lease_token": "x" * 256}, {("lease_token", "string_too_long")}),
        (RIGHT | {"outcome": "cancelled"}, {("outcome", "literal_error")}),
        (RIGHT | {"outcome": "COMPLETED"}, {("outcome", "literal_error")}),
        (RIGHT | {"outcome": None}, {("outcome", "literal_error")}),
        (RIGHT | {"outcome": ["completed"]}, {("outcome", "literal_error")}),
        (RIGHT | {"error": "boom"}, {("outcome", "not_for_outcome")}),
        (RIGHT | {"error": ""}, {("outcome", "not_for_outcome")}),
        (RIGHT | {"retry_in_seconds": 5}, {("outcome", "not_for_outcome")}),
        (RIGHT | {"retry_in_seconds": 0}, {("outcome", "not_for_outcome")}),
        (RIGHT | {"permanent": True}, {("outcome", "not_for_outcome")}),
        (RELEASED | {"error": "boom"}, {("outcome", "not_for_outcome")}),
        (RELEASED | {"retry_in_seconds": 5}, {("outcome", "not_for_outcome")}),
        (RELEASED | {"permanent": True}, {("outcome", "not_for_outcome")}),
        (RELEASED | {"result": 1}, {("result", "not_for_outcome")}),
        (RIGHT | {"result": "x" * 65_535}, {("result", "too_large")}),
        (FAILED | {"result": 1}, {("result", "not_for_outcome")}),
        (FAILED | {"result": 0}, {("result", "not_for_outcome")}),
        (FAILED | {"error": 7}, {("error", "string_type")}),
        (FAILED | {"retry_in_seconds": -1}, {("retry_in_seconds", "greater_than_equal")}),
        (FAILED | {"retry_in_seconds": 2_592_001}, {("retry_in_seconds", "less_than_equal")}),
        (FAILED | {"retry_in_seconds": 1.5}, {("retry_in_seconds", "int_type")}),
        (FAILED | {"permanent": "yes"}, {("permanent", "bool_type")}),
        (FAILED | {"permanent": True, "retry_in_seconds": 0}, {("permanent", "not_both")}),
        (RIGHT | {"worker_id": "mailer"}, {("worker_id", "extra_forbidden")}),
        (RIGHT | {"status": "completed"}, {("status", "extra_forbidden")}),
    ],
    ids=lambda value: str(value)[:70] if isinstance(value, dict) else "",
)
def test_a_fault_is_named_with_its_place_and_then_no_job_ends(
    api: Api, item: dict[str, Any], faults: set[tuple[str, str]]
) -> None:
    (right,) = held(api, 1)
    answer = api.finish_jobs([right, item])
    assert assert_problem(answer, 422, "validation-failed") == {(f"jobs[1].{name}", code) for name, code in faults}
    assert statuses(api) == ["running"]


@pytest.mark.parametrize(
    "fields",
    [
        {"error": None, "retry_in_seconds": None, "permanent": False},
        {"result": None},
        {"outcome": "failed", "result": None, "permanent": False, "retry_in_seconds": 5},
        {"outcome": "failed", "permanent": True, "retry_in_seconds": None},
        {"outcome": "released", "error": None, "retry_in_seconds": None, "permanent": False, "result": None},
    ],
)
def test_what_is_null_or_false_goes_with_every_outcome(api: Api, fields: dict[str, Any]) -> None:
    (item,) = held(api, 1)
    assert codes(api.finish_jobs([item | fields])) == [200]


# What is stale answers in its place.


def test_stale_items_answer_409_in_their_place_and_the_others_go_through(api: Api) -> None:
    items = held(api, 6)
    success(api.release(2, lease_token=items[1]["lease_token"]))
    success(api.complete(3, lease_token=items[2]["lease_token"]))
    success(api.fail(4, lease_token=items[3]["lease_token"], permanent=True))
    items[4] |= {"lease_token": "another"}
    items.append({"id": 77, "lease_token": "t", "outcome": "completed"})
    answer = api.finish_jobs(items)
    assert codes(answer) == [200, 409, 200, 409, 409, 200, 409]
    for index, slug in ((1, "conflict"), (3, "conflict"), (4, "lease-lost"), (6, "lease-lost")):
        assert_refused(answer, index, slug)
    assert statuses(api) == ["completed", "pending", "completed", "failed", "running", "completed"]


def test_a_batch_whose_items_are_all_stale_is_an_answer_too(api: Api) -> None:
    items = held(api, 3)
    api.clock.advance(seconds=60)
    api.sweep()
    answer = api.finish_jobs(items)
    assert codes(answer) == [409] * 3
    for index in range(3):
        assert_refused(answer, index, "lease-lost")


def test_expired_leases_that_nobody_took_back_still_count(api: Api) -> None:
    items = held(api, 3)
    api.clock.advance(seconds=3_600)
    assert codes(api.finish_jobs(items)) == [200] * 3


def test_another_worker_ends_none_of_them(api: Api) -> None:
    items = held(api, 3)
    answer = api.finish_jobs(items, PACKER)
    assert codes(answer) == [409] * 3
    assert statuses(api) == ["running"] * 3
    assert_problem(api.finish_jobs(items, PRODUCER), 403, "forbidden")


def test_a_batch_that_is_sent_again_answers_with_the_jobs_as_they_are_now(api: Api) -> None:
    first, second = held(api, 2, payload={"to": "ada@example.com"})
    items = [first, second | {"outcome": "failed", "error": "boom"}]
    before = success(api.finish_jobs(items))
    assert success(api.finish_jobs(items)) == before
    api.claimed_job(PACKER)
    answer = api.finish_jobs(items)
    assert codes(answer) == [200, 200]
    assert success(answer)["jobs"][1]["job"]["worker_id"] == "packer"
    assert "ada" not in answer.raw["body"]


def test_a_job_that_was_ended_singly_is_a_repeat_in_a_batch_and_the_other_way_round(api: Api) -> None:
    first, second = held(api, 2)
    success(api.complete(1, lease_token=first["lease_token"]))
    assert codes(api.finish_jobs([first, second])) == [200, 200]
    assert success(api.complete(2, lease_token=second["lease_token"]))["status"] == "completed"
    assert_problem(api.fail(2, lease_token=second["lease_token"]), 409, "conflict")


# An id more than once.


def test_the_second_time_an_id_comes_is_a_repeat(api: Api) -> None:
    first, second = held(api, 2)
    other = first | {"outcome": "failed", "error": "boom"}
    answer = api.finish_jobs([first, second, first, other, first | {"result": "another"}])
    assert codes(answer) == [200, 200, 200, 409, 200]
    assert_refused(answer, 3, "conflict")
    assert {item["job"]["status"] for item in success(answer)["jobs"] if "job" in item} == {"completed"}
    assert success(api.get(1))["result"] is None
    assert [each["outcome"] for each in success(api.get(1))["attempts"]] == ["completed"]


def test_the_first_word_counts_when_an_id_comes_with_two_outcomes(api: Api) -> None:
    (item,) = held(api, 1)
    answer = api.finish_jobs([item | {"outcome": "failed"}, item])
    assert codes(answer) == [200, 409]
    assert_refused(answer, 1, "conflict")
    assert statuses(api) == ["pending"]


@pytest.mark.parametrize("order", [1, -1], ids=["stale first", "stale last"])
def test_a_stale_token_does_not_stand_in_the_way_of_the_right_one(api: Api, order: int) -> None:
    (stale,) = held(api, 1)
    api.clock.advance(seconds=60)
    (right,) = ({"id": job["id"], "lease_token": job["lease_token"]} for job in api.claimed_jobs())
    items = [stale, right | {"outcome": "completed"}, {"id": 1, "lease_token": "nobody's", "outcome": "failed"}][
        ::order
    ]
    answer = api.finish_jobs(items)
    assert codes(answer) == [409, 200, 409]
    assert_refused(answer, 0, "lease-lost")
    assert statuses(api) == ["completed"]


def test_each_attempt_of_one_job_gets_its_own_answer(api: Api) -> None:
    (released,) = held(api, 1)
    api.fail(1, lease_token=released["lease_token"])
    (second,) = ({"id": job["id"], "lease_token": job["lease_token"]} for job in api.claimed_jobs())
    failed, done = released | {"outcome": "failed"}, second | {"outcome": "completed"}
    answer = api.finish_jobs([failed, done, failed, released, done])
    assert codes(answer) == [200, 200, 200, 409, 200]
    assert_refused(answer, 3, "conflict")
    assert {item["job"]["status"] for item in success(answer)["jobs"] if "job" in item} == {"completed"}


def test_a_hundred_stale_tokens_of_one_job_and_the_right_one_last(api: Api) -> None:
    (right,) = held(api, 1)
    answer = api.finish_jobs([right | {"lease_token": str(number)} for number in range(99)] + [right])
    assert codes(answer) == [409] * 99 + [200]


# What is kept.


def test_an_error_is_cleaned_in_a_batch_as_well(api: Api) -> None:
    (item,) = held(api, 1)
    api.finish_jobs([item | {"outcome": "failed", "error": "postgres://ada:hunter2@db/orders is down"}])
    assert "hunter2" not in success(api.get(1))["error"]


def test_failures_of_a_batch_wait_and_count_as_single_ones_do(api: Api) -> None:
    items = held(api, 2, max_retries=1)
    for retry_count, expected in ((1, ["pending", "pending"]), (1, ["failed", "failed"])):
        answer = api.finish_jobs([item | {"outcome": "failed"} for item in items])
        assert [item["job"]["status"] for item in success(answer)["jobs"]] == expected
        assert {item["job"]["retry_count"] for item in success(answer)["jobs"]} == {retry_count}
        if expected[0] == "pending":
            items = [{"id": job["id"], "lease_token": job["lease_token"]} for job in api.claimed_jobs()]


def test_jobs_that_are_to_be_cancelled_are_cancelled_when_they_fail(api: Api) -> None:
    items = held(api, 2)
    for id in (1, 2):
        api.cancel(id)
    api.finish_jobs([items[0], items[1] | {"outcome": "failed"}])
    assert statuses(api) == ["completed", "cancelled"]
