"""V-07: a payload has no limit, so that one caller fills the disk and every worker's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.bodies import MAX_BATCH_BODY_BYTES, MAX_BODY_BYTES, arrays, sized
from tests.http.support import ADMIN, BATCHES, PRODUCER, WITH_BODY, assert_problem, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

EVERYTHING = with_key("everything", "producer", "worker", "admin")


@pytest.mark.parametrize("size", [65_537, 100_000, 1_000_000])
def test_a_payload_over_64_kib_is_refused_to_everyone_and_not_stored(api: Api, size: int) -> None:
    payload = {"a": "x" * (size - len('{"a":""}'))}
    for caller in (PRODUCER, ADMIN, EVERYTHING):
        answer = api.enqueue(caller, payload=payload)
        assert assert_problem(answer, 422, "validation-failed") == {("payload", "too_large")}
        assert len(answer.raw["body"]) < 1_000
    assert not api.database.exists()


@pytest.mark.parametrize("function", WITH_BODY)
def test_a_body_over_1_mib_or_of_a_batch_4_mb_is_refused_before_it_is_read(api: Api, function: str) -> None:
    most = MAX_BATCH_BODY_BYTES if function in BATCHES else MAX_BODY_BYTES
    for body in (sized(most + 1), b"[" * (9 * MAX_BODY_BYTES), arrays(most)):
        assert_problem(api.ask(function, EVERYTHING, body=body), 413, "payload-too-large")
    assert not api.database.exists()


@pytest.mark.parametrize("levels", [65, 1_000, 100_000, 500_000])
def test_a_body_that_nests_deeper_than_64_levels_is_refused(api: Api, levels: int) -> None:
    for function in WITH_BODY:
        assert_problem(api.ask(function, EVERYTHING, body=arrays(levels)), 400, "invalid-json")


def test_an_error_is_cut_to_1_000_characters(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    success(api.fail(1, error="x " * 500_000))
    assert len(success(api.get(1))["error"]) <= 1_000


def test_an_idempotency_key_over_255_characters_is_refused(api: Api) -> None:
    for answer in (api.enqueue(idempotency_key="k" * 256), api.enqueue(headers={"Idempotency-Key": "k" * 9_000})):
        assert_problem(answer, 422, "validation-failed")


def test_progress_and_results_have_limits_as_payloads_have(api: Api) -> None:
    api.new_job()
    item = {"id": 1, "lease_token": api.claimed_job()["lease_token"]}
    progress, result = {"a": "x" * 4_089}, "x" * 65_535
    for answer, field in (
        (api.heartbeat(1, lease_token=item["lease_token"], progress=progress), "progress"),
        (api.heartbeat_jobs([item | {"progress": progress}]), "jobs[0].progress"),
        (api.complete(1, result=result), "result"),
        (api.finish_jobs([item | {"outcome": "completed", "result": result}]), "jobs[0].result"),
    ):
        assert assert_problem(answer, 422, "validation-failed") == {(field, "too_large")}
        assert len(answer.raw["body"]) < 1_000
    job = success(api.get(1))
    assert (job["status"], job["progress"], job["result"]) == ("running", None, None)


@pytest.mark.parametrize("count", [101, 1_000, 50_000])
def test_a_batch_of_more_than_100_jobs_is_refused(api: Api, count: int) -> None:
    for function, item in (
        ("enqueue_jobs", b'{"type": "email"}'),
        ("heartbeat_jobs", b'{"id": 1, "lease_token": "t"}'),
        ("finish_jobs", b'{"id": 1, "lease_token": "t", "outcome": "completed"}'),
    ):
        body = b'{"jobs": [' + b",".join([item] * count) + b"]}"
        answer = api.ask(function, EVERYTHING, body=body)
        assert assert_problem(answer, 422, "validation-failed") == {("jobs", "too_long")}
    assert not api.database.exists()


def test_a_claim_of_more_than_100_jobs_is_refused(api: Api) -> None:
    for limit in (101, 10**9, 10**400):
        assert_problem(api.claim_jobs(limit=limit), 422, "validation-failed")


def test_an_error_in_a_batch_is_cut_to_1_000_characters(api: Api) -> None:
    api.new_job()
    item = {"id": 1, "lease_token": api.claimed_job()["lease_token"], "outcome": "failed"}
    success(api.finish_jobs([item | {"error": "x " * 500_000}]))
    assert len(success(api.get(1))["error"]) <= 1_000


def test_a_claim_request_id_over_255_characters_is_refused(api: Api) -> None:
    for answer in (api.claim(request_id="k" * 256), api.claim_jobs(limit=1, request_id="k" * 9_000)):
        assert_problem(answer, 422, "validation-failed")
