"""Each handler, warm and in this process, over the verb of the queue that it calls."""

from __future__ import annotations

import json
import os
from collections import deque
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING

from benchmarks._table import in_ms, show
from benchmarks._timing import interleaved
from queuelog import BoundQueue, Job, JobPriority, JobStatus, NewJob, Principal, Queue, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks._timing import Steps

ROUNDS = 300
WARM_UP = 30
EVENTS = Path(__file__).parent.parent / "events"
CALLER = Principal(name="bench", roles=frozenset({Role.PRODUCER, Role.WORKER}))
CONTEXT = SimpleNamespace(aws_request_id="6f1d2c3b-4a5e-4f60-8172-93a4b5c6d7e5")


def run() -> None:
    with TemporaryDirectory(prefix="queuelog-bench-") as directory, Path(os.devnull).open("w") as log:
        os.environ |= {
            "QUEUELOG_DATABASE": f"{directory}/queue.db",
            "QUEUELOG_JOB_TYPES": "email",
            "POWERTOOLS_SERVICE_NAME": "queuelog",
            "POWERTOOLS_METRICS_NAMESPACE": "Queuelog",
        }
        # Powertools takes its settings and the standard output when it is imported.
        with redirect_stdout(log):
            queue = Queue(import_module("web.app").store()).bound(CALLER)
            times = interleaved(
                {"handler": handler_steps(queue), "verb": verb_steps(queue)}, rounds=ROUNDS, warm_up=WARM_UP
            )
    show(
        "Warm handlers over the verbs that they call, on the same connection",
        ["", "handler / verb", "handler", "verb", "handler - verb"],
        [
            [
                step,
                f"{times.ratio('handler', 'verb', step):.2f}",
                in_ms(times.median("handler", step)),
                in_ms(times.median("verb", step)),
                in_ms(times.difference("handler", "verb", step)),
            ]
            for step in times.steps
        ],
    )


def handler_steps(queue: BoundQueue) -> Steps:
    enqueue, get, list_jobs = route("enqueue_job"), route("get_job"), route("list_jobs")
    claim, complete, fail = route("claim_job"), route("complete_job"), route("fail_job")
    enqueued, claimed, failing = deque[int](), deque[int](), held_jobs(queue)
    return {
        "enqueue_job": lambda: enqueued.append(json.loads(enqueue())["id"]),
        "get_job": lambda: get(enqueued[-1]),
        "list_jobs": list_jobs,
        "claim_job": lambda: claimed.append(json.loads(claim())["id"]),
        "complete_job": lambda: complete(claimed.popleft()),
        "fail_job": lambda: fail(failing.popleft()),
    }


def verb_steps(queue: BoundQueue) -> Steps:
    """Return what the events in events/ ask for, without the events."""
    enqueued, claimed, failing = deque[int](), deque[int](), held_jobs(queue)
    payload = {"to": "ada@example.com", "template": "invoice"}
    return {
        "enqueue_job": lambda: enqueued.append(
            queue.enqueue(NewJob(type="email", payload=payload, priority=JobPriority.MEDIUM, max_retries=3)).job.id
        ),
        "get_job": lambda: queue.get(enqueued[-1]),
        "list_jobs": lambda: queue.list(status=JobStatus.PENDING, limit=20),
        "claim_job": lambda: claimed.append(held(queue.claim(types=["email"])).id),
        "complete_job": lambda: queue.complete(claimed.popleft()),
        "fail_job": lambda: queue.fail(failing.popleft(), error="the mail server refused the connection"),
    }


def route(name: str) -> Callable[..., str]:
    """Return a function that sends a route's event as CALLER, for the job with an id, and returns the answer's body."""
    handler = import_module(name).handler
    event = json.loads((EVENTS / f"{name}.json").read_text())
    event["requestContext"]["authorizer"] = {"name": "bench", "roles": "producer,worker", "max_priority": "medium"}

    def send(id: int | None = None) -> str:
        answer = handler({**event, "path": event["resource"].replace("{id}", str(id))}, CONTEXT)
        assert answer["statusCode"] < 300, answer
        return str(answer["body"])

    return send


def held_jobs(queue: BoundQueue) -> deque[int]:
    """Return jobs that CALLER holds and can fail, as many as there are rounds; also leaves some pending."""
    for _ in range(ROUNDS + WARM_UP):
        queue.enqueue(NewJob(type="email"))
    return deque(held(queue.claim()).id for _ in range(ROUNDS + WARM_UP))


def held(job: Job | None) -> Job:
    assert job is not None
    return job
