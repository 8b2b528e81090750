"""POST /jobs/{id}/complete"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

ANOTHER = with_key("other mailer", "worker")


@pytest.mark.parametrize("body", [b"", b"{}", b" { } "])
def test_a_job_is_completed_with_an_empty_body_or_an_empty_object(api: Api, body: bytes) -> None:
    api.new_job()
    job = api.claimed_job()
    api.clock.advance(seconds=2)
    completed = success(api.ask("complete_job", WORKER, id=job["id"], body=body))
    for name in ("payload", "progress", "result", "lease_token"):
        del job[name]
    assert completed == job | {
        "status": "completed",
        "updated_at": "2026-01-31T12:00:02.000Z",
        "lease_expires_at": None,
    }


def test_a_job_that_is_not_running_cannot_be_completed(api: Api) -> None:
    api.new_job(max_retries=0)
    assert_problem(api.complete(1), 409, "conflict")
    api.claimed_job()
    success(api.complete(1))
    assert_problem(api.complete(1), 409, "conflict")
    api.new_job(max_retries=0)
    api.claimed_job()
    success(api.fail(2))
    assert_problem(api.complete(2), 409, "conflict")


def test_a_job_that_another_holds_cannot_be_completed(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    before = success(api.get(1))
    for caller in (ANOTHER, ADMIN):
        assert_problem(api.complete(1, caller), 409, "conflict")
    assert success(api.get(1)) == before


def test_a_conflict_tells_nothing_of_the_job(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    held, unknown = api.complete(1, ANOTHER), api.complete(2, ANOTHER)
    assert held.raw["body"].replace("/jobs/1/", "/jobs/2/") == unknown.raw["body"]


def test_a_job_that_was_put_back_is_no_longer_its_workers(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    api.fail(1)
    assert_problem(api.complete(1), 409, "conflict")
    api.claimed_job(ANOTHER)
    assert_problem(api.complete(1), 409, "conflict")
    success(api.complete(1, ANOTHER))


# What came of it.

RESULTS: list[Any] = [
    {"message_id": "5f2b", "sent": [1, 2, 3]},
    {},
    [],
    [[None]],
    "done",
    "",
    0,
    -0.0,
    False,
    True,
    1e-7,
    2**53 + 1,
    10**400,
    'Zoë "😀" \\ \x00 \u2028',
    {"": {"\x00": None}, "b": 1, "a": 2},
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: ascii(result)[:30])
def test_any_json_is_a_result_and_comes_back_as_it_was_sent(api: Api, result: Any) -> None:
    api.new_job()
    token = api.claimed_job()["lease_token"]
    success(api.complete(1, lease_token=token, result=result))
    for caller in (PRODUCER, ADMIN):
        assert json.dumps(success(api.get(1, caller))["result"]) == json.dumps(result)


@pytest.mark.parametrize("fields", [{}, {"result": None}])
def test_a_job_may_be_completed_without_a_result(api: Api, fields: dict[str, Any]) -> None:
    api.new_job()
    api.claimed_job()
    success(api.complete(1, **fields))
    assert success(api.get(1))["result"] is None


def test_a_result_takes_65_536_bytes_as_compact_json_and_no_more(api: Api) -> None:
    for filling in ("x", '"', "é", "😀"):
        api.new_job()
        id = api.claimed_job()["id"]
        each = len(filling.encode()) + (filling == '"')
        result = filling * (65_534 // each) + "x" * (65_534 % each)
        too_large = api.complete(id, result=result + "x")
        assert assert_problem(too_large, 422, "validation-failed") == {("result", "too_large")}
        success(api.complete(id, result=result))
        assert success(api.get(id))["result"] == result


def test_a_number_that_no_reader_can_keep_is_a_fault(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    answer = api.ask("complete_job", WORKER, body=b'{"result": [1e999]}')
    assert assert_problem(answer, 422, "validation-failed") == {("result", "not_json")}
    assert success(api.get(1))["status"] == "running"


def test_the_worker_that_left_a_result_does_not_see_it_again(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    assert "result" not in success(api.complete(1, result="secret"))
    assert "result" not in success(api.get(1, WORKER))


def test_a_completed_job_keeps_what_it_was_told_before(api: Api) -> None:
    api.new_job(backoff_seconds=0)
    api.claimed_job()
    api.fail(1, error="boom")
    token = api.claimed_job()["lease_token"]
    api.heartbeat(1, lease_token=token, progress={"sent": 3})
    api.complete(1, lease_token=token, result="done")
    job = success(api.get(1))
    assert [job[name] for name in ("error", "reason", "progress", "result", "retry_count", "attempt")] == [
        "boom",
        "failed",
        {"sent": 3},
        "done",
        1,
        2,
    ]
