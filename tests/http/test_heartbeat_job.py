"""POST /jobs/{id}/heartbeat"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, success

if TYPE_CHECKING:
    from tests.http.support import Api

START = "2026-01-31T12:00:00.000Z"


def held(api: Api, **fields: Any) -> str:
    """Bring job 1 into the worker's hands and return its token."""
    api.new_job()
    token: str = api.claimed_job(**fields)["lease_token"]
    return token


def test_a_heartbeat_answers_the_lease_whether_to_stop_and_the_time(api: Api) -> None:
    token = held(api)
    api.clock.advance(seconds=1.25)
    answer = api.heartbeat(1, lease_token=token)
    assert list(success(answer).items()) == [
        ("lease_expires_at", "2026-01-31T12:01:01.250Z"),
        ("cancel_requested", False),
        ("server_time", "2026-01-31T12:00:01.250Z"),
    ]
    assert answer.headers == {"Content-Type": "application/json"}
    job = success(api.get(1))
    assert job["lease_expires_at"] == "2026-01-31T12:01:01.250Z"
    # It is no change of status.
    assert job["updated_at"] == START


def test_a_heartbeat_extends_by_the_claims_own_length_unless_told(api: Api) -> None:
    token = held(api, lease_seconds=120)
    api.clock.advance(seconds=60)
    until = [
        success(api.heartbeat(1, lease_token=token, **fields))["lease_expires_at"][11:19]
        for fields in ({}, {"lease_seconds": None}, {"lease_seconds": 300}, {"lease_seconds": 43_200})
    ]
    assert until == ["12:03:00", "12:03:00", "12:06:00", "00:01:00"]


def test_another_length_is_for_once(api: Api) -> None:
    token = held(api, lease_seconds=10)
    success(api.heartbeat(1, lease_token=token, lease_seconds=20))
    api.clock.advance(seconds=15)
    assert success(api.heartbeat(1, lease_token=token))["lease_expires_at"] == "2026-01-31T12:00:25.000Z"


def test_a_heartbeat_never_shortens_a_lease(api: Api) -> None:
    token = held(api, lease_seconds=100)
    api.clock.advance(seconds=10)
    for seconds in (1, 89, 90):
        found = success(api.heartbeat(1, lease_token=token, lease_seconds=seconds))
        assert found["lease_expires_at"] == "2026-01-31T12:01:40.000Z"


def test_heartbeats_hold_a_job_for_longer_than_any_lease(api: Api) -> None:
    token = held(api, lease_seconds=10)
    for _ in range(20):
        api.clock.advance(seconds=9)
        success(api.heartbeat(1, lease_token=token))
        assert api.claim(ADMIN).status == 204
    assert success(api.complete(1, lease_token=token))["attempt"] == 1


def test_an_expired_lease_that_nobody_took_back_is_revived(api: Api) -> None:
    token = held(api, lease_seconds=10)
    api.clock.advance(seconds=1_000)
    found = success(api.heartbeat(1, lease_token=token))
    assert found["lease_expires_at"] == "2026-01-31T12:16:50.000Z"
    assert api.claim(ADMIN).status == 204
    assert api.sweep()["leases_expired"] == 0


def test_a_cancel_is_told_by_the_next_heartbeat(api: Api) -> None:
    token = held(api)
    assert success(api.heartbeat(1, lease_token=token))["cancel_requested"] is False
    success(api.cancel(1))
    for _ in range(2):
        assert success(api.heartbeat(1, lease_token=token))["cancel_requested"] is True


def test_progress_is_kept_until_the_next_one(api: Api) -> None:
    token = held(api)
    progress: dict[str, Any]
    for progress in ({"sent": 1}, {}, {"note": 'Zoë "😀"\x00\n', "of": [1, None, {"deep": 1e-7}]}):
        success(api.heartbeat(1, lease_token=token, progress=progress))
        assert success(api.get(1, PRODUCER))["progress"] == progress
        success(api.heartbeat(1, lease_token=token))
        success(api.heartbeat(1, lease_token=token, progress=None))
        assert success(api.get(1, PRODUCER))["progress"] == progress


def test_progress_outlives_the_attempt(api: Api) -> None:
    token = held(api)
    success(api.heartbeat(1, lease_token=token, progress={"sent": 3}))
    success(api.fail(1, lease_token=token))
    assert success(api.get(1, PRODUCER))["progress"] == {"sent": 3}
    # Where the last attempt came to is what the next one starts from.
    assert api.claimed_job()["progress"] == {"sent": 3}


def test_progress_takes_4_096_bytes_as_compact_json_and_no_more(api: Api) -> None:
    token = held(api)
    for filling in ("x", '"', "é", "😀"):
        each = len(filling.encode()) + (filling == '"')
        spare = 4_096 - len('{"a":"","b":""}')
        progress = {"a": filling * (spare // each), "b": "x" * (spare % each)}
        success(api.heartbeat(1, lease_token=token, progress=progress))
        assert success(api.get(1))["progress"] == progress
        answer = api.heartbeat(1, lease_token=token, progress=progress | {"b": progress["b"] + "x"})
        assert assert_problem(answer, 422, "validation-failed") == {("progress", "too_large")}


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, ("lease_token", "missing")),
        ({"lease_token": None}, ("lease_token", "string_type")),
        ({"lease_token": ""}, ("lease_token", "string_too_short")),
        ({"lease_token": "x" * 256}, ("lease_token", "string_too_long")),
        ({"lease_token": 1}, ("lease_token", "string_type")),
        ({"lease_token": ["t"]}, ("lease_token", "string_type")),
        ({"lease_token": "t", "lease_seconds": 0}, ("lease_seconds", "greater_than_equal")),
        ({"lease_token": "t", "lease_seconds": -1}, ("lease_seconds", "greater_than_equal")),
        ({"lease_token": "t", "lease_seconds": 43_201}, ("lease_seconds", "less_than_equal")),
        ({"lease_token": "t", "lease_seconds": 10**400}, ("lease_seconds", "less_than_equal")),
        ({"lease_token": "t", "lease_seconds": 60.0}, ("lease_seconds", "int_type")),
        ({"lease_token": "t", "lease_seconds": "60"}, ("lease_seconds", "int_type")),
        ({"lease_token": "t", "lease_seconds": True}, ("lease_seconds", "int_type")),
        ({"lease_token": "t", "progress": []}, ("progress", "dict_type")),
        ({"lease_token": "t", "progress": "half"}, ("progress", "dict_type")),
        ({"lease_token": "t", "progress": 50}, ("progress", "dict_type")),
        ({"lease_token": "t", "worker_id": "mailer"}, ("worker_id", "extra_forbidden")),
        ({"lease_token": "t", "cancel_requested": False}, ("cancel_requested", "extra_forbidden")),
    ],
)
def test_a_wrong_field_is_a_fault_and_extends_nothing(api: Api, fields: dict[str, Any], fault: tuple[str, str]) -> None:
    held(api)
    before = success(api.get(1))
    api.clock.advance(seconds=1)
    assert assert_problem(api.heartbeat(1, **fields), 422, "validation-failed") == {fault}
    assert success(api.get(1)) == before


def test_a_number_that_no_reader_can_keep_is_a_fault(api: Api) -> None:
    answer = api.ask("heartbeat_job", WORKER, body=b'{"lease_token": "t", "progress": {"n": 1e999}}')
    assert assert_problem(answer, 422, "validation-failed") == {("progress", "not_json")}


@pytest.mark.parametrize("status", ["pending", "completed", "failed", "cancelled"])
def test_a_job_that_is_not_running_is_a_lost_lease(api: Api, status: str) -> None:
    token = held(api)
    if status == "pending":
        api.release(1)
    if status == "completed":
        api.complete(1)
    if status == "failed":
        api.fail(1, permanent=True)
    if status == "cancelled":
        api.cancel(1)
        api.release(1)
    before = success(api.get(1))
    assert before["status"] == status
    assert_problem(api.heartbeat(1, lease_token=token, progress={"late": True}), 409, "lease-lost")
    assert success(api.get(1)) == before


def test_an_id_of_no_job_is_a_lost_lease(api: Api) -> None:
    for id in (1, 2**53 - 1):
        assert_problem(api.heartbeat(id, lease_token="t"), 409, "lease-lost")
