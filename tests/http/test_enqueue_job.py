"""POST /jobs"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.conftest import forget
from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, event, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

KEY = "invoice 7"


def test_a_new_job_is_201_with_its_location(api: Api) -> None:
    answer = api.enqueue(payload={"to": "ada@example.com"})
    job = success(answer, 201)
    assert answer.headers == {"Content-Type": "application/json", "Location": f"/v1/jobs/{job['id']}"}


def test_a_slash_at_the_end_of_the_path_is_passed_over(api: Api) -> None:
    changes = {
        "path": "/jobs/",
        "requestContext": event("enqueue_job", PRODUCER)["requestContext"] | {"path": "/v1/jobs/"},
    }
    answer = api.ask("enqueue_job", PRODUCER, body={"type": "email"}, changes=changes)
    assert (answer.status, answer.headers["Location"]) == (201, "/v1/jobs/1")


def test_a_new_job_has_every_field_in_the_documented_order(api: Api) -> None:
    job = success(api.enqueue(ADMIN, payload={"to": "ada@example.com"}), 201)
    assert list(job.items()) == [
        ("id", 1),
        ("type", "email"),
        ("payload", {"to": "ada@example.com"}),
        ("priority", "medium"),
        ("status", "pending"),
        ("retry_count", 0),
        ("max_retries", 3),
        ("idempotency_key", None),
        ("claimed_at", None),
        ("worker_id", None),
        ("error", None),
        ("created_at", "2026-01-31T12:00:00.000Z"),
        ("updated_at", "2026-01-31T12:00:00.000Z"),
        ("reason", None),
        ("created_by", "operator"),
        ("run_at", "2026-01-31T12:00:00.000Z"),
        ("backoff_seconds", 15),
        ("attempt", 0),
        ("lease_expires_at", None),
        ("lease_expiries", 0),
        ("progress", None),
        ("result", None),
        ("cancel_requested", False),
        ("replays", 0),
    ]


def test_an_answer_is_compact_json_without_ascii_escapes(api: Api) -> None:
    body = api.enqueue(payload={"to": "Zoë"}).raw["body"]
    assert '"payload":{"to":"Zoë"},"priority":"medium"' in body


@pytest.mark.parametrize("label", ["low", "LOW", "Medium", "mEDIUM", "high", "HIGH", "critical", "CRITICAL"])
def test_a_priority_comes_in_any_letter_case_and_goes_out_in_lower_case(api: Api, label: str) -> None:
    assert api.new_job(ADMIN, priority=label)["priority"] == label.lower()


def test_ids_ascend(api: Api) -> None:
    assert [api.new_job()["id"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["email", "pdf", "sync"])
def test_every_type_of_the_stack_is_taken(api: Api, kind: str) -> None:
    assert api.new_job(type=kind)["type"] == kind


def test_the_stacks_types_may_be_others(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_JOB_TYPES", "video:encode, video.v2")
    forget()
    assert api.new_job(type="video:encode")["type"] == "video:encode"
    assert assert_problem(api.enqueue(type="email"), 422, "validation-failed") == {("type", "unknown_type")}


def test_a_type_that_is_not_the_stacks_is_422_and_one_that_is_not_the_callers_403(api: Api) -> None:
    caller = with_key("shop", "producer", types=["email", "fax"])
    assert_problem(api.enqueue(caller, type="fax"), 422, "validation-failed")
    assert_problem(api.enqueue(caller, type="pdf"), 403, "forbidden")
    success(api.enqueue(caller, type="email"), 201)


def test_a_request_is_valid_before_it_is_allowed(api: Api) -> None:
    assert_problem(api.enqueue(priority="critical", max_retries=99), 422, "validation-failed")
    assert_problem(api.enqueue(priority="critical"), 403, "forbidden")


def test_the_default_priority_needs_leave_as_well(api: Api) -> None:
    lowly = with_key("shop", "producer", max_priority="low")
    assert_problem(api.enqueue(lowly), 403, "forbidden")
    assert api.new_job(lowly, priority="low")["priority"] == "low"


# Idempotency.


def test_the_same_key_and_request_get_the_same_job_as_it_is_now(api: Api) -> None:
    first = api.enqueue(idempotency_key=KEY, payload={"a": 1})
    assert "Idempotent-Replayed" not in first.headers
    api.claimed_job()
    api.complete(first.body["id"])
    again = api.enqueue(idempotency_key=KEY, payload={"a": 1})
    assert success(again, 200)["status"] == "completed"
    assert again.body["id"] == first.body["id"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"]
    assert len(success(api.list())["jobs"]) == 1


@pytest.mark.parametrize("name", ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"])
def test_the_key_may_come_in_the_header_or_in_the_body(api: Api, name: str) -> None:
    job = success(api.enqueue(headers={name: KEY}), 201)
    assert job["idempotency_key"] == KEY
    assert success(api.enqueue(idempotency_key=KEY), 200)["id"] == job["id"]
    assert success(api.enqueue(idempotency_key=None, headers={name: KEY}), 200)["id"] == job["id"]
    assert success(api.enqueue(idempotency_key=KEY, headers={name: KEY}), 200)["id"] == job["id"]


def test_two_different_keys_are_a_fault(api: Api) -> None:
    answer = api.enqueue(idempotency_key="one", headers={"Idempotency-Key": "another"})
    assert assert_problem(answer, 422, "validation-failed") == {("idempotency_key", "two_keys")}
    assert success(api.list())["jobs"] == []


@pytest.mark.parametrize(
    "other",
    [
        {"type": "pdf"},
        {"payload": {"a": 2}},
        {"payload": {"a": 1.0}},
        {"payload": {"a": "1"}},
        {"payload": {"a": 1, "b": None}},
        {"priority": "low"},
        {"max_retries": 4},
    ],
)
def test_the_same_key_with_another_request_is_refused(api: Api, other: dict[str, Any]) -> None:
    request: dict[str, Any] = {"payload": {"a": 1}, "priority": "medium", "max_retries": 3, "idempotency_key": KEY}
    job = api.new_job(**request)
    assert_problem(api.enqueue(**(request | other)), 422, "idempotency-key-reused")
    assert success(api.list())["jobs"] == [job | {"error": None}]


def test_a_default_that_is_spelt_out_is_another_request(api: Api) -> None:
    # A release with other defaults has to tell them apart as well.
    api.new_job(idempotency_key=KEY)
    assert_problem(api.enqueue(idempotency_key=KEY, priority="medium"), 422, "idempotency-key-reused")
    assert_problem(api.enqueue(idempotency_key=KEY, max_retries=3), 422, "idempotency-key-reused")
    assert_problem(api.enqueue(idempotency_key=KEY, payload={}), 422, "idempotency-key-reused")


@pytest.mark.parametrize(
    "spelling",
    [
        b'{"priority":"LOW","payload":{"b":[1,{"d":null,"c":"\\u00e9"}],"a":1},"type":"email"}',
        b'{"type":"\\u0065mail",\n"payload":{"a":1,"b":[1,{"c":"\xc3\xa9","d":null}]},"priority":"low"}',
    ],
)
def test_the_same_request_may_be_spelt_otherwise(api: Api, spelling: bytes) -> None:
    job = api.new_job(payload={"a": 1, "b": [1, {"c": "é", "d": None}]}, priority="Low", idempotency_key="k")
    replayed = api.ask("enqueue_job", PRODUCER, body=spelling, headers={"Idempotency-Key": "k"})
    assert success(replayed, 200)["id"] == job["id"]


def test_a_key_belongs_to_its_principal(api: Api) -> None:
    jobs = [
        success(api.enqueue(caller, idempotency_key=KEY, payload={"by": caller.context["name"]}), 201)
        for caller in (PRODUCER, with_key("shop", "producer"), ADMIN)
        if caller.context
    ]
    assert len({job["id"] for job in jobs}) == 3


def test_a_request_is_valid_and_allowed_before_its_key_is_looked_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    request: dict[str, Any] = {"idempotency_key": KEY, "priority": "high"}
    api.new_job(with_key("billing", "producer", max_priority="high"), **request)
    assert_problem(api.enqueue(**request), 403, "forbidden")
    assert_problem(api.enqueue(**request, max_retry=3), 422, "validation-failed")
    assert_problem(api.enqueue(WORKER, **request), 403, "forbidden")
    monkeypatch.setenv("QUEUELOG_JOB_TYPES", "pdf")
    forget()
    assert_problem(api.enqueue(**request), 422, "validation-failed")


def test_without_a_key_every_request_is_a_job_of_its_own(api: Api) -> None:
    assert api.new_job()["id"] != api.new_job()["id"]
