"""Four clients claim in a closed loop: who gets how much, and who waits for how long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from queuelog import StorageBusy
from tests.nfs.guest.hosts import (
    CLIENTS,
    Player,
    bound,
    make_queue,
    opened,
    perform,
    seen_by,
    set_delay,
    since,
    trips,
)

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

LEASE_SECONDS = 40_000


def run(folder: str, *, stock: bool, jobs: int, seconds_of_claims: float, delay: int) -> list[dict[str, Any]]:
    make_queue(folder, jobs, stock=stock)
    players = [
        Player(client, claim_in_a_loop, seen_by(client, folder), stock, client, seconds_of_claims) for client in CLIENTS
    ]
    for player in players:
        player.hear()
    set_delay(delay)
    try:
        for player in players:
            player.tell()
        return [player.hear(seconds_of_claims + 120) for player in players]
    finally:
        set_delay(1)


def claim_in_a_loop(line: Connection, path: Path, stock: bool, client: int, seconds: float) -> None:
    store = opened(path, stock=stock)
    queue = bound(store, f"worker-{client}")
    queue.get(1)
    line.send("ready")
    line.recv()
    claimed: list[int] = []
    longest = 0.0
    refused = 0
    before = trips(client)
    began = asked = time.monotonic()
    while asked - began < seconds:
        try:
            job = queue.claim(lease_seconds=LEASE_SECONDS)
        except StorageBusy:
            refused += 1
            if time.monotonic() - began < seconds:
                continue
        else:
            assert job is not None
            claimed.append(job.id)
        # A refused claim is asked for again, and its wait goes on.
        longest = max(longest, time.monotonic() - asked)
        asked = time.monotonic()
    line.send({"claimed": claimed, "longest": longest, "refused": refused, "trips": since(before, client)})
    store.close()


if __name__ == "__main__":
    perform(run)
