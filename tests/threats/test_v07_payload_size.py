"""V-07: a payload has no limit, so that one caller fills the disk and every worker's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.bodies import MAX_BODY_BYTES, arrays, sized
from tests.http.support import ADMIN, PRODUCER, WITH_BODY, assert_problem, success, with_key

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
def test_a_body_over_1_mib_is_refused_before_it_is_read(api: Api, function: str) -> None:
    for body in (sized(MAX_BODY_BYTES + 1), b"[" * (9 * MAX_BODY_BYTES), arrays(2_000_000)):
        assert_problem(api.ask(function, EVERYTHING, body=body), 413, "payload-too-large")
    assert not api.database.exists()


@pytest.mark.parametrize("function", WITH_BODY)
@pytest.mark.parametrize("levels", [65, 1_000, 100_000, 500_000])
def test_a_body_that_nests_deeper_than_64_levels_is_refused(api: Api, function: str, levels: int) -> None:
    assert_problem(api.ask(function, EVERYTHING, body=arrays(levels)), 400, "invalid-json")


def test_an_error_is_cut_to_1_000_characters(api: Api) -> None:
    api.new_job()
    api.claimed_job()
    success(api.fail(1, error="x " * 500_000))
    assert len(success(api.get(1))["error"]) <= 1_000


def test_an_idempotency_key_over_255_characters_is_refused(api: Api) -> None:
    for answer in (api.enqueue(idempotency_key="k" * 256), api.enqueue(headers={"Idempotency-Key": "k" * 9_000})):
        assert_problem(answer, 422, "validation-failed")
