from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a queue does where a request doesn't say; all are seconds."""

    #: How long a claim holds a job.
    lease_seconds: int = 60
    #: What the waits between retries grow from.
    backoff_seconds: int = 15
    #: The longest wait, unless a job's own backoff_seconds is larger.
    backoff_cap_seconds: int = 3_600
    keep_completed_seconds: int = 7 * 86_400
    #: For failed and cancelled jobs.
    keep_failed_seconds: int = 30 * 86_400
