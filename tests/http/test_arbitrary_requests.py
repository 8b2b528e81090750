"""No request whatever gets an answer that is not documented, let alone a 500."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.http.bodies import RIGHT
from tests.http.support import ADMIN, BATCHES, GUARDED, MODULES, WITH_BODY, WITH_ID, Caller, assert_problem, success

if TYPE_CHECKING:
    from tests.http.support import Api

#: One file for all examples of a test: what one leaves behind is there for the next.
arbitrary = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
ANY_SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT
ANY_JSON = st.recursive(
    ANY_SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4), max_leaves=12
)
FIELDS = [
    "type",
    "payload",
    "priority",
    "max_retries",
    "idempotency_key",
    "run_at",
    "delay_seconds",
    "backoff_seconds",
    "types",
    "worker_id",
    "lease_seconds",
    "limit",
    "id",
    "lease_token",
    "progress",
    "outcome",
    "result",
    "error",
    "retry_in_seconds",
    "permanent",
    "status",
    "error_contains",
    "failed_after",
    "failed_before",
    "dry_run",
]
#: Stands for the token of a job that the caller holds.
TOKEN = "the token"
PLAUSIBLE = st.sampled_from(
    [
        "email",
        "low",
        "k",
        "operator",
        3,
        60,
        {},
        {"a": 1},
        ["email"],
        None,
        True,
        TOKEN,
        "completed",
        "failed",
        "cancelled",
        "2026-01-31T12:00:00Z",
    ]
)
ANY_FIELDS = st.dictionaries(st.sampled_from(FIELDS) | ANY_TEXT, PLAUSIBLE | ANY_JSON, max_size=6)
QUERY = ["status", "type", "priority", "limit", "cursor", "order"]
PLAUSIBLE_QUERY = st.sampled_from(["pending", "email", "low", "5", "queue", "newest", "WyJuZXdlc3QiLDIsMCwiIl0"])


def ask(api: Api, function: str, **request: Any) -> None:
    answer = api.ask(function, ADMIN, **request)
    assert answer.status < 500, answer.body
    if answer.status >= 400:
        assert_problem(answer, answer.status, answer.body["type"].rpartition(":")[2])


@arbitrary
@given(function=st.sampled_from(WITH_BODY), body=st.binary(max_size=200), text=st.text(max_size=40))
def test_any_bytes_as_a_body(api: Api, function: str, body: bytes, text: str) -> None:
    ask(api, function, body=body)
    ask(api, function, body=text.encode())
    ask(api, function, changes={"body": text, "isBase64Encoded": True})


@arbitrary
@given(function=st.sampled_from(WITH_BODY), body=ANY_JSON)
def test_any_json_as_a_body(api: Api, function: str, body: object) -> None:
    ask(api, function, body=json.dumps(body).encode())
    ask(api, function, body=json.dumps({"jobs": body}).encode())


def sent(fields: dict[str, Any], token: str) -> dict[str, Any]:
    return {name: token if value == TOKEN else value for name, value in fields.items()}


@settings(arbitrary, max_examples=200)
@given(function=st.sampled_from(WITH_BODY), fields=ANY_FIELDS)
def test_any_values_of_known_fields(api: Api, function: str, fields: dict[str, Any]) -> None:
    api.new_job()
    job = api.claimed_job(ADMIN)
    for token in ({}, {"lease_token": TOKEN}):
        body = sent(fields | token, job["lease_token"])
        ask(api, function, id=job["id"], body=json.dumps(body).encode())


@settings(arbitrary, max_examples=200)
@given(function=st.sampled_from(BATCHES), items=st.lists(ANY_FIELDS | ANY_JSON, max_size=5), own=st.integers(0, 4))
def test_any_values_of_the_fields_of_a_batch(api: Api, function: str, items: list[Any], own: int) -> None:
    api.new_job()
    job = api.claimed_job(ADMIN)
    jobs = [sent(item, job["lease_token"]) if isinstance(item, dict) else item for item in items]
    ask(api, function, body=json.dumps({"jobs": jobs}).encode())
    right: dict[str, dict[str, Any]] = {
        "enqueue_jobs": {"type": "email"},
        "heartbeat_jobs": {"id": job["id"], "lease_token": job["lease_token"]},
        "finish_jobs": {"id": job["id"], "lease_token": job["lease_token"], "outcome": "failed"},
    }
    # Nearly right, so that more of them come through.
    jobs = [{**item, **right.get(function, {})} for item in jobs if isinstance(item, dict)]
    jobs = [{name: value for name, value in item.items() if name in FIELDS} for item in jobs]
    ask(api, function, body=json.dumps({"jobs": [*jobs[:own], right.get(function, {}), *jobs[own:]]}).encode())


@arbitrary
@given(fields=st.dictionaries(st.sampled_from(FIELDS[:8]), PLAUSIBLE | ANY_JSON, max_size=4))
def test_any_values_beside_a_right_type(api: Api, fields: dict[str, Any]) -> None:
    ask(api, "enqueue_job", body=json.dumps(fields | {"type": "email"}).encode())


@arbitrary
@given(
    function=st.sampled_from(WITH_BODY),
    content_type=ANY_TEXT,
    parameters=ANY_TEXT,
    key=st.lists(ANY_TEXT, min_size=1, max_size=2),
    name=ANY_TEXT,
)
def test_any_text_in_headers(
    api: Api, function: str, content_type: str, parameters: str, key: list[str], name: str
) -> None:
    body = RIGHT[function]
    ask(api, function, body=body, content_type=content_type, headers={name: "x"})
    headers = {"Idempotency-Key": key, "Claim-Request-Id": key}
    ask(api, function, body=body, content_type=f"application/json;{parameters}", headers=headers)


@arbitrary
@given(
    function=st.sampled_from(list(MODULES)),
    query=st.dictionaries(
        st.sampled_from(QUERY) | st.text(max_size=10),
        st.lists(PLAUSIBLE_QUERY | st.text(max_size=40), min_size=1, max_size=2),
        max_size=4,
    ),
)
def test_any_text_in_the_query(api: Api, function: str, query: dict[str, Any]) -> None:
    ask(api, function, query=query, body=RIGHT.get(function))
    ask(api, "list_jobs", query=query)


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


@arbitrary
@given(
    function=st.sampled_from(WITH_ID),
    id=st.text(max_size=20) | st.integers().map(str) | st.from_regex(r"\A[0-9]{1,20}\Z"),
)
def test_any_text_as_an_id(api: Api, function: str, id: str) -> None:
    ask(api, function, id=id, body=RIGHT.get(function))


@arbitrary
@given(
    function=st.sampled_from(GUARDED),
    user_arn=st.text(min_size=1, max_size=60)
    | st.text(max_size=20).map("arn:aws:sts::123456789012:assumed-role/Worker/".__add__),
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


@arbitrary
@given(
    kept=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
        max_leaves=20,
    )
)
def test_progress_and_results_come_back_as_they_were_sent(api: Api, kept: Any) -> None:
    id = api.new_job()["id"]
    token = api.claimed_job()["lease_token"]
    success(api.heartbeat(id, lease_token=token, progress={"of": kept}))
    success(api.complete(id, lease_token=token, result=kept))
    job = success(api.get(id))
    assert json.dumps([job["progress"], job["result"]]) == json.dumps([{"of": kept}, kept])
