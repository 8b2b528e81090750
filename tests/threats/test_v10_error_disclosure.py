"""V-10: a worker's error shows everyone stack traces, connection strings and paths, and so do our own errors."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.http.bodies import RIGHT
from tests.http.support import ADMIN, GUARDED, PRODUCER, WORKER, assert_problem, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

ERROR = """Traceback (most recent call last):
  File "/srv/worker/secrets.py", line 7, in connect
    psycopg.connect("postgresql://queue:hunter2@db.internal:5432/orders")
psycopg.OperationalError: postgresql://queue:hunter2@db.internal/orders is down, api_key=AKIAIOSFODNN7EXAMPLE
"""
SECRETS = ["hunter2", "AKIAIOSFODNN7EXAMPLE", "/srv/worker", "Traceback", "line 7"]


@pytest.mark.parametrize("max_retries", [0, 3])
def test_an_error_is_shown_to_admins_alone_and_to_them_without_its_secrets(api: Api, max_retries: int) -> None:
    job = api.new_job(max_retries=max_retries)
    api.claimed_job()
    answers = [api.fail(job["id"], error=ERROR)]
    if max_retries:
        answers.append(api.claim(WORKER))
    both = with_key("billing", "producer", "worker")
    answers += [ask(caller) for caller in (PRODUCER, WORKER, both) for ask in (api.list, lambda who: api.get(1, who))]
    for answer in answers:
        success(answer)
        assert "OperationalError" not in answer.raw["body"]
        assert '"error":' not in answer.raw["body"]
    error = success(api.get(job["id"], ADMIN))["error"]
    assert "OperationalError" in error
    for answer in (*answers, api.get(job["id"], ADMIN), api.list(ADMIN)):
        assert not [secret for secret in SECRETS if secret in answer.raw["body"]]


def test_a_job_that_others_may_not_see_shows_them_no_error_either(api: Api) -> None:
    api.new_job(max_retries=0)
    api.claimed_job()
    api.fail(1, error=ERROR)
    for caller in (with_key("mallory", "producer"), with_key("mallory", "worker")):
        assert_problem(api.get(1, caller), 404, "not-found")
        assert success(api.list(caller))["jobs"] == []


@pytest.mark.parametrize("function", GUARDED)
def test_an_error_of_our_own_is_shown_to_nobody(api: Api, function: str) -> None:
    api.new_job()
    with closing(sqlite3.connect(api.database)) as other:
        other.execute("ALTER TABLE jobs RENAME TO mislaid")
    answer = api.ask(function, ADMIN, body=RIGHT.get(function))
    assert_problem(answer, 500, "internal-error")
    for word in ("no such table", "jobs:", "sqlite", "Traceback", ".py", str(api.database), "OperationalError"):
        assert word not in answer.raw["body"]


def test_an_error_of_a_batch_is_shown_to_admins_alone_and_to_them_without_its_secrets(api: Api) -> None:
    api.new_job(max_retries=0)
    item = {"id": 1, "lease_token": api.claimed_job()["lease_token"], "outcome": "failed", "error": ERROR}
    answers = [api.finish_jobs([item]), api.finish_jobs([item])]
    answers += [ask(1, PRODUCER) for ask in (api.get, api.explain)]
    for answer in answers:
        success(answer)
        assert "OperationalError" not in answer.raw["body"]
        assert '"error":' not in answer.raw["body"]
    job = success(api.get(1, ADMIN))
    assert job["error"] == job["attempts"][0]["error"]
    assert "OperationalError" in job["error"]
    assert not [secret for secret in SECRETS if secret in api.get(1, ADMIN).raw["body"]]


def test_the_history_is_shown_to_admins_alone(api: Api) -> None:
    api.new_job(backoff_seconds=0)
    for _ in range(2):
        api.claimed_job()
        api.fail(1, error=ERROR)
    api.claimed_job()
    for caller in (PRODUCER, WORKER, with_key("billing", "producer", "worker")):
        for answer in (api.get(1, caller), api.list(caller)):
            success(answer)
            assert "attempts" not in answer.raw["body"]
            assert "OperationalError" not in answer.raw["body"]
    answer = api.get(1, ADMIN)
    assert [attempt["outcome"] for attempt in success(answer)["attempts"]] == ["failed", "failed"]
    assert not [secret for secret in SECRETS if secret in answer.raw["body"]]


def test_what_a_worker_left_is_shown_to_no_other_worker_and_no_other_producer(api: Api) -> None:
    api.new_job(payload={"to": "ada@example.com"})
    token = api.claimed_job()["lease_token"]
    api.heartbeat(1, lease_token=token, progress={"note": "hunter2"})
    api.complete(1, lease_token=token, result="hunter2")
    for caller in (with_key("mallory", "producer"), with_key("mallory", "worker"), WORKER):
        for answer in (api.get(1, caller), api.list(caller)):
            assert "hunter2" not in answer.raw["body"]
            assert "ada" not in answer.raw["body"]
