"""The schedule's faults, in real processes: calls that overlap, that die, that are killed by a job each time."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from queuelog_client import JobPriority, JobStatus, NewJob
from tests.support import start_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queuelog_client import Job
    from tests.client.support import Stack

KILLED = str(-signal.SIGKILL)


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("POWERTOOLS_METRICS_NAMESPACE", "Queuelog")
        process = start_python("-m", "tests.work.process", stdin=subprocess.PIPE)
    yield process
    process.communicate()
    assert process.returncode == 0


class Told(list[list[str]]):
    """What calls told, in words."""

    def of(self, word: str) -> list[list[str]]:
        return [rest for first, *rest in self if first == word]

    @property
    def ends(self) -> list[str]:
        return [status for (status,) in self.of("ended")]

    @property
    def tally(self) -> dict[str, int]:
        names = ("claimed", "completed", "failed", "released", "lost")
        return {name: sum(int(each[index]) for each in self.of("tally")) for index, name in enumerate(names)}


def ticks(forks: subprocess.Popen[str], stack: Stack, count: int = 1, **variables: str) -> Told:
    """Let the schedule call the function, some times at once, and return what it told."""
    environment = {
        "QUEUELOG_URL": stack.api.url,
        "QUEUELOG_API_KEY": stack.api.keys["worker"],
        "QUEUELOG_WORKER_TYPES": "",
        "QUEUELOG_WORKER_CONCURRENCY": "4",
        **variables,
    }
    assert forks.stdin is not None
    assert forks.stdout is not None
    forks.stdin.write(json.dumps([environment] * count) + "\n")
    forks.stdin.flush()
    told = Told()
    for line in forks.stdout:
        if line == "over\n":
            return told
        told.append(line.split())
    raise AssertionError("the process ended")


def jobs(stack: Stack) -> list[Job]:
    return sorted(stack.admin.iterate(), key=lambda job: job.id)


def outcomes(stack: Stack, id: int) -> list[str]:
    return [str(attempt.outcome) for attempt in stack.admin.attempts(id)]


def test_calls_that_overlap_do_each_job_once(stack: Stack, forks: subprocess.Popen[str]) -> None:
    stack.producer.enqueue_jobs([NewJob(type="email")] * 40)
    told = ticks(forks, stack, 3)
    assert told.of("log") == []
    assert told.ends == ["0"] * 3
    assert Counter(id for (id,) in told.of("began")) == Counter(str(id) for id in range(1, 41))
    assert told.tally == {"claimed": 40, "completed": 40, "failed": 0, "released": 0, "lost": 0}
    assert {tuple(outcomes(stack, job.id)) for job in jobs(stack)} == {("completed",)}


def test_a_job_that_kills_its_process_ends_failed_and_takes_no_other_along(
    stack: Stack, forks: subprocess.Popen[str]
) -> None:
    stack.producer.enqueue(NewJob(type="email"))
    poison = stack.producer.enqueue(NewJob(type="pdf")).job.id
    stack.producer.enqueue_jobs([NewJob(type="email")] * 8)
    ends = []
    for _ in range(10):
        ends += ticks(forks, stack).ends
        # The leases of what the dead held, and every wait between retries.
        stack.clock.advance(seconds=200)
        if not any(job.status in {JobStatus.PENDING, JobStatus.RUNNING} for job in jobs(stack)):
            break
    found = {job.id: job for job in jobs(stack)}
    dead = found.pop(poison)
    assert (dead.status, dead.reason, dead.lease_expiries) == (JobStatus.FAILED, "lease_expired", 4)
    assert ends.count(KILLED) == 4
    assert set(outcomes(stack, poison)) <= {"lease_expired", "released"}
    # Those beside it in the first call have lost one attempt to it, and no more.
    assert {job.status for job in found.values()} == {JobStatus.COMPLETED}
    assert {job.lease_expiries for job in found.values()} <= {0, 1}
    assert sum(job.lease_expiries for job in found.values()) <= 3


def test_what_a_call_held_that_was_killed_comes_back_by_its_lease(stack: Stack, forks: subprocess.Popen[str]) -> None:
    deadly = stack.admin.enqueue(NewJob(type="pdf", priority=JobPriority.CRITICAL, max_retries=0)).job.id
    stack.producer.enqueue_jobs([NewJob(type="email")] * 5)
    assert ticks(forks, stack).ends == [KILLED]
    held = [job.id for job in jobs(stack) if job.status is JobStatus.RUNNING]
    assert deadly in held
    # Until the leases end, the next call does what nobody holds.
    assert ticks(forks, stack).ends == ["0"]
    assert [job.id for job in jobs(stack) if job.status is JobStatus.RUNNING] == held
    stack.clock.advance(seconds=60)
    assert ticks(forks, stack).ends == ["0"]
    assert [job.status for job in jobs(stack)] == [JobStatus.FAILED] + [JobStatus.COMPLETED] * 5


@pytest.mark.parametrize(
    ("count", "said"), [(1, "threads are still at work: queuelog-job-"), (2, "every thread is lost")]
)
def test_a_process_does_not_outlive_a_call_that_has_a_thread_at_work(
    stack: Stack, forks: subprocess.Popen[str], count: int, said: str
) -> None:
    stack.producer.enqueue_jobs([NewJob(type="sync", max_retries=0)] * count)
    stack.producer.enqueue(NewJob(type="email", max_retries=0))
    told = ticks(forks, stack, QUEUELOG_WORKER_CONCURRENCY="2")
    assert told.ends == ["1"]
    (line,) = [" ".join(words) for words in told.of("log") if words[0] == "The"]
    assert line.startswith(f"The process ends: {said}")
    by_type = {(job.type, job.status) for job in jobs(stack)}
    assert ("sync", JobStatus.FAILED) in by_type
    assert {job.error for job in jobs(stack) if job.type == "sync"} == {"It took longer than 0.2 seconds."}
