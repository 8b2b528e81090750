"""Workers in real processes that are killed and stopped: a job ends once, and what is stopped holds nothing.

`-s` shows what happened.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from queuelog_client import JobStatus, NewJob
from tests.client.process import MOMENTS
from tests.client.processes import forking, lines, program, run, stop_under_load

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.client.support import Stack


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    with forking() as process:
        yield process


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
    expired = sum(job.lease_expiries for job in jobs)
    print(f"\nkill -9 {moment}: {len(jobs)} jobs, each completed once; {expired} leases ended")


@pytest.mark.parametrize("kind", ["client", "core"])
def test_a_worker_that_is_stopped_under_load_leaves_no_job_to_its_lease(stack: Stack, kind: str) -> None:
    print(f"\n{kind}: {stop_under_load(stack.producer, stack.admin, target(stack, kind), grace=3)}")


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
