from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from queuelog import Ending, Job, JobPriority, JobStatus, NewJob, QueuelogError, Stats
from queuelog.clock import parse_timestamp
from tests.support import START, SteppedClock, admin, claim, miscounted, query, unaccounted, worker

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from queuelog import BoundQueue, Queue

LOW, MEDIUM, HIGH, CRITICAL = JobPriority


def counted(path: Path, now: datetime) -> Stats:
    """The same as Stats, by looking at every row."""
    rows = query(path, "SELECT status, type, priority, worker_id, due_at FROM jobs")
    kinds = Counter((JobStatus(status), type, JobPriority(priority)) for status, type, priority, _, _ in rows)
    due = [parse_timestamp(due_at) for status, *_, due_at in rows if status == "pending"]
    past, future = [each for each in due if each <= now], [each for each in due if each > now]
    return Stats(
        jobs=tuple(sorted(((*kind, count) for kind, count in kinds.items()), key=lambda each: (each[:2], -each[2]))),
        running=dict(sorted(Counter(holder for status, _, _, holder, _ in rows if status == "running").items())),
        oldest_due_seconds=(now - min(past)).total_seconds() if past else None,
        next_run_at=min(future, default=None),
    )


def test_an_empty_queue_has_nothing_to_count(as_admin: BoundQueue) -> None:
    assert as_admin.stats() == Stats(jobs=(), running={}, oldest_due_seconds=None, next_run_at=None)


def test_jobs_are_counted_by_status_type_and_priority(
    queue: Queue, as_admin: BoundQueue, as_worker: BoundQueue, clock: SteppedClock
) -> None:
    as_admin.enqueue_jobs(
        [NewJob(type=type, priority=priority) for type in ("pdf", "email") for priority in (LOW, HIGH)]
    )
    as_admin.enqueue(NewJob(type="email", priority=HIGH, delay_seconds=90))
    clock.advance(seconds=12.5)
    as_worker.complete(claim(as_worker).id)
    claim(as_worker)
    claim(queue.bound(worker("other"), clock))
    clock.advance(seconds=1)
    pending, running, completed = JobStatus.PENDING, JobStatus.RUNNING, JobStatus.COMPLETED
    assert as_admin.stats() == Stats(
        jobs=(
            (completed, "pdf", HIGH, 1),
            (pending, "email", HIGH, 1),
            (pending, "email", LOW, 1),
            (running, "email", HIGH, 1),
            (running, "pdf", LOW, 1),
        ),
        running={"other": 1, "worker": 1},
        oldest_due_seconds=13.5,
        next_run_at=START + timedelta(seconds=90),
    )


def test_the_oldest_due_job_counts_from_when_it_fell_due(as_admin: BoundQueue, clock: SteppedClock) -> None:
    as_admin.enqueue(NewJob(type="email", delay_seconds=10))
    assert (as_admin.stats().oldest_due_seconds, as_admin.stats().next_run_at) == (None, START + timedelta(seconds=10))
    clock.advance(seconds=10)
    assert (as_admin.stats().oldest_due_seconds, as_admin.stats().next_run_at) == (0, None)
    clock.advance(seconds=5)
    assert as_admin.stats().oldest_due_seconds == 5


@pytest.mark.parametrize("seed", range(4))
def test_the_counters_are_right_after_any_traffic(queue: Queue, path: Path, clock: SteppedClock, seed: int) -> None:
    dice = random.Random(seed)
    boss = queue.bound(admin(), clock)
    workers = [queue.bound(worker(name), clock) for name in ("one", "two", "three")]
    held: list[tuple[BoundQueue, Job]] = []

    def some(most: int) -> list[NewJob]:
        return [
            NewJob(
                type=dice.choice(["email", "pdf", "sync"]),
                priority=dice.choice(list(JobPriority)),
                max_retries=dice.randrange(3),
                delay_seconds=dice.choice([0, 0, 30]),
                backoff_seconds=dice.choice([0, 10]),
                idempotency_key=dice.choice([None, str(dice.randrange(9))]),
            )
            for _ in range(dice.randint(1, most))
        ]

    def claim_some() -> None:
        caller = dice.choice(workers)
        jobs = caller.claim_jobs(limit=dice.randint(1, 5), lease_seconds=dice.choice([5, 60])).jobs
        held.extend((caller, job) for job in jobs)

    def finish() -> None:
        caller, job = held.pop(dice.randrange(len(held)))
        verb = dice.choice(["complete", "fail", "release", "fail"])
        caller.finish_jobs([Ending(id=job.id, verb=verb, lease_token=job.lease_token, permanent=dice.random() < 0.2)])

    actions: list[Any] = [
        lambda: boss.enqueue_jobs(some(5)),
        claim_some,
        claim_some,
        finish,
        finish,
        lambda: boss.cancel(dice.randint(1, 60)),
        lambda: boss.retry(dice.randint(1, 60)),
        lambda: boss.retry_jobs(status=dice.choice([JobStatus.FAILED, JobStatus.CANCELLED]), limit=3),
        lambda: clock.advance(seconds=dice.choice([1, 10, 70])),
        lambda: queue._store.sweep(now=clock.now(), may_go_on=lambda: True),
    ]
    done = 0
    for step in range(300):
        try:
            dice.choice(actions)()
            done += 1
        except (QueuelogError, ValueError):
            continue
        if step == 200:
            clock.advance(seconds=20 * 86_400)
            queue._store.sweep(now=clock.now(), may_go_on=lambda: True)
        if step % 10 == 0:
            assert boss.stats() == counted(path, clock.now())
    assert done > 150
    assert boss.stats() == counted(path, clock.now())
    assert miscounted(path) == set()
    assert unaccounted(path) == []
    assert sum(count for *_, count in boss.stats().jobs) > 20
    assert query(path, "SELECT count(*) FROM attempts WHERE job_id NOT IN (SELECT id FROM jobs)") == [(0,)]
