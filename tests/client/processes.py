"""Worker processes (process.py), started and stopped; and what has to be true when one is stopped under load."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from queuelog_client import JobPriority, JobStatus, NewJob
from tests.support import start_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from queuelog_client import QueueClient

ENDLESS, QUICK = 3, 97


@contextmanager
def forking() -> Iterator[subprocess.Popen[str]]:
    """Start what run() forks its workers off."""
    process = start_python("-m", "tests.client.process", stdin=subprocess.PIPE)
    yield process
    process.communicate()
    assert process.returncode == 0


def run(forks: subprocess.Popen[str], **worker: Any) -> list[list[str]]:
    """Let a worker live, and return what it told."""
    assert forks.stdin is not None
    forks.stdin.write(json.dumps(worker) + "\n")
    forks.stdin.flush()
    told = []
    for words in lines(forks):
        told.append(words)
        if words[0] == "over":
            return told
    raise AssertionError("the process ended")


@contextmanager
def program(**worker: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a worker whose interpreter ends by itself."""
    process = start_python("-m", "tests.client.process", json.dumps(worker))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def lines(process: subprocess.Popen[str]) -> Iterator[list[str]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line.split()


def stop_under_load(producer: QueueClient, admin: QueueClient, target: Mapping[str, str], grace: float) -> str:
    """Stop a worker on an empty queue's first hundred jobs, and check that none is left to its lease; say what it did.

    Some of its jobs would never end; the others do as fast as they are claimed.
    """
    endless = [NewJob(type="pdf", priority=JobPriority.MEDIUM)] * ENDLESS
    made = producer.enqueue_jobs([*endless, *[NewJob(type="email", priority=JobPriority.LOW)] * QUICK])
    never = {each.job.id for each in made[:ENDLESS]}
    with program(**target, concurrency=6, grace=grace) as process:
        told = lines(process)
        began = Counter[bool]()
        while began[True] < ENDLESS or began[False] < 10:
            word, id = next(told)
            assert word == "began"
            began[int(id) in never] += 1
        process.send_signal(signal.SIGTERM)
        signalled = time.monotonic()
        rest = list(told)
        assert process.wait() == 0
        seconds = time.monotonic() - signalled
    (held,) = (int(words[2]) for words in rest if words[:2] == ["log", "stopping:"])
    assert rest[-1][0] == "tally"
    claimed, completed, failed, released, lost = map(int, rest[-1][1:])
    ids = {each.job.id for each in made}
    jobs = [job for job in admin.iterate() if job.id in ids]
    assert Counter(job.status for job in jobs) == {
        JobStatus.COMPLETED: completed,
        JobStatus.PENDING: len(made) - completed,
    }
    assert claimed == completed + released
    assert (failed, lost) == (0, 0)
    # The endless ones, and what a claim may have brought on the way.
    assert released >= ENDLESS
    assert completed >= 10
    ended = Counter(attempt.outcome for job in jobs if job.attempt for attempt in admin.attempts(job.id))
    assert ended == {"completed": completed, "released": released}
    assert {job.retry_count for job in jobs} == {0}
    return (
        f"SIGTERM to a worker that held {held} jobs: {completed} of {len(made)} are completed, {released} were "
        f"released, {ended['lease_expired']} leases ended; it was gone after {seconds:.2f} s of {grace:g} s of grace"
    )
