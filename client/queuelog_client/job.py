"""Jobs, and what a producer or a worker says of them, named as in the queue's own core."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from queuelog_client.errors import Fault, InvalidJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TYPE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}"
MAX_PAYLOAD_BYTES = 65_536
MAX_IDEMPOTENCY_KEY_LENGTH = 255
MAX_RETRIES = 25
MAX_LEASE_SECONDS = 43_200
MAX_DELAY_SECONDS = 30 * 86_400
MAX_BACKOFF_SECONDS = 86_400
MAX_PROGRESS_BYTES = 4_096
MAX_RESULT_BYTES = 65_536
MAX_BATCH = 100
MAX_RETRY_BATCH = 1_000
#: The largest integer that every JSON reader keeps exact (RFC 8259, section 6).
MAX_ID = 2**53 - 1
MAX_DEPTH = 64
DEFAULT_MAX_RETRIES = 3

_TYPE = re.compile(TYPE_PATTERN)
_RANGES = {
    "max_retries": MAX_RETRIES,
    "delay_seconds": MAX_DELAY_SECONDS,
    "backoff_seconds": MAX_BACKOFF_SECONDS,
}
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class JobStatus(StrEnum):
    """Where a job is in its life."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobPriority(IntEnum):
    """How urgent a job is."""

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
        if label.isascii() and label.upper() in cls.__members__:
            return cls[label.upper()]
        raise ValueError(f"a priority is one of {', '.join(each.label for each in cls)}")


class Order(StrEnum):
    """In which order a list of jobs comes."""

    NEWEST = "newest"
    #: As they will be claimed; for pending jobs alone.
    QUEUE = "queue"


def timestamp(moment: datetime) -> str:
    """Return `moment` as the queue writes it: 2026-01-31T12:00:00.000Z."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def encode_json(value: object) -> str:
    """Return a value as compact JSON; raise TypeError, ValueError or RecursionError where there is none."""
    return _COMPACT.encode(value)


def checked_json(name: str, value: object, most: int) -> str:
    """Return a field's value as compact JSON; raise InvalidJob if it isn't JSON, too deep, or over `most` bytes."""
    try:
        text = encode_json(value)
        size = len(text.encode())
    except RecursionError:
        raise _too_deep(name) from None
    except (TypeError, ValueError):
        message = "must hold only what JSON can: no NaN, Infinity, lone surrogates or objects of Python"
        raise InvalidJob(faults=(Fault(name, "not_json", message),)) from None
    if _is_too_deep(value):
        raise _too_deep(name)
    if size > most:
        message = f"takes {size} bytes as compact JSON; {most} are allowed: keep it elsewhere, send a link"
        raise InvalidJob(faults=(Fault(name, "too_large", message),))
    return text


def _too_deep(name: str) -> InvalidJob:
    return InvalidJob(faults=(Fault(name, "too_deep", f"may nest {MAX_DEPTH} levels at most"),))


def _is_too_deep(value: object) -> bool:
    layer = _containers([value])
    for _ in range(MAX_DEPTH):
        layer = [inner for outer in layer for inner in _containers(outer)]
    return bool(layer)


def _containers(value: Iterable[Any]) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value
    return [each for each in inner if isinstance(each, (dict, list, tuple))]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to enqueue. None means that the queue's default holds.

    Raises InvalidJob with every fault that it has.
    """

    type: str
    #: At most 65,536 bytes as compact JSON.
    payload: dict[str, Any] | None = None
    #: Default medium.
    priority: JobPriority | None = None
    #: How often a failure may put it back: 0 to 25, default 3; so it runs at most once more than that.
    max_retries: int | None = None
    #: 1 to 255 printable characters: the same key enqueues one job however often it is sent. None makes a new one.
    idempotency_key: str | None = None
    #: Not to be claimed before this time. Either this or delay_seconds.
    run_at: datetime | None = None
    #: Seconds from the enqueueing, up to 30 days.
    delay_seconds: int | None = None
    #: What the waits between retries grow from: 0 to 86,400 seconds; default the queue's.
    backoff_seconds: int | None = None

    def __post_init__(self) -> None:
        faults = list(self._faults())
        payload: object = {} if self.payload is None else self.payload
        if isinstance(payload, dict):
            try:
                checked_json("payload", payload, MAX_PAYLOAD_BYTES)
            except InvalidJob as invalid:
                faults += invalid.faults
        else:
            faults.append(Fault("payload", "dict_type", "must be a JSON object"))
        if faults:
            raise InvalidJob(faults=tuple(faults))

    def _faults(self) -> Iterator[Fault]:
        if not _TYPE.fullmatch(self.type):
            yield Fault("type", "string_pattern_mismatch", f"must match {TYPE_PATTERN}")
        if self.run_at is not None and self.run_at.tzinfo is None:
            yield Fault("run_at", "invalid_time", "must be a time with its zone")
        if self.run_at is not None and self.delay_seconds is not None:
            yield Fault("delay_seconds", "not_both", "can't be given together with run_at")
        for name, most in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not is_between(0, value, most):
                yield Fault(name, "out_of_range", f"must be an integer between 0 and {most}")
        key = self.idempotency_key
        if key is not None and not (1 <= len(key) <= MAX_IDEMPOTENCY_KEY_LENGTH and key.isprintable()):
            yield Fault("idempotency_key", "invalid_key", "must be 1 to 255 printable characters")

    def sent(self) -> dict[str, Any]:
        """Return the fields that were given, as JSON has them."""
        given = {
            "type": self.type,
            "payload": self.payload,
            "priority": None if self.priority is None else self.priority.label,
            "max_retries": self.max_retries,
            "idempotency_key": self.idempotency_key,
            "run_at": None if self.run_at is None else timestamp(self.run_at),
            "delay_seconds": self.delay_seconds,
            "backoff_seconds": self.backoff_seconds,
        }
        return {name: value for name, value in given.items() if value is not None}


def is_between(low: int, value: object, high: int) -> bool:
    """Say whether a value is an integer in a range; True is none."""
    return type(value) is int and low <= value <= high


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
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return the attempt that an answer holds."""
        return cls(
            attempt=found["attempt"],
            worker_id=found["worker_id"],
            claimed_at=_moment(found["claimed_at"]),
            ended_at=_moment(found["ended_at"]),
            outcome=found["outcome"],
            error=found["error"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it was when it was read; what the caller may not see, or the answer had no room for, is None."""

    #: Ascending in the order of enqueueing, and never used again.
    id: int
    type: str
    #: For its creator, the worker that holds it, and admins.
    payload: dict[str, Any] | None
    priority: JobPriority
    status: JobStatus
    #: Failures so far that put it back; at most max_retries.
    retry_count: int
    max_retries: int
    #: For its creator and admins.
    idempotency_key: str | None
    #: Set by claim, cleared when a failure puts the job back.
    claimed_at: datetime | None
    #: Who claimed it; set and cleared with claimed_at.
    worker_id: str | None
    #: What the last failed attempt said, cleaned; for admins.
    error: str | None
    created_at: datetime
    #: When its status last changed.
    updated_at: datetime
    #: Why its last attempt did not complete it, failed or lease_expired; for its creator and admins.
    reason: str | None
    #: For its creator and admins.
    created_by: str | None
    #: When it is or was due.
    run_at: datetime
    #: What the waits between retries grow from, in seconds; None in a job of the first release.
    backoff_seconds: int | None
    #: Claims so far; unlike retry_count it never goes down.
    attempt: int
    #: Until when the running attempt holds it.
    lease_expires_at: datetime | None
    #: Attempts that ended because their lease did.
    lease_expiries: int
    #: What the worker last said of its progress; visible as the payload is.
    progress: Any
    #: What complete left; visible as the payload is.
    result: Any
    #: Whether a cancel came while it ran.
    cancel_requested: bool
    #: How often an admin put it back after its end.
    replays: int
    #: Proves who holds it; in the answer of the claim alone.
    lease_token: str | None = field(default=None, repr=False)
    #: Its ended attempts, the first one first; in the answer of get, for admins.
    attempts: tuple[Attempt, ...] | None = None

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return the job that an answer holds; fields of a newer queue are passed over."""
        attempts = found.get("attempts")
        return cls(
            id=found["id"],
            type=found["type"],
            payload=found.get("payload"),
            priority=JobPriority.from_label(found["priority"]),
            status=JobStatus(found["status"]),
            retry_count=found["retry_count"],
            max_retries=found["max_retries"],
            idempotency_key=found.get("idempotency_key"),
            claimed_at=_moment_or_none(found["claimed_at"]),
            worker_id=found["worker_id"],
            error=found.get("error"),
            created_at=_moment(found["created_at"]),
            updated_at=_moment(found["updated_at"]),
            reason=found.get("reason"),
            created_by=found.get("created_by"),
            run_at=_moment(found["run_at"]),
            backoff_seconds=found["backoff_seconds"],
            attempt=found["attempt"],
            lease_expires_at=_moment_or_none(found["lease_expires_at"]),
            lease_expiries=found["lease_expiries"],
            progress=found.get("progress"),
            result=found.get("result"),
            cancel_requested=found["cancel_requested"],
            replays=found["replays"],
            lease_token=found.get("lease_token"),
            attempts=None if attempts is None else tuple(map(Attempt.from_json, attempts)),
        )


class Enqueued(NamedTuple):
    """What enqueue answers: the job, and whether an earlier request with the same key had made it."""

    job: Job
    replayed: bool


class Claimed(NamedTuple):
    """The jobs that a claim gave; when there are none, the seconds after which to ask again."""

    jobs: tuple[Job, ...]
    retry_after: int


class Page(NamedTuple):
    """Some jobs of a list, and where the rest begins: None on the last page."""

    jobs: tuple[Job, ...]
    next_cursor: str | None


#: What an attempt's outcome is called that a worker ends with this verb.
OUTCOMES = {"complete": "completed", "fail": "failed", "release": "released"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a worker ends one of the jobs that it holds; None means that it did not say.

    Raises InvalidJob for a value out of its range.
    """

    id: int
    #: complete, fail or release.
    verb: str
    #: The claim's token.
    lease_token: str | None = field(default=None, repr=False)
    #: With complete: up to 65,536 bytes of JSON.
    result: Any = None
    #: With fail: cleaned by the queue, and cut to 1,000 characters.
    error: str | None = None
    #: With fail: seconds to wait before the retry, in place of the backoff; 0 to 2,592,000.
    retry_in_seconds: int | None = None
    #: With fail: no retry, even if some are left.
    permanent: bool = False

    def __post_init__(self) -> None:
        checked_json("result", self.result, MAX_RESULT_BYTES)
        if self.retry_in_seconds is not None and not is_between(0, self.retry_in_seconds, MAX_DELAY_SECONDS):
            message = f"must be an integer between 0 and {MAX_DELAY_SECONDS}"
            raise InvalidJob(faults=(Fault("retry_in_seconds", "out_of_range", message),))
        if self.permanent and self.retry_in_seconds is not None:
            message = "can't be given together with retry_in_seconds"
            raise InvalidJob(faults=(Fault("permanent", "not_both", message),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A sign that a worker is still at a job; None means that it did not say.

    Raises InvalidJob for a value out of its range.
    """

    id: int
    lease_token: str = field(repr=False)
    #: From now on; the claim's own length when left out.
    lease_seconds: int | None = None
    #: Up to 4,096 bytes of JSON.
    progress: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        checked_json("progress", self.progress, MAX_PROGRESS_BYTES)
        if self.lease_seconds is not None and not is_between(1, self.lease_seconds, MAX_LEASE_SECONDS):
            message = f"must be an integer between 1 and {MAX_LEASE_SECONDS}"
            raise InvalidJob(faults=(Fault("lease_seconds", "out_of_range", message),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a heartbeat answers."""

    lease_expires_at: datetime
    #: Whether to stop: any end but complete then cancels the job.
    cancel_requested: bool
    server_time: datetime

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return the heartbeat that an answer holds."""
        return cls(
            lease_expires_at=_moment(found["lease_expires_at"]),
            cancel_requested=found["cancel_requested"],
            server_time=_moment(found["server_time"]),
        )


class Why(NamedTuple):
    """One reason: a code for programs, a sentence for people."""

    code: str
    detail: str


class Explanation(NamedTuple):
    """Why a job is where it is."""

    state: JobStatus
    reasons: tuple[Why, ...]


class Count(NamedTuple):
    """How many jobs there are of one kind."""

    status: JobStatus
    type: str
    priority: JobPriority
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """How many jobs there are, and how the queue is doing."""

    jobs: tuple[Count, ...]
    #: Running jobs by worker_id.
    running: dict[str, int]
    #: How long the oldest due job has waited; None when none is due.
    oldest_due_seconds: float | None
    #: When the next job falls due; None when none will.
    next_run_at: datetime | None

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return the figures that an answer holds."""
        return cls(
            jobs=tuple(
                Count(JobStatus(each["status"]), each["type"], JobPriority.from_label(each["priority"]), each["count"])
                for each in found["jobs"]
            ),
            running=dict(found["running"]),
            oldest_due_seconds=found["oldest_due_seconds"],
            next_run_at=_moment_or_none(found["next_run_at"]),
        )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _moment_or_none(text: str | None) -> datetime | None:
    return None if text is None else _moment(text)
