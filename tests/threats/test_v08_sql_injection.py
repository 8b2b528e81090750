"""V-08: text from a request becomes part of an SQL statement."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, WITH_ID, WORKER, assert_problem, assert_refused, codes, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

INJECTIONS = [
    "'; DROP TABLE jobs; --",
    "' OR '1'='1",
    '" OR ""="',
    "1 OR 1=1",
    "') UNION SELECT name, sql FROM sqlite_master --",
    "'; UPDATE jobs SET priority = 30, status = 'completed'; --",
    "%' OR type LIKE '%",
    ":id",
    "?1",
    "$next_job",
    "\\'; --",
    "x' || (SELECT payload FROM jobs) || '",
    "]}'); DELETE FROM jobs; --",
]


def everything(api: Api) -> list[Any]:
    with closing(sqlite3.connect(api.database)) as connection:
        schema = connection.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
        return [*schema, *connection.execute("SELECT * FROM jobs ORDER BY id").fetchall()]


@pytest.mark.parametrize("text", INJECTIONS)
def test_text_in_a_field_or_filter_that_must_match_a_pattern_goes_nowhere(api: Api, text: str) -> None:
    api.new_job()
    api.claimed_job()
    before = everything(api)
    for name in ("status", "type", "priority", "limit", "cursor", "order"):
        assert_problem(api.list(**{name: text}), 422, "validation-failed")
    for function in WITH_ID:
        assert_problem(api.ask(function, ADMIN, id=text), 404, "not-found")
    assert_problem(api.enqueue(type=text), 422, "validation-failed")
    assert_problem(api.enqueue(priority=text), 422, "validation-failed")
    assert_problem(api.enqueue(max_retries=text), 422, "validation-failed")
    assert_problem(api.ask("enqueue_job", ADMIN, body={"type": "email", text: 1}), 422, "validation-failed")
    assert_problem(api.claim(types=[text]), 422, "validation-failed")
    assert_problem(api.claim(worker_id=text), 403, "forbidden")
    assert_problem(api.enqueue(run_at=text), 422, "validation-failed")
    assert_problem(api.enqueue_jobs([{"type": text}]), 422, "validation-failed")
    assert_problem(api.claim_jobs(limit=1, types=[text]), 422, "validation-failed")
    assert_problem(api.finish_jobs([{"id": text, "lease_token": "t", "outcome": text}]), 422, "validation-failed")
    assert_problem(api.heartbeat_jobs([{"id": text, "lease_token": "t"}]), 422, "validation-failed")
    for fields in ({"status": text}, {"type": text}, {"failed_after": text}, {"failed_before": text}):
        assert_problem(api.retry_jobs(**({"status": "failed"} | fields)), 422, "validation-failed")
    for verb in (api.complete, api.fail, api.release, api.heartbeat):
        assert_problem(verb(1, lease_token=text), 409, "lease-lost")
    assert_refused(api.heartbeat_jobs([{"id": 1, "lease_token": text}]), 0, "lease-lost")
    assert_refused(api.finish_jobs([{"id": 1, "lease_token": text, "outcome": "completed"}]), 0, "lease-lost")
    assert everything(api) == before


@pytest.mark.parametrize("text", INJECTIONS)
def test_text_that_may_be_anything_is_kept_as_text(api: Api, text: str) -> None:
    other = api.new_job(max_retries=0)
    api.claimed_job()
    caller = with_key(text, "producer", "worker")
    job = api.new_job(caller, payload={text: [text, {"a": text}]}, idempotency_key=text)
    assert success(api.enqueue(caller, payload={text: [text, {"a": text}]}, headers={"Idempotency-Key": text}), 200)
    assert api.claimed_job(caller)["worker_id"] == text
    success(api.fail(job["id"], caller, error=text))
    kept = success(api.get(job["id"]))
    assert kept["payload"] == {text: [text, {"a": text}]}
    assert (kept["idempotency_key"], kept["created_by"], kept["error"]) == (text, text, text)
    assert [each["id"] for each in success(api.list(caller))["jobs"]] == [job["id"]]
    assert success(api.complete(other["id"], WORKER))["status"] == "completed"
    assert len(success(api.list())["jobs"]) == 2


@pytest.mark.parametrize("text", INJECTIONS)
def test_text_of_a_batch_is_kept_as_text(api: Api, text: str) -> None:
    caller = with_key(text, "producer", "worker")
    jobs: list[dict[str, Any]] = [
        {"type": "email", "payload": {text: text}, "idempotency_key": text},
        {"type": "email"},
    ]
    success(api.enqueue_jobs(jobs, caller))
    assert codes(api.enqueue_jobs(jobs[:1], caller)) == [200]
    held = api.claimed_jobs(caller, request_id=text)
    assert api.claimed_jobs(caller, request_id=text) == held
    first, second = ({"id": job["id"], "lease_token": job["lease_token"]} for job in held)
    assert codes(api.heartbeat_jobs([first | {"progress": {text: text}}], caller)) == [200]
    ends = [
        first | {"outcome": "completed", "result": {text: [text]}},
        second | {"outcome": "failed", "error": text, "permanent": True},
    ]
    assert codes(api.finish_jobs(ends, caller)) == [200, 200]
    job = success(api.get(1))
    assert (job["payload"], job["progress"], job["result"]) == ({text: text}, {text: text}, {text: [text]})
    assert [attempt["worker_id"] for attempt in job["attempts"]] == [text]
    # What an error is searched for is text as well, without patterns.
    assert success(api.retry_jobs(status="failed", error_contains=text, dry_run=True))["ids"] == [2]
    assert success(api.retry_jobs(status="failed", error_contains=f"{text}%"))["ids"] == []
    assert success(api.retry(2))["error"] == text
