"""Who may come in: API keys, of which only the SHA-256 is kept.

A registry is JSON, written by `queuelog keys` or by hand:

    {"principals": [{"name": "billing", "key_id": "k3x9w0ab", "key_sha256": "…64 hex digits…", "roles": ["producer"],
                     "types": ["email"], "max_priority": "high", "expires_at": "2026-12-31T00:00:00.000Z"}]}

`types` left out or null is every type, an empty list is none; `max_priority` and `expires_at` may be left out or null.
Several entries may have one name: that is how a key is rotated. Removing an entry revokes its key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from queuelog.clock import parse_timestamp, timestamp
from queuelog.errors import InvalidRegistry
from queuelog.job import TYPE_PATTERN, JobPriority
from queuelog.principal import Principal, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import datetime

KEY_PATTERN = r"ql_([A-Za-z0-9]{8})_[A-Za-z0-9_-]{43}"
#: No colon and no slash: a key's name owns jobs, and must never be the `<account>:role/<RoleName>` of a signed caller.
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
KEY_ID_PATTERN = r"[A-Za-z0-9]{8}"
SHA256_PATTERN = r"[0-9a-f]{64}"

_ID_LETTERS = string.ascii_lowercase + string.digits
_NO_DIGEST = "0" * 64


def key_id(key: str) -> str | None:
    """Return the public part of a well-formed key, which may be logged, or None."""
    match = re.fullmatch(KEY_PATTERN, key)
    return match[1] if match else None


def new_key() -> str:
    """Return a new key, which is kept nowhere."""
    new_id = "".join(secrets.choice(_ID_LETTERS) for _ in range(8))
    return f"ql_{new_id}_{secrets.token_urlsafe(32)}"


def new_entry(
    name: str,
    roles: Iterable[str],
    types: Iterable[str] | None = None,
    max_priority: JobPriority | None = None,
    expires_at: datetime | None = None,
) -> tuple[str, dict[str, Any]]:
    """Return a new key, which is kept nowhere, and its registry entry; raise InvalidRegistry for a bad argument."""
    key = new_key()
    entry = {
        "name": name,
        **_proof_of(key),
        "roles": sorted(set(roles)),
        "types": None if types is None else sorted(set(types)),
        "max_priority": None if max_priority is None else max_priority.label,
        "expires_at": None if expires_at is None else timestamp(expires_at),
    }
    try:
        Entry.read(entry)
    except ValueError as invalid:
        raise InvalidRegistry(f"This key can't be made: {invalid}.") from None
    return key, entry


@dataclass(frozen=True, slots=True)
class Registry:
    """The keys that are let in; raises InvalidRegistry with a sentence that names the entry, and never a value."""

    #: The JSON as it was read, so that writing it back keeps the fields that a newer release put there.
    document: dict[str, Any]
    _entries: dict[str, Entry] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        listed = self.document.get("principals")
        if not isinstance(listed, list):
            raise _malformed('it needs a list called "principals"')
        for index, value in enumerate(listed):
            try:
                entry = Entry.read(value)
                if entry.key_id in self._entries:
                    raise ValueError("key_id is that of an earlier entry")  # noqa: TRY301
            except ValueError as invalid:
                raise _malformed(f"principals[{index}] is wrong: {invalid}") from None
            self._entries[entry.key_id] = entry

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the registry that `text` holds; no text is no keys. Raise InvalidRegistry if it is malformed.

        Fields that this release doesn't know are passed over, since releases run side by side.
        """
        if not text.strip():
            return cls({"principals": []})
        try:
            document = json.loads(text, object_pairs_hook=_without_duplicates)
        except json.JSONDecodeError as invalid:
            raise _malformed(f"it is not JSON (line {invalid.lineno}, column {invalid.colno})") from None
        except (ValueError, RecursionError):
            raise _malformed("it is not plain JSON (a field given twice, a huge number, or too deep)") from None
        if not isinstance(document, dict):
            raise _malformed("it must be a JSON object")
        return cls(document)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All keys, expired ones as well, in the order of the document."""
        return tuple(self._entries.values())

    def __contains__(self, wanted: object) -> bool:
        return wanted in self._entries

    def key_ids(self, name: str) -> list[str]:
        """Return the ids of all keys with this name, expired ones as well."""
        return [entry.key_id for entry in self._entries.values() if entry.principal.name == name]

    def authenticate(self, key: str, now: datetime) -> Principal | None:
        """Return the principal that this key proves, or None if it is malformed, unknown, revoked or expired."""
        wanted = key_id(key)
        if wanted is None:
            return None
        entry = self._entries.get(wanted)
        # An unknown id is compared too: the time that an answer takes must not tell which ids exist.
        is_right = hmac.compare_digest(_digest(key), entry.key_sha256 if entry else _NO_DIGEST)
        if not entry or not is_right or entry.has_expired(now):
            return None
        return entry.principal

    def with_entry(self, entry: dict[str, Any]) -> Self:
        """Return this registry with one more entry; raise InvalidRegistry if it is malformed or its id is taken."""
        return type(self)({**self.document, "principals": [*self.document["principals"], entry]})

    def without(self, key_ids: Collection[str]) -> Self:
        """Return this registry without these keys; ids that it doesn't have are passed over."""
        return self._changed(lambda entry: None if entry["key_id"] in key_ids else entry)

    def with_expiry(self, key_ids: Collection[str], expires_at: datetime) -> Self:
        """Return this registry with these keys ending by a moment at the latest; other ids are passed over."""
        ending = {id for id in key_ids if id in self and not self._entries[id].has_expired(expires_at)}
        return self._changed(
            lambda entry: {**entry, "expires_at": timestamp(expires_at)} if entry["key_id"] in ending else entry
        )

    def with_successor(self, of: str, key: str, expires_at: datetime | None) -> Self:
        """Return this registry with one more key that may do what the key with the id `of` may; raise InvalidRegistry.

        Fields that this release doesn't know are taken over as well.
        """
        for entry in self.document["principals"]:
            if entry["key_id"] == of:
                ends = None if expires_at is None else timestamp(expires_at)
                return self.with_entry({**entry, **_proof_of(key), "expires_at": ends})
        raise InvalidRegistry(f"There is no key {of} to make another one of.")

    def _changed(self, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Self:
        changed = (change(entry) for entry in self.document["principals"])
        return type(self)({**self.document, "principals": [entry for entry in changed if entry is not None]})

    def dump(self) -> str:
        """Return it as JSON text that people can edit."""
        return json.dumps(self.document, indent=2) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key: whose it is, and until when."""

    key_id: str
    key_sha256: str = field(repr=False)
    principal: Principal
    #: The first moment at which the key no longer works; None is never.
    expires_at: datetime | None

    @classmethod
    def read(cls, value: object) -> Self:
        """Return the entry that this JSON value is; raise ValueError with the fault, without the faulty value."""
        if not isinstance(value, dict):
            raise ValueError("it must be an object")  # noqa: TRY004 (the caller turns any fault into one sentence)
        name_rule = "must be 1 to 100 letters, digits, dots, dashes and underscores, the first a letter or digit"
        return cls(
            key_id=_text(value, "key_id", KEY_ID_PATTERN, "must be 8 letters and digits"),
            key_sha256=_text(value, "key_sha256", SHA256_PATTERN, "must be the SHA-256 in 64 lower-case hex digits"),
            principal=Principal(
                name=_text(value, "name", NAME_PATTERN, name_rule),
                roles=_roles(value.get("roles")),
                types=_types(value.get("types")),
                max_priority=_priority(value.get("max_priority")),
            ),
            expires_at=_moment(value.get("expires_at")),
        )

    def has_expired(self, now: datetime) -> bool:
        """Say whether the key no longer works."""
        return self.expires_at is not None and now >= self.expires_at


def _text(entry: dict[str, Any], name: str, pattern: str, rule: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise ValueError(f"{name} {rule}")
    return value


def _roles(value: object) -> frozenset[Role]:
    known = {str(role) for role in Role}
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each in known for each in value):
        raise ValueError(f"roles must be a list of one or more of {', '.join(Role)}")
    return frozenset(map(Role, value))


def _types(value: object) -> frozenset[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(
        isinstance(each, str) and re.fullmatch(TYPE_PATTERN, each) for each in value
    ):
        raise ValueError(f"types must be null or a list of job types, each matching {TYPE_PATTERN}")
    return frozenset(value)


def _priority(value: object) -> JobPriority | None:
    if value is None:
        return None
    labels = ", ".join(each.label for each in JobPriority)
    try:
        return JobPriority.from_label(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(f"max_priority must be null or one of {labels}") from None


def _moment(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        return parse_timestamp(value if isinstance(value, str) else "")
    except (ValueError, OverflowError):
        raise ValueError("expires_at must be null or a time with its zone, such as 2026-01-31T12:00:00.000Z") from None


def _proof_of(key: str) -> dict[str, Any]:
    return {"key_id": key_id(key), "key_sha256": _digest(key)}


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field is given twice")
    return found


def _malformed(fault: str) -> InvalidRegistry:
    return InvalidRegistry(f"The registry of API keys is malformed: {fault}. Correct it; until then it can't be used.")
