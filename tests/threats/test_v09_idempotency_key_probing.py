"""V-09: idempotency keys are shared by all, so one can be guessed to read another's job, or taken to block it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.support import PRODUCER, WORKER, Caller, assert_problem, codes, signed, success, with_key

if TYPE_CHECKING:
    from tests.http.support import Api

KEY = "invoice-7"
MALLORY = {
    "another key": with_key("mallory", "producer"),
    "a signed role": signed("Producer"),
    "a name that starts alike": with_key("billing2", "producer"),
    "a name in another case": with_key("Billing", "producer"),
}


@pytest.mark.parametrize("mallory", MALLORY.values(), ids=MALLORY.keys())
def test_a_key_that_another_has_used_answers_as_one_that_nobody_has(api: Api, mallory: Caller) -> None:
    victims = api.new_job(payload={"to": "ada@example.com"}, idempotency_key=KEY)
    guessed = api.enqueue(mallory, payload={"probe": 1}, idempotency_key=KEY)
    fresh = api.enqueue(mallory, payload={"probe": 1}, idempotency_key="never used")
    assert (guessed.status, fresh.status) == (201, 201)
    assert guessed.headers.keys() == fresh.headers.keys()
    same = {name: value for name, value in guessed.body.items() if name not in {"id", "idempotency_key"}}
    assert same == {name: value for name, value in fresh.body.items() if name not in {"id", "idempotency_key"}}
    assert guessed.body["id"] != victims["id"]
    assert "ada" not in guessed.raw["body"]


@pytest.mark.parametrize("mallory", MALLORY.values(), ids=MALLORY.keys())
def test_a_key_that_another_took_first_is_still_free(api: Api, mallory: Caller) -> None:
    success(api.enqueue(mallory, type="pdf", idempotency_key=KEY), 201)
    job = success(api.enqueue(PRODUCER, idempotency_key=KEY), 201)
    assert job["created_by"] == "billing"
    assert success(api.enqueue(PRODUCER, idempotency_key=KEY), 200)["id"] == job["id"]


def test_a_key_is_shown_to_its_owner_and_to_no_worker(api: Api) -> None:
    job = api.new_job(idempotency_key=KEY)
    assert KEY not in api.claim(WORKER).raw["body"]
    for answer in (api.get(job["id"], WORKER), api.list(WORKER), api.complete(job["id"], WORKER)):
        success(answer)
        assert KEY not in answer.raw["body"]
    assert success(api.get(job["id"], PRODUCER))["idempotency_key"] == KEY


def test_the_own_key_with_another_request_shows_nothing_of_the_first(api: Api) -> None:
    api.new_job(payload={"to": "ada@example.com"}, idempotency_key=KEY)
    answer = api.enqueue(payload={"to": "eve@example.com"}, idempotency_key=KEY)
    assert_problem(answer, 422, "idempotency-key-reused")
    assert "ada" not in answer.raw["body"]


@pytest.mark.parametrize("mallory", MALLORY.values(), ids=MALLORY.keys())
def test_a_batch_of_guesses_finds_nobody_elses_keys(api: Api, mallory: Caller) -> None:
    for number in range(3):
        api.new_job(payload={"to": "ada@example.com"}, idempotency_key=f"invoice-{number}")
    guesses = [{"type": "email", "idempotency_key": f"invoice-{number}"} for number in range(10)]
    answer = api.enqueue_jobs(guesses, mallory)
    assert codes(answer) == [201] * 10
    assert "ada" not in answer.raw["body"]


def test_the_own_key_with_another_request_shows_nothing_of_the_first_in_a_batch_either(api: Api) -> None:
    api.new_job(payload={"to": "ada@example.com"}, idempotency_key=KEY)
    job = {"type": "email", "payload": {"to": "eve@example.com"}, "idempotency_key": KEY}
    answer = api.enqueue_jobs([job])
    assert assert_problem(answer, 422, "idempotency-key-reused") == {("jobs[0].idempotency_key", "key_reused")}
    assert "ada" not in answer.raw["body"]


def test_a_claim_request_id_that_another_worker_uses_answers_as_one_that_nobody_does(api: Api) -> None:
    for _ in range(3):
        api.new_job(payload={"to": "ada@example.com"})
    victims = api.claimed_job(WORKER, request_id=KEY)
    mallory = with_key("mallory", "worker")
    guessed = api.claimed_job(mallory, request_id=KEY, lease_seconds=7)
    fresh = api.claimed_job(mallory, request_id="never used", lease_seconds=7)
    own = {"id", "lease_token"}
    assert {name: guessed[name] for name in guessed.keys() - own} == {name: fresh[name] for name in fresh.keys() - own}
    assert victims["id"] not in {guessed["id"], fresh["id"]}
    assert api.claimed_job(WORKER, request_id=KEY) == victims
