"""What a user's code says of its jobs: which function does which type, and how an attempt ends."""

from __future__ import annotations

import inspect
import json
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from queuelog_client.errors import InvalidJob
from queuelog_client.job import MAX_PROGRESS_BYTES, Ending, checked_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from queuelog_client.verbs import HeldJob

logger = logging.getLogger("queuelog_client")

#: Seconds that an attempt may take, unless its task says otherwise.
DEFAULT_MAX_SECONDS = 900.0
#: The queue keeps 1,000 characters of what is left after cleaning.
_MOST_OF_AN_ERROR = 10_000


class Permanent(Exception):
    """Raised by a handler when no retry will help: the job fails for good."""


class RetryIn(Exception):
    """Raised by a handler to fail this attempt and to say when the next one is due."""

    def __init__(self, seconds: int, message: str | None = None) -> None:
        """Take seconds from 0 to 2,592,000; the message's default is the exception that this one was raised from."""
        self.seconds = seconds
        self.message = message
        super().__init__(message or f"to be tried again in {seconds} seconds")


class Cancelled(Exception):
    """Raised by a handler that stops because its job's `cancelled` is set; raise_if_cancelled does it."""


class RunningJob:
    """A job as its handler sees it."""

    def __init__(self, job: HeldJob) -> None:
        self.id = job.id
        self.type = job.type
        self.payload: dict[str, Any] = dict(job.payload or {})
        #: Which attempt this is; the first is 1.
        self.attempt = job.attempt
        self.retry_count = job.retry_count
        self.max_retries = job.max_retries
        self.created_at = job.created_at
        #: Set when nobody waits for the result any more; stop_reason says why.
        self.cancelled = threading.Event()
        #: cancelled, lease_lost, deadline or shutdown.
        self.stop_reason: str | None = None
        #: What was last said of the progress.
        self.latest_progress: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<RunningJob {self.id} {self.type} attempt={self.attempt}>"

    def progress(self, progress: dict[str, Any]) -> None:
        """Say how far it is, in at most 4,096 bytes of JSON: sent with the next heartbeat; raise InvalidJob."""
        # A copy, which the handler can't change while it is sent.
        self.latest_progress = json.loads(checked_json("progress", progress, MAX_PROGRESS_BYTES))

    def raise_if_cancelled(self) -> None:
        """Raise Cancelled if nobody waits for the result any more."""
        if self.cancelled.is_set():
            raise Cancelled(self.stop_reason)

    def stop(self, reason: str) -> None:
        """Let `cancelled` be set, for the first reason that there is."""
        if not self.cancelled.is_set():
            self.stop_reason = reason
            self.cancelled.set()


if TYPE_CHECKING:
    Handler = Callable[[RunningJob], object]
    AnyHandler = TypeVar("AnyHandler", bound=Handler)


@dataclass(frozen=True, slots=True)
class Task:
    """A function that does jobs of one type."""

    handler: Handler
    max_seconds: float


class Tasks:
    """Which function does jobs of which type."""

    def __init__(self, handlers: Mapping[str, Handler] | None = None) -> None:
        self._tasks: dict[str, Task] = {}
        for type, handler in (handlers or {}).items():
            self.add(type, handler)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, type: str) -> Task:
        return self._tasks[type]

    def add(self, type: str, handler: Handler, *, max_seconds: float = DEFAULT_MAX_SECONDS) -> None:
        """Let a function do the jobs of a type; raise ValueError if another does, TypeError for a coroutine.

        max_seconds: the hard deadline of one attempt.
        """
        if type in self._tasks:
            raise ValueError(f"there are two tasks for the type {type}")
        if inspect.iscoroutinefunction(handler):
            raise TypeError(f"the task for {type} must be a plain function: jobs run in threads")
        self._tasks[type] = Task(handler, max_seconds)

    def task(self, type: str, *, max_seconds: float = DEFAULT_MAX_SECONDS) -> Callable[[AnyHandler], AnyHandler]:
        """Return a decorator that adds a function as `add` does."""

        def added(handler: AnyHandler) -> AnyHandler:
            self.add(type, handler, max_seconds=max_seconds)
            return handler

        return added

    def include(self, others: Tasks) -> None:
        """Add the tasks of another registry; raise ValueError if both have one for a type."""
        for type in others:
            self.add(type, others[type].handler, max_seconds=others[type].max_seconds)


def ending_of(task: Task, job: RunningJob, lease_token: str) -> Ending:
    """Do a job, and return how it ended; whatever the handler raises becomes an ending too."""
    try:
        result = task.handler(job)
    except BaseException as failure:  # noqa: BLE001  a handler that calls sys.exit must not take its thread with it
        return _ending_after(failure, job, lease_token)
    try:
        return Ending(id=job.id, verb="complete", lease_token=lease_token, result=result)
    except InvalidJob as invalid:
        # The work is done, and to do it again would end in the same way.
        return _failed(job, lease_token, invalid, permanent=True)


def _ending_after(failure: BaseException, job: RunningJob, lease_token: str) -> Ending:
    if isinstance(failure, Cancelled) and job.cancelled.is_set():
        return Ending(id=job.id, verb="release", lease_token=lease_token)
    if isinstance(failure, Permanent):
        error = _said(failure) or _described(failure.__cause__ or failure)
        return Ending(id=job.id, verb="fail", lease_token=lease_token, error=error, permanent=True)
    if isinstance(failure, RetryIn):
        error = failure.message or _described(failure.__cause__ or failure)
        try:
            return Ending(
                id=job.id, verb="fail", lease_token=lease_token, error=error, retry_in_seconds=failure.seconds
            )
        except InvalidJob as invalid:
            return _failed(job, lease_token, invalid)
    return _failed(job, lease_token, failure)


def _failed(job: RunningJob, lease_token: str, failure: BaseException, *, permanent: bool = False) -> Ending:
    # The trace is for the worker's own log; the queue is told what happened.
    logger.warning("job %s (%s) failed in attempt %s", job.id, job.type, job.attempt, exc_info=failure)
    return Ending(id=job.id, verb="fail", lease_token=lease_token, error=_described(failure), permanent=permanent)


def _described(failure: BaseException) -> str:
    said = _said(failure)
    name = type(failure).__name__
    return f"{name}: {said}" if said else name


def _said(failure: BaseException) -> str:
    try:
        text = str(failure)
    except Exception:  # noqa: BLE001  it is somebody else's __str__
        return ""
    # Half a pair of surrogates, as in the name of a file, is no JSON.
    return text[:_MOST_OF_AN_ERROR].encode(errors="replace").decode()
