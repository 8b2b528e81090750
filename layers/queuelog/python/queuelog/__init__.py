"""A job queue in one SQLite file: jobs, principals and the verbs between them; no HTTP, no Lambda.

queue = Queue(Store("queue.db"))
worker = queue.bound(Principal(name="me", roles=frozenset({Role.WORKER})))
job = worker.claim()
"""

from queuelog.clock import Clock, SystemClock
from queuelog.errors import (
    Conflict,
    DatabaseCorrupt,
    Fault,
    Forbidden,
    IdempotencyKeyReused,
    InvalidCursor,
    InvalidJob,
    InvalidRegistry,
    InvalidRequest,
    NotADatabase,
    NotFound,
    QueuelogError,
    SchemaTooNew,
    SQLiteTooOld,
    StorageBusy,
    StorageError,
    StorageUnavailable,
    StorageUnusable,
    UnsafeJournalMode,
)
from queuelog.job import Enqueued, Job, JobPriority, JobStatus, NewJob, Reason
from queuelog.page import Order, Page
from queuelog.principal import Principal, Role
from queuelog.queue import BoundQueue, Queue
from queuelog.store import Store

__all__ = [
    "BoundQueue",
    "Clock",
    "Conflict",
    "DatabaseCorrupt",
    "Enqueued",
    "Fault",
    "Forbidden",
    "IdempotencyKeyReused",
    "InvalidCursor",
    "InvalidJob",
    "InvalidRegistry",
    "InvalidRequest",
    "Job",
    "JobPriority",
    "JobStatus",
    "NewJob",
    "NotADatabase",
    "NotFound",
    "Order",
    "Page",
    "Principal",
    "Queue",
    "QueuelogError",
    "Reason",
    "Role",
    "SQLiteTooOld",
    "SchemaTooNew",
    "StorageBusy",
    "StorageError",
    "StorageUnavailable",
    "StorageUnusable",
    "Store",
    "SystemClock",
    "UnsafeJournalMode",
]
