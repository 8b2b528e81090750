from __future__ import annotations

import hashlib
import hmac
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuelog import InvalidRegistry, JobPriority, Principal, Role
from queuelog.registry import KEY_PATTERN, Registry, key_id, new_entry, new_key

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
KEY = "ql_k3x9w0ab_" + "A" * 43
EMPTY = Registry.parse("")


def entry_of(key: str = KEY, **fields: Any) -> dict[str, Any]:
    known = {
        "name": "billing",
        "key_id": key[3:11],
        "key_sha256": hashlib.sha256(key.encode()).hexdigest(),
        "roles": ["producer"],
        "types": None,
        "max_priority": None,
        "expires_at": None,
    }
    return {**known, **fields}


def registry_of(*entries: object) -> Registry:
    return Registry.parse(json.dumps({"principals": entries}))


def without(entry: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in fields}


def test_a_new_key_has_an_id_of_8_characters_and_256_random_bits() -> None:
    key, entry = new_entry("billing", [Role.PRODUCER])
    assert re.fullmatch(r"ql_[a-z0-9]{8}_[A-Za-z0-9_-]{43}", key)
    assert entry["key_id"] == key[3:11] == key_id(key)


def test_keys_never_repeat() -> None:
    assert len({new_entry("billing", [Role.PRODUCER])[0] for _ in range(1000)}) == 1000


def test_an_entry_holds_the_hash_of_the_whole_key_and_not_the_key() -> None:
    key, entry = new_entry("billing", [Role.PRODUCER])
    assert entry["key_sha256"] == hashlib.sha256(key.encode()).hexdigest()
    assert key[12:] not in json.dumps(entry)


def test_an_entry_spells_every_field_out() -> None:
    _, entry = new_entry("billing", ["worker", "producer"], {"pdf", "email"}, JobPriority.HIGH, NOW)
    assert without(entry, "key_id", "key_sha256") == {
        "name": "billing",
        "roles": ["producer", "worker"],
        "types": ["email", "pdf"],
        "max_priority": "high",
        "expires_at": "2026-01-31T12:00:00.000Z",
    }


def test_a_new_key_opens_the_registry_that_has_its_entry() -> None:
    key, entry = new_entry("billing", [Role.WORKER], ["email"], JobPriority.LOW)
    written = EMPTY.with_entry(entry).dump()
    assert Registry.parse(written).authenticate(key, NOW) == Principal(
        name="billing",
        roles=frozenset({Role.WORKER}),
        types=frozenset({"email"}),
        max_priority=JobPriority.LOW,
        worker_id="billing",
    )


@pytest.mark.parametrize("text", ["", " \n", '{"principals": []}'])
def test_an_empty_registry_lets_nobody_in(text: str) -> None:
    assert Registry.parse(text).authenticate(KEY, NOW) is None


def test_types_left_out_are_all_types_and_an_empty_list_is_none() -> None:
    everything = registry_of(without(entry_of(), "types")).authenticate(KEY, NOW)
    nothing = registry_of(entry_of(types=[])).authenticate(KEY, NOW)
    assert everything is not None
    assert everything.types is None
    assert nothing is not None
    assert nothing.types == frozenset()


def test_the_highest_priority_is_medium_unless_told_and_critical_for_an_admin() -> None:
    producer = registry_of(without(entry_of(), "max_priority")).authenticate(KEY, NOW)
    admin = registry_of(entry_of(roles=["admin"])).authenticate(KEY, NOW)
    told = registry_of(entry_of(max_priority="HIGH")).authenticate(KEY, NOW)
    assert producer is not None
    assert producer.max_priority is JobPriority.MEDIUM
    assert admin is not None
    assert admin.max_priority is JobPriority.CRITICAL
    assert told is not None
    assert told.max_priority is JobPriority.HIGH


def test_a_key_works_until_the_millisecond_at_which_it_expires() -> None:
    registry = registry_of(entry_of(expires_at="2026-01-31T12:00:00.000Z"))
    assert registry.authenticate(KEY, NOW - timedelta(milliseconds=1)) is not None
    assert registry.authenticate(KEY, NOW) is None


def test_an_expiry_may_be_written_in_any_zone() -> None:
    registry = registry_of(entry_of(expires_at="2026-01-31T13:00:00+01:00"))
    assert registry.authenticate(KEY, NOW - timedelta(milliseconds=1)) is not None
    assert registry.authenticate(KEY, NOW) is None


def test_a_key_whose_entry_is_gone_is_unknown() -> None:
    other_key, other = new_entry("other", [Role.PRODUCER])
    assert registry_of(entry_of(), other).authenticate(KEY, NOW) is not None
    left = registry_of(other)
    assert left.authenticate(KEY, NOW) is None
    assert left.authenticate(other_key, NOW) is not None


def test_two_keys_of_one_name_are_one_principal_so_that_a_key_can_be_rotated() -> None:
    new_key, new = new_entry("billing", [Role.PRODUCER])
    registry = registry_of(entry_of(), new)
    assert registry.authenticate(KEY, NOW) == registry.authenticate(new_key, NOW)
    assert registry.key_ids("billing") == [KEY[3:11], new["key_id"]]
    assert registry.key_ids("other") == []


def test_the_right_id_with_another_secret_is_refused() -> None:
    assert registry_of(entry_of()).authenticate(KEY[:-1] + "B", NOW) is None


@pytest.mark.parametrize(
    "key",
    [
        "",
        "ql_",
        KEY[:-1],
        KEY + "A",
        KEY + "\n",
        " " + KEY,
        KEY.upper(),
        KEY.replace("ql_", "qx_"),
        KEY[3:],
        hashlib.sha256(KEY.encode()).hexdigest(),
        "ql_k3x9w0ab_" + "é" * 43,
        "ql_k3x9w0ab_" + "\ud800" * 43,
        "ql_k3x9w0ab_" + "\u0661" * 43,
    ],
)
def test_a_malformed_key_is_refused_and_has_no_id(key: str) -> None:
    assert registry_of(entry_of()).authenticate(key, NOW) is None
    assert key_id(key) is None


@given(st.text() | st.from_regex(KEY_PATTERN, fullmatch=True))
def test_no_other_text_is_let_in(key: str) -> None:
    assert (registry_of(entry_of()).authenticate(key, NOW) is None) == (key != KEY)


@pytest.mark.parametrize("key", [KEY, KEY[:-1] + "B", "ql_unknown0_" + "A" * 43])
def test_an_unknown_id_costs_a_constant_time_comparison_like_a_known_one(key: str) -> None:
    registry = registry_of(entry_of())
    comparisons = []

    def watch(_frame: object, event: str, called: object) -> None:
        if event == "c_call" and called is hmac.compare_digest:
            comparisons.append(called)

    earlier = sys.getprofile()
    sys.setprofile(watch)
    try:
        registry.authenticate(key, NOW)
    finally:
        sys.setprofile(earlier)
    assert len(comparisons) == 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "not JSON (line 1, column 2)"),
        ("null", "must be a JSON object"),
        ("[]", "must be a JSON object"),
        ("{}", 'a list called "principals"'),
        ('{"principals": {}}', 'a list called "principals"'),
        ('{"principals": [], "principals": []}', "not plain JSON"),
        ("[" * 100_000, "not plain JSON"),
        ("[" + "1" * 10_000 + "]", "not plain JSON"),
        ('{"principals": ["billing"]}', "principals[0] is wrong: it must be an object"),
    ],
)
def test_a_malformed_document_is_refused_with_a_sentence(text: str, fault: str) -> None:
    with pytest.raises(InvalidRegistry) as refused:
        Registry.parse(text)
    assert fault in str(refused.value)


BAD_FIELDS: list[tuple[str, list[Any]]] = [
    ("name", [None, 7, "", "a" * 101, "-a", "a b", "a:b", "a/b", "é", "a\n", "123456789012:role/Billing"]),
    ("key_id", [None, 7, "", "short", "ninechars", "ab_d-f!h"]),
    ("key_sha256", [None, "", "0" * 63, "0" * 65, "F" * 64, KEY]),
    ("roles", [None, "producer", [], ["boss"], ["Producer"], [7], [None], {}]),
    ("types", ["email", [7], [""], ["no space"], {}, [["email"]]]),
    ("max_priority", ["urgent", "", 10, ["high"]]),
    ("expires_at", ["", "soon", "2026-01-31T12:00:00", "2026-02-30T12:00:00Z", "0001-01-01T00:00:00+01:00", 1, []]),
]


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in BAD_FIELDS for value in values])
def test_a_bad_field_is_refused_with_its_place_and_without_its_value(field: str, value: object) -> None:
    _, good = new_entry("other", [Role.PRODUCER])
    with pytest.raises(InvalidRegistry) as refused:
        registry_of(good, {**entry_of(), field: value})
    assert f"principals[1] is wrong: {field}" in str(refused.value)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("field", ["name", "key_id", "key_sha256", "roles"])
def test_a_required_field_left_out_is_refused(field: str) -> None:
    with pytest.raises(InvalidRegistry, match=re.escape(f"principals[0] is wrong: {field}")):
        registry_of(without(entry_of(), field))


def test_two_entries_with_one_id_are_refused() -> None:
    with pytest.raises(InvalidRegistry, match=r"principals\[1\] is wrong: key_id is that of an earlier entry"):
        registry_of(entry_of(), entry_of(name="other"))
    with pytest.raises(InvalidRegistry):
        registry_of(entry_of()).with_entry(entry_of())


def test_fields_of_a_later_release_are_passed_over_and_kept() -> None:
    later = {"schema": 2, "principals": [entry_of(owner="ann@example.org")]}
    registry = Registry.parse(json.dumps(later))
    assert registry.authenticate(KEY, NOW) is not None
    _, added = new_entry("other", [Role.WORKER])
    written = json.loads(registry.with_entry(added).dump())
    assert written == {"schema": 2, "principals": [entry_of(owner="ann@example.org"), added]}


def test_adding_an_entry_leaves_the_registry_as_it_was() -> None:
    registry = registry_of(entry_of())
    _, added = new_entry("other", [Role.WORKER])
    assert added["key_id"] in registry.with_entry(added)
    assert added["key_id"] not in registry


OTHER = "ql_other123_" + "B" * 43
THIRD = "ql_third123_" + "C" * 43
LATER: dict[str, Any] = {
    "schema": 2,
    "principals": [
        entry_of(owner="ann@example.org"),
        entry_of(OTHER, name="other", expires_at="2026-01-31T12:00:00+01:00", quota=5),
        entry_of(THIRD, roles=["worker"], types=["email"], max_priority="low"),
    ],
}


def document_of(registry: Registry) -> Any:
    return json.loads(registry.dump())


def test_keys_are_removed_and_the_rest_stays_as_it_is() -> None:
    registry = Registry.parse(json.dumps(LATER))
    left = registry.without(["other123", "unknown0"])
    assert document_of(left) == {"schema": 2, "principals": [LATER["principals"][0], LATER["principals"][2]]}
    assert left.authenticate(OTHER, NOW - timedelta(days=1)) is None
    assert left.authenticate(KEY, NOW) is not None
    assert left.without(["other123"]) == left
    assert "other123" in registry


def test_keys_are_told_when_to_end_and_never_to_end_later() -> None:
    registry = Registry.parse(json.dumps(LATER))
    ending = registry.with_expiry([KEY[3:11], "other123", "unknown0"], NOW)
    first, second, third = LATER["principals"]
    assert document_of(ending) == {
        "schema": 2,
        "principals": [{**first, "expires_at": "2026-01-31T12:00:00.000Z"}, second, third],
    }
    assert ending.authenticate(KEY, NOW - timedelta(milliseconds=1)) is not None
    assert ending.authenticate(KEY, NOW) is None
    assert ending.authenticate(THIRD, NOW) is not None
    earlier = ending.with_expiry([KEY[3:11]], NOW - timedelta(hours=1))
    assert earlier.authenticate(KEY, NOW - timedelta(hours=1)) is None
    assert registry.authenticate(KEY, NOW) is not None


def test_a_successor_may_do_what_the_key_before_it_may() -> None:
    registry = Registry.parse(json.dumps(LATER))
    key = new_key()
    added = registry.with_successor("third123", key, None)
    assert added.authenticate(key, NOW) == registry.authenticate(THIRD, NOW)
    assert added.authenticate(THIRD, NOW) is not None
    assert "key_sha256" not in repr(added.entries[-1])
    ended = registry.with_successor("other123", key, NOW)
    assert document_of(ended)["principals"][-1] == entry_of(
        key, name="other", expires_at="2026-01-31T12:00:00.000Z", quota=5
    )


def test_what_is_gone_or_there_already_has_no_successor() -> None:
    registry = Registry.parse(json.dumps(LATER))
    with pytest.raises(InvalidRegistry, match="no key unknown0"):
        registry.with_successor("unknown0", new_key(), None)
    with pytest.raises(InvalidRegistry, match="earlier entry"):
        registry.with_successor("third123", THIRD, None)


def test_the_entries_are_told_in_order_with_whose_they_are() -> None:
    entries = Registry.parse(json.dumps(LATER)).entries
    assert [(each.key_id, each.principal.name, each.has_expired(NOW)) for each in entries] == [
        ("k3x9w0ab", "billing", False),
        ("other123", "other", True),
        ("third123", "billing", False),
    ]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"name": "a/b", "roles": [Role.WORKER]}, "name must be"),
        ({"name": "a", "roles": []}, "roles must be a list of one or more of producer, worker, admin"),
        ({"name": "a", "roles": ["boss"]}, "roles must be"),
        ({"name": "a", "roles": [Role.WORKER], "types": ["no space"]}, "types must be"),
    ],
)
def test_a_key_that_no_registry_would_take_is_not_made(arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidRegistry, match=fault):
        new_entry(**arguments)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_parses_or_is_refused_with_a_sentence(value: object) -> None:
    for document in (value, {"principals": value}, {"principals": [value]}):
        try:
            Registry.parse(json.dumps(document))
        except InvalidRegistry as refused:
            assert str(refused).startswith("The registry of API keys is malformed: ")
