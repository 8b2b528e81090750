"""What a worker needs of a queue, whichever it is."""

# ruff: noqa: D102  the fields of a job are told in job.py

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


class HeldJob(Protocol):
    """What a worker needs to know of a job that it has claimed; a Job of the client or the core's."""

    @property
    def id(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def payload(self) -> Mapping[str, Any] | None: ...
    @property
    def attempt(self) -> int: ...
    @property
    def retry_count(self) -> int: ...
    @property
    def max_retries(self) -> int: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def claimed_at(self) -> datetime | None: ...
    @property
    def lease_expires_at(self) -> datetime | None: ...
    @property
    def lease_expiries(self) -> int: ...
    @property
    def lease_token(self) -> str | None: ...


class ClaimAnswer(Protocol):
    """What a claim answers."""

    @property
    def jobs(self) -> Sequence[HeldJob]: ...
    @property
    def retry_after(self) -> int: ...


class WorkQueue(Protocol):
    """The verbs that a worker uses: a QueueClient has them, an InMemoryQueue, and the core's bound queue."""

    def claim_jobs(
        self,
        *,
        limit: int = ...,
        types: Sequence[str] | None = ...,
        lease_seconds: int | None = ...,
        request_id: str | None = ...,
    ) -> ClaimAnswer:
        """Take up to `limit` jobs."""

    def finish_jobs(self, endings: Sequence[Any], /) -> Sequence[Any]:
        """End jobs; for each the job, or the exception that tells why not."""

    def heartbeat_jobs(self, beats: Sequence[Any], /) -> Sequence[Any]:
        """Hold jobs for longer; for each a Heartbeat, or the exception that tells why not."""
