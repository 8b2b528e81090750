"""Workers in real processes that are killed and stopped: a job ends once, and what is stopped holds nothing."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from queuelog_client import JobPriority, JobStatus, NewJob
from tests.client.process import MOMENTS
from tests.support import start_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.support import Stack


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    process = start_python("-m", "tests.client.process", stdin=subprocess.PIPE)
    yield process
    process.communicate()
    assert process.returncode == 0


def lines(process: subprocess.Popen[str]) -> Iterator[list[str]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line.split()


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


def target(stack: Stack, kind: str) -> dict[str, str]:
    if kind == "core":
        return {"database": str(stack.api.data.database)}
    return {"url": stack.api.url, "key": stack.api.keys["worker"]}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_worker_that_is_killed_at_any_moment_of_a_job_loses_none_and_ends_none_twice(
    stack: Stack, forks: subprocess.Popen[str], moment: str
) -> None:
    stack.producer.enqueue_jobs([NewJob(type="email")] * 5)
    told = run(forks, **target(stack, "client"), die_at=moment)
    assert told[-1] == ["over", str(-signal.SIGKILL)]
    began = [int(words[1]) for words in told if words[0] == "began"]
    assert bool(began) == (MOMENTS.index(moment) >= MOMENTS.index("in the handler"))
    left = {job.id: job for job in stack.admin.iterate()}
    completed = {id for id, job in left.items() if job.status is JobStatus.COMPLETED}
    assert bool(completed) == (moment == "after finish_jobs")
    # Nobody tells the queue that it is dead; the leases' end does.
    stack.clock.advance(seconds=60)
    told = run(forks, **target(stack, "client"), until_empty=True)
    assert told[-1] == ["over", "0"]
    jobs = [stack.admin.get(id) for id in left]
    assert {job.status for job in jobs} == {JobStatus.COMPLETED}
    assert {job.result for job in jobs} == {"sent"}
    for job in jobs:
        outcomes = [attempt.outcome for attempt in job.attempts or ()]
        was_held = left[job.id].status is JobStatus.RUNNING
        assert outcomes == (["lease_expired", "completed"] if was_held else ["completed"])
        assert job.lease_expiries == was_held


@contextmanager
def program(**worker: Any) -> Iterator[subprocess.Popen[str]]:
    process = start_python("-m", "tests.client.process", json.dumps(worker))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", ["client", "core"])
def test_a_worker_that_is_stopped_under_load_leaves_no_job_to_its_lease(stack: Stack, kind: str) -> None:
    endless = [NewJob(type="pdf", priority=JobPriority.MEDIUM)] * 3
    stack.producer.enqueue_jobs([*endless, *[NewJob(type="email", priority=JobPriority.LOW)] * 97])
    with program(**target(stack, kind), concurrency=6, grace=3) as process:
        told = lines(process)
        began = Counter[bool]()
        while began[True] < 3 or began[False] < 10:
            word, id = next(told)
            assert word == "began"
            began[int(id) <= 3] += 1
        process.send_signal(signal.SIGTERM)
        rest = list(told)
        assert process.wait() == 0
    assert rest[-1][0] == "tally"
    claimed, completed, failed, released, lost = map(int, rest[-1][1:])
    jobs = list(stack.admin.iterate())
    assert Counter(job.status for job in jobs) == {
        JobStatus.COMPLETED: completed,
        JobStatus.PENDING: 100 - completed,
    }
    assert claimed == completed + released
    assert (failed, lost) == (0, 0)
    # The endless ones, and what a claim may have brought on the way.
    assert released >= 3
    assert completed >= 10
    ended = Counter(attempt.outcome for job in jobs for attempt in stack.admin.attempts(job.id))
    assert ended == {"completed": completed, "released": released}
    assert {job.retry_count for job in jobs} == {0}


def test_a_second_signal_ends_the_grace_time(stack: Stack) -> None:
    stack.producer.enqueue(NewJob(type="pdf"))
    # With one thread no claim is on its way, which could bring the released job once more.
    with program(**target(stack, "client"), grace=3_600, concurrency=1) as process:
        told = lines(process)
        assert next(told) == ["began", "1"]
        process.send_signal(signal.SIGINT)
        assert next(told)[:2] == ["log", "stopping:"]
        process.send_signal(signal.SIGINT)
        assert list(told) == [["tally", "1", "0", "0", "1", "0"]]
        assert process.wait() == 0
    assert stack.admin.get(1).status is JobStatus.PENDING
