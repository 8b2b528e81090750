"""One process of the chaos: python -m tests.race.chaos produce|work local|network FILE NAME SECONDS DIARIES.

A producer enqueues for so many seconds, and sweeps. A worker's process forks a child that works, kills it at a random
moment and forks the next; when the time is up the last one works until the queue is empty. What the queue has
acknowledged is appended to a file of this name in the folder DIARIES, a line for each answer.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from queuelog import (
    Beat,
    Ending,
    Job,
    JobPriority,
    JobStatus,
    LeaseLost,
    NewJob,
    Principal,
    Queue,
    Role,
    StorageBusy,
    Store,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuelog import BoundQueue

Answer = TypeVar("Answer")

#: What each process does, and its name.
PLAYERS = [*(("work", f"w{number}") for number in range(6)), *(("produce", f"p{number}") for number in range(2))]
LEASE_SECONDS = 1
#: A producer waits while so many jobs do.
ENOUGH = 150


class Diary:
    """What a process was told, kept by the kernel whatever becomes of the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Player:
    """Somebody who uses the queue, with a connection and dice of their own."""

    def __init__(self, path: Path, network: bool, name: str, diaries: Path) -> None:
        self.store = Store(path, network=network)
        # Two processes work with one key: w0 and w3, w1 and w4, w2 and w5.
        key = f"key-{int(name[1]) % 3}"
        self.queue = Queue(self.store).bound(Principal(name="chaos", roles=frozenset(Role), worker_id=key))
        self.dice = random.Random(f"{name} {os.getpid()}")
        self.diary = Diary(diaries / name)
        self.name = name

    def left(self) -> int:
        """Return how many jobs have not ended."""
        ended = {JobStatus.COMPLETED, JobStatus.FAILED}
        return sum(count for status, _, _, count in self.queue.stats().jobs if status not in ended)


def insist(call: Callable[[], Answer]) -> Answer:
    """Do it, and again for as long as the others keep the queue too busy; return its answer."""
    while True:
        try:
            return call()
        except StorageBusy:
            continue


def enqueue(player: Player, number: int) -> None:
    dice = player.dice
    jobs = [
        NewJob(
            type=dice.choice(["email", "pdf", "sync"]),
            payload={"a": "x" * dice.randrange(3_000)},
            priority=dice.choice(list(JobPriority)),
            max_retries=dice.randrange(3),
            backoff_seconds=dice.choice([0, 0, 1]),
            idempotency_key=f"{player.name}-{number}-{each}",
        )
        for each in range(dice.randint(1, 10))
    ]
    for _ in range(1 + (dice.random() < 0.1)):
        for enqueued in player.queue.enqueue_jobs(jobs):
            player.diary.note("replayed" if enqueued.replayed else "made", enqueued.job.id)


def produce(path: Path, network: bool, name: str, diaries: Path, seconds: float) -> None:
    player = Player(path, network, name, diaries)
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        if insist(player.left) > ENOUGH:
            time.sleep(0.02)
            continue
        number += 1
        # A key that was used before its answer got lost makes the same jobs again, so they must look alike.
        state = player.dice.getstate()

        def again(state: tuple[object, ...] = state, number: int = number) -> None:
            player.dice.setstate(state)
            enqueue(player, number)

        insist(again)
        if number % 5 == 0:
            insist(lambda: player.store.sweep(now=player.queue.clock.now(), may_go_on=lambda: True))
    player.store.close()
    (diaries / f"{name}-done").touch()


def work_once(player: Player, calmly: bool) -> None:
    dice, queue, note = player.dice, player.queue, player.diary.note
    request_id = dice.choice([None, f"{player.name}-{os.getpid()}-{dice.random()}"])
    ask = partial(queue.claim_jobs, limit=dice.randint(1, 5), lease_seconds=LEASE_SECONDS, request_id=request_id)
    jobs = ask().jobs
    if request_id is not None and dice.random() < 0.3:
        # As if the answer had got lost.
        repeated = ask().jobs
        if {job.lease_token for job in repeated} & {job.lease_token for job in jobs}:
            jobs = repeated
    for job in jobs:
        note("claimed", job.id, job.attempt)
    if not jobs:
        time.sleep(0.01)
    elif not calmly and dice.random() < 0.1:
        time.sleep(dice.choice([0.5, 1.1, 1.5]))
    if dice.random() < 0.3:
        beats = [Beat(id=job.id, lease_token=str(job.lease_token)) for job in jobs]
        for job, beat in zip(jobs, queue.heartbeat_jobs(beats) if beats else (), strict=True):
            if isinstance(beat, LeaseLost):
                note("lost", job.id, job.attempt)
    finish(queue, jobs, dice, note)


def finish(queue: BoundQueue, jobs: tuple[Job, ...], dice: random.Random, note: Callable[..., None]) -> None:
    verbs = dice.choices(["complete", "fail", "release"], [75, 20, 5], k=len(jobs))
    endings = [
        Ending(id=job.id, verb=verb, lease_token=job.lease_token, permanent=verb == "fail" and dice.random() < 0.1)
        for job, verb in zip(jobs, verbs, strict=True)
    ]
    if dice.random() < 0.5:
        answers = [answer for ending in endings for answer in queue.finish_jobs([ending])]
    else:
        answers = [*queue.finish_jobs(endings)] if endings else []
    for job, verb, answer in zip(jobs, verbs, answers, strict=True):
        note("lost" if isinstance(answer, LeaseLost) else verb, job.id, job.attempt)
        # A worker that repeats what it did must not do it twice.
        if isinstance(answer, Job) and dice.random() < 0.1:
            (again,) = queue.finish_jobs([Ending(id=job.id, verb=verb, lease_token=job.lease_token)])
            assert isinstance(again, Job), again


def work(path: Path, network: bool, name: str, diaries: Path, *, calmly: bool) -> None:
    player = Player(path, network, name, diaries)
    is_over = False
    while not is_over:
        insist(lambda: work_once(player, calmly))
        if calmly:
            is_over = len(list(diaries.glob("*-done"))) == 2 and insist(player.left) == 0
    player.store.close()


def start(path: Path, network: bool, name: str, diaries: Path, *, calmly: bool) -> int:
    # A fork, since Python starts slowly.
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work(path, network, name, diaries, calmly=calmly)
            status = 0
        finally:
            os._exit(status)
    return child


def die_and_work(path: Path, network: bool, name: str, diaries: Path, seconds: float) -> None:
    dice, diary = random.Random(name), Diary(diaries / f"{name}-kills")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        child = start(path, network, name, diaries, calmly=False)
        # Long enough to outlive a lease, or too short to open the file.
        time.sleep(dice.uniform(0.01, dice.choice([0.2, 0.2, 3])))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        diary.note("killed" if os.WIFSIGNALED(status) else "failed")
    _, status = os.waitpid(start(path, network, name, diaries, calmly=True), 0)
    assert status == 0


def main(action: str, network: str, path: str, name: str, seconds: str, diaries: str) -> None:
    act = produce if action == "produce" else die_and_work
    act(Path(path), network == "network", name, Path(diaries), float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
