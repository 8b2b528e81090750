"""How many requests each verb sends to the server: alone, and with another client writing before each call."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from queuelog import Ending, NewJob
from tests.nfs.guest.hosts import Player, bound, drop_caches, opened, perform, pipe, seen_by, since, trips

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from queuelog import BoundQueue, Job

#: What is in the file before anything is counted.
JOBS = 4_000


def run(
    folder: str, *, stock: bool, singles: int, batches: dict[str, int], cold_starts: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Count so many calls of each verb for one job, and of each size of batch; the store's, or stock SQLite's."""
    mine, theirs = pipe()
    measured = Player(1, measure, seen_by(1, folder), stock, mine, singles, batches)
    other = Player(2, enqueue_when_told, seen_by(2, folder), stock, theirs)
    warm = measured.hear(1_000)
    measured.tell()
    other.tell()
    cold: dict[str, Counter[str]] = {"first get": Counter(), "first claim": Counter()}
    for verb, total in cold.items():
        for _ in range(cold_starts):
            drop_caches()
            player = Player(1, first_call, seen_by(1, folder), stock, verb)
            total.update(player.hear())
            player.join()
    starts = {verb: {"alone": average(total, cold_starts)} for verb, total in cold.items()}
    return {**warm, **starts}


def average(total: Counter[str], calls: int) -> dict[str, float]:
    return {operation: count / calls for operation, count in sorted(total.items())}


def new_jobs(count: int) -> list[NewJob]:
    return [NewJob(type="email", payload={"text": "x" * 200}) for _ in range(count)]


def first_call(line: Connection, path: Path, stock: bool, verb: str) -> None:
    before = trips(1)
    store = opened(path, stock=stock)
    if verb == "first get":
        bound(store).get(1)
    else:
        bound(store).claim()
    line.send(since(before, 1))
    store.close()


def enqueue_when_told(line: Connection, path: Path, stock: bool, turns: Connection) -> None:
    store = opened(path, stock=stock)
    queue = bound(store, "other")
    turns.recv()
    while turns.recv():
        queue.enqueue_jobs(new_jobs(1))
        turns.send(True)
    line.recv()
    store.close()


def measure(
    line: Connection, path: Path, stock: bool, turns: Connection, singles: int, batches: dict[str, int]
) -> None:
    store = opened(path, stock=stock)
    queue = bound(store)
    for _ in range(JOBS // 100):
        queue.enqueue_jobs(new_jobs(100))
    turns.send(True)

    def let_the_other_write() -> None:
        turns.send(True)
        turns.recv()

    found: dict[str, dict[str, dict[str, float]]] = {}
    # With the other one half as many calls: each takes twice as long.
    ways: list[tuple[str, Callable[[], object], int]] = [
        ("alone", lambda: None, 1),
        ("between", let_the_other_write, 2),
    ]
    for way, before_each, share in ways:
        fewer = {size: times // share for size, times in batches.items()}
        for verb, calls in verbs(queue, singles // share, fewer).items():
            began = trips(1)
            for call in calls:
                before_each()
                call()
            found.setdefault(verb, {})[way] = average(Counter(since(began, 1)), len(calls))
    turns.send(False)
    line.send(found)
    line.recv()
    store.close()


def verbs(queue: BoundQueue, singles: int, batches: dict[str, int]) -> dict[str, list[Callable[[], object]]]:
    """Return the calls of each verb, in an order in which each finds its jobs."""
    held: list[Job] = []

    def claim(count: int) -> None:
        claimed = queue.claim_jobs(limit=count, lease_seconds=40_000).jobs
        assert len(claimed) == count
        held.extend(claimed)

    def end(count: int) -> None:
        endings = [Ending(id=job.id, verb="complete", lease_token=job.lease_token) for job in held[:count]]
        assert all(not isinstance(job, Exception) for job in queue.finish_jobs(endings))
        del held[:count]

    def beat(index: int) -> None:
        job = held[index]
        queue.heartbeat(job.id, lease_token=str(job.lease_token), progress={"step": 1})

    def find_nothing() -> None:
        assert queue.claim(types=["pdf"]) is None

    calls: dict[str, list[Callable[[], object]]] = {
        "enqueue": [partial(queue.enqueue, new_jobs(1)[0])] * singles,
        "claim": [partial(claim, 1)] * singles,
        "heartbeat": [partial(beat, index) for index in range(singles)],
        "complete": [partial(end, 1)] * singles,
        "get": [partial(queue.get, 7)] * singles,
        "list": [partial(queue.list, limit=50)] * singles,
        "empty claim": [find_nothing] * singles,
    }
    for size, times in ((int(size), times) for size, times in batches.items()):
        calls[f"enqueue {size}"] = [partial(queue.enqueue_jobs, new_jobs(size))] * times
        calls[f"claim {size}"] = [partial(claim, size)] * times
        calls[f"finish {size}"] = [partial(end, size)] * times
    return calls


if __name__ == "__main__":
    perform(run)
