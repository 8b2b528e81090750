"""A batch against as many single calls: one transaction is what a job costs, however small it is."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks._table import against, in_ms, show
from benchmarks._timing import interleaved
from queuelog import Ending, NewJob, Principal, Queue, Role, Store

if TYPE_CHECKING:
    from benchmarks._timing import Steps

#: Jobs a second in batches of 100 over jobs a second one by one.
GOALS = {"local": 10, "network": 20}
ENQUEUED = 100
CLAIMED = 10
ROUNDS = 40
CALLER = Principal(name="bench", roles=frozenset(Role))


def run() -> None:
    rows = []
    for mode, network in (("local", False), ("network", True)):
        with TemporaryDirectory(prefix="queuelog-bench-") as directory:
            contenders = {
                "batch": batch_steps(Path(directory, "batch.db"), network=network),
                "single": single_steps(Path(directory, "single.db"), network=network),
            }
            times = interleaved(contenders, rounds=ROUNDS, warm_up=2)
        for step in times.steps:
            ratio = times.ratio("single", "batch", step)
            rows.append(
                [
                    f"{mode} {step}",
                    against(ratio, GOALS[mode], higher_is_better=True) if "enqueue" in step else f"{ratio:.2f}",
                    *(in_ms(times.median(name, step)) for name in contenders),
                ]
            )
    show("Jobs a second in batches over one by one", ["", "batch / single", "batch", "singles"], rows)


def new_job() -> NewJob:
    return NewJob(type="email", payload={"to": "ada@example.com", "template": "welcome", "order": 4711})


def batch_steps(path: Path, *, network: bool) -> Steps:
    queue = Queue(Store(path, network=network)).bound(CALLER)
    held: deque[Ending] = deque()

    def claim() -> None:
        jobs = queue.claim_jobs(limit=CLAIMED).jobs
        assert len(jobs) == CLAIMED
        held.extend(Ending(id=job.id, verb="complete", lease_token=job.lease_token) for job in jobs)

    return {
        f"enqueue {ENQUEUED}": lambda: queue.enqueue_jobs([new_job() for _ in range(ENQUEUED)]),
        f"claim {CLAIMED}": claim,
        f"finish {CLAIMED}": lambda: queue.finish_jobs([held.popleft() for _ in range(CLAIMED)]),
    }


def single_steps(path: Path, *, network: bool) -> Steps:
    queue = Queue(Store(path, network=network)).bound(CALLER)
    held: deque[tuple[int, str | None]] = deque()

    def enqueue() -> None:
        for _ in range(ENQUEUED):
            queue.enqueue(new_job())

    def claim() -> None:
        for _ in range(CLAIMED):
            job = queue.claim()
            assert job is not None
            held.append((job.id, job.lease_token))

    def finish() -> None:
        for _ in range(CLAIMED):
            id, lease_token = held.popleft()
            queue.complete(id, lease_token=lease_token)

    return {f"enqueue {ENQUEUED}": enqueue, f"claim {CLAIMED}": claim, f"finish {CLAIMED}": finish}
