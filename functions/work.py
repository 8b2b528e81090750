"""Every minute, where the parameter WorkerSchedule says so: a worker, until nothing is due or its time is nearly up.

It comes through the front door like any other worker, by signed calls; with a key, where there is one in
QUEUELOG_API_KEY, as on a developer's machine.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from queuelog_client import QueueClient, Worker, WorkerStuck
from tasks import find

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: Seconds that are left of the time-out when the worker ends: for the log, and the end of the process if need be.
MARGIN = 5.0
#: What a job may take is less than the grace time by so many seconds, in which the queue is told how it ended.
FAREWELL = 10.0
#: Seconds in which threads that have nothing left to do end.
LAST_STEPS = 1.0
#: Here a job whose process died with it is done alone from its second attempt on: every tick that dies takes the same
#: neighbours along, and none of their jobs is so long that others would have to wait for it.
ALONE_AFTER = 1

logger = Logger()
metrics = Metrics()

# At the start of the process, which Lambda gives more of the processor than a call.
FOUND = find(os.environ)


def handler(_: dict[str, Any], context: Any) -> dict[str, Any]:
    """Work, and return how many jobs were claimed, completed, failed, released and lost."""
    before = set(threading.enumerate())
    # A connection that was kept while the sandbox was frozen may have died without this side having heard of it.
    with _as_json("queuelog_client"), _client() as client:
        seconds = context.get_remaining_time_in_millis() / 1_000 - MARGIN
        worker = _worker(client, seconds)
        try:
            tally = asdict(worker.run(until_empty=True, seconds=seconds, handle_signals=False))
        except WorkerStuck:
            _end_process("every thread is lost to a job that goes on after its deadline", context)
    _report(tally, context)
    if names := _still_there(before):
        _end_process(f"threads are still at work: {', '.join(names)}", context)
    return tally


@contextmanager
def _as_json(name: str) -> Iterator[None]:
    """Let what a library logs be lines of JSON in the same log, in place of those that Lambda makes of it."""
    library = logging.getLogger(name)
    library.addHandler(logger.registered_handler)
    library.propagate = False
    try:
        yield
    finally:
        library.removeHandler(logger.registered_handler)
        library.propagate = True


def _client() -> QueueClient:
    url, key = os.environ["QUEUELOG_URL"], os.environ.get("QUEUELOG_API_KEY")
    # A container knows the machine that it runs on by an address that isn't its own.
    return QueueClient(url, api_key=key, allow_http=True) if key else QueueClient(url, auth="iam")


def _worker(client: QueueClient, seconds: float) -> Worker:
    types = _types(os.environ.get("QUEUELOG_WORKER_TYPES", ""))
    longest, type = max((FOUND.tasks[type].max_seconds, type) for type in types)
    if longest + FAREWELL >= seconds:
        raise ValueError(
            f"A job of the type {type} may take {longest:g} seconds, which are too many for a call of {seconds:g}: "
            "give its task less max_seconds, or WorkFunction a longer Timeout"
        )
    return Worker(
        client,
        FOUND.tasks,
        types=types,
        concurrency=int(os.environ["QUEUELOG_WORKER_CONCURRENCY"]),
        # So long that no job is given back half done: the last one that is claimed reaches its own deadline.
        grace=longest + FAREWELL,
        alone_after=ALONE_AFTER,
    )


def _types(wanted: str) -> list[str]:
    types = [each.strip() for each in wanted.split(",") if each.strip()] or sorted(FOUND.tasks)
    for type in types:
        if type in FOUND.missing:
            raise ValueError(f"WorkerTypes has {type}, which needs {' and '.join(FOUND.missing[type])} to be set")
        if type not in set(FOUND.tasks):
            raise ValueError(f"WorkerTypes has {type}, for which functions/tasks has no task")
    if not types:
        raise ValueError("no task of functions/tasks has the variables that it needs")
    return types


def _report(tally: dict[str, Any], context: Any) -> None:
    logger.info("work", request_id=context.aws_request_id, **tally)
    # Only what there is: a metric costs for each hour in which it is sent, and most ticks find nothing.
    counts = {name: count for name, count in tally.items() if count and name != "claimed"}
    if counts:
        metrics.add_dimension(name="verb", value="work")
        for name, count in counts.items():
            metrics.add_metric(name=f"Jobs{name.title()}", unit=MetricUnit.Count, value=count)
        metrics.flush_metrics()


def _still_there(before: Collection[threading.Thread]) -> list[str]:
    """Return the names of the threads that this call has begun and that don't end."""
    end = time.monotonic() + LAST_STEPS
    for thread in set(threading.enumerate()).difference(before):
        thread.join(max(end - time.monotonic(), 0))
    return sorted(thread.name for thread in set(threading.enumerate()).difference(before))


def _end_process(why: str, context: Any) -> NoReturn:
    """End this process, since nothing else ends a thread.

    After a return Lambda freezes the process, and the next call would thaw the thread in the middle of a job that has
    long been another's. An exception would change nothing: Lambda's Python reports it and waits for the next call in
    the same process. When a process ends during a call, Lambda counts an error and starts a new one.
    """
    logger.error("The process ends: %s", why, request_id=context.aws_request_id)
    sys.stdout.flush()
    os._exit(1)
