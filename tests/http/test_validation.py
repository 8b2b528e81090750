"""What the fields of a body, a query and a path may be."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import ValidationError

from tests.http.bodies import RIGHT
from tests.http.support import ADMIN, MODULES, OPENAPI, WITH_BODY, WITH_ID, assert_problem, success
from web import models

if TYPE_CHECKING:
    from tests.http.support import Api

UNKNOWN_ID = 2**53 - 1


def faults_of(api: Api, function: str, **request: Any) -> set[tuple[str, str]]:
    return assert_problem(api.ask(function, ADMIN, **request), 422, "validation-failed")


# The body of enqueue_job.


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"type": None}, ("type", "string_type")),
        ({"type": 1}, ("type", "string_type")),
        ({"type": ["email"]}, ("type", "string_type")),
        ({"type": ""}, ("type", "string_pattern_mismatch")),
        ({"type": " email"}, ("type", "string_pattern_mismatch")),
        ({"type": "email\n"}, ("type", "string_pattern_mismatch")),
        ({"type": "email\x00"}, ("type", "string_pattern_mismatch")),
        ({"type": "émail"}, ("type", "string_pattern_mismatch")),
        ({"type": "x" * 101}, ("type", "string_pattern_mismatch")),
        ({"type": "mail"}, ("type", "unknown_type")),
        ({"type": "EMAIL"}, ("type", "unknown_type")),
        ({"type": "email,pdf"}, ("type", "string_pattern_mismatch")),
        ({"payload": None}, ("payload", "dict_type")),
        ({"payload": []}, ("payload", "dict_type")),
        ({"payload": [["to", "ada"]]}, ("payload", "dict_type")),
        ({"payload": "{}"}, ("payload", "dict_type")),
        ({"payload": 1}, ("payload", "dict_type")),
        ({"priority": "urgent"}, ("priority", "unknown_priority")),
        ({"priority": ""}, ("priority", "unknown_priority")),
        ({"priority": " low"}, ("priority", "unknown_priority")),
        ({"priority": "h\u0131gh"}, ("priority", "unknown_priority")),
        ({"priority": "MED\u0130UM"}, ("priority", "unknown_priority")),
        ({"priority": None}, ("priority", "unknown_priority")),
        ({"priority": 10}, ("priority", "unknown_priority")),
        ({"priority": True}, ("priority", "unknown_priority")),
        ({"priority": ["low"]}, ("priority", "unknown_priority")),
        ({"priority": {"low": 1}}, ("priority", "unknown_priority")),
        ({"max_retries": -1}, ("max_retries", "greater_than_equal")),
        ({"max_retries": 26}, ("max_retries", "less_than_equal")),
        ({"max_retries": 2**63}, ("max_retries", "less_than_equal")),
        ({"max_retries": 10**4_000}, ("max_retries", "less_than_equal")),
        ({"max_retries": 1.0}, ("max_retries", "int_type")),
        ({"max_retries": 1.5}, ("max_retries", "int_type")),
        ({"max_retries": "3"}, ("max_retries", "int_type")),
        ({"max_retries": "1_0"}, ("max_retries", "int_type")),
        ({"max_retries": True}, ("max_retries", "int_type")),
        ({"max_retries": None}, ("max_retries", "int_type")),
        ({"max_retries": [3]}, ("max_retries", "int_type")),
        ({"idempotency_key": ""}, ("idempotency_key", "invalid_key")),
        ({"idempotency_key": "x" * 256}, ("idempotency_key", "invalid_key")),
        ({"idempotency_key": "a\nb"}, ("idempotency_key", "invalid_key")),
        ({"idempotency_key": "a\x00b"}, ("idempotency_key", "invalid_key")),
        ({"idempotency_key": "a\u202eb"}, ("idempotency_key", "invalid_key")),
        ({"idempotency_key": 1}, ("idempotency_key", "string_type")),
        ({"idempotency_key": ["k"]}, ("idempotency_key", "string_type")),
        ({"max_retry": 3}, ("max_retry", "extra_forbidden")),
        ({"Type": "email"}, ("Type", "extra_forbidden")),
        ({"id": 1}, ("id", "extra_forbidden")),
        ({"status": "completed"}, ("status", "extra_forbidden")),
        ({"created_by": "operator"}, ("created_by", "extra_forbidden")),
        ({"worker_id": "mailer"}, ("worker_id", "extra_forbidden")),
        ({"due_at": "2026-01-31T12:00:00.000Z"}, ("due_at", "extra_forbidden")),
        ({"attempt": 0}, ("attempt", "extra_forbidden")),
        ({"lease_seconds": 60}, ("lease_seconds", "extra_forbidden")),
        ({"run_at": ""}, ("run_at", "invalid_time")),
        ({"run_at": "tomorrow"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01T12:00:00"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01T12:00:00.000"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-30T12:00:00Z"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01T25:00:00Z"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01T12:00:00+25:00"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01T12:00:00 CET"}, ("run_at", "invalid_time")),
        ({"run_at": "0001-01-01T00:00:00+01:00"}, ("run_at", "invalid_time")),
        ({"run_at": "9999-12-31T23:59:59-01:00"}, ("run_at", "invalid_time")),
        ({"run_at": "10000-01-01T00:00:00Z"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01T12:00:00Z\x00"}, ("run_at", "invalid_time")),
        ({"run_at": "\u0662\u0660\u0662\u0666-02-01T12:00:00Z"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01\x0012:00:00Z"}, ("run_at", "invalid_time")),
        ({"run_at": "20260201T120000Z"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-W05-7T12:00:00Z"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01T12Z"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01T12:00:00,5Z"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01T12:00:60Z"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01T12:00:00+00:00:30"}, ("run_at", "invalid_time")),
        ({"run_at": "2026-02-01T12:00:00." + "9" * 100_000}, ("run_at", "invalid_time")),
        ({"run_at": 1_769_947_200}, ("run_at", "invalid_time")),
        ({"run_at": True}, ("run_at", "invalid_time")),
        ({"run_at": ["2026-02-01T12:00:00Z"]}, ("run_at", "invalid_time")),
        ({"delay_seconds": -1}, ("delay_seconds", "greater_than_equal")),
        ({"delay_seconds": 2_592_001}, ("delay_seconds", "less_than_equal")),
        ({"delay_seconds": 10**4_000}, ("delay_seconds", "less_than_equal")),
        ({"delay_seconds": 1.0}, ("delay_seconds", "int_type")),
        ({"delay_seconds": "60"}, ("delay_seconds", "int_type")),
        ({"delay_seconds": True}, ("delay_seconds", "int_type")),
        ({"backoff_seconds": -1}, ("backoff_seconds", "greater_than_equal")),
        ({"backoff_seconds": 86_401}, ("backoff_seconds", "less_than_equal")),
        ({"backoff_seconds": 0.5}, ("backoff_seconds", "int_type")),
        ({"backoff_seconds": "15"}, ("backoff_seconds", "int_type")),
        ({"backoff_seconds": False}, ("backoff_seconds", "int_type")),
        ({"run_at": "2026-02-01T12:00:00Z", "delay_seconds": 60}, ("delay_seconds", "not_both")),
        ({"run_at": "1970-01-01T00:00:00Z", "delay_seconds": 0}, ("delay_seconds", "not_both")),
        ({"": 1}, ("body", "extra_forbidden")),
        ({"a\x00b": 1}, ("a\x00b", "extra_forbidden")),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_a_wrong_field_of_a_new_job_is_a_fault(api: Api, fields: dict[str, Any], fault: tuple[str, str]) -> None:
    assert faults_of(api, "enqueue_job", body={"type": "email"} | fields) == {fault}
    assert not api.database.exists()


def test_a_job_needs_a_type(api: Api) -> None:
    assert faults_of(api, "enqueue_job", body=b"{}") == {("type", "missing")}


def test_a_number_that_no_reader_can_keep_is_a_fault_of_the_payload(api: Api) -> None:
    body = b'{"type": "email", "payload": {"n": 1e999}}'
    assert faults_of(api, "enqueue_job", body=body) == {("payload", "not_json")}


@pytest.mark.parametrize("number", ["1.0", "1e2", "-0.0", "1E0", "3.0000000000000001"])
def test_a_number_with_a_point_or_an_exponent_is_no_integer(api: Api, number: str) -> None:
    body = f'{{"type": "email", "max_retries": {number}}}'.encode()
    assert faults_of(api, "enqueue_job", body=body) == {("max_retries", "int_type")}


@pytest.mark.parametrize(
    "fields",
    [
        {"max_retries": 0},
        {"max_retries": 25},
        {"priority": "LOW"},
        {"priority": "mEdIuM"},
        {"idempotency_key": None},
        {"idempotency_key": "x"},
        {"idempotency_key": "x" * 255},
        {"idempotency_key": "Rechnung 7/2026, Zoë 日本 😀"},
        {"payload": {}},
        {"type": "pdf"},
        {"run_at": "0001-01-01T00:00:00Z"},
        {"run_at": "2026-02-01T12:00:00Z", "delay_seconds": None},
        {"run_at": None, "delay_seconds": 60},
        {"delay_seconds": 0},
        {"delay_seconds": 2_592_000},
        {"backoff_seconds": 0},
        {"backoff_seconds": 86_400},
        {"backoff_seconds": None},
    ],
)
def test_a_field_at_its_limit_is_right(api: Api, fields: dict[str, Any]) -> None:
    api.new_job(ADMIN, **fields)


@pytest.mark.parametrize(
    "filling", ["x", '"', "é", "\x01", "😀"], ids=["ASCII", "quotes", "two bytes", "escapes", "four bytes"]
)
def test_a_payload_may_take_65_536_bytes_as_compact_json_and_no_more(api: Api, filling: str) -> None:
    each = len(json.dumps(filling, ensure_ascii=False).encode()) - 2
    spare = 65_536 - len('{"a":"","b":""}')
    payload = {"a": filling * (spare // each), "b": "x" * (spare % each)}
    # The space that a writer adds does not count.
    assert api.new_job(payload=payload)["payload"] == payload
    too_large = payload | {"b": payload["b"] + "x"}
    assert faults_of(api, "enqueue_job", body={"type": "email", "payload": too_large}) == {("payload", "too_large")}


# The bodies of claim_job, complete_job and fail_job.


@pytest.mark.parametrize(
    ("function", "fields", "fault"),
    [
        ("claim_job", {"types": "email"}, ("types", "list_type")),
        ("claim_job", {"types": {"email": 1}}, ("types", "list_type")),
        ("claim_job", {"types": []}, ("types", "too_short")),
        ("claim_job", {"types": ["email"] * 101}, ("types", "too_long")),
        ("claim_job", {"types": ["email", 1]}, ("types[1]", "string_type")),
        ("claim_job", {"types": [None]}, ("types[0]", "string_type")),
        ("claim_job", {"types": [""]}, ("types[0]", "string_pattern_mismatch")),
        ("claim_job", {"types": ["x" * 101]}, ("types[0]", "string_pattern_mismatch")),
        ("claim_job", {"types": ["a\x00"]}, ("types[0]", "string_pattern_mismatch")),
        ("claim_job", {"worker_id": 1}, ("worker_id", "string_type")),
        ("claim_job", {"worker_id": "x" * 256}, ("worker_id", "string_too_long")),
        ("claim_job", {"type": "email"}, ("type", "extra_forbidden")),
        ("claim_job", {"limit": 10}, ("limit", "extra_forbidden")),
        ("claim_job", {"lease_seconds": 0}, ("lease_seconds", "greater_than_equal")),
        ("claim_job", {"lease_seconds": -60}, ("lease_seconds", "greater_than_equal")),
        ("claim_job", {"lease_seconds": 43_201}, ("lease_seconds", "less_than_equal")),
        ("claim_job", {"lease_seconds": 60.0}, ("lease_seconds", "int_type")),
        ("claim_job", {"lease_seconds": "60"}, ("lease_seconds", "int_type")),
        ("claim_job", {"lease_seconds": True}, ("lease_seconds", "int_type")),
        ("claim_job", {"lease_token": "t"}, ("lease_token", "extra_forbidden")),
        ("complete_job", {"lease_token": ""}, ("lease_token", "string_too_short")),
        ("complete_job", {"lease_token": "x" * 256}, ("lease_token", "string_too_long")),
        ("complete_job", {"lease_token": 7}, ("lease_token", "string_type")),
        ("complete_job", {"lease_token": {"token": "t"}}, ("lease_token", "string_type")),
        ("complete_job", {"result": "x" * 65_535}, ("result", "too_large")),
        ("complete_job", {"results": {}}, ("results", "extra_forbidden")),
        ("complete_job", {"outcome": "completed"}, ("outcome", "extra_forbidden")),
        ("complete_job", {"worker_id": "operator"}, ("worker_id", "extra_forbidden")),
        ("complete_job", {"error": None}, ("error", "extra_forbidden")),
        ("fail_job", {"error": 1}, ("error", "string_type")),
        ("fail_job", {"error": ["boom"]}, ("error", "string_type")),
        ("fail_job", {"error": {"message": "boom"}}, ("error", "string_type")),
        ("fail_job", {"errors": "boom"}, ("errors", "extra_forbidden")),
        ("fail_job", {"retry": False}, ("retry", "extra_forbidden")),
        ("fail_job", {"result": 1}, ("result", "extra_forbidden")),
        ("fail_job", {"lease_token": ""}, ("lease_token", "string_too_short")),
        ("fail_job", {"retry_in_seconds": -1}, ("retry_in_seconds", "greater_than_equal")),
        ("fail_job", {"retry_in_seconds": 2_592_001}, ("retry_in_seconds", "less_than_equal")),
        ("fail_job", {"retry_in_seconds": 5.0}, ("retry_in_seconds", "int_type")),
        ("fail_job", {"retry_in_seconds": "5"}, ("retry_in_seconds", "int_type")),
        ("fail_job", {"retry_in_seconds": True}, ("retry_in_seconds", "int_type")),
        ("fail_job", {"permanent": 1}, ("permanent", "bool_type")),
        ("fail_job", {"permanent": "true"}, ("permanent", "bool_type")),
        ("fail_job", {"permanent": None}, ("permanent", "bool_type")),
        ("fail_job", {"permanent": True, "retry_in_seconds": 5}, ("permanent", "not_both")),
        ("fail_job", {"permanent": True, "retry_in_seconds": 0}, ("permanent", "not_both")),
        ("cancel_job", {"lease_token": "t"}, ("lease_token", "extra_forbidden")),
        ("cancel_job", {"force": True}, ("force", "extra_forbidden")),
        ("retry_job", {"max_retries": 5}, ("max_retries", "extra_forbidden")),
    ],
)
def test_a_wrong_field_of_another_body_is_a_fault(
    api: Api, function: str, fields: dict[str, Any], fault: tuple[str, str]
) -> None:
    job = api.new_job(ADMIN)
    if function != "claim_job":
        api.claimed_job(ADMIN)
    before = success(api.get(job["id"]))
    assert faults_of(api, function, id=job["id"], body=fields) == {fault}
    assert success(api.get(job["id"])) == before


@pytest.mark.parametrize(
    "fields",
    [{}, {"types": None}, {"worker_id": None}, {"lease_seconds": None}, {"types": ["email"] * 100}],
)
def test_a_claim_may_leave_out_what_it_does_not_care_about(api: Api, fields: dict[str, Any]) -> None:
    api.new_job()
    api.claimed_job(ADMIN, **fields)


# The query.


@pytest.mark.parametrize("function", MODULES)
def test_an_unknown_query_parameter_is_a_fault_on_every_route(api: Api, function: str) -> None:
    for query in ({"colour": "red"}, {"colour": ""}, {"": "x"}, {"Limit": "5"}, {"x\x00": "y"}):
        faults = faults_of(api, function, body=RIGHT.get(function), query=query)
        assert faults == {(name or "query", "unknown_parameter") for name in query}


@pytest.mark.parametrize("function", MODULES)
def test_a_query_parameter_twice_is_a_fault_on_every_route(api: Api, function: str) -> None:
    query = {"colour": ["red", "red"]}
    faults = faults_of(api, function, id=1, body=RIGHT.get(function), query=query)
    assert faults == {("colour", "unknown_parameter"), ("colour", "repeated_parameter")}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "pending"),
        ("type", "email"),
        ("priority", "low"),
        ("limit", "5"),
        ("cursor", "WyJuZXdlc3QiLDIsMCwiIl0"),
        ("order", "newest"),
    ],
)
def test_a_known_query_parameter_may_be_given_once(api: Api, name: str, value: str) -> None:
    success(api.ask("list_jobs", ADMIN, query={name: [value]}))
    assert (name, "repeated_parameter") in faults_of(api, "list_jobs", query={name: [value, value]})


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ({"status": "done"}, ("status", "enum")),
        ({"status": ""}, ("status", "enum")),
        ({"status": "PENDING"}, ("status", "enum")),
        ({"status": "pending,running"}, ("status", "enum")),
        ({"type": ""}, ("type", "string_pattern_mismatch")),
        ({"type": "a b"}, ("type", "string_pattern_mismatch")),
        ({"type": "\x00"}, ("type", "string_pattern_mismatch")),
        ({"type": "x" * 101}, ("type", "string_pattern_mismatch")),
        ({"priority": "10"}, ("priority", "unknown_priority")),
        ({"priority": ""}, ("priority", "unknown_priority")),
        ({"limit": "0"}, ("limit", "out_of_range")),
        ({"limit": "101"}, ("limit", "out_of_range")),
        ({"limit": "-1"}, ("limit", "out_of_range")),
        ({"limit": "+5"}, ("limit", "out_of_range")),
        ({"limit": "05"}, ("limit", "out_of_range")),
        ({"limit": "5.0"}, ("limit", "out_of_range")),
        ({"limit": "1_0"}, ("limit", "out_of_range")),
        ({"limit": "1e1"}, ("limit", "out_of_range")),
        ({"limit": " 5"}, ("limit", "out_of_range")),
        ({"limit": "5\n"}, ("limit", "out_of_range")),
        ({"limit": "\uff15"}, ("limit", "out_of_range")),
        ({"limit": ""}, ("limit", "out_of_range")),
        ({"limit": "true"}, ("limit", "out_of_range")),
        ({"limit": "9" * 5_000}, ("limit", "out_of_range")),
        ({"cursor": ""}, ("cursor", "invalid_cursor")),
        ({"cursor": "7"}, ("cursor", "invalid_cursor")),
        ({"cursor": "\x00"}, ("cursor", "invalid_cursor")),
        ({"order": "oldest"}, ("order", "enum")),
        ({"order": "Newest"}, ("order", "enum")),
        ({"order": "queue"}, ("order", "needs_pending")),
        ({"order": "queue", "status": "running"}, ("order", "needs_pending")),
    ],
)
def test_a_wrong_query_parameter_is_a_fault(api: Api, query: dict[str, str], fault: tuple[str, str]) -> None:
    assert faults_of(api, "list_jobs", query=query) == {fault}


# The header.


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "invalid_key"),
        ("x" * 256, "invalid_key"),
        ("a\x00b", "invalid_key"),
        ("a\tb", "invalid_key"),
        (["a", "b"], "string_type"),
    ],
)
def test_a_wrong_idempotency_key_in_the_header_is_a_fault(api: Api, value: Any, code: str) -> None:
    answer = api.ask("enqueue_job", ADMIN, body=RIGHT["enqueue_job"], headers={"Idempotency-Key": value})
    ((field, found),) = assert_problem(answer, 422, "validation-failed")
    assert (field.lower(), found) == ("idempotency-key", code)


def test_other_headers_are_nobodys_business(api: Api) -> None:
    headers = {"X-Whatever": ["1", "2"], "Cookie": "a=b", "If-Match": "*", "X-HTTP-Method-Override": "DELETE"}
    answer = api.ask("enqueue_job", ADMIN, body=RIGHT["enqueue_job"], headers=headers)
    success(answer, 201)


# The id in the path.

MALFORMED_IDS = [
    "0",
    "-1",
    "007",
    "+1",
    "7x",
    "1e3",
    "1.0",
    "1_0",
    "0x1",
    " 1",
    "1 ",
    "1\n",
    "1\x00",
    "%31",
    "\uff11",
    "\u0663",
    "\u00b2",
    "true",
    "null",
    "claim",
    "{id}",
    "1,2",
    "1;2",
    "1'--",
    "1/2",
    "../1",
    str(2**53),
    str(2**63),
    str(2**64),
    "9" * 16,
    "9" * 5_000,
]


@pytest.mark.parametrize("function", WITH_ID)
def test_an_id_that_can_be_none_is_404_on_every_route(api: Api, function: str) -> None:
    api.new_job()
    api.claimed_job(ADMIN)
    for id in MALFORMED_IDS:
        for body in (b"", b"nope", b'{"a": 1}', RIGHT.get(function)):
            assert_problem(api.ask(function, ADMIN, id=id, body=body), 404, "not-found")


@pytest.mark.parametrize("id", [1, 7, 10**15, UNKNOWN_ID])
def test_an_id_of_no_job_is_404_to_who_may_see_every_job_and_409_to_who_says_that_it_holds_it(
    api: Api, id: int
) -> None:
    for function in ("get_job", "explain_job", "cancel_job", "retry_job"):
        assert_problem(api.ask(function, ADMIN, id=id), 404, "not-found")
    for function in ("complete_job", "fail_job", "release_job"):
        assert_problem(api.ask(function, ADMIN, id=id), 409, "conflict")
    for function in ("complete_job", "fail_job", "release_job", "heartbeat_job"):
        assert_problem(api.ask(function, ADMIN, id=id, body={"lease_token": "t"}), 409, "lease-lost")


# All of them.


def test_all_faults_of_a_request_are_reported_together(api: Api) -> None:
    answer = api.ask(
        "enqueue_job",
        ADMIN,
        body={"payload": [], "priority": "urgent", "max_retries": 26, "idempotency_key": "", "max_retry": 3},
        headers={"Idempotency-Key": ""},
        query={"colour": ["red", "blue"], "limit": "5"},
    )
    found = {(field.lower(), code) for field, code in assert_problem(answer, 422, "validation-failed")}
    assert found == {
        ("type", "missing"),
        ("payload", "dict_type"),
        ("priority", "unknown_priority"),
        ("max_retries", "less_than_equal"),
        ("idempotency_key", "invalid_key"),
        ("max_retry", "extra_forbidden"),
        ("idempotency-key", "invalid_key"),
        ("colour", "unknown_parameter"),
        ("colour", "repeated_parameter"),
        ("limit", "unknown_parameter"),
    }


def test_all_faults_of_a_query_are_reported_together(api: Api) -> None:
    query = {"status": "x", "type": "a b", "priority": "x", "limit": "0", "order": "x", "page": "2"}
    assert {field for field, _ in faults_of(api, "list_jobs", query=query)} == set(query)


@pytest.mark.parametrize("function", WITH_BODY)
def test_a_hundred_faults_are_reported_at_the_most(api: Api, function: str) -> None:
    body = {f"field_{number}": number for number in range(40_000)}
    assert len(faults_of(api, function, body=body)) == 100


@pytest.mark.parametrize("function", MODULES)
def test_a_hundred_faults_of_a_query_are_reported_at_the_most(api: Api, function: str) -> None:
    query = {f"parameter_{number}": "" for number in range(500)}
    assert len(faults_of(api, function, body=RIGHT.get(function), query=query)) == 100


def test_a_hundred_wrong_types_of_a_claim_are_all_reported(api: Api) -> None:
    assert len(faults_of(api, "claim_job", body={"types": [" "] * 100})) == 100


def test_a_message_speaks_of_json_and_not_of_python(api: Api) -> None:
    answer = api.ask("enqueue_job", ADMIN, body={"type": 1, "payload": [], "max_retries": "3", "max_retry": 3})
    assert {fault["field"]: fault["message"] for fault in answer.body["errors"]} == {
        "type": "must be a string",
        "payload": "must be an object",
        "max_retries": "must be an integer",
        "max_retry": "is not a field of this request",
    }


def test_a_fault_repeats_nothing_of_what_was_sent_but_names(api: Api) -> None:
    secret = "hunter2"
    body = {"type": secret, "payload": secret, "priority": secret, "max_retries": secret, "idempotency_key": [secret]}
    answer = api.ask("enqueue_job", ADMIN, body=body, query={"order": secret})
    assert_problem(answer, 422, "validation-failed")
    answers = [
        answer,
        api.list(status=secret, order=secret, limit=secret, cursor=secret, priority=secret),
        api.enqueue_jobs([body | {"run_at": secret, "delay_seconds": secret}]),
        api.heartbeat_jobs([{"id": secret, "lease_token": [secret], "progress": secret}]),
        api.finish_jobs([{"id": secret, "lease_token": [secret], "outcome": secret, "error": [secret]}]),
        api.claim_jobs(limit=secret, types=[f"{secret} "], lease_seconds=secret),
        api.retry_jobs(status=secret, type=f"{secret} ", failed_after=secret, limit=secret),
        api.fail(1, permanent=secret, retry_in_seconds=secret),
    ]
    assert {answer.status for answer in answers} == {422}
    assert not [answer for answer in answers if secret in answer.raw["body"]]


#: Fields that exclude each other, and what each may hold; LEFT_OUT is not there at all.
LEFT_OUT = object()
TOGETHER: dict[str, dict[str, list[Any]]] = {
    "EnqueueRequest": {"run_at": [LEFT_OUT, None, "2026-01-31T12:00:00Z"], "delay_seconds": [LEFT_OUT, None, 0, 5]},
    "FailRequest": {"retry_in_seconds": [LEFT_OUT, None, 0, 5], "permanent": [LEFT_OUT, False, True]},
    "FinishItem": {
        "outcome": ["completed", "failed"],
        "result": [LEFT_OUT, None, {}],
        "error": [LEFT_OUT, None, ""],
        "retry_in_seconds": [LEFT_OUT, None, 0],
        "permanent": [LEFT_OUT, False, True],
    },
}
NEEDED: dict[str, dict[str, Any]] = {
    "EnqueueRequest": {"type": "email"},
    "FailRequest": {},
    "FinishItem": {"id": 1, "lease_token": "t"},
}


@pytest.mark.parametrize("model", TOGETHER)
def test_openapi_says_which_fields_exclude_each_other(api: Api, model: str) -> None:
    validator = Draft202012Validator({**OPENAPI["components"]["schemas"][model], "components": OPENAPI["components"]})
    verdicts = set()
    for values in product(*TOGETHER[model].values()):
        said = {name: value for name, value in zip(TOGETHER[model], values, strict=True) if value is not LEFT_OUT}
        body = NEEDED[model] | said
        try:
            getattr(models, model).model_validate(body)
            is_taken = True
        except ValidationError:
            is_taken = False
        assert validator.is_valid(body) == is_taken, body
        verdicts.add(is_taken)
    assert verdicts == {True, False}
