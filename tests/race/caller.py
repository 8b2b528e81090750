"""One process of a race: python -m tests.race.caller ACTION local|network NAME.

It says "ready", then acts on each line of its input (a path and a word of the race's own), and ends with the input.
Each line of its output is something that the queue has acknowledged.
"""

from __future__ import annotations

import random
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


def enqueue(queue: BoundQueue, _: str) -> None:
    print(queue.enqueue(NewJob(type="email")).job.id, flush=True)


def live(queue: BoundQueue, seed: str) -> None:
    """Do what producers and workers do until killed."""
    dice = random.Random(seed)
    while True:
        try:
            made = queue.enqueue(NewJob(type="email", payload={"a": "x" * dice.randrange(20_000)}, max_retries=25))
            print("made", made.job.id, flush=True)
            job = queue.claim()
            if job is None:
                continue
            print("claimed", job.id, flush=True)
            if dice.random() < 0.3:
                print("failed", queue.fail(job.id).id, flush=True)
            else:
                print("completed", queue.complete(job.id).id, flush=True)
        except StorageBusy:
            continue


ACTIONS: dict[str, Callable[[BoundQueue, str], None]] = {
    "claim_all": claim_all,
    "enqueue": enqueue,
    "enqueue_once": enqueue_once,
    "live": live,
}


def main(action: str, network: str, name: str) -> None:
    everything = Principal(name="race", roles=frozenset(Role), worker_id=name)
    print("ready", flush=True)
    for line in sys.stdin:
        path, word = line.split()
        store = Store(path, network=network == "network")
        ACTIONS[action](Queue(store).bound(everything), word)
        store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
