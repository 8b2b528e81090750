"""A process that dies at one moment of its work: python -m tests.faults.crash MOMENT local|network FILE.

Each line of its output is something that the queue has acknowledged: "made ID" or "held ID TOKEN".
"""

from __future__ import annotations

import itertools
import resource
import sys
from typing import TYPE_CHECKING

from queuelog import Ending, NewJob, Queue, Store
from tests.faults.kernel import killed_at, refuse
from tests.support import SteppedClock, admin

if TYPE_CHECKING:
    from queuelog import BoundQueue

HELD = 40
LARGE = NewJob(type="email", payload={"a": "x" * 60_000})


def make(caller: BoundQueue, jobs: list[NewJob]) -> None:
    for enqueued in caller.enqueue_jobs(jobs):
        print("made", enqueued.job.id, flush=True)


def in_a_transaction(caller: BoundQueue) -> None:
    """End jobs, with more in their results than SQLite keeps in memory, and stop before the commit."""
    make(caller, [NewJob(type="pdf")] * HELD)
    jobs = caller.claim_jobs(limit=HELD, types=["pdf"]).jobs
    for job in jobs:
        print("held", job.id, job.lease_token, flush=True)
    endings = [Ending(id=job.id, verb="complete", lease_token=job.lease_token, result="x" * 65_000) for job in jobs]
    # A job that comes with a wrong token first is looked at once more, when all the others have been written.
    stale = Ending(id=jobs[0].id, verb="complete", lease_token="no token")
    caller.finish_jobs([stale, *endings])


def wait_for_the_end() -> float:
    """Stand in for the dice: they are thrown for each job, and once more for the one that is looked at again."""
    if next(thrown) == HELD:
        print("waiting", flush=True)
        sys.stdin.read()
    return 0.0


thrown = itertools.count()


def in_a_commit(caller: BoundQueue) -> None:
    """Die between the writes of a commit."""
    make(caller, [LARGE])
    refuse(killed_at("pwrite64", beyond=400_000))
    make(caller, [LARGE] * 10)


def before_a_sync(caller: BoundQueue) -> None:
    """Die when all of a commit is written and nothing of it is sure to be kept."""
    make(caller, [LARGE])
    refuse([*killed_at("fdatasync"), *killed_at("fsync")])
    make(caller, [LARGE] * 10)


def in_a_checkpoint(caller: BoundQueue) -> None:
    """Die between writes to a file that is longer than its WAL ever gets."""
    for _ in range(2):
        make(caller, [LARGE] * 45)
    caller.queue._store.close()
    refuse(killed_at("pwrite64", beyond=90 * 60_000))
    for _ in range(20):
        make(caller, [LARGE] * 10)


MOMENTS = {each.__name__: each for each in (in_a_transaction, in_a_commit, before_a_sync, in_a_checkpoint)}


def main(moment: str, network: str, path: str) -> None:
    # The kernel's way to kill leaves a core file where it may.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    store = Store(path, network=network == "network", jitter=wait_for_the_end)
    MOMENTS[moment](Queue(store).bound(admin("crash"), SteppedClock()))
    print("alive", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
