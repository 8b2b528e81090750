from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from queuelog.errors import Forbidden
from queuelog.job import JobPriority


class Role(StrEnum):
    """What a principal may do; a principal can have several."""

    PRODUCER = "producer"
    WORKER = "worker"
    ADMIN = "admin"


_ANYONE = frozenset(Role)
_PRODUCERS = frozenset({Role.PRODUCER, Role.ADMIN})
_WORKERS = frozenset({Role.WORKER, Role.ADMIN})
_ADMINS = frozenset({Role.ADMIN})

ALLOWED: dict[str, frozenset[Role]] = {
    "attempts": _ADMINS,
    "cancel": _PRODUCERS,
    "claim": _WORKERS,
    "complete": _WORKERS,
    "enqueue": _PRODUCERS,
    "explain": _PRODUCERS,
    "fail": _WORKERS,
    "get": _ANYONE,
    "heartbeat": _WORKERS,
    "list": _ANYONE,
    "release": _WORKERS,
    "retry": _ADMINS,
    "stats": _ADMINS,
}
"""The roles that may use each verb of the queue; any one of them will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is calling, as the API key or the signed role says, never as the caller says."""

    #: Owner of jobs and idempotency keys: an API key's name, or `<account>:role/<RoleName>`.
    name: str
    roles: frozenset[Role]
    #: The job types it may use: None is all, an empty set is none.
    types: frozenset[str] | None = None
    #: The highest priority it may enqueue: medium unless told, critical for an admin.
    max_priority: JobPriority | None = None
    #: Who holds the jobs it claims: its name, and for a signed role the session as well.
    worker_id: str = ""

    def __post_init__(self) -> None:
        if self.max_priority is None:
            default = JobPriority.CRITICAL if self.is_admin else JobPriority.MEDIUM
            object.__setattr__(self, "max_priority", default)
        if not self.worker_id:
            object.__setattr__(self, "worker_id", self.name)

    @property
    def is_admin(self) -> bool:
        """Whether it has the admin role."""
        return Role.ADMIN in self.roles

    def may_use(self, job_type: str) -> bool:
        """Say whether it may enqueue and claim jobs of this type."""
        return self.types is None or job_type in self.types

    def created(self, created_by: str) -> bool:
        """Say whether it is the producer of a job that has this creator."""
        return Role.PRODUCER in self.roles and created_by == self.name

    def claimed(self, worker_id: str | None) -> bool:
        """Say whether it is the worker of a job that has this worker_id."""
        return Role.WORKER in self.roles and worker_id == self.worker_id

    def may_see(self, *, created_by: str, worker_id: str | None) -> bool:
        """Say whether it may see a job: one that it created, one that it claimed, and an admin any."""
        return self.is_admin or self.created(created_by) or self.claimed(worker_id)

    def require(self, verb: str) -> None:
        """Raise Forbidden unless one of its roles may use this verb of the queue."""
        if not self.roles & ALLOWED[verb]:
            needed = " or ".join(sorted(ALLOWED[verb]))
            raise Forbidden(f"This needs the role {needed}.")
