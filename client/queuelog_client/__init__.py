"""Producers and workers for a Queuelog.

queue = QueueClient("https://….amazonaws.com/v1", api_key="ql_…")
queue.enqueue(NewJob(type="email", payload={"to": "ada@example.com"}))

worker = Worker(queue)

@worker.task("email")
def send(job: RunningJob) -> None: ...

worker.run()
"""

from queuelog_client.client import QueueClient
from queuelog_client.errors import (
    BadRequest,
    Conflict,
    Fault,
    Forbidden,
    IdempotencyKeyReused,
    InternalError,
    InvalidCursor,
    InvalidJob,
    InvalidJson,
    InvalidRequest,
    LeaseLost,
    NoAnswer,
    NotFound,
    PayloadTooLarge,
    QueuelogError,
    RequestRefused,
    StorageBusy,
    StorageError,
    StorageUnavailable,
    TooManyRequests,
    TryAgain,
    Unauthorized,
    UnexpectedAnswer,
    UnsupportedMediaType,
)
from queuelog_client.job import (
    Attempt,
    Beat,
    Claimed,
    Count,
    Ending,
    Enqueued,
    Explanation,
    Heartbeat,
    Job,
    JobPriority,
    JobStatus,
    NewJob,
    Order,
    Page,
    Stats,
    Why,
)
from queuelog_client.retries import Retries
from queuelog_client.shift import Tally, WorkerStuck
from queuelog_client.tasks import Cancelled, Permanent, RetryIn, RunningJob, Task, Tasks
from queuelog_client.verbs import WorkQueue
from queuelog_client.worker import Worker

__all__ = [
    "Attempt",
    "BadRequest",
    "Beat",
    "Cancelled",
    "Claimed",
    "Conflict",
    "Count",
    "Ending",
    "Enqueued",
    "Explanation",
    "Fault",
    "Forbidden",
    "Heartbeat",
    "IdempotencyKeyReused",
    "InternalError",
    "InvalidCursor",
    "InvalidJob",
    "InvalidJson",
    "InvalidRequest",
    "Job",
    "JobPriority",
    "JobStatus",
    "LeaseLost",
    "NewJob",
    "NoAnswer",
    "NotFound",
    "Order",
    "Page",
    "PayloadTooLarge",
    "Permanent",
    "QueueClient",
    "QueuelogError",
    "RequestRefused",
    "Retries",
    "RetryIn",
    "RunningJob",
    "Stats",
    "StorageBusy",
    "StorageError",
    "StorageUnavailable",
    "Tally",
    "Task",
    "Tasks",
    "TooManyRequests",
    "TryAgain",
    "Unauthorized",
    "UnexpectedAnswer",
    "UnsupportedMediaType",
    "Why",
    "WorkQueue",
    "Worker",
    "WorkerStuck",
]
