"""Every answer fits into what Lambda may answer, whatever the jobs hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, PRODUCER, assert_problem, codes, success
from tests.support import query

if TYPE_CHECKING:
    from tests.http.support import Answer, Api

#: Lambda refuses more than 6 MB; a page stops before 5.
MOST = 5_000_000
#: Payloads of 65,536 bytes in all, which grow by very different factors when the body is quoted once more.
PAYLOADS: dict[str, dict[str, Any]] = {
    "ASCII": {"a": "x" * 65_528},
    "quotes": {"a": '"' * 32_764},
    "backslashes": {"a": "\\" * 32_764},
    "control characters": {"a": "\x01" * 10_921},
    "four-byte characters": {"a": "😀" * 16_382},
}


@pytest.mark.parametrize("query", [{}, {"status": "pending", "order": "queue"}], ids=["newest", "queue"])
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
def test_a_page_ends_before_lambda_would_refuse_it(api: Api, payload: dict[str, Any], query: dict[str, str]) -> None:
    for _ in range(4):
        success(api.enqueue_jobs([{"type": "email", "payload": payload}] * 20))
    pages = all_pages(api, **query)
    assert all(page.lambda_bytes < MOST for page in pages)
    # As full as can be: one more job might not have fitted.
    assert all(page.lambda_bytes > MOST - 1_200_000 for page in pages[:-1])
    assert len(pages) > 1
    ids = [job["id"] for page in pages for job in page.body["jobs"]]
    assert sorted(ids) == list(range(1, 81))


def test_everything_else_of_a_job_counts_as_well(api: Api) -> None:
    error = "“Zoë” 日本 \x01😀" * 60
    payload = {"a": '"' * 31_000}
    for start in range(0, 100, 25):
        keys = [f"{number:03}{'😀' * 252}" for number in range(start, start + 25)]
        success(
            api.enqueue_jobs([{"type": "email", "payload": payload, "idempotency_key": key} for key in keys], ADMIN)
        )
        for end in ({"outcome": "failed", "error": error}, {"outcome": "completed"}):
            items = [held_by(job) | end for job in api.claimed_jobs(ADMIN)]
            assert codes(api.finish_jobs(items, ADMIN)) == [200] * 25
    pages = all_pages(api)
    assert all(page.lambda_bytes < MOST for page in pages)
    assert sum(len(page.body["jobs"]) for page in pages) == 100


def test_small_jobs_are_as_many_as_asked_for(api: Api) -> None:
    for _ in range(101):
        api.new_job()
    assert len(success(api.list(limit="100"))["jobs"]) == 100


def all_pages(api: Api, **query: str) -> list[Answer]:
    pages = [api.list(limit="100", **query)]
    while (cursor := success(pages[-1])["next_cursor"]) is not None:
        pages.append(api.list(limit="100", cursor=cursor, **query))
    return pages


# Results and progress count as payloads do.


@pytest.mark.parametrize("filling", PAYLOADS.values(), ids=PAYLOADS.keys())
def test_a_page_of_results_ends_before_lambda_would_refuse_it(api: Api, filling: dict[str, Any]) -> None:
    success(api.enqueue_jobs([{"type": "email"}] * 80))
    items = [held_by(job) | {"outcome": "completed", "result": filling} for job in api.claimed_jobs()]
    for start in range(0, 80, 20):
        assert codes(api.finish_jobs(items[start : start + 20])) == [200] * 20
    assert success(api.get(80))["result"] == filling
    pages = all_pages(api)
    assert all(page.lambda_bytes < MOST for page in pages)
    assert all(page.lambda_bytes > MOST - 1_200_000 for page in pages[:-1])
    assert len(pages) > 1
    assert sum(len(page.body["jobs"]) for page in pages) == 80


@pytest.mark.parametrize("filling", ["x", '"', "\\", "😀"])
def test_progress_counts_as_well(api: Api, filling: str) -> None:
    each = len(filling.encode()) * (2 if filling in {'"', "\\"} else 1)
    progress = {"a": filling * (4_088 // each)}
    jobs = [{"type": "email", "payload": {"a": '"' * 12_000}, "idempotency_key": f"{n}{'😀' * 250}"} for n in range(50)]
    for _ in range(2):
        success(api.enqueue_jobs(jobs, ADMIN))
        jobs = [job | {"idempotency_key": f"again {job['idempotency_key']}"[:255]} for job in jobs]
    held = api.claimed_jobs(ADMIN)
    api.heartbeat_jobs([held_by(job) | {"progress": progress} for job in held], ADMIN)
    for page in all_pages(api):
        assert page.lambda_bytes < MOST


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
def test_a_claim_takes_no_more_jobs_than_its_answer_has_room_for(api: Api, payload: dict[str, Any]) -> None:
    for _ in range(4):
        success(api.enqueue_jobs([{"type": "email", "payload": payload}] * 25))
    claims = []
    while (answer := api.claim_jobs(limit=100)).status == 200:
        assert answer.lambda_bytes < MOST
        claims.append([job["id"] for job in answer.body["jobs"]])
        # Those for which there was no room were not touched.
        assert len(success(api.list(status="running", limit="100"))["jobs"]) <= sum(map(len, claims))
    assert len(claims) > 1
    assert [id for ids in claims for id in ids] == list(range(1, 101))
    assert query(api.database, "SELECT DISTINCT attempt FROM jobs") == [(1,)]


def test_a_claim_that_is_asked_for_again_has_room_for_its_jobs_and_their_progress(api: Api) -> None:
    for _ in range(4):
        success(api.enqueue_jobs([{"type": "email", "payload": {"a": '"' * 32_764}}] * 25))
    jobs = api.claimed_jobs(request_id="r")
    progress = {"a": '"' * 2_044}
    assert codes(api.heartbeat_jobs([held_by(job) | {"progress": progress} for job in jobs])) == [200] * len(jobs)
    again = api.claim_jobs(limit=100, request_id="r")
    assert len(success(again)["jobs"]) == len(jobs)
    assert again.lambda_bytes < MOST


def test_a_batch_whose_answer_would_be_too_large_is_refused_before_anything_is_stored(api: Api) -> None:
    job = {"type": "email", "payload": {"a": '"' * 16_000}}
    answer = api.enqueue_jobs([job] * 100)
    assert assert_problem(answer, 422, "validation-failed") == {("jobs", "too_large")}
    assert not api.database.exists()
    assert success(api.enqueue_jobs([job] * 50))["jobs"]


@pytest.mark.parametrize("filling", ["x", '"', "é"])
def test_a_batch_that_is_taken_has_an_answer_with_room_for_it(api: Api, filling: str) -> None:
    each = len(filling.encode()) * (4 if filling == '"' else 1)
    job = {"type": "email", "payload": {"a": filling * (29_900 // each)}, "priority": "low"}
    jobs = [job | {"idempotency_key": f"{number}{'😀' * 250}"} for number in range(100)]
    for expected in (201, 200):
        answer = api.enqueue_jobs(jobs, ADMIN)
        assert codes(answer) == [expected] * 100
        assert MOST - 2_200_000 < answer.lambda_bytes < MOST


def test_a_batch_that_is_sent_again_has_an_answer_whatever_its_jobs_have_become(api: Api) -> None:
    jobs = [
        {"type": "email", "payload": {"a": '"' * 7_000}, "idempotency_key": f"{number}{'😀' * 250}"}
        for number in range(100)
    ]
    success(api.enqueue_jobs(jobs, ADMIN))
    held = [held_by(job) for job in api.claimed_jobs(ADMIN)]
    api.heartbeat_jobs([item | {"progress": {"a": '"' * 2_044}} for item in held], ADMIN)
    for start in range(0, 100, 50):
        ends = [item | {"outcome": "completed", "result": '"' * 32_767} for item in held[start : start + 50]]
        assert codes(api.finish_jobs(ends, ADMIN)) == [200] * 50
    again = api.enqueue_jobs(jobs, ADMIN)
    assert codes(again) == [200] * 100
    assert again.lambda_bytes < MOST


def test_a_hundred_finished_jobs_have_room_in_one_answer(api: Api) -> None:
    jobs = [
        {"type": "email", "payload": {"a": "x" * 20_000}, "idempotency_key": f"{number}{'😀' * 250}"}
        for number in range(100)
    ]
    success(api.enqueue_jobs(jobs, ADMIN))
    held = [held_by(job) for job in api.claimed_jobs(ADMIN)]
    items = [item | {"outcome": "failed", "error": "“Zoë” 日本 😀" * 90} for item in held]
    answer = api.finish_jobs(items, ADMIN)
    assert codes(answer) == [200] * 100
    assert answer.lambda_bytes < MOST


def test_a_long_history_has_room_in_one_answer(api: Api) -> None:
    api.new_job(payload={"a": '"' * 32_764}, max_retries=0)
    api.claimed_job()
    api.complete(1, result={"a": '"' * 32_764})
    query(
        api.database,
        "WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers LIMIT 600) "
        "INSERT INTO attempts SELECT 1, n, ?, ?, ?, 'failed', 'fail', NULL, ? FROM numbers",
        ["😀" * 255, "2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00.000Z", "😀" * 1_000],
    )
    answer = api.get(1)
    assert len(success(answer)["attempts"]) == 500
    assert answer.lambda_bytes < MOST
    assert "attempts" not in success(api.get(1, PRODUCER))


def held_by(job: dict[str, Any]) -> dict[str, Any]:
    return {"id": job["id"], "lease_token": job["lease_token"]}
