"""POST /batch/claim"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ACCOUNT, ADMIN, PRODUCER, WORKER, assert_problem, signed, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api


def enqueue(api: Api, count: int, **fields: Any) -> None:
    success(api.enqueue_jobs([{"type": "email", **fields}] * count, ADMIN))


def test_nothing_due_is_204_without_a_body_and_with_a_pause(api: Api) -> None:
    answer = api.claim_jobs(limit=10)
    assert (answer.status, answer.raw["body"], answer.headers) == (204, None, {"Retry-After": "20"})


def test_jobs_are_answered_as_single_claims_would_answer_them_each_with_its_token(api: Api) -> None:
    for _ in range(2):
        enqueue(api, 2, payload={"a": 1})
    answer = api.claim_jobs(limit=2, lease_seconds=10)
    body = success(answer)
    assert answer.headers == {"Content-Type": "application/json"}
    assert list(body) == ["jobs"]
    single = [api.claimed_job(lease_seconds=10) for _ in range(2)]
    assert [list(job) for job in body["jobs"]] == [list(job) for job in single]
    own = {"id", "lease_token"}
    for job, alone in zip(body["jobs"], single, strict=True):
        assert {name: job[name] for name in job.keys() - own} == {name: alone[name] for name in alone.keys() - own}
        assert success(api.get(job["id"]))["worker_id"] == "mailer"
    assert len({job["lease_token"] for job in [*body["jobs"], *single]}) == 4


@pytest.mark.parametrize("limit", [1, 2, 7, 99, 100])
def test_a_claim_takes_as_many_as_it_asks_for(api: Api, limit: int) -> None:
    enqueue(api, 100)
    enqueue(api, 5)
    jobs = api.claimed_jobs(limit=limit)
    assert [job["id"] for job in jobs] == list(range(1, limit + 1))
    assert success(api.stats())["running"] == {"mailer": limit}


def test_a_claim_takes_what_there_is(api: Api) -> None:
    enqueue(api, 3)
    enqueue(api, 3, delay_seconds=60)
    assert [job["id"] for job in api.claimed_jobs(limit=100)] == [1, 2, 3]
    assert api.claim_jobs(limit=100).status == 204


def test_jobs_come_in_the_order_of_single_claims(api: Api) -> None:
    for number in range(24):
        fields = {
            "type": ("email", "pdf", "sync")[number % 3],
            "priority": ("low", "high", "medium", "low")[number % 4],
        }
        success(api.enqueue_jobs([fields, fields], ADMIN))
        api.clock.advance(seconds=number % 2)
    listed = [job["id"] for job in success(api.list(status="pending", order="queue"))["jobs"]]
    batched = [job["id"] for job in api.claimed_jobs(limit=17)]
    singly = [api.claimed_job()["id"] for _ in range(31)]
    assert batched + singly == listed


def test_a_claim_may_name_the_types_that_it_is_for(api: Api) -> None:
    for kind in ("email", "pdf", "sync"):
        enqueue(api, 2, type=kind)
    assert {job["type"] for job in api.claimed_jobs(limit=100, types=["sync", "pdf"])} == {"pdf", "sync"}
    assert api.claim_jobs(limit=100, types=["sync", "pdf"]).status == 204
    assert len(api.claimed_jobs(limit=100)) == 2


def test_a_worker_gets_its_own_types_only_and_may_not_name_others(api: Api) -> None:
    enqueue(api, 2, type="pdf")
    enqueue(api, 2)
    worker = with_key("mailer", "worker", types=["email"])
    assert_problem(api.claim_jobs(worker, limit=10, types=["email", "pdf"]), 403, "forbidden")
    assert {job["type"] for job in api.claimed_jobs(worker, limit=10)} == {"email"}
    assert api.claim_jobs(with_key("mailer", "worker", types=[]), limit=10).status == 204


@pytest.mark.parametrize("count", [1, 3])
def test_expired_leases_are_taken_back_first_and_claimed_again(api: Api, count: int) -> None:
    enqueue(api, count)
    api.claimed_jobs(lease_seconds=10)
    api.clock.advance(seconds=10)
    jobs = api.claimed_jobs(with_key("packer", "worker"))
    assert [(job["attempt"], job["lease_expiries"]) for job in jobs] == [(2, 1)] * count


def test_a_claim_takes_back_a_bounded_number_of_leases_and_the_next_one_the_rest(api: Api) -> None:
    enqueue(api, 25)
    api.claimed_jobs(lease_seconds=10)
    api.clock.advance(seconds=10)
    taken = 0
    for _ in range(25):
        answer = api.claim_jobs(limit=100)
        taken += len(answer.body["jobs"]) if answer.status == 200 else 0
        if taken == 25:
            break
        # As long as there are more, the pause is short.
        assert answer.status == 200 or answer.headers == {"Retry-After": "1"}
    assert taken == 25
    assert success(api.stats())["running"] == {"mailer": 25}


def test_a_claim_may_carry_the_callers_own_worker_id_and_no_other(api: Api) -> None:
    enqueue(api, 2)
    for caller, own in ((WORKER, "mailer"), (signed("Worker", "s1"), f"{ACCOUNT}:role/Worker/s1")):
        assert_problem(api.claim_jobs(caller, limit=1, worker_id=f"{own}2"), 403, "forbidden")
        assert [job["worker_id"] for job in api.claimed_jobs(caller, limit=1, worker_id=own)] == [own]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, ("limit", "missing")),
        ({"limit": None}, ("limit", "int_type")),
        ({"limit": 0}, ("limit", "greater_than_equal")),
        ({"limit": -1}, ("limit", "greater_than_equal")),
        ({"limit": 101}, ("limit", "less_than_equal")),
        ({"limit": 10**400}, ("limit", "less_than_equal")),
        ({"limit": 1.0}, ("limit", "int_type")),
        ({"limit": "10"}, ("limit", "int_type")),
        ({"limit": True}, ("limit", "int_type")),
        ({"limit": 5, "lease_seconds": 0}, ("lease_seconds", "greater_than_equal")),
        ({"limit": 5, "lease_seconds": 43_201}, ("lease_seconds", "less_than_equal")),
        ({"limit": 5, "types": []}, ("types", "too_short")),
        ({"limit": 5, "types": ["a b"]}, ("types[0]", "string_pattern_mismatch")),
        ({"limit": 5, "jobs": []}, ("jobs", "extra_forbidden")),
        ({"limit": 5, "max": 5}, ("max", "extra_forbidden")),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_a_wrong_field_is_a_fault_and_claims_nothing(api: Api, fields: dict[str, Any], fault: tuple[str, str]) -> None:
    enqueue(api, 1)
    assert assert_problem(api.claim_jobs(**fields), 422, "validation-failed") == {fault}
    assert success(api.get(1))["status"] == "pending"


def test_a_producer_claims_nothing(api: Api) -> None:
    enqueue(api, 1)
    assert_problem(api.claim_jobs(PRODUCER, limit=1), 403, "forbidden")
