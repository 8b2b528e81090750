from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from queuelog.clock import timestamp
from queuelog.errors import QueuelogError
from queuelog.job import Job, JobStatus
from web.problems import kind_of, problem_body

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from queuelog.explanation import Explanation
    from queuelog.job import Attempt, Enqueued, Heartbeat
    from queuelog.principal import Principal
    from queuelog.store import Stats


def view(
    job: Job, principal: Principal, *, is_over: bool = False, attempts: Iterable[Attempt] | None = None
) -> dict[str, Any]:
    """Return a job as this principal may see it, in the documented order; what it may not see is absent.

    is_over: it answers the end of an attempt, so that who holds the job by now does so by another claim. attempts: the
    job's history, shown last.
    """
    owns = principal.is_admin or principal.created(job.created_by)
    holds = job.status is JobStatus.RUNNING and principal.claimed(job.worker_id) and not is_over
    fields = {
        "id": job.id,
        "type": job.type,
        "payload": job.payload,
        "priority": job.priority.label,
        "status": job.status,
        "retry_count": job.retry_count,
        "max_retries": job.max_retries,
        "idempotency_key": job.idempotency_key,
        "claimed_at": _moment(job.claimed_at),
        "worker_id": job.worker_id,
        "error": job.error,
        "created_at": timestamp(job.created_at),
        "updated_at": timestamp(job.updated_at),
        "reason": job.reason,
        "created_by": job.created_by,
        "run_at": timestamp(job.run_at),
        "backoff_seconds": job.backoff_seconds,
        "attempt": job.attempt,
        "lease_expires_at": _moment(job.lease_expires_at),
        "lease_expiries": job.lease_expiries,
        "progress": job.progress,
        "result": job.result,
        "cancel_requested": job.cancel_requested,
        "replays": job.replays,
        "lease_token": job.lease_token,
        "attempts": None if attempts is None else [_attempt_view(attempt) for attempt in attempts],
    }
    hidden = {
        "payload": not (owns or holds),
        "idempotency_key": not owns,
        "error": not principal.is_admin,
        "reason": not owns,
        "created_by": not owns,
        "progress": not (owns or holds),
        "result": not (owns or holds),
        "lease_token": job.lease_token is None,
        "attempts": attempts is None,
    }
    return {name: value for name, value in fields.items() if not hidden.get(name)}


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else timestamp(moment)


def _attempt_view(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "worker_id": attempt.worker_id,
        "claimed_at": timestamp(attempt.claimed_at),
        "ended_at": timestamp(attempt.ended_at),
        "outcome": attempt.outcome,
        "error": attempt.error,
    }


def heartbeat_view(heartbeat: Heartbeat) -> dict[str, Any]:
    """Return what a heartbeat answers."""
    return {
        "lease_expires_at": timestamp(heartbeat.lease_expires_at),
        "cancel_requested": heartbeat.cancel_requested,
        "server_time": timestamp(heartbeat.server_time),
    }


def explanation_view(explanation: Explanation) -> dict[str, Any]:
    """Return why a job is where it is."""
    return {"state": explanation.state, "reasons": [reason._asdict() for reason in explanation.reasons]}


def stats_view(stats: Stats) -> dict[str, Any]:
    """Return how the queue is doing."""
    return {
        "jobs": [
            {"status": status, "type": job_type, "priority": priority.label, "count": count}
            for status, job_type, priority, count in stats.jobs
        ],
        "running": stats.running,
        "oldest_due_seconds": stats.oldest_due_seconds,
        "next_run_at": _moment(stats.next_run_at),
    }


def enqueued_view(enqueued: Enqueued, principal: Principal) -> dict[str, Any]:
    """Return one job of a batch that was enqueued; without a replayed one's result, for which nobody has made room."""
    shown = view(enqueued.job, principal)
    if enqueued.replayed:
        return {"code": HTTPStatus.OK, "job": _without({"result"}, shown)}
    return {"code": HTTPStatus.CREATED, "job": shown}


def finished_view(outcome: Job | QueuelogError, principal: Principal, instance: str) -> dict[str, Any]:
    """Return what became of one job of a batch; without what is large, for a hundred have to fit into an answer."""
    if isinstance(outcome, QueuelogError):
        return _refused(outcome, instance)
    shown = view(outcome, principal, is_over=True)
    return {"code": HTTPStatus.OK, "job": _without({"payload", "progress", "result"}, shown)}


def _without(names: Collection[str], shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name not in names}


def beat_view(outcome: Heartbeat | QueuelogError, instance: str) -> dict[str, Any]:
    """Return what became of one lease of a batch."""
    if isinstance(outcome, QueuelogError):
        return _refused(outcome, instance)
    return {"code": HTTPStatus.OK, **heartbeat_view(outcome)}


def _refused(error: QueuelogError, instance: str) -> dict[str, Any]:
    return {"code": kind_of(error).status, "problem": problem_body(error, instance)}
