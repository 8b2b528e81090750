"""When a job is due: asked for, after a failure, and what an idle worker is told."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from queuelog.clock import parse_timestamp
from tests.http.conftest import forget
from tests.http.support import ADMIN, WORKER, assert_problem, event, success, with_key
from tests.support import START

if TYPE_CHECKING:
    from tests.http.support import Api

NOON = "2026-01-31T12:00:00.000Z"


def due_in(job: dict[str, Any], api: Api) -> float:
    """Return the seconds until a job is due."""
    return (parse_timestamp(job["run_at"]) - api.clock.now()).total_seconds()


# At enqueue.


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2026-01-31T12:00:05.000Z", "2026-01-31T12:00:05.000Z"),
        ("2026-01-31T12:00:05Z", "2026-01-31T12:00:05.000Z"),
        ("2026-01-31T12:00:05.123456Z", "2026-01-31T12:00:05.123Z"),
        ("2026-01-31T13:00:05+01:00", "2026-01-31T12:00:05.000Z"),
        ("2026-01-31T06:30:05-05:30", "2026-01-31T12:00:05.000Z"),
        ("2026-01-31 12:00:05+00:00", "2026-01-31T12:00:05.000Z"),
        ("2026-02-01T00:00:00+14:00", NOON),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_comes_with_any_zone_and_goes_out_in_utc(api: Api, sent: str, kept: str) -> None:
    assert api.new_job(run_at=sent)["run_at"] == kept


@pytest.mark.parametrize("fields", [{"run_at": "2026-01-31T12:00:10Z"}, {"delay_seconds": 10}])
def test_a_job_is_not_claimed_before_its_time(api: Api, fields: dict[str, Any]) -> None:
    job = api.new_job(**fields)
    assert (job["status"], job["run_at"]) == ("pending", "2026-01-31T12:00:10.000Z")
    api.clock.advance(seconds=9.999)
    assert api.claim().status == api.claim_jobs(limit=10).status == 204
    api.clock.advance(seconds=0.001)
    assert api.claimed_job()["run_at"] == "2026-01-31T12:00:10.000Z"


@pytest.mark.parametrize("fields", [{}, {"run_at": None}, {"delay_seconds": None}, {"delay_seconds": 0}])
def test_a_job_is_due_at_once_unless_told(api: Api, fields: dict[str, Any]) -> None:
    assert api.new_job(**fields)["run_at"] == NOON
    api.claimed_job()


def test_a_time_in_the_past_does_not_jump_the_queue(api: Api) -> None:
    api.new_job()
    api.clock.advance(seconds=1)
    late = api.new_job(run_at="1970-01-01T00:00:00Z")
    assert late["run_at"] == "2026-01-31T12:00:01.000Z"
    assert [api.claimed_job()["id"] for _ in range(2)] == [1, 2]


def test_jobs_are_claimed_in_the_order_in_which_they_fell_due(api: Api) -> None:
    for delay in (30, 10, 20):
        api.new_job(delay_seconds=delay)
    api.new_job(ADMIN, delay_seconds=40, priority="high")
    api.clock.advance(seconds=35)
    api.new_job()
    assert [api.claimed_job()["id"] for _ in range(4)] == [2, 3, 1, 5]
    api.clock.advance(seconds=5)
    assert api.claimed_job()["id"] == 4


def test_a_delayed_job_stands_in_nobodys_way(api: Api) -> None:
    api.new_job(ADMIN, priority="critical", delay_seconds=60)
    api.new_job(ADMIN, priority="low")
    assert api.claimed_job()["priority"] == "low"


def test_the_same_time_in_another_zone_is_the_same_request(api: Api) -> None:
    job = api.new_job(run_at="2026-01-31T13:00:00Z", idempotency_key="k")
    again = api.enqueue(run_at="2026-01-31T14:00:00+01:00", idempotency_key="k")
    assert success(again, 200)["id"] == job["id"]
    for other in ({"run_at": "2026-01-31T13:00:01Z"}, {"delay_seconds": 3_600}, {}, {"backoff_seconds": 15}):
        assert_problem(api.enqueue(idempotency_key="k", **other), 422, "idempotency-key-reused")


def test_a_delay_counts_from_the_first_request_with_its_key(api: Api) -> None:
    api.new_job(delay_seconds=60, idempotency_key="k")
    api.clock.advance(seconds=30)
    assert success(api.enqueue(delay_seconds=60, idempotency_key="k"), 200)["run_at"] == "2026-01-31T12:01:00.000Z"


# After a failure.


def failed(api: Api, **fields: Any) -> dict[str, Any]:
    api.claimed_job()
    return success(api.fail(1, **fields))


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (None, [0, 15, 45, 105, 225, 465, 945, 1_905, 3_600, 3_600]),
        (15, [0, 15, 45, 105, 225, 465, 945, 1_905, 3_600, 3_600]),
        (0, [0, 0, 0, 0]),
        (1, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1_023, 2_047, 3_600, 3_600]),
        # A job's own backoff is never capped to less than itself.
        (86_400, [0, 86_400, 86_400, 86_400]),
        (4_000, [0, 4_000, 4_000]),
    ],
)
def test_the_first_retry_is_at_once_and_then_the_waits_double_up_to_a_cap(
    api: Api, backoff: int | None, waits: list[int]
) -> None:
    job = api.new_job(max_retries=25, backoff_seconds=backoff)
    assert job["backoff_seconds"] == (15 if backoff is None else backoff)
    for number, wait in enumerate(waits, start=1):
        job = failed(api)
        assert (job["status"], job["retry_count"]) == ("pending", number)
        seconds = max(due_in(job, api), 0)
        assert wait <= seconds <= wait * 1.2 + 0.001
        if seconds:
            api.clock.advance(seconds=seconds - 0.001)
            assert api.claim().status == 204
            api.clock.advance(seconds=0.001)


def test_jobs_that_failed_together_do_not_all_come_back_together(api: Api) -> None:
    api.enqueue_jobs([{"type": "email"}] * 100)
    for _ in range(2):
        jobs = api.claimed_jobs()
        api.finish_jobs([{"id": job["id"], "lease_token": job["lease_token"], "outcome": "failed"} for job in jobs])
    waits = {due_in(job, api) for job in success(api.list(limit="100"))["jobs"]}
    assert len(waits) > 50
    assert min(waits) >= 15
    assert max(waits) <= 18.001


def test_the_stack_sets_the_backoff_and_its_cap(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_BACKOFF_SECONDS", "100")
    monkeypatch.setenv("QUEUELOG_BACKOFF_CAP_SECONDS", "150")
    forget()
    assert api.new_job()["backoff_seconds"] == 100
    waits = []
    for _ in range(3):
        waits.append(due_in(failed(api), api))
        api.clock.advance(seconds=200)
    assert waits[0] <= 0
    assert 100 <= waits[1] <= 120.001
    assert 150 <= waits[2] <= 180.001


def test_an_expired_lease_waits_as_a_failure_does_from_when_it_is_taken_back(api: Api) -> None:
    api.new_job()
    for wait in (0, 15, 45):
        api.claimed_job(lease_seconds=10)
        api.clock.advance(seconds=1_000)
        api.sweep()
        seconds = max(due_in(success(api.get(1)), api), 0)
        assert wait <= seconds <= wait * 1.2 + 0.001
        api.clock.advance(seconds=seconds)


def test_a_first_retry_keeps_when_the_job_was_due_and_a_delayed_one_does_not(api: Api) -> None:
    api.new_job(delay_seconds=5)
    api.clock.advance(seconds=100)
    assert failed(api)["run_at"] == "2026-01-31T12:00:05.000Z"
    assert success(api.claim())["id"] == 1
    assert success(api.release(1))["run_at"] == "2026-01-31T12:00:05.000Z"
    assert failed(api, retry_in_seconds=30)["run_at"] == "2026-01-31T12:02:10.000Z"


@pytest.mark.parametrize("seconds", [1, 30, 2_592_000])
def test_a_worker_may_say_when_to_retry(api: Api, seconds: int) -> None:
    api.new_job(backoff_seconds=86_400)
    for _ in range(2):
        job = failed(api, retry_in_seconds=seconds)
        # Without jitter, and with no cap but its own.
        assert parse_timestamp(job["run_at"]) == api.clock.now() + timedelta(seconds=seconds)
        api.clock.advance(seconds=seconds)


def test_a_worker_may_say_to_retry_at_once(api: Api) -> None:
    api.new_job(backoff_seconds=86_400)
    for _ in range(3):
        assert failed(api, retry_in_seconds=0)["status"] == "pending"
    assert success(api.get(1))["retry_count"] == 3


def test_a_worker_may_say_not_to_retry(api: Api) -> None:
    api.new_job(max_retries=25)
    job = failed(api, permanent=True, error="no such address")
    assert (job["status"], job["retry_count"], job["run_at"]) == ("failed", 0, NOON)
    assert api.claim().status == 204


@pytest.mark.parametrize("fields", [{"retry_in_seconds": 0}, {"retry_in_seconds": 30}, {"permanent": False}])
def test_nothing_that_a_worker_says_adds_a_retry(api: Api, fields: dict[str, Any]) -> None:
    api.new_job(max_retries=1, backoff_seconds=0)
    assert failed(api, **fields)["status"] == "pending"
    api.clock.advance(seconds=30)
    assert failed(api, **fields)["status"] == "failed"


def test_an_expired_lease_whose_retry_is_at_once_is_claimed_by_the_very_claim_that_takes_it_back(api: Api) -> None:
    api.new_job()
    api.claimed_job(lease_seconds=1)
    api.clock.advance(seconds=1)
    job = api.claimed_job(with_key("packer", "worker"))
    assert (job["attempt"], job["retry_count"], job["worker_id"]) == (2, 1, "packer")


def test_an_expired_lease_whose_retry_has_to_wait_is_told_to_the_claim_that_takes_it_back(api: Api) -> None:
    api.new_job(backoff_seconds=5)
    for _ in range(2):
        api.claimed_job(lease_seconds=1)
        api.clock.advance(seconds=1)
    answer = api.claim()
    assert answer.status == 204
    assert 5 <= int(answer.headers["Retry-After"]) <= 6


# What an idle worker is told.


@pytest.mark.parametrize(
    ("seconds", "wait"),
    [(0.001, 1), (0.999, 1), (1, 1), (1.001, 2), (7, 7), (7.5, 8), (19.5, 20), (20, 20), (21, 20), (86_400, 20)],
)
@pytest.mark.parametrize("batched", [False, True], ids=["one", "many"])
def test_an_empty_claim_says_when_the_next_job_falls_due_between_1_and_20_seconds(
    api: Api, seconds: float, wait: int, batched: bool
) -> None:
    api.new_job(run_at=(START + timedelta(seconds=seconds)).isoformat())
    answer = api.claim_jobs(limit=5) if batched else api.claim()
    assert (answer.status, answer.headers) == (204, {"Retry-After": str(wait)})
    assert answer.raw["body"] is None


def test_an_empty_claim_says_when_the_next_lease_ends(api: Api) -> None:
    for seconds in (12, 8, 10):
        api.new_job()
        api.claimed_job(lease_seconds=seconds)
    api.new_job(delay_seconds=15)
    for at, wait in ((0, 8), (3, 5)):
        api.clock.advance(seconds=at)
        assert api.claim(ADMIN).headers == {"Retry-After": str(wait)}
    success(api.complete(2))
    assert api.claim(ADMIN).headers == {"Retry-After": "7"}


def test_an_empty_claim_is_told_of_the_types_that_it_asked_for(api: Api) -> None:
    api.new_job(delay_seconds=5)
    api.new_job(type="pdf", delay_seconds=10)
    api.new_job(type="sync")
    api.claimed_job(ADMIN, lease_seconds=3)
    told = [api.claim(types=types).headers["Retry-After"] for types in (["email"], ["pdf", "email"], ["pdf"], ["sync"])]
    assert told == ["5", "5", "10", "3"]
    assert api.claim().headers == {"Retry-After": "3"}
    assert api.claim(with_key("packer", "worker", types=["pdf"])).headers == {"Retry-After": "10"}
    assert api.claim(with_key("packer", "worker", types=[])).headers == {"Retry-After": "20"}


def test_a_worker_that_waits_as_it_is_told_finds_every_job_soon_after_it_falls_due(api: Api) -> None:
    for delay in (1, 25, 47):
        api.new_job(delay_seconds=delay)
    found: list[int] = []
    while len(found) < 3:
        answer = api.claim(WORKER)
        if answer.status == 200:
            late = -due_in(answer.body, api)
            assert 0 <= late < 1
            found.append(answer.body["id"])
            success(api.complete(answer.body["id"]))
        else:
            api.clock.advance(seconds=int(answer.headers["Retry-After"]))
    assert found == [1, 2, 3]


# The clock.


def test_no_header_no_parameter_and_no_variable_moves_the_clock(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    later = "2030-01-01T00:00:00Z"
    for variable in ("QUEUELOG_NOW", "QUEUELOG_CLOCK", "NOW", "FAKETIME", "SOURCE_DATE_EPOCH"):
        monkeypatch.setenv(variable, later)
    forget()
    headers = {"Date": later, "X-Clock": later, "X-Now": later, "X-Queuelog-Clock": later}
    api.new_job(delay_seconds=60)
    request_time = {"requestTime": "01/Jan/2030:00:00:00 +0000", "requestTimeEpoch": 1_893_456_000_000}
    context = event("claim_job", WORKER)["requestContext"] | request_time
    answer = api.ask("claim_job", WORKER, headers=headers, changes={"requestContext": context})
    assert answer.status == 204
    assert_problem(api.ask("claim_job", WORKER, query={"now": later}), 422, "validation-failed")
    assert success(api.enqueue(headers=headers), 201)["created_at"] == NOON


# How long a job is kept.


@pytest.mark.parametrize(
    ("status", "days"), [("completed", 7), ("failed", 30), ("cancelled", 30), ("pending", None), ("running", None)]
)
def test_a_key_lives_as_long_as_its_job(api: Api, status: str, days: int | None) -> None:
    api.new_job(idempotency_key="k")
    if status in {"completed", "failed"}:
        api.claimed_job()
        success(api.complete(1) if status == "completed" else api.fail(1, permanent=True))
    if status == "cancelled":
        api.cancel(1)
    api.clock.advance(seconds=(days or 365) * 86_400)
    if status == "running":
        api.claimed_job()
    assert api.sweep()["jobs_deleted"] == 0
    assert success(api.enqueue(idempotency_key="k"), 200)["id"] == 1
    if days:
        api.clock.advance(seconds=0.001)
        assert api.sweep()["jobs_deleted"] == 1
        assert_problem(api.get(1), 404, "not-found")
        # An id is never used again.
        assert success(api.enqueue(idempotency_key="k"), 201)["id"] == 2
