"""No request whatever gets an answer that is not documented, let alone a 500."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.http.support import ADMIN, GUARDED, MODULES, WITH_BODY, WITH_ID, Caller, assert_problem, success

if TYPE_CHECKING:
    from tests.http.support import Api

#: One file for all examples of a test: what one leaves behind is there for the next.
arbitrary = settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
ANY_SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT
ANY_JSON = st.recursive(
    ANY_SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4), max_leaves=12
)
FIELDS = ["type", "payload", "priority", "max_retries", "idempotency_key", "types", "worker_id", "error"]
PLAUSIBLE = st.sampled_from(["email", "low", "k", "operator", 3, {}, {"a": 1}, ["email"], None])
QUERY = ["status", "type", "priority", "limit", "cursor", "order"]
PLAUSIBLE_QUERY = st.sampled_from(["pending", "email", "low", "5", "queue", "newest", "WyJuZXdlc3QiLDIsMCwiIl0"])


def ask(api: Api, function: str, **request: Any) -> None:
    answer = api.ask(function, ADMIN, **request)
    assert answer.status < 500, answer.body
    if answer.status >= 400:
        assert_problem(answer, answer.status, answer.body["type"].rpartition(":")[2])


@pytest.mark.parametrize("function", WITH_BODY)
@arbitrary
@given(body=st.binary(max_size=200), text=st.text(max_size=40))
def test_any_bytes_as_a_body(api: Api, function: str, body: bytes, text: str) -> None:
    ask(api, function, body=body)
    ask(api, function, body=text.encode())
    ask(api, function, changes={"body": text, "isBase64Encoded": True})


@pytest.mark.parametrize("function", WITH_BODY)
@arbitrary
@given(body=ANY_JSON)
def test_any_json_as_a_body(api: Api, function: str, body: object) -> None:
    ask(api, function, body=json.dumps(body).encode())


@pytest.mark.parametrize("function", WITH_BODY)
@arbitrary
@given(body=st.dictionaries(st.sampled_from(FIELDS) | ANY_TEXT, PLAUSIBLE | ANY_JSON, max_size=6))
def test_any_values_of_known_fields(api: Api, function: str, body: dict[str, Any]) -> None:
    ask(api, function, body=json.dumps(body).encode())


@arbitrary
@given(fields=st.dictionaries(st.sampled_from(FIELDS), PLAUSIBLE | ANY_JSON, max_size=4))
def test_any_values_beside_a_right_type(api: Api, fields: dict[str, Any]) -> None:
    ask(api, "enqueue_job", body=json.dumps(fields | {"type": "email"}).encode())


@pytest.mark.parametrize("function", WITH_BODY)
@arbitrary
@given(content_type=ANY_TEXT, parameters=ANY_TEXT, key=st.lists(ANY_TEXT, min_size=1, max_size=2), name=ANY_TEXT)
def test_any_text_in_headers(
    api: Api, function: str, content_type: str, parameters: str, key: list[str], name: str
) -> None:
    body = b'{"type": "email"}'
    ask(api, function, body=body, content_type=content_type, headers={name: "x"})
    ask(api, function, body=body, content_type=f"application/json;{parameters}", headers={"Idempotency-Key": key})


@pytest.mark.parametrize("function", MODULES)
@arbitrary
@given(
    query=st.dictionaries(
        st.sampled_from(QUERY) | st.text(max_size=10),
        st.lists(PLAUSIBLE_QUERY | st.text(max_size=40), min_size=1, max_size=2),
        max_size=4,
    )
)
def test_any_text_in_the_query(api: Api, function: str, query: dict[str, Any]) -> None:
    ask(api, function, query=query, body=b'{"type": "email"}')


@arbitrary
@given(
    made_for=st.sampled_from(["newest", "queue"]),
    parts=st.lists(st.sampled_from([1, 2, 10, "", "2026-01-31T12:00:00.000Z"]) | ANY_JSON, min_size=2, max_size=4),
    order=st.sampled_from([{}, {"order": "queue", "status": "pending"}]),
)
def test_any_json_as_a_cursor(api: Api, made_for: str, parts: list[Any], order: dict[str, str]) -> None:
    for separators in ((",", ":"), None):
        text = json.dumps([made_for, *parts], ensure_ascii=False, separators=separators)
        cursor = base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")
        ask(api, "list_jobs", query={"cursor": cursor, **order})


@pytest.mark.parametrize("function", WITH_ID)
@arbitrary
@given(id=st.text(max_size=20) | st.integers().map(str) | st.from_regex(r"\A[0-9]{1,20}\Z"))
def test_any_text_as_an_id(api: Api, function: str, id: str) -> None:
    ask(api, function, id=id)


@pytest.mark.parametrize("function", GUARDED)
@arbitrary
@given(
    user_arn=st.text(min_size=1, max_size=60)
    | st.text(max_size=20).map("arn:aws:sts::123456789012:assumed-role/Worker/".__add__)
)
def test_any_text_as_who_signed(api: Api, function: str, user_arn: str) -> None:
    answer = api.ask(function, Caller(user_arn=user_arn))
    assert answer.status < 500


@arbitrary
@given(error=ANY_TEXT.filter(lambda text: text.isprintable()) | st.text())
def test_any_text_as_an_error(api: Api, error: str) -> None:
    id = api.new_job(max_retries=0)["id"]
    api.claimed_job()
    success(api.fail(id, error=error.encode("utf-8", "replace").decode()))
    assert len(success(api.get(id))["error"]) <= 1_000


@arbitrary
@given(
    payload=st.dictionaries(
        st.text(max_size=10),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
            max_leaves=20,
        ),
    )
)
def test_a_payload_comes_back_as_it_was_sent(api: Api, payload: dict[str, Any]) -> None:
    id = api.new_job(payload=payload)["id"]
    found = success(api.get(id))["payload"]
    assert json.dumps(found) == json.dumps(payload)
