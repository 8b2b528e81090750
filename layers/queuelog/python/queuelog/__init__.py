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
    LeaseLost,
    NotADatabase,
    NotFound,
    NotYetCounted,
    PythonTooOld,
    QueuelogError,
    SchemaTooNew,
    SQLiteTooOld,
    StorageBusy,
    StorageError,
    StorageUnavailable,
    StorageUnusable,
    UnsafeJournalMode,
)
from queuelog.explanation import Explanation, Why
from queuelog.job import (
    Attempt,
    Beat,
    Ending,
    Enqueued,
    Heartbeat,
    Job,
    JobPriority,
    JobStatus,
    NewJob,
    Reason,
)
from queuelog.page import Order, Page
from queuelog.policy import Policy
from queuelog.principal import Principal, Role
from queuelog.queue import BoundQueue, Claimed, Queue
from queuelog.store import Stats, Store, Swept

__all__ = [
    "Attempt",
    "Beat",
    "BoundQueue",
    "Claimed",
    "Clock",
    "Conflict",
    "DatabaseCorrupt",
    "Ending",
    "Enqueued",
    "Explanation",
    "Fault",
    "Forbidden",
    "Heartbeat",
    "IdempotencyKeyReused",
    "InvalidCursor",
    "InvalidJob",
    "InvalidRegistry",
    "InvalidRequest",
    "Job",
    "JobPriority",
    "JobStatus",
    "LeaseLost",
    "NewJob",
    "NotADatabase",
    "NotFound",
    "NotYetCounted",
    "Order",
    "Page",
    "Policy",
    "Principal",
    "PythonTooOld",
    "Queue",
    "QueuelogError",
    "Reason",
    "Role",
    "SQLiteTooOld",
    "SchemaTooNew",
    "Stats",
    "StorageBusy",
    "StorageError",
    "StorageUnavailable",
    "StorageUnusable",
    "Store",
    "Swept",
    "SystemClock",
    "UnsafeJournalMode",
    "Why",
]
