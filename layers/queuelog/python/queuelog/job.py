from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from queuelog.clock import parse_timestamp, timestamp
from queuelog.errors import Fault, InvalidJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

TYPE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}"
MAX_PAYLOAD_BYTES = 65_536
MAX_IDEMPOTENCY_KEY_LENGTH = 255
MAX_ERROR_LENGTH = 1_000
MAX_RETRIES = 25
MAX_LEASE_SECONDS = 43_200
MAX_DELAY_SECONDS = 30 * 86_400
MAX_BACKOFF_SECONDS = 86_400
MAX_LEASE_TOKEN_LENGTH = 255
MAX_PROGRESS_BYTES = 4_096
MAX_RESULT_BYTES = 65_536
MAX_BATCH = 100
MAX_RETRY_BATCH = 1_000
DEFAULT_MAX_RETRIES = 3
#: The largest integer that every JSON reader keeps exact (RFC 8259, section 6).
MAX_ID = 2**53 - 1
#: Levels of nesting, counted from the payload itself; deep JSON overflows the stack of many readers.
MAX_DEPTH = 64

_TYPE = re.compile(TYPE_PATTERN)
#: What a new job's numbers may be at the most; at the least they are 0.
_RANGES = {
    "max_retries": MAX_RETRIES,
    "delay_seconds": MAX_DELAY_SECONDS,
    "backoff_seconds": MAX_BACKOFF_SECONDS,
}
# json.dumps would build an encoder anew at every call, which takes about as long as encoding a small payload.
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder()
_CANONICAL = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


class JobStatus(StrEnum):
    """Where a job is in its life; the queue's verbs move it."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
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
    return encode_json("payload", payload, MAX_PAYLOAD_BYTES)


def encode_json(name: str, value: object, most: int) -> str:
    """Return a field's value as compact JSON; raise InvalidJob if it isn't JSON, too deep, or over `most` bytes."""
    try:
        text = canonical_json(value, sort_keys=False)
        size = len(text.encode())
    except RecursionError:
        raise _too_deep(name) from None
    except (TypeError, ValueError):
        message = "must hold only what JSON can: no NaN, Infinity, lone surrogates or objects of Python"
        raise InvalidJob(faults=(Fault(name, "not_json", message),)) from None
    # Few values have as many brackets as levels are allowed, so that few have to be gone through.
    if text.count("{") + text.count("[") > MAX_DEPTH and is_deeper_than(value, MAX_DEPTH):
        raise _too_deep(name)
    if size > most:
        message = f"takes {size} bytes as compact JSON; {most} are allowed: keep it elsewhere, send a link"
        raise InvalidJob(faults=(Fault(name, "too_large", message),))
    return text


def _too_deep(name: str) -> InvalidJob:
    return InvalidJob(faults=(Fault(name, "too_deep", f"may nest {MAX_DEPTH} levels at most"),))


def canonical_json(value: object, *, sort_keys: bool = True) -> str:
    """Return `value` as compact JSON without ASCII escapes; raise ValueError or TypeError if there is none."""
    return (_CANONICAL if sort_keys else _COMPACT).encode(value)


def read_json(text: str) -> Any:
    """Return the value that `canonical_json` wrote; unlike json.loads it doesn't look for blanks around it."""
    return _DECODER.raw_decode(text)[0]


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
    #: Not to be claimed before this time; one in the past does not jump the queue. Either this or delay_seconds.
    run_at: datetime | None = None
    #: Seconds from the enqueueing, up to 30 days.
    delay_seconds: int | None = None
    #: What the waits between retries grow from: 0 to 86,400 seconds; default the queue's.
    backoff_seconds: int | None = None

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
        if not _TYPE.fullmatch(self.type):
            yield Fault("type", "string_pattern_mismatch", f"must match {TYPE_PATTERN}")
        if self.run_at is not None and self.delay_seconds is not None:
            yield Fault("delay_seconds", "not_both", "can't be given together with run_at")
        for name, most in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not is_between(0, value, most):
                yield Fault(name, "out_of_range", f"must be an integer between 0 and {most}")
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
            "run_at": None if self.run_at is None else timestamp(self.run_at),
            "delay_seconds": self.delay_seconds,
            "backoff_seconds": self.backoff_seconds,
        }
        return fingerprint(sent)


def fingerprint(sent: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hex, of the canonical JSON of what was sent; None was not."""
    known = {name: value for name, value in sent.items() if value is not None}
    return hashlib.sha256(canonical_json(known).encode()).hexdigest()


def is_between(low: int, value: object, high: int) -> bool:
    """Say whether a value is an integer in a range."""
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
    #: When it is or was due: at enqueue the time asked for, after a failure when the wait is over.
    run_at: datetime
    #: What the waits between retries grow from, in seconds; None in a job of the first release, which has the default.
    backoff_seconds: int | None
    #: Claims so far; unlike retry_count it never goes down.
    attempt: int
    #: Until when the running attempt holds it; None when it isn't running.
    lease_expires_at: datetime | None
    #: Attempts that ended because their lease did.
    lease_expiries: int
    #: What the worker last said of its progress.
    progress: Any
    #: What complete left.
    result: Any
    #: Whether a cancel came while it ran; heartbeats tell the worker.
    cancel_requested: bool
    #: How often an admin put it back after its end.
    replays: int
    #: Proves who holds it; in the answer of the claim alone.
    lease_token: str | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any], lease_token: str | None = None) -> Self:
        """Return the job that a row of the jobs table holds; columns of later releases are passed over."""
        return cls(
            id=row["id"],
            type=row["type"],
            payload=read_json(row["payload"]),
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
            run_at=parse_timestamp(row["due_at"]),
            backoff_seconds=row["backoff_seconds"],
            attempt=row["attempt"],
            lease_expires_at=parse_timestamp(row["lease_expires_at"]) if row["lease_expires_at"] else None,
            lease_expiries=row["lease_expiries"],
            progress=read_json(row["progress"]) if row["progress"] else None,
            result=read_json(row["result"]) if row["result"] else None,
            cancel_requested=bool(row["cancel_requested"]),
            replays=row["replays"],
            lease_token=lease_token,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a worker ends one of the jobs that it holds; None means that it did not say."""

    id: int
    #: complete, fail or release.
    verb: str
    #: The claim's token; without it the worker's name decides.
    lease_token: str | None = None
    result: Any = None
    error: str | None = None
    #: Seconds to wait before the retry, in place of the backoff: 0 to 2,592,000.
    retry_in_seconds: int | None = None
    #: No retry, even if some are left.
    permanent: bool = False

    def __post_init__(self) -> None:
        """Raise InvalidJob for a value out of its range."""
        encode_json("result", self.result, MAX_RESULT_BYTES)
        if self.retry_in_seconds is not None and not is_between(0, self.retry_in_seconds, MAX_DELAY_SECONDS):
            message = f"must be an integer between 0 and {MAX_DELAY_SECONDS}"
            raise InvalidJob(faults=(Fault("retry_in_seconds", "out_of_range", message),))
        if self.permanent and self.retry_in_seconds is not None:
            message = "can't be given together with retry_in_seconds"
            raise InvalidJob(faults=(Fault("permanent", "not_both", message),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A sign that a worker is still at a job; None means that it did not say."""

    id: int
    lease_token: str
    #: From now on; the claim's own length when left out.
    lease_seconds: int | None = None
    progress: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Raise InvalidJob for a value out of its range."""
        encode_json("progress", self.progress, MAX_PROGRESS_BYTES)
        if self.lease_seconds is not None and not is_between(1, self.lease_seconds, MAX_LEASE_SECONDS):
            message = f"must be an integer between 1 and {MAX_LEASE_SECONDS}"
            raise InvalidJob(faults=(Fault("lease_seconds", "out_of_range", message),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a heartbeat answers."""

    lease_expires_at: datetime
    cancel_requested: bool
    server_time: datetime

    @classmethod
    def from_row(cls, row: Mapping[str, Any], now: datetime) -> Self:
        """Return the answer for a row of the jobs table."""
        return cls(
            lease_expires_at=parse_timestamp(row["lease_expires_at"]),
            cancel_requested=bool(row["cancel_requested"]),
            server_time=now,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One ended attempt of a job."""

    attempt: int
    worker_id: str
    claimed_at: datetime
    ended_at: datetime
    #: completed, failed, released, lease_expired or cancelled.
    outcome: str
    error: str | None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the attempt that a row of the attempts table holds."""
        return cls(
            attempt=row["attempt"],
            worker_id=row["worker_id"],
            claimed_at=parse_timestamp(row["claimed_at"]),
            ended_at=parse_timestamp(row["ended_at"]),
            outcome=row["outcome"],
            error=row["error"],
        )
