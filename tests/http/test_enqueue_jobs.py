"""POST /batch/enqueue"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from tests.http.support import (
    ADMIN,
    PRODUCER,
    WORKER,
    assert_problem,
    codes,
    signed,
    success,
    with_key,
)
from web.models import EnqueueJobsRequest

if TYPE_CHECKING:
    from tests.http.support import Api, Caller

MAIL = {"type": "email"}


def faults_of(api: Api, jobs: Any, caller: Caller = ADMIN) -> set[tuple[str, str]]:
    answer = api.ask("enqueue_jobs", caller, body={"jobs": jobs})
    return assert_problem(answer, 422, "validation-failed")


def stored(api: Api) -> int:
    return len(success(api.list(limit="100"))["jobs"])


def test_each_job_is_answered_in_order_as_a_single_one_would_be(api: Api) -> None:
    sent: list[dict[str, Any]] = [
        {"type": "sync", "payload": {"to": "Zoë"}, "idempotency_key": "k"},
        {"type": "email", "priority": "LOW", "max_retries": 0, "backoff_seconds": 7},
        {"type": "pdf", "delay_seconds": 60},
    ]
    answer = api.enqueue_jobs(sent)
    items = success(answer)["jobs"]
    assert answer.headers == {"Content-Type": "application/json"}
    assert all(list(item) == ["code", "job"] for item in items)
    assert codes(answer) == [201, 201, 201]
    single = [api.new_job(**(fields | {"idempotency_key": None})) for fields in sent]
    assert [list(item["job"]) for item in items] == [list(job) for job in single]
    own = {"id", "idempotency_key"}
    for item, job in zip(items, single, strict=True):
        assert {name: item["job"][name] for name in item["job"].keys() - own} == {
            name: job[name] for name in job.keys() - own
        }
    assert [item["job"]["id"] for item in items] == [1, 2, 3]
    assert [success(api.get(item["job"]["id"], PRODUCER)) for item in items] == [item["job"] for item in items]


def test_jobs_of_a_batch_are_claimed_in_its_order(api: Api) -> None:
    api.enqueue_jobs([{"type": kind} for kind in ("pdf", "email", "sync", "email")])
    assert [api.claimed_job()["id"] for _ in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("count", [1, 2, 99, 100])
def test_a_batch_has_1_to_100_jobs(api: Api, count: int) -> None:
    assert codes(api.enqueue_jobs([MAIL] * count)) == [201] * count
    assert stored(api) == count


@pytest.mark.parametrize(
    ("jobs", "fault"),
    [
        ([], ("jobs", "too_short")),
        ([MAIL] * 101, ("jobs", "too_long")),
        ([MAIL] * 10_000, ("jobs", "too_long")),
        (None, ("jobs", "list_type")),
        (MAIL, ("jobs", "list_type")),
        ({"0": MAIL}, ("jobs", "list_type")),
        ("email", ("jobs", "list_type")),
    ],
    ids=["none", "101", "10,000", "null", "an object", "an object of objects", "text"],
)
def test_any_other_number_of_jobs_is_a_fault(api: Api, jobs: Any, fault: tuple[str, str]) -> None:
    assert faults_of(api, jobs) == {fault}
    assert not api.database.exists()


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        (b"{}", {("jobs", "missing")}),
        (b'{"jobs": [{"type": "email"}], "limit": 3}', {("limit", "extra_forbidden")}),
        (b'{"type": "email"}', {("jobs", "missing"), ("type", "extra_forbidden")}),
    ],
)
def test_a_batch_is_an_object_with_jobs_and_nothing_else(api: Api, body: bytes, faults: set[tuple[str, str]]) -> None:
    answer = api.ask("enqueue_jobs", PRODUCER, body=body)
    assert assert_problem(answer, 422, "validation-failed") == faults


@pytest.mark.parametrize(
    ("job", "fault"),
    [
        (None, ("jobs[3]", "model_attributes_type")),
        (1, ("jobs[3]", "model_attributes_type")),
        ("email", ("jobs[3]", "model_attributes_type")),
        ([MAIL], ("jobs[3]", "model_attributes_type")),
        ({}, ("jobs[3].type", "missing")),
        ({"type": "mail"}, ("jobs[3].type", "unknown_type")),
        (MAIL | {"priority": "urgent"}, ("jobs[3].priority", "unknown_priority")),
        (MAIL | {"max_retries": 26}, ("jobs[3].max_retries", "less_than_equal")),
        (MAIL | {"payload": []}, ("jobs[3].payload", "dict_type")),
        (MAIL | {"payload": {"a": "x" * 65_536}}, ("jobs[3].payload", "too_large")),
        (MAIL | {"idempotency_key": ""}, ("jobs[3].idempotency_key", "invalid_key")),
        (MAIL | {"run_at": "tomorrow"}, ("jobs[3].run_at", "invalid_time")),
        (MAIL | {"delay_seconds": -1}, ("jobs[3].delay_seconds", "greater_than_equal")),
        (
            MAIL | {"run_at": "2026-02-01T00:00:00Z", "delay_seconds": 1},
            ("jobs[3].delay_seconds", "not_both"),
        ),
        (
            MAIL | {"run_at": "2026-02-01T00:00:00Z", "delay_seconds": 0},
            ("jobs[3].delay_seconds", "not_both"),
        ),
        (MAIL | {"backoff_seconds": 86_401}, ("jobs[3].backoff_seconds", "less_than_equal")),
        (MAIL | {"max_retry": 3}, ("jobs[3].max_retry", "extra_forbidden")),
        (MAIL | {"a.b[0]": 3}, ("jobs[3].a.b[0]", "extra_forbidden")),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_a_fault_is_named_with_its_place_and_then_nothing_is_stored(api: Api, job: Any, fault: tuple[str, str]) -> None:
    assert faults_of(api, [MAIL, MAIL, MAIL, job, MAIL]) == {fault}
    assert not api.database.exists()


def test_all_faults_of_a_batch_are_reported_together_up_to_a_hundred(api: Api) -> None:
    jobs = [MAIL, {"type": "mail", "priority": "x"}, MAIL, {"payload": 1, "max_retry": 1}]
    assert faults_of(api, jobs) == {
        ("jobs[1].type", "unknown_type"),
        ("jobs[1].priority", "unknown_priority"),
        ("jobs[3].type", "missing"),
        ("jobs[3].payload", "dict_type"),
        ("jobs[3].max_retry", "extra_forbidden"),
    }
    assert len(faults_of(api, [{"priority": "x"}] * 100)) == 100


def test_half_a_million_unknown_fields_are_not_half_a_million_faults(api: Api) -> None:
    fields = dict.fromkeys(map(str, range(3_000)), 0)
    body = {"jobs": [fields | MAIL] * 100, **fields}
    with pytest.raises(ValidationError) as refused:
        EnqueueJobsRequest.model_validate(body)
    assert refused.value.error_count() == 101 * 100
    answer = api.ask("enqueue_jobs", PRODUCER, body=body)
    faults = assert_problem(answer, 422, "validation-failed")
    assert len(faults) == 100
    # What is known is still known behind them.
    assert {code for _, code in faults} == {"extra_forbidden"}


# Who may enqueue what.


def test_jobs_above_the_callers_priority_refuse_the_whole_batch_and_are_named(api: Api) -> None:
    jobs = [MAIL, MAIL | {"priority": "high"}, MAIL | {"priority": "low"}, MAIL | {"priority": "CRITICAL"}]
    answer = api.enqueue_jobs(jobs)
    assert assert_problem(answer, 403, "forbidden") == {
        ("jobs[1].priority", "forbidden"),
        ("jobs[3].priority", "forbidden"),
    }
    assert stored(api) == 0


def test_jobs_of_types_that_are_not_the_callers_refuse_the_whole_batch_and_are_named(api: Api) -> None:
    caller = with_key("shop", "producer", types=["email", "pdf"], max_priority="low")
    jobs = [{"type": kind, "priority": "low"} for kind in ("email", "sync", "pdf")]
    jobs.append({"type": "sync", "priority": "medium"})
    # The default priority needs leave as well.
    jobs.append({"type": "email"})
    answer = api.enqueue_jobs(jobs, caller)
    assert assert_problem(answer, 403, "forbidden") == {
        ("jobs[1].type", "forbidden"),
        ("jobs[3].type", "forbidden"),
        ("jobs[3].priority", "forbidden"),
        ("jobs[4].priority", "forbidden"),
    }
    assert stored(api) == 0


def test_a_batch_of_one_names_its_place_as_well(api: Api) -> None:
    answer = api.enqueue_jobs([MAIL | {"priority": "high"}])
    assert assert_problem(answer, 403, "forbidden") == {("jobs[0].priority", "forbidden")}
    assert assert_problem(api.enqueue(priority="high"), 403, "forbidden") == set()


def test_a_batch_is_valid_before_it_is_allowed_and_allowed_before_its_keys_are_looked_up(api: Api) -> None:
    api.new_job(idempotency_key="k")
    wrong, forbidden = MAIL | {"max_retries": 99}, MAIL | {"priority": "high"}
    reused = {"type": "pdf", "idempotency_key": "k"}
    assert_problem(api.enqueue_jobs([reused, forbidden, wrong]), 422, "validation-failed")
    assert_problem(api.enqueue_jobs([reused, forbidden]), 403, "forbidden")
    assert_problem(api.enqueue_jobs([reused]), 422, "idempotency-key-reused")
    assert stored(api) == 1


def test_a_hundred_refusals_are_named_at_the_most(api: Api) -> None:
    caller = with_key("shop", "producer", types=[], max_priority="low")
    assert len(assert_problem(api.enqueue_jobs([MAIL] * 100, caller), 403, "forbidden")) == 100


def test_a_batch_belongs_to_who_sends_it(api: Api) -> None:
    for caller, name in ((PRODUCER, "billing"), (signed("Producer", "s1"), "123456789012:role/Producer")):
        items = success(api.enqueue_jobs([MAIL, MAIL], caller))["jobs"]
        assert {item["job"]["created_by"] for item in items} == {name}
    assert_problem(api.enqueue_jobs([MAIL], WORKER), 403, "forbidden")


# Idempotency.


def test_a_batch_that_is_sent_again_answers_the_same_jobs_as_replayed(api: Api) -> None:
    jobs = [MAIL | {"idempotency_key": f"k{number}", "payload": {"n": number}} for number in range(5)]
    first = success(api.enqueue_jobs(jobs))["jobs"]
    again = api.enqueue_jobs(jobs)
    assert codes(again) == [200] * 5
    assert [item["job"]["id"] for item in success(again)["jobs"]] == [item["job"]["id"] for item in first]
    assert stored(api) == 5


def test_a_replayed_job_is_answered_as_it_is_now_but_for_its_result(api: Api) -> None:
    api.enqueue_jobs([MAIL | {"idempotency_key": "k", "payload": {"a": 1}}])
    token = api.claimed_job()["lease_token"]
    api.heartbeat(1, lease_token=token, progress={"sent": 3})
    api.complete(1, result=[1, 2])
    (item,) = success(api.enqueue_jobs([MAIL | {"idempotency_key": "k", "payload": {"a": 1}}]))["jobs"]
    now = success(api.get(1, PRODUCER))
    assert now.pop("result") == [1, 2]
    assert item == {"code": 200, "job": now}


def test_known_and_new_jobs_may_stand_side_by_side(api: Api) -> None:
    known = api.new_job(idempotency_key="known")
    answer = api.enqueue_jobs([MAIL, MAIL | {"idempotency_key": "known"}, MAIL, MAIL | {"idempotency_key": "new"}])
    assert codes(answer) == [201, 200, 201, 201]
    assert [item["job"]["id"] for item in success(answer)["jobs"]] == [2, known["id"], 3, 4]
    assert success(api.enqueue(idempotency_key="new"), 200)["id"] == 4


def test_the_second_job_with_a_key_is_a_replay_of_the_first(api: Api) -> None:
    job = MAIL | {"idempotency_key": "k", "payload": {"b": 1, "a": 2}}
    same = {"payload": {"a": 2, "b": 1}, "idempotency_key": "k", "type": "email"}
    answer = api.enqueue_jobs([job, MAIL, same, job])
    assert codes(answer) == [201, 201, 200, 200]
    assert [item["job"]["id"] for item in success(answer)["jobs"]] == [1, 2, 1, 1]
    assert stored(api) == 2


def test_a_second_job_with_a_key_that_differs_refuses_the_batch_with_its_index(api: Api) -> None:
    key = {"idempotency_key": "k"}
    answer = api.enqueue_jobs([MAIL | key, MAIL, MAIL | key | {"priority": "low"}, MAIL | key])
    assert assert_problem(answer, 422, "idempotency-key-reused") == {("jobs[2].idempotency_key", "key_reused")}
    assert stored(api) == 0
    assert success(api.enqueue(idempotency_key="k"), 201)


def test_every_key_that_was_used_before_for_another_request_is_named(api: Api) -> None:
    for key in ("a", "b"):
        api.new_job(idempotency_key=key)
    jobs = [{"type": "pdf", "idempotency_key": key} for key in ("a", "new", "b")]
    answer = api.enqueue_jobs(jobs)
    assert assert_problem(answer, 422, "idempotency-key-reused") == {
        ("jobs[0].idempotency_key", "key_reused"),
        ("jobs[2].idempotency_key", "key_reused"),
    }
    assert stored(api) == 2


def test_a_key_that_was_used_singly_or_in_a_batch_is_the_same_key(api: Api) -> None:
    api.new_job(idempotency_key="k", max_retries=3)
    assert codes(api.enqueue_jobs([MAIL | {"idempotency_key": "k", "max_retries": 3}])) == [200]
    # A default that is spelt out is another request.
    answer = api.enqueue_jobs([MAIL | {"idempotency_key": "k"}])
    assert assert_problem(answer, 422, "idempotency-key-reused") == {("jobs[0].idempotency_key", "key_reused")}


def test_a_key_belongs_to_its_principal_in_a_batch_as_well(api: Api) -> None:
    jobs = [MAIL | {"idempotency_key": "k"}]
    found = [success(api.enqueue_jobs(jobs, caller))["jobs"] for caller in (PRODUCER, with_key("shop", "producer"))]
    assert [[item["code"] for item in items] for items in found] == [[201], [201]]


def test_a_hundred_replays_are_a_hundred_replays(api: Api) -> None:
    jobs = [MAIL | {"idempotency_key": str(number)} for number in range(100)]
    assert codes(api.enqueue_jobs(jobs)) == [201] * 100
    assert codes(api.enqueue_jobs(jobs[::-1])) == [200] * 100
    assert codes(api.enqueue_jobs([jobs[0]] * 100)) == [200] * 100
