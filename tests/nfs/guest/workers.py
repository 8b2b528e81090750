"""Four clients claim and finish all jobs, and enqueue meanwhile."""

from __future__ import annotations

from typing import Any

from tests.nfs.guest.evidence import examine
from tests.nfs.guest.hosts import CLIENTS, folder_in_memory, make_queue, perform
from tests.nfs.guest.life import Life


def run(folder: str, *, jobs: int, enqueued_by_each: int) -> dict[str, Any]:
    make_queue(folder, jobs - enqueued_by_each * len(CLIENTS))
    diaries = folder_in_memory(f"{folder}-diaries")
    lives = [Life(client, folder, "queue.db", diaries, batch=1, most=enqueued_by_each) for client in CLIENTS]
    for life in lives:
        life.player.join(400)
    (found,) = examine(folder, ["queue.db"])
    return {**found, "diaries": {life.name: life.notes() for life in lives}}


if __name__ == "__main__":
    perform(run)
