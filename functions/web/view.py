from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queuelog.clock import timestamp
from queuelog.job import Job, JobStatus

if TYPE_CHECKING:
    from datetime import datetime

    from queuelog.principal import Principal


def view(job: Job, principal: Principal) -> dict[str, Any]:
    """Return a job as this principal may see it, in the documented order; what it may not see is absent."""
    owns = principal.is_admin or principal.created(job.created_by)
    holds = job.status is JobStatus.RUNNING and principal.claimed(job.worker_id)
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
    }
    hidden = {
        "payload": not (owns or holds),
        "idempotency_key": not owns,
        "error": not principal.is_admin,
        "reason": not owns,
        "created_by": not owns,
    }
    return {name: value for name, value in fields.items() if not hidden.get(name)}


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else timestamp(moment)
