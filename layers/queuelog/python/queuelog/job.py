from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from queuelog.clock import parse_timestamp
from queuelog.errors import Fault, InvalidJob

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

TYPE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}"
MAX_PAYLOAD_BYTES = 65_536
MAX_IDEMPOTENCY_KEY_LENGTH = 255
MAX_ERROR_LENGTH = 1_000
MAX_RETRIES = 25
DEFAULT_MAX_RETRIES = 3
#: The largest integer that every JSON reader keeps exact (RFC 8259, section 6).
MAX_ID = 2**53 - 1
#: Levels of nesting, counted from the payload itself; deep JSON overflows the stack of many readers.
MAX_DEPTH = 64

# json.dumps would build an encoder anew at every call, which takes about as long as encoding a small payload.
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_CANONICAL = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


class JobStatus(StrEnum):
    """Where a job is in its life; claim, complete and fail move it."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    #: Known to the schema from the first release on, since SQLite can't alter a CHECK; no verb makes it yet.
    CANCELLED = "cancelled"


class JobPriority(IntEnum):
    """How urgent a job is: stored as a number, spoken as a word."""

    LOW = 0
    MEDIUM = 10
    HIGH = 20
    CRITICAL = 30

    @property
    def label(self) -> str:
        """The word for it, in lower case."""
        return self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> Self:
        """Return the priority that `label` names in any letter case; raise ValueError for any other text."""
        # Beyond ASCII other letters share an upper case, as the dotless i does with i.
        if label.isascii() and label.upper() in cls.__members__:
            return cls[label.upper()]
        raise ValueError(f"a priority is one of {', '.join(each.label for each in cls)}")


class Reason(StrEnum):
    """Why a job's last attempt did not complete it; unlike the error's text, its creator may know."""

    FAILED = "failed"
    LEASE_EXPIRED = "lease_expired"


def encode_payload(payload: Mapping[str, Any]) -> str:
    """Return the payload as compact JSON; raise InvalidJob if it is no JSON object, too deep, or over 65,536 bytes."""
    if not isinstance(payload, dict):
        raise InvalidJob(faults=(Fault("payload", "dict_type", "must be a JSON object"),))
    if is_deeper_than(payload, MAX_DEPTH):
        raise InvalidJob(faults=(Fault("payload", "too_deep", f"may nest {MAX_DEPTH} levels at most"),))
    try:
        text = canonical_json(payload, sort_keys=False)
        size = len(text.encode())
    except (TypeError, ValueError):
        message = "must hold only what JSON can: no NaN, Infinity, lone surrogates or objects of Python"
        raise InvalidJob(faults=(Fault("payload", "not_json", message),)) from None
    if size > MAX_PAYLOAD_BYTES:
        message = f"takes {size} bytes as compact JSON; {MAX_PAYLOAD_BYTES} are allowed: keep it elsewhere, send a link"
        raise InvalidJob(faults=(Fault("payload", "too_large", message),))
    return text


def canonical_json(value: object, *, sort_keys: bool = True) -> str:
    """Return `value` as compact JSON without ASCII escapes; raise ValueError or TypeError if there is none."""
    return (_CANONICAL if sort_keys else _COMPACT).encode(value)


def is_deeper_than(value: object, levels: int) -> bool:
    """Say whether a JSON value nests more than `levels` levels; does not recurse."""
    layer = _containers([value])
    for _ in range(levels):
        if not layer:
            return False
        layer = [inner for outer in layer for inner in _containers(outer)]
    return bool(layer)


def _containers(value: Iterable[Any]) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value
    return [each for each in inner if isinstance(each, (dict, list, tuple))]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to enqueue. None means that the caller did not say, so the queue's default holds.

    Raises InvalidJob with every fault that it has.
    """

    type: str
    payload: dict[str, Any] | None = None
    #: Default medium.
    priority: JobPriority | None = None
    #: How often a failure may put it back: 0 to 25, default 3; so it runs at most once more than that.
    max_retries: int | None = None
    #: 1 to 255 printable characters, unique per principal: the same key enqueues one job however often it is sent.
    idempotency_key: str | None = None

    #: The payload as it is stored, taken when the job is made: encoding is most of the work here.
    encoded_payload: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        faults = list(self._faults())
        try:
            object.__setattr__(self, "encoded_payload", encode_payload({} if self.payload is None else self.payload))
        except InvalidJob as invalid:
            faults += invalid.faults
        if faults:
            raise InvalidJob(faults=tuple(faults))

    def _faults(self) -> Iterator[Fault]:
        if not re.fullmatch(TYPE_PATTERN, self.type):
            yield Fault("type", "string_pattern_mismatch", f"must match {TYPE_PATTERN}")
        if self.max_retries is not None and not _is_between(0, self.max_retries, MAX_RETRIES):
            yield Fault("max_retries", "out_of_range", f"must be an integer between 0 and {MAX_RETRIES}")
        if self.idempotency_key is not None and not is_idempotency_key(self.idempotency_key):
            yield Fault("idempotency_key", "invalid_key", "must be 1 to 255 printable characters")

    def fingerprint(self) -> str:
        """Return the SHA-256, in hex, of the canonical JSON of the fields as they were sent, without the key.

        Defaults are left out, so that a release with other defaults still knows an old request.
        """
        sent = {
            "type": self.type,
            "payload": self.payload,
            "priority": None if self.priority is None else self.priority.label,
            "max_retries": self.max_retries,
        }
        known = {name: value for name, value in sent.items() if value is not None}
        return hashlib.sha256(canonical_json(known).encode()).hexdigest()


def _is_between(low: int, value: object, high: int) -> bool:
    # For Python true is an integer between 0 and 25, and so is 1.5 for SQLite's CHECK.
    return type(value) is int and low <= value <= high


def is_idempotency_key(text: str) -> bool:
    """Say whether `text` is 1 to 255 printable characters."""
    return 1 <= len(text) <= MAX_IDEMPOTENCY_KEY_LENGTH and text.isprintable()


class Enqueued(NamedTuple):
    """What enqueue answers: the job, and whether an earlier request with the same key had made it."""

    job: Job
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it was when it was read."""

    #: Ascending in the order of enqueueing, and never used again.
    id: int
    type: str
    payload: dict[str, Any]
    priority: JobPriority
    status: JobStatus
    #: Failures so far that put it back; at most max_retries.
    retry_count: int
    max_retries: int
    idempotency_key: str | None
    #: Set by claim, cleared when a failure puts the job back.
    claimed_at: datetime | None
    #: Who claimed it; set and cleared with claimed_at.
    worker_id: str | None
    #: What the last failed attempt said, cleaned; kept while the job runs again.
    error: str | None
    created_at: datetime
    #: When its status last changed.
    updated_at: datetime
    #: Why the last attempt that did not complete it ended; None before the first such attempt.
    reason: Reason | None
    created_by: str

    @classmethod
    def from_row(cls, row: sqlite3.Row) -> Self:
        """Return the job that a row of the jobs table holds; columns of later releases are passed over."""
        return cls(
            id=row["id"],
            type=row["type"],
            payload=json.loads(row["payload"]),
            priority=JobPriority(row["priority"]),
            status=JobStatus(row["status"]),
            retry_count=row["retry_count"],
            max_retries=row["max_retries"],
            idempotency_key=row["idempotency_key"],
            claimed_at=parse_timestamp(row["claimed_at"]) if row["claimed_at"] else None,
            worker_id=row["worker_id"],
            error=row["error"],
            created_at=parse_timestamp(row["created_at"]),
            updated_at=parse_timestamp(row["updated_at"]),
            reason=Reason(row["reason"]) if row["reason"] else None,
            created_by=row["created_by"],
        )
