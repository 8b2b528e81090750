"""What a body must be before its fields are looked at."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.http.bodies import (
    JSON_TYPES,
    MAX_BATCH_BODY_BYTES,
    MAX_BODY_BYTES,
    NOT_BASE64,
    NOT_JSON,
    NOT_JSON_TYPES,
    RIGHT,
    arrays,
    objects,
)
from tests.http.support import (
    ADMIN,
    BATCHES,
    GUARDED,
    NEEDING_BODY,
    NOBODY,
    WITH_BODY,
    assert_problem,
    signed,
    success,
    with_key,
)
from tests.support import steps_of
from web.body import read_body, strict_object
from web.problems import InvalidJson

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.http.support import Api, Caller

EVERYONE = with_key("everyone", "producer", "worker", "admin")
NO_ROLE = with_key("nobody-special")
STRANGER = signed("Stranger")


def every(faults: dict[str, bytes]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("body", faults.values(), ids=faults.keys())


@every(NOT_JSON)
def test_what_is_not_one_json_object_is_refused_by_every_route(api: Api, body: bytes) -> None:
    for function in WITH_BODY:
        assert_problem(api.ask(function, EVERYONE, body=body), 400, "invalid-json")


@pytest.mark.parametrize("content_type", NOT_JSON_TYPES)
def test_another_content_type_is_refused_by_every_route(api: Api, content_type: str) -> None:
    for function in WITH_BODY:
        answer = api.ask(function, EVERYONE, body=RIGHT[function], content_type=content_type)
        assert_problem(answer, 415, "unsupported-media-type")


@pytest.mark.parametrize("content_type", JSON_TYPES)
def test_json_in_utf_8_may_be_called_what_it_is_in_any_letter_case_or_not_at_all(
    api: Api, content_type: str | None
) -> None:
    success(api.ask("enqueue_job", EVERYONE, body=RIGHT["enqueue_job"], content_type=content_type), 201)


@pytest.mark.parametrize("function", [name for name in WITH_BODY if name not in NEEDING_BODY])
@pytest.mark.parametrize("content_type", [None, "text/plain", "multipart/form-data"])
def test_a_body_that_is_not_there_has_no_content_type(api: Api, function: str, content_type: str | None) -> None:
    job = api.new_job(EVERYONE)
    if function != "claim_job":
        api.claimed_job(EVERYONE)
    if function == "retry_job":
        api.fail(job["id"], EVERYONE, permanent=True)
    success(api.ask(function, EVERYONE, id=job["id"], content_type=content_type))


@pytest.mark.parametrize("body", NOT_BASE64)
def test_broken_base64_is_refused_by_every_route(api: Api, body: str) -> None:
    for function in WITH_BODY:
        answer = api.ask(function, EVERYONE, changes={"body": body, "isBase64Encoded": True})
        assert_problem(answer, 400, "invalid-json")


@pytest.mark.parametrize("function", NEEDING_BODY)
@pytest.mark.parametrize("changes", [{"body": None}, {"body": ""}, {"body": "", "isBase64Encoded": True}])
def test_a_route_that_needs_a_body_gets_none(api: Api, function: str, changes: dict[str, Any]) -> None:
    assert_problem(api.ask(function, EVERYONE, changes=changes), 400, "invalid-json")


def test_a_body_as_text_is_read_as_well(api: Api) -> None:
    changes = {"body": '{"type": "email", "payload": {"to": "Zoë"}}', "isBase64Encoded": False}
    assert success(api.ask("enqueue_job", EVERYONE, changes=changes), 201)["payload"] == {"to": "Zoë"}
    changes = {"body": '{"type": "\ud800"}', "isBase64Encoded": False}
    assert_problem(api.ask("enqueue_job", EVERYONE, changes=changes), 400, "invalid-json")


def most_bytes(function: str) -> int:
    return MAX_BATCH_BODY_BYTES if function in BATCHES else MAX_BODY_BYTES


@pytest.mark.parametrize("function", WITH_BODY)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_a_body_over_1_mib_or_of_a_batch_4_mb_is_refused_before_it_is_looked_at(
    api: Api, function: str, content_type: str
) -> None:
    most = most_bytes(function)
    for size in (most + 1, most * 3 // 2 + 1, 3 * most):
        answer = api.ask(function, EVERYONE, body=b"\xff" * size, content_type=content_type)
        assert_problem(answer, 413, "payload-too-large")


@pytest.mark.parametrize("function", WITH_BODY)
def test_a_body_of_just_that_size_is_taken(api: Api, function: str) -> None:
    answer = api.ask(function, EVERYONE, body=RIGHT[function].ljust(most_bytes(function)))
    assert answer.status not in {400, 413, 415, 422}


def test_a_body_as_text_is_measured_in_bytes(api: Api) -> None:
    changes = {"body": '{"type": "email"}' + "é" * (MAX_BODY_BYTES // 2), "isBase64Encoded": False}
    assert_problem(api.ask("enqueue_job", EVERYONE, changes=changes), 413, "payload-too-large")


@pytest.mark.parametrize("nested", [arrays, objects])
def test_64_levels_are_taken_and_come_back(api: Api, nested: Any) -> None:
    job = success(api.ask("enqueue_job", EVERYONE, body=nested(64)), 201)
    (listed,) = success(api.list())["jobs"]
    assert listed["payload"] == job["payload"] != {}


def test_what_json_can_say_comes_back_as_it_was_sent(api: Api) -> None:
    payload = {
        "": None,
        "nul": "\x00",
        "control": "\x01\x1f\x7f\u2028",
        "quotes": "\"\\/'<>&",
        "letters": "Zoë 日本 \U0001f600",
        "numbers": [0, -1, 2**53, 10**400, 1.5, -1e-7, 1e308],
        "rest": [True, False, [], {}, " "],
    }
    job = api.new_job(payload=payload)
    assert job["payload"] == payload
    assert api.get(job["id"]).body["payload"] == payload
    assert list(job["payload"]) == list(payload)


def test_a_pair_of_escaped_surrogates_is_one_character(api: Api) -> None:
    body = rb'{"type": "email", "payload": {"\ud83d\ude00": "\uD83D\uDE00"}}'
    assert success(api.ask("enqueue_job", EVERYONE, body=body), 201)["payload"] == {"😀": "😀"}


def test_an_integer_of_4_300_digits_is_taken(api: Api) -> None:
    number = int("7" * 4_300)
    assert api.new_job(payload={"n": number})["payload"] == {"n": number}


@pytest.mark.parametrize("function", [*(name for name in GUARDED if name not in WITH_BODY), "health"])
@pytest.mark.parametrize("body", [b"nope", b"\xff" * (MAX_BODY_BYTES + 1)])
def test_a_route_without_a_body_reads_none(api: Api, function: str, body: bytes) -> None:
    job = api.new_job()
    success(api.ask(function, ADMIN, id=job["id"], body=body, content_type="text/plain"))


ANY_BODY = {
    **{name: body for name, body in NOT_JSON.items() if len(body) < 10_000},
    "too large": b"\xff" * (MAX_BODY_BYTES + 1),
    "right": b'{"type": "email"}',
    "wrong fields": b'{"type": 7, "max_retry": 3}',
    "empty": b"",
}


@pytest.mark.parametrize(
    ("caller", "status", "slug"),
    [(NOBODY, 401, "unauthorized"), (STRANGER, 403, "forbidden"), (NO_ROLE, 403, "forbidden")],
    ids=["no credentials", "a signature without a role", "a key without a role"],
)
@every(ANY_BODY)
def test_who_may_not_come_in_hears_nothing_of_the_body(
    api: Api, caller: Caller, status: int, slug: str, body: bytes
) -> None:
    for function in WITH_BODY:
        for content_type in ("application/json", "text/plain"):
            answer = api.ask(function, caller, body=body, content_type=content_type, query={"colour": "red"})
            assert_problem(answer, status, slug)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=5)
BLANK = st.text(" \t\r\n", max_size=3)


def parsed(body: bytes) -> dict[str, Any]:
    return strict_object(read_body({"body": base64.b64encode(body).decode(), "isBase64Encoded": True}, None))


@given(value=OBJECTS, before=BLANK, after=BLANK, is_ascii=st.booleans(), indent=st.none() | st.integers(0, 3))
def test_every_json_object_is_read_however_it_is_written(
    value: dict[str, Any], before: str, after: str, is_ascii: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    found = parsed(f"{before}{text}{after}".encode())
    assert json.dumps(found) == json.dumps(value)


@given(value=OBJECTS, place=st.integers(0, 200), gone=st.integers(0, 3), piece=st.binary(max_size=3))
def test_one_that_something_has_happened_to_is_read_as_it_is_or_refused(
    value: dict[str, Any], place: int, gone: int, piece: bytes
) -> None:
    whole = json.dumps(value, ensure_ascii=False).encode()
    body = whole[:place] + piece + whole[place + gone :]
    try:
        found = parsed(body)
    except InvalidJson:
        return
    assert json.dumps(found) == json.dumps(json.loads(body))
    # Nothing that another reader would read otherwise.
    json.dumps(found, ensure_ascii=False).encode()


SHAPES: dict[str, Callable[[int], str]] = {
    "many fields": lambda count: "{" + ",".join(f'"{number}":0' for number in range(count)) + "}",
    "one field many times": lambda count: "{" + ",".join(['"a":0'] * count) + "}",
    "many objects": lambda count: '{"a":[' + ",".join(['{"b":{}}'] * count) + "]}",
    "many arrays": lambda count: '{"a":[' + ",".join(["[[]]"] * count) + "]}",
    "deep arrays": lambda count: '{"a":' + "[" * count + "]" * count + "}",
    "deep objects": lambda count: '{"a":' * count + "0" + "}" * count,
    "open arrays": lambda count: '{"a":' + "[" * count,
    "surrogates": lambda count: '{"a":"' + "\\ud83d\\ude00" * count + '"}',
    "lone surrogates": lambda count: '{"a":"' + "\\ud83d" * count + '"}',
    "escapes": lambda count: '{"a":"' + '\\"' * count + '"}',
    "a long number": lambda count: '{"a":' + "1" * count + "}",
    "a long fraction": lambda count: '{"a":0.' + "1" * count + "}",
    "a long exponent": lambda count: '{"a":1e' + "1" * count + "}",
    "many numbers": lambda count: '{"a":[' + ",".join(["1.5"] * count) + "]}",
    "NaN": lambda count: '{"a":[' + ",".join(["NaN"] * count) + "]}",
    "blanks": lambda count: "{" + " " * count + "}",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_body_takes_no_more_than_twice_the_steps(shape: str) -> None:
    def read(count: int) -> None:
        with suppress(InvalidJson):
            parsed(SHAPES[shape](count).encode())

    read(1)
    once, twice = (steps_of(partial(read, count)) for count in (5_000, 10_000))
    assert twice <= 2 * once + 10
