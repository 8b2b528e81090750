"""The processes of a race: python -m tests.race.caller ACTION local|network NAME:INPUT:OUTPUT…

They are forked off, since Python starts slowly, each with its end of two pipes for its input and its output. Each says
"ready", then acts on each line of its input (a path and a word of the race's own), and ends with the input. Each line
of its output is something that the queue has acknowledged.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from typing import TYPE_CHECKING

from queuelog import NewJob, Principal, Queue, Role, StorageBusy, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuelog import BoundQueue


def claim_all(queue: BoundQueue, _: str) -> None:
    while True:
        try:
            job = queue.claim()
        except StorageBusy:
            # Refused, not lost: whoever is too slow for the others asks again.
            continue
        if job is None:
            break
        print(job.id)
    print("empty", flush=True)


def enqueue_once(queue: BoundQueue, key: str) -> None:
    enqueued = queue.enqueue(NewJob(type="email", payload={"key": key}, idempotency_key=key))
    print(enqueued.job.id, enqueued.replayed, flush=True)


def claim_once(queue: BoundQueue, request_id: str) -> None:
    jobs = queue.claim_jobs(limit=3, request_id=request_id).jobs
    print(*(f"{job.id}/{job.attempt}/{job.lease_token}" for job in jobs), flush=True)


def enqueue(queue: BoundQueue, _: str) -> None:
    print(queue.enqueue(NewJob(type="email")).job.id, flush=True)


def live(queue: BoundQueue, log: str) -> None:
    """Do what producers and workers do, and write each answer down, until killed."""
    dice = random.Random(log)
    answers = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def told(what: str, id: int) -> None:
        os.write(answers, f"{what} {id}\n".encode())

    while True:
        try:
            payload = {"a": "x" * dice.randrange(20_000)}
            told("made", queue.enqueue(NewJob(type="email", payload=payload, max_retries=25)).job.id)
            job = queue.claim()
            if job is None:
                continue
            told("claimed", job.id)
            if dice.random() < 0.3:
                told("failed", queue.fail(job.id).id)
            else:
                told("completed", queue.complete(job.id).id)
        except StorageBusy:
            continue


def die_and_live(network: str, name: str) -> None:
    """For each line of the input, kill the child there is and start another: a fork, since Python starts slowly."""
    child = 0
    print("ready", flush=True)
    for life, line in enumerate(sys.stdin):
        path, log = line.split()
        kill(child)
        child = os.fork()
        if child == 0:
            store = Store(path, network=network == "network")
            live(Queue(store).bound(everything(f"{name}/{life}")), f"{log}-{life}")
    kill(child)


def kill(child: int) -> None:
    if child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def everything(worker_id: str) -> Principal:
    return Principal(name="race", roles=frozenset(Role), worker_id=worker_id)


ACTIONS: dict[str, Callable[[BoundQueue, str], None]] = {
    "claim_all": claim_all,
    "claim_once": claim_once,
    "enqueue": enqueue,
    "enqueue_once": enqueue_once,
}


def act(action: str, network: str, name: str) -> None:
    if action == "die_and_live":
        die_and_live(network, name)
        return
    print("ready", flush=True)
    for line in sys.stdin:
        path, word = line.split()
        store = Store(path, network=network == "network")
        ACTIONS[action](Queue(store).bound(everything(name)), word)
        store.close()


def main(action: str, network: str, *racers: str) -> None:
    children = []
    for racer in racers:
        name, *pipes = racer.split(":")
        child = os.fork()
        if child == 0:
            for number, pipe in enumerate(map(int, pipes)):
                os.dup2(pipe, number)
            # Another's end would keep that one's pipe open when it is gone.
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            act(action, network, name)
            return
        children.append(child)
        for pipe in map(int, pipes):
            os.close(pipe)
    sys.exit(max(os.waitpid(child, 0)[1] for child in children) != 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
