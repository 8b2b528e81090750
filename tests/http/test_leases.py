"""Leases and fencing: who may still end or extend an attempt, one by one and in a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.http.conftest import forget
from tests.http.support import ADMIN, PRODUCER, WORKER, assert_problem, assert_refused, signed, success, with_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.http.support import Api, Caller

PACKER = with_key("packer", "worker")
OK, LOST, CONFLICT = "ok", "lease-lost", "conflict"
#: What ends or extends an attempt; those of a batch say in its item what the others say in their path.
SINGLE = ("complete", "fail", "release", "heartbeat")
BATCHED = {"complete": {"outcome": "completed"}, "fail": {"outcome": "failed"}, "heartbeat": {}}
WAYS = [*((verb, False) for verb in SINGLE), *((verb, True) for verb in BATCHED)]


def send(api: Api, verb: str, token: str, caller: Caller = WORKER, *, batched: bool) -> str:
    """Use a verb on job 1, and return ok, lease-lost or conflict."""
    if not batched:
        answer = api.ask(f"{verb}_job", caller, id=1, body={"lease_token": token})
        if answer.status == 200:
            return OK
        slug: str = answer.body["type"].rpartition(":")[2]
        assert assert_problem(answer, 409, slug) == set()
        return slug
    item = {"id": 1, "lease_token": token, **BATCHED[verb]}
    answer = api.heartbeat_jobs([item], caller) if verb == "heartbeat" else api.finish_jobs([item], caller)
    (found,) = success(answer)["jobs"]
    if found["code"] == 200:
        return OK
    slug = found["problem"]["type"].rpartition(":")[2]
    assert_refused(answer, 0, slug)
    return slug


# Each of these brings job 1 somewhere and returns the token that the worker has in its hands.


def running(api: Api, **fields: Any) -> str:
    api.new_job(**fields)
    token: str = api.claimed_job(lease_seconds=10)["lease_token"]
    return token


def running_to_be_cancelled(api: Api) -> str:
    token = running(api)
    success(api.cancel(1))
    return token


def out_of_time(api: Api) -> str:
    token = running(api)
    api.clock.advance(seconds=3_600)
    return token


def taken_back_by_a_claim(api: Api) -> str:
    token = out_of_time(api)
    assert api.claimed_job(PACKER)["attempt"] == 2
    return token


def taken_back_by_a_claim_of_the_same_worker(api: Api) -> str:
    token = out_of_time(api)
    assert api.claimed_job()["attempt"] == 2
    return token


def taken_back_by_the_sweep(api: Api) -> str:
    token = out_of_time(api)
    assert api.sweep()["leases_expired"] == 1
    return token


def failed_by_the_sweep(api: Api) -> str:
    token = running(api, max_retries=0)
    api.clock.advance(seconds=3_600)
    api.sweep()
    assert success(api.get(1))["status"] == "failed"
    return token


def cancelled_by_the_sweep(api: Api) -> str:
    token = running_to_be_cancelled(api)
    api.clock.advance(seconds=3_600)
    api.sweep()
    assert success(api.get(1))["status"] == "cancelled"
    return token


def completed(api: Api) -> str:
    token = running(api)
    success(api.complete(1, lease_token=token, result=1))
    return token


def put_back(api: Api) -> str:
    token = running(api)
    success(api.fail(1, lease_token=token, error="boom"))
    return token


def failed_for_good(api: Api) -> str:
    token = running(api)
    success(api.fail(1, lease_token=token, error="boom", permanent=True))
    return token


def failed_and_cancelled(api: Api) -> str:
    token = running_to_be_cancelled(api)
    assert success(api.fail(1, lease_token=token))["status"] == "cancelled"
    return token


def failed_and_retried(api: Api) -> str:
    token = failed_for_good(api)
    success(api.retry(1))
    return token


def failed_and_claimed_again(api: Api) -> str:
    token = put_back(api)
    api.claimed_job(PACKER)
    return token


def released(api: Api) -> str:
    token = running(api)
    success(api.release(1, lease_token=token))
    return token


def released_and_claimed_again(api: Api) -> str:
    token = released(api)
    api.claimed_job(PACKER)
    return token


def released_and_claimed_by_the_same_worker(api: Api) -> str:
    token = released(api)
    api.claimed_job()
    return token


def released_and_completed_by_another(api: Api) -> str:
    token = released_and_claimed_again(api)
    success(api.complete(1, PACKER))
    return token


def completed_without_its_token(api: Api) -> str:
    token = running(api)
    success(api.complete(1))
    return token


def deleted(api: Api) -> str:
    token = completed(api)
    api.clock.advance(seconds=8 * 86_400)
    assert api.sweep()["jobs_deleted"] == 1
    return token


def never_claimed(api: Api) -> str:
    api.new_job()
    return "no claim gave this"


def unknown(api: Api) -> str:
    return "no claim gave this"


def held_under_another_token(api: Api) -> str:
    return running(api) + "x"


def held_by_another_worker(api: Api) -> str:
    api.new_job()
    token: str = api.claimed_job(PACKER)["lease_token"]
    return token


#: What is then said to complete, fail, release and heartbeat.
FATES: dict[Callable[[Api], str], tuple[str, str, str, str]] = {
    taken_back_by_a_claim: (LOST, LOST, LOST, LOST),
    taken_back_by_a_claim_of_the_same_worker: (LOST, LOST, LOST, LOST),
    taken_back_by_the_sweep: (LOST, LOST, LOST, LOST),
    failed_by_the_sweep: (LOST, LOST, LOST, LOST),
    cancelled_by_the_sweep: (LOST, LOST, LOST, LOST),
    completed: (OK, CONFLICT, CONFLICT, LOST),
    completed_without_its_token: (OK, CONFLICT, CONFLICT, LOST),
    put_back: (CONFLICT, OK, CONFLICT, LOST),
    failed_for_good: (CONFLICT, OK, CONFLICT, LOST),
    failed_and_cancelled: (CONFLICT, OK, CONFLICT, LOST),
    failed_and_retried: (CONFLICT, OK, CONFLICT, LOST),
    failed_and_claimed_again: (CONFLICT, OK, CONFLICT, LOST),
    released: (CONFLICT, CONFLICT, OK, LOST),
    released_and_claimed_again: (CONFLICT, CONFLICT, OK, LOST),
    released_and_claimed_by_the_same_worker: (CONFLICT, CONFLICT, OK, LOST),
    released_and_completed_by_another: (CONFLICT, CONFLICT, OK, LOST),
    deleted: (LOST, LOST, LOST, LOST),
    never_claimed: (LOST, LOST, LOST, LOST),
    unknown: (LOST, LOST, LOST, LOST),
    held_under_another_token: (LOST, LOST, LOST, LOST),
    held_by_another_worker: (LOST, LOST, LOST, LOST),
}
GONE = (deleted, unknown)


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__)
def test_after_an_attempt_has_ended_its_token_counts_for_the_verb_that_ended_it(
    api: Api, fate: Callable[[Api], str]
) -> None:
    token = fate(api)
    expected = dict(zip(SINGLE, FATES[fate], strict=True))
    before = None if fate in GONE else success(api.get(1))
    for verb, batched in WAYS:
        assert send(api, verb, token, batched=batched) == expected[verb], (verb, batched)
        # Neither a refusal nor a repeat changes anything, least of all another's attempt.
        assert before is None or success(api.get(1)) == before


@pytest.mark.parametrize(("verb", "batched"), WAYS)
@pytest.mark.parametrize("fate", [running, running_to_be_cancelled, out_of_time], ids=lambda fate: fate.__name__)
def test_whoever_holds_a_job_ends_or_extends_it_even_late(
    api: Api, fate: Callable[[Api], str], verb: str, batched: bool
) -> None:
    token = fate(api)
    assert send(api, verb, token, batched=batched) == OK
    job = success(api.get(1))
    assert job["attempt"] == 1
    assert job["lease_expiries"] == 0
    if verb == "heartbeat":
        assert job["status"] == "running"
    elif verb == "complete":
        assert job["status"] == "completed"
    else:
        assert job["status"] == ("cancelled" if job["cancel_requested"] else "pending")


@pytest.mark.parametrize(("verb", "batched"), WAYS)
@pytest.mark.parametrize(
    "thief",
    [PACKER, ADMIN, with_key("billing", "producer", "worker"), signed("Worker")],
    ids=["worker", "admin", "creator", "signed worker"],
)
def test_a_token_is_worth_nothing_in_other_hands(api: Api, thief: Caller, verb: str, batched: bool) -> None:
    token = running(api)
    before = success(api.get(1))
    assert send(api, verb, token, thief, batched=batched) == LOST
    assert success(api.get(1)) == before
    if verb != "heartbeat":
        # Nor does it tell a thief what became of the attempt.
        assert send(api, verb, token, batched=batched) == OK
        assert send(api, verb, token, thief, batched=batched) == LOST


ODD_TOKENS = ["x", " ", "\x00", "é😀", "x" * 255, "😀" * 255, "'; DROP TABLE jobs; --", "null", "\u2028"]


@pytest.mark.parametrize("token", ODD_TOKENS, ids=[str(number) for number in range(len(ODD_TOKENS))])
def test_any_text_of_1_to_255_characters_is_a_token_and_most_are_nobodys(api: Api, token: str) -> None:
    running(api)
    for verb, batched in WAYS:
        assert send(api, verb, token, batched=batched) == LOST


def test_each_claim_has_a_token_of_its_own(api: Api) -> None:
    api.new_job()
    tokens = []
    for _ in range(5):
        tokens.append(api.claimed_job()["lease_token"])
        success(api.release(1))
    assert len(set(tokens)) == 5


def test_two_processes_with_one_key_are_told_apart_by_their_tokens(api: Api) -> None:
    api.new_job()
    mine = api.claimed_job(lease_seconds=10)["lease_token"]
    api.clock.advance(seconds=11)
    others = api.claimed_job()["lease_token"]
    assert_problem(api.complete(1, lease_token=mine), 409, "lease-lost")
    assert success(api.complete(1, lease_token=others))["attempt"] == 2


# Without a token.


def test_without_a_token_the_worker_decides(api: Api) -> None:
    for verb in (api.complete, api.fail, api.release):
        id = api.new_job()["id"]
        assert api.claimed_job()["id"] == id
        assert_problem(verb(id, PACKER), 409, "conflict")
        assert_problem(verb(id, ADMIN), 409, "conflict")
        assert success(verb(id))["status"] != "running"
        # A repeat without a token can't be told from another's call.
        assert_problem(verb(id), 409, "conflict")
        if verb != api.complete:
            api.claimed_job()
            success(api.complete(id))


def test_a_token_of_null_is_no_token(api: Api) -> None:
    running(api)
    success(api.complete(1, lease_token=None))


def test_an_expired_lease_may_be_ended_without_its_token_until_it_is_taken_back(api: Api) -> None:
    out_of_time(api)
    assert success(api.complete(1))["status"] == "completed"


def test_after_a_lease_was_taken_back_there_is_no_end_without_a_token(api: Api) -> None:
    taken_back_by_a_claim(api)
    for verb in (api.complete, api.fail, api.release):
        assert_problem(verb(1), 409, "conflict")
    assert success(api.get(1))["worker_id"] == "packer"


@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
def test_of_an_id_that_nobody_has_there_is_nothing_to_end(api: Api, verb: str) -> None:
    for id in (1, 2**53 - 1):
        assert_problem(api.ask(f"{verb}_job", WORKER, id=id), 409, "conflict")
        assert_problem(api.ask(f"{verb}_job", WORKER, id=id, body={"lease_token": "t"}), 409, "lease-lost")


# Repeats: a lost answer must not turn into an error.


def test_a_repeat_answers_with_the_job_as_it_is_now(api: Api) -> None:
    token = running(api, payload={"a": 1})
    first = success(api.fail(1, lease_token=token, error="boom"))
    assert success(api.fail(1, lease_token=token, error="boom")) == first
    # What the repeat says otherwise counts for nothing: the attempt has ended.
    assert success(api.fail(1, lease_token=token, permanent=True)) == first
    api.clock.advance(seconds=1)
    api.claimed_job(PACKER)
    now = success(api.fail(1, lease_token=token, error="boom"))
    assert (now["status"], now["worker_id"], now["attempt"]) == ("running", "packer", 2)
    success(api.complete(1, PACKER))
    assert success(api.fail(1, lease_token=token))["status"] == "completed"


@pytest.mark.parametrize("again", [WORKER, PACKER], ids=["the same worker", "another"])
@pytest.mark.parametrize("verb", ["fail", "release"])
def test_a_repeat_shows_no_payload_of_a_job_that_was_claimed_again(api: Api, verb: str, again: Caller) -> None:
    body = {"lease_token": running(api, payload={"to": "ada@example.com"})}
    success(api.ask(f"{verb}_job", WORKER, id=1, body=body))
    new = api.claimed_job(again)
    success(api.heartbeat(1, again, lease_token=new["lease_token"], progress={"sent": 3}))
    answer = api.ask(f"{verb}_job", WORKER, id=1, body=body)
    job = success(answer)
    assert (job["status"], job["attempt"]) == ("running", 2)
    assert not {"payload", "progress", "result", "lease_token"} & set(job)
    assert "ada" not in answer.raw["body"]


def test_a_repeat_for_the_jobs_creator_shows_what_a_creator_may_see(api: Api) -> None:
    both = with_key("billing", "producer", "worker")
    api.new_job(both, payload={"a": 1})
    token = api.claimed_job(both)["lease_token"]
    for _ in range(2):
        job = success(api.complete(1, both, lease_token=token, result=[1]))
        assert (job["payload"], job["result"]) == ({"a": 1}, [1])
        assert "lease_token" not in job


# What a lease is.


def test_a_lease_lasts_60_seconds_unless_the_claim_says_otherwise(api: Api) -> None:
    for seconds, until in ((None, "12:01:00"), (1, "12:00:01"), (43_200, "00:00:00")):
        api.new_job()
        fields = {} if seconds is None else {"lease_seconds": seconds}
        assert api.claimed_job(**fields)["lease_expires_at"][11:19] == until


def test_the_stack_may_have_another_length(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUELOG_LEASE_SECONDS", "300")
    forget()
    api.new_job()
    assert api.claimed_job()["lease_expires_at"] == "2026-01-31T12:05:00.000Z"


def test_a_lease_that_ends_is_a_failure_counted_apart(api: Api) -> None:
    api.new_job(max_retries=1, backoff_seconds=0)
    for expiries, status in ((1, "pending"), (2, "failed")):
        api.claimed_job(lease_seconds=10)
        api.clock.advance(seconds=10)
        assert api.sweep() == {"leases_expired": 1, "jobs_deleted": 0, "is_done": True}
        job = success(api.get(1))
        assert (job["status"], job["lease_expiries"], job["retry_count"]) == (status, expiries, 1)
        assert (job["error"], job["reason"]) == ("lease expired", "lease_expired")
        assert job["lease_expires_at"] is None
    assert success(api.get(1, PRODUCER))["reason"] == "lease_expired"
    assert job["attempt"] == 2


def test_a_lease_ends_at_its_time_and_not_before(api: Api) -> None:
    running(api)
    api.clock.advance(seconds=9.999)
    assert api.claim(PACKER).status == 204
    api.clock.advance(seconds=0.001)
    assert api.claimed_job(PACKER)["lease_expiries"] == 1


def test_a_claim_takes_back_only_leases_of_the_types_that_it_is_for(api: Api) -> None:
    running(api)
    api.clock.advance(seconds=11)
    assert api.claim(PACKER, types=["pdf"]).status == 204
    assert api.claim(with_key("packer", "worker", types=["pdf", "sync"])).status == 204
    assert success(api.get(1))["status"] == "running"
    assert api.claimed_job(with_key("packer", "worker", types=["email"]))["id"] == 1


def test_a_claim_may_find_only_jobs_that_it_may_not_have_yet_or_any_more(api: Api) -> None:
    api.new_job(max_retries=0)
    api.claimed_job(lease_seconds=1)
    api.clock.advance(seconds=1)
    assert api.claim().status == 204
    assert success(api.get(1))["status"] == "failed"


def test_attempts_are_counted_and_never_uncounted(api: Api) -> None:
    api.new_job(backoff_seconds=0)
    seen = [api.claimed_job()["attempt"]]
    api.release(1)
    seen.append(api.claimed_job()["attempt"])
    api.fail(1, permanent=True)
    api.retry(1)
    assert success(api.get(1))["retry_count"] == 0
    seen.append(api.claimed_job(lease_seconds=1)["attempt"])
    api.clock.advance(seconds=1)
    seen.append(api.claimed_job()["attempt"])
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize("verb", ["complete", "fail", "release"])
def test_a_job_that_is_not_running_has_no_lease(api: Api, verb: str) -> None:
    token = running(api)
    job = success(api.ask(f"{verb}_job", WORKER, id=1, body={"lease_token": token}))
    assert job["lease_expires_at"] is None
