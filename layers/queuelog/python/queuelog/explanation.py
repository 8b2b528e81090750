from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from queuelog.clock import timestamp
from queuelog.job import Job, JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from queuelog.store import Store

#: Jobs in front are counted up to here.
MOST_COUNTED = 1_000
#: After this long without a claim of its type, a job waits for a worker rather than for its turn.
RECENT = timedelta(minutes=15)


class Why(NamedTuple):
    """One reason: a code for programs, a sentence for people."""

    code: str
    detail: str


class Explanation(NamedTuple):
    """Why a job is where it is."""

    state: JobStatus
    reasons: tuple[Why, ...]


def explain(job: Job, store: Store, *, now: datetime, with_others: bool) -> Explanation:
    """Return why a job is where it is; what it says of other jobs is for admins."""
    return Explanation(job.status, tuple(_reasons(job, store, now=now, with_others=with_others)))


def _reasons(job: Job, store: Store, *, now: datetime, with_others: bool) -> Iterator[Why]:
    if job.status is JobStatus.RUNNING:
        until = f" until {timestamp(job.lease_expires_at)}" if job.lease_expires_at else ""
        yield Why("running", f"{job.worker_id} holds it{until}.")
    elif job.status is not JobStatus.PENDING:
        yield Why("ended", f"It was {job.status} at {timestamp(job.updated_at)}.")
    elif job.run_at > now:
        if job.reason is None or job.run_at == job.created_at:
            yield Why("delayed", f"It is due at {timestamp(job.run_at)}, as was asked.")
        else:
            yield Why("backoff", f"Its last attempt failed; retry {job.retry_count} is due at {timestamp(job.run_at)}.")
    else:
        if with_others:
            count = store.jobs_in_front(job, now=now, most=MOST_COUNTED)
            if count:
                shown = f"{MOST_COUNTED}+" if count >= MOST_COUNTED else str(count)
                yield Why("behind", f"{shown} due jobs of its type are claimed before it.")
        last_claim = store.last_claim(job.type)
        if last_claim is None or now - last_claim > RECENT:
            yield Why("no_recent_claim", f"No job of the type {job.type} was claimed in the last 15 minutes.")
