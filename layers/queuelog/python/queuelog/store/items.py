"""What the queue hands to the store, and what the store hands back, where that is more than a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from queuelog.job import Job, JobPriority, JobStatus


class NewRow(NamedTuple):
    """A job to insert, every default filled in; insert_jobs.sql counts on this order."""

    type: str
    #: Compact JSON.
    payload: str
    #: Bytes that the payload takes inside a Lambda answer.
    encoded_size: int
    priority: JobPriority
    max_retries: int
    backoff_seconds: int
    #: When it may be claimed; now or later.
    due_at: str
    idempotency_key: str | None
    #: SHA-256 of the request, in hex; None without a key.
    fingerprint: str | None


class ClaimRequest(NamedTuple):
    """What a claim asks for."""

    worker_id: str
    #: None is every type.
    types: Collection[str] | None
    lease_seconds: int
    limit: int
    #: The Claim-Request-Id under which a lost answer can be asked for again.
    request_id: str | None
    #: SHA-256 of the request, in hex; None without a request id.
    fingerprint: str | None


class Claimed(NamedTuple):
    """Jobs that are now held; when there are none, the time at which a claim may find one, if that can be foretold."""

    jobs: tuple[Job, ...]
    next_change: datetime | None


class EndItem(NamedTuple):
    """An attempt to end by the verb complete, fail, release or expire."""

    id: int
    verb: str
    token_sha256: str | None = None
    result: Any = None
    error: str | None = None
    retry_in_seconds: int | None = None
    permanent: bool = False
    #: What the backoff is multiplied by.
    jitter: float = 1.0


class BeatItem(NamedTuple):
    """A lease to extend."""

    id: int
    token_sha256: str
    lease_seconds: int | None
    progress: dict[str, Any] | None


class RetryFilter(NamedTuple):
    """Which ended jobs to put back; None lets every value pass. Times are as `clock.timestamp` writes them."""

    status: JobStatus
    type: str | None
    error_contains: str | None
    after: str | None
    before: str | None


class Swept(NamedTuple):
    """What a sweep did."""

    leases_expired: int
    jobs_deleted: int
    #: Whether it is done: nothing was left when its time was up.
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """How many jobs there are, and how the queue is doing."""

    #: (status, type, priority, how many), without those that have none.
    jobs: tuple[tuple[JobStatus, str, JobPriority, int], ...]
    #: Running jobs by worker_id.
    running: dict[str, int]
    #: How long the oldest due job has waited; None when none is due.
    oldest_due_seconds: float | None
    #: When the next job falls due; None when none will.
    next_run_at: datetime | None
