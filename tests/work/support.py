from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queuelog_client import JobStatus, NewJob
from queuelog_client.testing import InMemoryQueue

if TYPE_CHECKING:
    from queuelog_client import Job, Tasks


def attempted(tasks: Tasks, type: str, payload: dict[str, Any]) -> tuple[Job, str]:
    """Do a job for as long as nothing has to be waited for; return it, and what has become of it."""
    queue = InMemoryQueue()
    id = queue.enqueue(NewJob(type=type, payload=payload, backoff_seconds=1_000)).job.id
    queue.drain(tasks)
    job = queue.get(id)
    if job.status is not JobStatus.PENDING:
        return job, job.status.value
    wait = (job.run_at - queue.clock.now()).total_seconds()
    # Otherwise the first retry is at once, and the second waits for the backoff.
    return job, "retried" if wait >= 1_000 else f"retried in {wait:.0f} s"


def refused(tasks: Tasks, type: str, payload: dict[str, Any]) -> str:
    """Return the sentence with which a job fails for good."""
    job, outcome = attempted(tasks, type, payload)
    assert (outcome, job.retry_count, job.attempt) == ("failed", 0, 1)
    return str(job.error)
