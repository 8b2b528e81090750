"""The header Claim-Request-Id, on claims of one job and of many: a lost answer strands nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.support import ADMIN, WORKER, assert_problem, signed, success, with_key
from tests.support import query

if TYPE_CHECKING:
    from tests.http.support import Answer, Api, Caller

ID = "3d9f0a52-7c1e-4b86-9e5d-0f6a1b2c3d4e"
PACKER = with_key("packer", "worker")


def claim(
    api: Api, caller: Caller = WORKER, /, *, batched: bool, request_id: str | None = ID, **fields: Any
) -> list[dict[str, Any]]:
    """Claim one job, or up to three in a batch; return them."""
    answer = ask(api, caller, batched=batched, request_id=request_id, **fields)
    if answer.status == 204:
        return []
    body = success(answer)
    return body["jobs"] if batched else [body]


def ask(api: Api, caller: Caller = WORKER, /, *, batched: bool, request_id: str | None = ID, **fields: Any) -> Answer:
    if batched:
        return api.claim_jobs(caller, request_id=request_id, **{"limit": 3, **fields})
    return api.claim(caller, request_id=request_id, **fields)


def ids(jobs: list[dict[str, Any]]) -> list[int]:
    return [job["id"] for job in jobs]


both = pytest.mark.parametrize("batched", [False, True], ids=["one", "many"])


@both
def test_the_same_id_answers_the_same_jobs_with_the_same_tokens_and_counts_no_attempt(api: Api, batched: bool) -> None:
    for priority in ("low", "high", "medium", "low"):
        api.new_job(ADMIN, priority=priority, payload={"priority": priority})
    given = claim(api, batched=batched)
    api.clock.advance(seconds=30)
    assert claim(api, batched=batched) == given
    assert {job["attempt"] for job in given} == {1}
    assert ids(given) == ([2, 3, 1] if batched else [2])
    assert len(success(api.list(status="running"))["jobs"]) == len(given)


@both
def test_without_an_id_and_with_another_each_claim_is_a_new_one(api: Api, batched: bool) -> None:
    for _ in range(12):
        api.new_job()
    found = [claim(api, batched=batched, request_id=request_id) for request_id in (ID, None, None, "another")]
    taken = [id for jobs in found for id in ids(jobs)]
    assert len(taken) == len(set(taken)) == (12 if batched else 4)


@both
@pytest.mark.parametrize("fields", [{"types": ["email"]}, {"lease_seconds": 60}, {"types": ["pdf", "email"]}])
def test_the_same_id_with_another_body_is_refused_and_claims_nothing(
    api: Api, batched: bool, fields: dict[str, Any]
) -> None:
    for _ in range(4):
        api.new_job()
    given = claim(api, batched=batched)
    assert_problem(ask(api, batched=batched, **fields), 422, "idempotency-key-reused")
    if batched:
        assert_problem(ask(api, batched=True, limit=4), 422, "idempotency-key-reused")
    assert claim(api, batched=batched) == given
    assert success(api.stats())["running"] == {"mailer": len(given)}


@both
def test_an_id_belongs_to_its_worker(api: Api, batched: bool) -> None:
    callers = (WORKER, PACKER, ADMIN, signed("Worker", "s1"), signed("Worker", "s2"))
    for _ in range(3 * len(callers)):
        api.new_job()
    first = [claim(api, caller, batched=batched) for caller in callers]
    assert len({id for jobs in first for id in ids(jobs)}) == sum(len(jobs) for jobs in first)
    assert [claim(api, caller, batched=batched) for caller in callers] == first


@both
@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
def test_after_its_attempts_have_ended_the_id_is_a_new_claim(api: Api, batched: bool, verb: str) -> None:
    for _ in range(6):
        api.new_job()
    for job in claim(api, batched=batched):
        success(api.ask(f"{verb}_job", WORKER, id=job["id"], body={"lease_token": job["lease_token"]}))
    again = claim(api, batched=batched, lease_seconds=7)
    assert (
        ids(again)
        == {
            ("complete", False): [2],
            ("complete", True): [4, 5, 6],
            ("fail", False): [1],
            ("fail", True): [1, 2, 3],
            ("release", False): [1],
            ("release", True): [1, 2, 3],
        }[verb, batched]
    )
    assert claim(api, batched=batched, lease_seconds=7) == again


@both
def test_after_its_leases_have_ended_the_id_is_a_new_claim(api: Api, batched: bool) -> None:
    for _ in range(3):
        api.new_job()
    given = claim(api, batched=batched, lease_seconds=10)
    api.clock.advance(seconds=10)
    again = claim(api, batched=batched, lease_seconds=20)
    assert ids(again) == ids(given)
    assert {job["attempt"] for job in again} == {2}
    assert not {job["lease_token"] for job in again} & {job["lease_token"] for job in given}


@both
def test_a_lease_that_a_heartbeat_extends_is_still_the_ids(api: Api, batched: bool) -> None:
    for _ in range(3):
        api.new_job()
    given = claim(api, batched=batched, lease_seconds=10)
    for job in given:
        success(api.heartbeat(job["id"], lease_token=job["lease_token"], lease_seconds=100, progress={"sent": 3}))
    api.clock.advance(seconds=50)
    again = claim(api, batched=batched, lease_seconds=10)
    assert [job["lease_token"] for job in again] == [job["lease_token"] for job in given]
    assert {job["lease_expires_at"] for job in again} == {"2026-01-31T12:01:40.000Z"}
    assert [job["progress"] for job in again] == [{"sent": 3}] * len(given)


def test_while_one_of_its_leases_is_held_the_id_answers_with_those_that_are(api: Api) -> None:
    for _ in range(6):
        api.new_job()
    given = claim(api, batched=True, lease_seconds=10)
    success(api.complete(1, lease_token=given[0]["lease_token"]))
    success(api.heartbeat(3, lease_token=given[2]["lease_token"], lease_seconds=20))
    assert ids(claim(api, batched=True, lease_seconds=10)) == [2, 3]
    api.clock.advance(seconds=10)
    assert ids(claim(api, batched=True, lease_seconds=10)) == [3]
    api.clock.advance(seconds=10)
    assert len(claim(api, batched=True, lease_seconds=10)) == 3


@both
def test_after_an_empty_claim_nothing_is_kept_of_its_id(api: Api, batched: bool) -> None:
    assert claim(api, batched=batched, types=["pdf"]) == []
    api.new_job()
    assert ids(claim(api, batched=batched)) == [1]


@both
def test_an_expired_lease_is_taken_back_by_a_claim_with_an_id_as_well(api: Api, batched: bool) -> None:
    api.new_job()
    claim(api, PACKER, batched=batched, request_id="theirs", lease_seconds=1)
    api.clock.advance(seconds=1)
    assert [job["lease_expiries"] for job in claim(api, batched=batched)] == [1]


@both
@pytest.mark.parametrize(
    ("value", "code"),
    [("", "invalid_key"), ("x" * 256, "invalid_key"), ("a\tb", "invalid_key"), (["a", "b"], "string_type")],
    ids=["empty", "too long", "a tab", "two"],
)
def test_a_wrong_id_is_a_fault_and_claims_nothing(api: Api, batched: bool, value: Any, code: str) -> None:
    api.new_job()
    function, body = ("claim_jobs", {"limit": 3}) if batched else ("claim_job", {})
    answer = api.ask(function, WORKER, body=body, headers={"Claim-Request-Id": value})
    ((field, found),) = assert_problem(answer, 422, "validation-failed")
    assert (field.lower(), found) == ("claim-request-id", code)
    assert success(api.get(1))["status"] == "pending"


@pytest.mark.parametrize("name", ["Claim-Request-Id", "claim-request-id", "CLAIM-REQUEST-ID"])
@pytest.mark.parametrize("value", ["x", "x" * 255, "Zoë 日本 😀", "'; DROP TABLE jobs; --"])
def test_any_printable_text_is_an_id_whatever_the_headers_letter_case(api: Api, name: str, value: str) -> None:
    for _ in range(2):
        api.new_job()
    first, again = (api.ask("claim_job", WORKER, headers={name: value}) for _ in range(2))
    assert success(first) == success(again)


def test_an_id_is_no_query_parameter(api: Api) -> None:
    answer = api.ask("claim_job", WORKER, query={"request_id": ID})
    assert assert_problem(answer, 422, "validation-failed") == {("request_id", "unknown_parameter")}


def test_a_token_is_kept_as_text_only_where_an_id_may_ask_for_it_again_and_while_it_is_held(api: Api) -> None:
    for _ in range(3):
        api.new_job()
    api.claimed_job()
    token = api.claimed_job(request_id=ID)["lease_token"]
    kept = "SELECT lease_token FROM jobs WHERE lease_token IS NOT NULL"
    assert query(api.database, kept) == [(token,)]
    success(api.complete(2, lease_token=token))
    assert query(api.database, kept) == []
