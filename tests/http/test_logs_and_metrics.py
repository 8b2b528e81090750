"""What an operator learns of a request: one line in the log and one line of metrics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.http.bodies import RIGHT
from tests.http.support import (
    ADMIN,
    EVENTS,
    MODULES,
    NOBODY,
    PRODUCER,
    WITH_ID,
    WORKER,
    assert_problem,
    signed,
    success,
)

if TYPE_CHECKING:
    from tests.http.conftest import Log
    from tests.http.support import Api

REQUEST_ID = "6f1d2c3b-0000-4000-8000-000000000001"
ROUTES = {
    "enqueue_job": "POST /jobs",
    "list_jobs": "GET /jobs",
    "get_job": "GET /jobs/{id}",
    "explain_job": "GET /jobs/{id}/explain",
    "claim_job": "POST /jobs/claim",
    "heartbeat_job": "POST /jobs/{id}/heartbeat",
    "complete_job": "POST /jobs/{id}/complete",
    "fail_job": "POST /jobs/{id}/fail",
    "release_job": "POST /jobs/{id}/release",
    "cancel_job": "POST /jobs/{id}/cancel",
    "retry_job": "POST /jobs/{id}/retry",
    "get_stats": "GET /stats",
    "enqueue_jobs": "POST /batch/enqueue",
    "claim_jobs": "POST /batch/claim",
    "heartbeat_jobs": "POST /batch/heartbeat",
    "finish_jobs": "POST /batch/finish",
    "retry_jobs": "POST /batch/retry",
    "health": "GET /health",
}
#: The verb that a function is counted under, where it isn't the first word of its name.
VERBS = {"finish_jobs": "complete", "get_stats": "stats"}
POWERTOOLS_OWN = {"level", "location", "message", "timestamp", "service", "xray_trace_id"}


def request_line(log: Log) -> dict[str, Any]:
    (line,) = [line for line in log.lines if line["message"] == "request"]
    assert isinstance(line.pop("milliseconds"), float)
    return {name: value for name, value in line.items() if name not in POWERTOOLS_OWN}


def test_a_request_is_one_line(api: Api, log: Log) -> None:
    api.enqueue()
    assert request_line(log) == {
        "request_id": REQUEST_ID,
        "route": "POST /jobs",
        "status": 201,
        "principal": "billing",
        "job_id": 1,
    }


def test_a_signed_request_names_its_role(api: Api, log: Log) -> None:
    api.claim(signed("Worker"))
    line = request_line(log)
    assert (line["principal"], line["route"], line["status"]) == (
        "123456789012:role/Worker",
        "POST /iam/jobs/claim",
        204,
    )


def test_a_refused_request_names_its_problem(api: Api, log: Log) -> None:
    api.enqueue(priority="urgent")
    assert request_line(log) == {
        "request_id": REQUEST_ID,
        "route": "POST /jobs",
        "status": 422,
        "principal": "billing",
        "problem": "validation-failed",
    }


@pytest.mark.parametrize("function", WITH_ID)
def test_a_refused_request_names_the_job_that_it_was_about(api: Api, log: Log, function: str) -> None:
    answer = api.ask(function, ADMIN, id=7, body=RIGHT.get(function))
    line = request_line(log)
    assert (line["job_id"], line["status"]) == (7, answer.status)
    assert answer.status in {404, 409}


def test_a_request_without_credentials_names_nobody(api: Api, log: Log) -> None:
    api.ask("claim_job", NOBODY)
    assert request_line(log) == {
        "request_id": REQUEST_ID,
        "route": "POST /jobs/claim",
        "status": 401,
        "problem": "unauthorized",
    }


@pytest.mark.parametrize("function", MODULES)
def test_every_function_logs_its_route_and_nothing_of_the_request_before(api: Api, log: Log, function: str) -> None:
    api.ask(function, NOBODY, body=b"[")
    assert request_line(log)["route"] == ROUTES[function]
    assert "principal" not in log.lines[-1]
    assert "job_id" not in log.lines[-1]


def test_neither_payloads_nor_keys_nor_errors_are_logged_or_counted(
    api: Api, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    api.enqueue(payload={"to": "secret-payload"}, idempotency_key="secret-idempotency")
    api.enqueue(payload={"to": "secret-payload"}, idempotency_key="secret-idempotency")
    api.enqueue(payload={"to": "secret-other"}, idempotency_key="secret-idempotency")
    api.enqueue(headers={"Idempotency-Key": "secret-header", "X-Api-Key": "ql_secretk0_secret"})
    api.enqueue(secret_field="secret-value")
    api.ask("enqueue_job", PRODUCER, body=b'{"secret')
    api.list(type="secret type", cursor="secret-cursor")
    api.claim(worker_id="secret-worker")
    api.claimed_job()
    success(api.fail(1, error="secret-error"))
    api.claimed_job()
    success(api.fail(1, WORKER, error="secret-error"))
    success(api.get(1))
    assert "secret" not in log.text
    assert "secret" not in capsys.readouterr().out


def test_neither_tokens_nor_results_nor_what_is_in_a_batch_is_logged_or_counted(
    api: Api, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    api.new_job()
    token = api.claimed_job(request_id="secret-request")["lease_token"]
    success(api.heartbeat(1, lease_token=token, progress={"note": "secret-progress"}))
    assert_problem(api.heartbeat(1, lease_token="secret-token"), 409, "lease-lost")
    assert_problem(api.claim(request_id="secret-request", lease_seconds=7), 422, "idempotency-key-reused")
    success(api.complete(1, lease_token=token, result="secret-result"))
    success(api.retry_jobs(status="failed", error_contains="secret-text"))
    job = {"type": "email", "payload": {"to": "secret-payload"}, "idempotency_key": "secret-key"}
    success(api.enqueue_jobs([job]))
    assert_problem(api.enqueue_jobs([job | {"priority": "low"}]), 422, "idempotency-key-reused")
    assert_problem(api.enqueue_jobs([job | {"type": "secret type"}]), 422, "validation-failed")
    (claimed,) = api.claimed_jobs(request_id="secret-request")
    item = {"id": claimed["id"], "lease_token": claimed["lease_token"]}
    success(api.heartbeat_jobs([item | {"progress": {"note": "secret-progress"}}]))
    success(api.finish_jobs([item | {"outcome": "failed", "error": "secret-error"}]))
    for text in (log.text, capsys.readouterr().out):
        for hidden in ("secret", token, claimed["lease_token"]):
            assert hidden not in text


def test_an_event_is_never_logged(
    api: Api, log: Log, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POWERTOOLS_LOGGER_LOG_EVENT", "true")
    key = EVENTS["enqueue_job"]["headers"]["X-Api-Key"]
    api.enqueue(headers={"X-Api-Key": key})
    assert key not in log.text + capsys.readouterr().out


@pytest.mark.parametrize("function", MODULES)
def test_every_verb_is_counted(api: Api, function: str, capsys: pytest.CaptureFixture[str]) -> None:
    api.ask(function, NOBODY)
    (line,) = metrics(capsys)
    status = 200 if function == "health" else 401
    assert line["verb"] == VERBS.get(function, function.partition("_")[0])
    assert [line[name] for name in ("Requests", "Refused", "Errors")] == [[1.0], [float(status == 401)], [0.0]]
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Queuelog"
    assert all("verb" in dimensions for dimensions in directive["Dimensions"])
    assert {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]} == {
        "Requests": "Count",
        "Duration": "Milliseconds",
        "Refused": "Count",
        "Errors": "Count",
    }


def test_an_error_of_ours_is_counted_as_one(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    api.database.mkdir()
    assert_problem(api.enqueue(), 503, "storage-unavailable")
    (line,) = metrics(capsys)
    assert [line[name] for name in ("Requests", "Refused", "Errors")] == [[1.0], [0.0], [1.0]]


def test_each_request_is_counted_by_itself(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        api.claim()
    assert [line["Requests"] for line in metrics(capsys)] == [[1.0]] * 3


def metrics(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in lines if "_aws" in line]
