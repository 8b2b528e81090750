from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuelog import InvalidJob, JobPriority, NewJob
from queuelog.job import is_deeper_than


def faults_of(**fields: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJob) as invalid:
        NewJob(**fields)
    return [(fault.field, fault.code) for fault in invalid.value.faults]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize("type", ["a", "0", "email", "Video.Encode:v2_final-1", "x" * 100])
def test_a_type_is_a_name(type: str) -> None:
    assert NewJob(type=type).type == type


@pytest.mark.parametrize("type", ["", " ", "-a", ".a", "_a", ":a", "a b", "a/b", "é", "a\n", "a\0", "x" * 101, "٣"])
def test_anything_else_is_no_type(type: str) -> None:
    assert faults_of(type=type) == [("type", "string_pattern_mismatch")]


@pytest.mark.parametrize("max_retries", [0, 1, 25])
def test_a_job_may_be_put_back_up_to_25_times(max_retries: int) -> None:
    assert NewJob(type="email", max_retries=max_retries).max_retries == max_retries


@pytest.mark.parametrize("max_retries", [-1, 26, 2**64])
def test_and_no_more_often(max_retries: int) -> None:
    assert faults_of(type="email", max_retries=max_retries) == [("max_retries", "out_of_range")]


@pytest.mark.parametrize("max_retries", [True, 1.0, 1.5, float("nan"), "3"])
def test_a_number_of_retries_is_an_integer(max_retries: Any) -> None:
    assert faults_of(type="email", max_retries=max_retries) == [("max_retries", "out_of_range")]


@pytest.mark.parametrize("key", ["k", " ", "a b", "é", "🂡", "~" * 255, "🂡" * 255])
def test_a_key_is_1_to_255_printable_characters(key: str) -> None:
    assert NewJob(type="email", idempotency_key=key).idempotency_key == key


@pytest.mark.parametrize("key", ["", "a" * 256, "a\n", "\t", "\0", "\x7f", "\u2028", "\u00a0", "\ud800", "\u200b"])
def test_anything_else_is_no_key(key: str) -> None:
    assert faults_of(type="email", idempotency_key=key) == [("idempotency_key", "invalid_key")]


def test_a_payload_may_take_65_536_bytes_as_compact_json() -> None:
    room = 65_536 - len('{"a":""}')
    NewJob(type="email", payload={"a": "x" * room})
    assert faults_of(type="email", payload={"a": "x" * (room + 1)}) == [("payload", "too_large")]


def test_a_payload_s_size_is_in_bytes_of_utf_8_and_not_in_characters_or_escapes() -> None:
    room = 65_536 - len('{"a":""}')
    NewJob(type="email", payload={"a": "é" * (room // 2)})
    assert faults_of(type="email", payload={"a": "é" * (room // 2 + 1)}) == [("payload", "too_large")]


@pytest.mark.parametrize("payload", [[], "text", 1, (), [{}]], ids=repr)
def test_a_payload_is_an_object(payload: Any) -> None:
    assert faults_of(type="email", payload=payload) == [("payload", "dict_type")]


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "\ud800", {"\ud800": 1}, b"bytes", {1, 2}, object(), 10**5_000],
    ids=["nan", "infinity", "surrogate", "surrogate as a name", "bytes", "set", "object", "5,001 digits"],
)
def test_a_payload_holds_what_json_can(value: Any) -> None:
    assert faults_of(type="email", payload={"a": value}) == [("payload", "not_json")]


def test_a_payload_may_nest_64_levels() -> None:
    NewJob(type="email", payload=nested(64))
    for levels in (65, 900, 5_000, 100_000):
        assert faults_of(type="email", payload=nested(levels)) == [("payload", "too_deep")]


def test_every_fault_is_reported_at_once() -> None:
    faults = faults_of(type="", payload={"a": float("nan")}, max_retries=26, idempotency_key="")
    assert sorted(field for field, _ in faults) == ["idempotency_key", "max_retries", "payload", "type"]


def test_a_fault_says_what_to_do() -> None:
    with pytest.raises(InvalidJob) as invalid:
        NewJob(type="email", max_retries=26)
    assert invalid.value.faults[0].message == "must be an integer between 0 and 25"


@pytest.mark.parametrize(
    ("label", "priority"),
    [("low", 0), ("medium", 10), ("high", 20), ("critical", 30), ("Low", 0), ("CRITICAL", 30), ("mEdIuM", 10)],
)
def test_a_priority_is_spoken_in_any_letter_case(label: str, priority: int) -> None:
    assert JobPriority.from_label(label) == priority
    assert JobPriority(priority).label == label.lower()


@pytest.mark.parametrize(
    "label",
    [
        "",
        "urgent",
        "10",
        " low",
        "low ",
        "lowest",
        "\uff2cow",
        "cr\u0131tical",
        "h\u0130gh",
        "name",
        "mro",
        "__class__",
    ],
)
def test_any_other_word_is_no_priority(label: str) -> None:
    with pytest.raises(ValueError, match="low, medium, high, critical"):
        JobPriority.from_label(label)


def test_priorities_have_an_order() -> None:
    assert JobPriority.LOW < JobPriority.MEDIUM < JobPriority.HIGH < JobPriority.CRITICAL


@pytest.mark.parametrize(
    ("fields", "canonical"),
    [
        ({}, '{"type":"email"}'),
        ({"idempotency_key": "k"}, '{"type":"email"}'),
        ({"payload": {}}, '{"payload":{},"type":"email"}'),
        ({"payload": {"b": 1, "a": "é"}}, '{"payload":{"a":"é","b":1},"type":"email"}'),
        ({"priority": JobPriority.LOW, "max_retries": 0}, '{"max_retries":0,"priority":"low","type":"email"}'),
    ],
)
def test_a_fingerprint_never_changes_between_releases(fields: dict[str, Any], canonical: str) -> None:
    assert NewJob(type="email", **fields).fingerprint() == hashlib.sha256(canonical.encode()).hexdigest()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_equal_json_has_equal_fingerprints(payload: dict[str, Any]) -> None:
    again = json.loads(json.dumps(payload))
    shuffled = dict(reversed(again.items()))
    assert NewJob(type="email", payload=payload).fingerprint() == NewJob(type="email", payload=shuffled).fingerprint()


@given(JSON, st.integers(0, 8))
def test_depth_is_counted_without_recursion(value: Any, levels: int) -> None:
    def depth(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    assert is_deeper_than(value, levels) == (depth(value) > levels)
